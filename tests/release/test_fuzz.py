"""The routes of /_emulator, called as their document says, and otherwise."""

from __future__ import annotations

import os
from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error

from pullqueue import Emulator, ManualClock
from pullqueue.push.addresses import PushAddresses
from pullqueue.resources.operations import OPERATIONS
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import create_app

QUEUES = "queue: [{name: pull, mode: pull}, {name: push, rate: 5/s}]"
EMULATOR = Emulator.from_text(QUEUES, clock=ManualClock())
APP = create_app(EMULATOR, state=ServerState(EMULATOR, push_to=PushAddresses()))
SCHEMA = schemathesis.openapi.from_wsgi("/_emulator/openapi.json", APP)
CASES = 12_000 // len(OPERATIONS) if os.environ.get("PULLQUEUE_TEST_LONG") else 5
"""Of each operation, at most; those without parameters have fewer."""


@SCHEMA.hook
def map_path_parameters(_: schemathesis.HookContext, parameters: Any) -> Any:
    """Name a queue and a task that are there, mostly: the others are not found."""
    there = {"queue": ("pull", "push"), "task": ("t",)}
    return {
        name: there[name][len(str(text)) % len(there[name])]
        if name in there and len(str(text)) % 4
        else text
        for name, text in (parameters or {}).items()
    }


@SCHEMA.parametrize()
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_call_is_an_error_of_the_server(case: schemathesis.Case[Any]) -> None:
    """Cases are made of the document that clients have, and of what it does not permit."""
    case.call_and_validate(checks=[not_a_server_error])
