"""The routes of /_emulator: whatever they are sent, no response is an error of the server."""

from __future__ import annotations

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from werkzeug.test import Client

from pullqueue import Emulator, ManualClock
from pullqueue.push.addresses import PushAddresses
from pullqueue.resources import PREFIX
from pullqueue.resources.operations import OPERATIONS, Operation
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import create_app

QUEUES = "queue: [{name: pull, mode: pull}, {name: push, rate: 5/s}]"
EMULATOR = Emulator.from_text(QUEUES, clock=ManualClock())
APP = create_app(EMULATOR, state=ServerState(EMULATOR, push_to=PushAddresses()))
SCHEMA = schemathesis.openapi.from_wsgi("/_emulator/openapi.json", APP)
CASES = 10_000 // len(OPERATIONS) if os.environ.get("PULLQUEUE_TEST_LONG") else 5

BODIES = (
    b"",
    b" ",
    b"null",
    b"[]",
    b'"text"',
    b"1",
    b"{",
    b"{}",
    b'{"a": 1}',
    b'{"a": 1e400}',
    b'{"a": ' + b"9" * 100_000 + b"}",
    b'{"a": "\\ud800"}',
    b'{"a": "\xff"}',
    b'{"a": {"a": {"a": null}}}',
    b"[" * 200_000,
    b'{"a":' * 200_000,
    b"\xff\xfe{}",
    b"\x00",
)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda each: each.id)
def test_no_body_is_an_error_of_the_server(operation: Operation) -> None:
    """JSON that is none, or deep, or has numbers that Python or C cannot represent."""
    url = PREFIX + operation.path.format(queue="pull", task="t", number=1)
    client = Client(APP)

    for body in BODIES:
        response = client.open(
            url, method=operation.verb, data=body, content_type="application/json"
        )
        assert response.status_code < 500, (body[:50], response.text)


@SCHEMA.parametrize()
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_call_is_an_error_of_the_server(case: schemathesis.Case[Any]) -> None:
    """Cases are made of the document that clients have, and of what it does not permit."""
    case.call_and_validate(checks=[not_a_server_error])
