"""All routes: whatever they are sent, no response is an error of the server."""

from __future__ import annotations

import re
from http.client import NOT_IMPLEMENTED
from itertools import groupby, product

import pytest
from stores import LONG
from werkzeug.routing import Rule
from werkzeug.test import Client

from pullqueue import Emulator, ManualClock
from pullqueue.push.addresses import PushAddresses
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import create_app, flask_app

pytestmark = pytest.mark.slow

QUEUES = "queue: [{name: pull, mode: pull}, {name: push, rate: 5/s}]"
VERBS = {"POST", "PUT", "PATCH", "DELETE"}
PATH = {"queue": "pull", "task": "t", "taskqueue": "pull", "number": "1", "project": "p"}
FILE = b'Content-Disposition: form-data; name="file"; filename="f"'
TEXTS = (b"", b"{", b"{}", b"\x00", b"\xff\xfe{}")
DEEP = b'{"a":' * 200_000
JSON = (
    b" ",
    b"null",
    b"[]",
    b'"text"',
    b"1",
    b'{"a": 1}',
    b'{"a": 1e400}',
    b'{"a": ' + b"9" * 100_000 + b"}",
    b'{"a": "\\ud800"}',
    b'{"a": "\xff"}',
    b'{"a": {"a": {"a": null}}}',
    b"[" * 200_000,
    DEEP,
)
FORMS = (b"count=-1&by=1e400&action=delete&task=pull", b"count=" + b"9" * 5_000)
PARTS = (
    b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--",
    *(
        b"--x\r\n" + FILE + b"\r\n\r\n" + content + b"\r\n--x--\r\n"
        for content in (b"", b"\xff", DEEP)
    ),
)
BODIES = {
    "application/json": (*TEXTS, *JSON),
    "application/x-www-form-urlencoded": (*TEXTS, *FORMS),
    "multipart/form-data; boundary=x": (*TEXTS, *PARTS),
    "application/json; charset=utf-16": TEXTS,
    "text/\0": (b"{}",),
}
SENT = [(kind, body) for kind, bodies in BODIES.items() for body in bodies]
FEW = [SENT[index] for index in (1, 7, 15, len(TEXTS + JSON + TEXTS))]
"""Sent to each route; two of each blueprint, which reads bodies in its own way, get all."""
if LONG:
    SENT = FEW = [*product(BODIES, sorted({body for _, body in SENT}))]


def blueprint_of(rule: Rule) -> str:
    return str(rule.endpoint.partition(".")[0])


def test_no_body_is_an_error_of_the_server() -> None:
    """JSON that is none, or deep, or has numbers that Python or C cannot represent; forms."""
    emulator = Emulator.from_text(QUEUES, clock=ManualClock())
    state = ServerState(emulator, push_to=PushAddresses())
    client = Client(create_app(emulator, state=state))
    rules = [rule for rule in flask_app().url_map.iter_rules() if VERBS & (rule.methods or set())]
    rules.sort(key=blueprint_of)
    for _, group in groupby(rules, blueprint_of):
        first, *others = group
        for rule in (first, *others):
            url = re.sub("<(?:[^>]*:)?(.*?)>", lambda match: PATH.get(match[1], "x"), rule.rule)
            sent = SENT if rule in (first, *others[-1:]) else FEW
            for verb, (kind, body) in product(VERBS & (rule.methods or set()), sent):
                response = client.open(url, method=verb, data=body, content_type=kind)
                is_error = response.status_code >= 500 and response.status_code != NOT_IMPLEMENTED
                assert not is_error, (url, verb, kind, body[:50], response.text)
