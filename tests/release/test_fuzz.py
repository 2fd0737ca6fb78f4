"""The routes of /_emulator, called as their document says, and otherwise."""

from __future__ import annotations

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation

from pullqueue import Emulator, ManualClock
from pullqueue.push.addresses import PushAddresses
from pullqueue.resources.operations import OPERATIONS
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import create_app

QUEUES = "queue: [{name: pull, mode: pull}, {name: push, rate: 5/s}]"
EMULATOR = Emulator.from_text(QUEUES, clock=ManualClock())
APP = create_app(EMULATOR, state=ServerState(EMULATOR, push_to=PushAddresses()))
SCHEMA = schemathesis.openapi.from_wsgi("/_emulator/openapi.json", APP)
CASES = 12_000 // len(OPERATIONS) if os.environ.get("PULLQUEUE_TEST_LONG") else 4
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


@pytest.mark.parametrize(
    "operation",
    [each.ok() for each in SCHEMA.get_all_operations()],  # type: ignore[union-attr]  # it is valid
    ids=lambda each: each.label,
)
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_call_is_an_error_of_the_server(
    operation: APIOperation[Any, Any, Any, Any], data: st.DataObject
) -> None:
    """Cases are made of the document that clients have, and of what it does not permit."""
    cases = [operation.as_strategy(generation_mode=mode) for mode in GenerationMode]
    case = data.draw(st.one_of(*cases))
    case.call_and_validate(checks=[not_a_server_error])
