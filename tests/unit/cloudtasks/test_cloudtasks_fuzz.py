"""Random requests: no fault of the server, and no answer outside the envelope."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from cloudtasks_api import LOCATION, PULL, PUSH, ApiRefused, GrpcApi, transcoded
from google.protobuf.json_format import ParseDict
from stores import LONG
from werkzeug.test import Client

from pullqueue import Emulator, Limits, ManualClock
from pullqueue.cloudtasks.messages import message_class
from pullqueue.cloudtasks.methods import Method
from pullqueue.cloudtasks.versions import VERSIONS, Version
from pullqueue.error_codes import RPC_CODES

REQUESTS = 2_500 if LONG else 150
SEEDS = range(4 if LONG else 1)
QUEUES_LAST = 20
"""After so many requests, queues that were paused or deleted are back."""

QUEUE_YAML = """
queue:
- {name: pull, mode: pull}
- {name: limited, mode: pull}
- {name: push, rate: 1/s}
"""
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 1.5, 1e308, [], {}, [[]], {"a": {}}),
    *("", " ", "\0", "\ud800", "é" * 300, "x" * 501, "%", "*", "null", "1e3", "٣", "-0s", "1s"),
    *("315576000001s", "0.0000000001s", "9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00Z"),
    *("10000-01-01T00:00:00Z", "2026-01-01T00:00:00+25:00", "tag=", 'tag="', "a,b.c", "MS0x"),
)
GOOD: dict[str, tuple[Any, ...]] = {
    "google.protobuf.Timestamp": (
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:01:00Z",
        "2026-01-02T00:00:00.5Z",
    ),
    "google.protobuf.Duration": ("0s", "60s", "0.5s", "604800s", "604801s", "-1s"),
    "filter": ("", "tag=red", 'tag="red"', "tag_function=oldest_tag()", "state=RUNNING", "name:p"),
    "responseView": ("BASIC", "FULL", 1, 2, 7, "VIEW_UNSPECIFIED"),
    "maxTasks": (0, 1, 1000, 1001, "5"),
    "pageSize": (0, 1, 2, 1000, "3"),
    "pageToken": ("", "MSAx"),
    "google.protobuf.FieldMask": ("name", "stats", "retryConfig.maxAttempts", "stats.tasksCount"),
    "url": ("https://api.example.com/work", "http://localhost/x?y"),
    "relativeUri": ("", "/mail"),
    "httpMethod": ("POST", "PUT", 0),
    "headers": ({}, {"X-A": "b"}),
    "body": ("", b64encode(b"work").decode()),
    "maxAttempts": (1, 100),
    "payload": ("", b64encode(b"work").decode()),
    "tag": ("", "red", "é"),
    "name": ("", f"{PULL}/tasks/held", f"{PULL}/tasks/one", f"{PULL}/tasks/none", "x"),
}
NAMES = (
    *("projects/app", LOCATION, PULL, f"{LOCATION}/queues/limited", PUSH),
    *(f"{PULL}/tasks/held", f"{PULL}/tasks/one", f"{PULL}/tasks/none", f"{LOCATION}/queues/none"),
    *("", "projects", "projects/", f"{PULL}/tasks/", f"{PULL}/tasks/a b", "projects/é/locations/l"),
)


class Requests:
    """Makes requests of random methods, half of them with good values alone."""

    def __init__(self, seed: int, version: Version) -> None:
        self.tidy = True
        self._methods = version.methods
        # Of the oneofs, what fits the queue.
        self._left_out = {"http_target", "app_engine_http_target", "http_request"}
        self._queue = PUSH
        if version.has_pull_queues:
            self._left_out.add("app_engine_http_request")
            self._queue = PULL
        self.random = Random(seed)  # noqa: S311 - repeatable chance

    def next(self) -> tuple[Method, dict[str, Any]]:
        """Return a method and the fields of its request, as JSON has them."""
        self.tidy = self.random.random() < 0.5
        method = self.random.choice(self._methods)
        fields = self._message(message_class(method.version, method.request).DESCRIPTOR, 0)
        *holders, last = method.field.split(".")
        holder: Any = fields
        for name in holders:
            holder[name] = holder = fields.get(name) if isinstance(fields.get(name), dict) else {}
        depth = method.resource.count("<")
        fitting = [name for name in NAMES if name.count("/") == 2 * depth - 1]
        chosen = self.random.choice(fitting if fitting and self.random.random() < 0.9 else NAMES)
        holder[last if method.resource else "appId"] = chosen.replace(PULL, self._queue)
        return method, fields

    def _message(self, descriptor: Any, depth: int) -> dict[str, Any]:
        return {
            field.json_name: self._value(field, depth)
            for field in descriptor.fields
            if self.random.random() < (0.7 if depth == 0 else 0.3)
            and not (self.tidy and field.name in self._left_out)
        }

    def _value(self, field: Any, depth: int) -> Any:
        if depth > 3 or (not self.tidy and self.random.random() < 0.1):
            return self.random.choice(ODD)
        message = field.message_type
        for name in (field.json_name, message and message.full_name):
            if name in GOOD:
                return self.random.choice(GOOD[name])
        if message is None:
            return "x" if field.type == field.TYPE_STRING else 1
        return self._message(message, depth + 1)


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    """Return an emulator whose queue has a task that is held."""
    emulator = Emulator.from_text(QUEUE_YAML, clock=clock, limits=Limits(tasks_in_memory=500))
    emulator.queue("pull").add(b"work", name="held", tag="red")
    emulator.queue("pull").lease_tasks(60, 1)
    emulator.queue("push").add(b"work", name="held")
    return emulator


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("version", VERSIONS.values(), ids=list(VERSIONS))
def test_rest(client: Client, emulator: Emulator, seed: int, version: Version) -> None:
    """Every answer is JSON; a refusal has code, message and status."""
    requests, config = Requests(seed, version), emulator.config
    statuses = set()
    for number in range(REQUESTS):
        if number % QUEUES_LAST == 0:
            emulator.reconfigure(config)
        method, fields = requests.next()
        url, body = rest_request(method, fields, requests.random)
        response = client.open(url, method=method.verb, data=body)
        answer = response.get_json()
        if response.status_code >= 300:
            error = answer["error"]
            assert RPC_CODES[error["status"]].http_status == error["code"] == response.status_code
            assert error["message"]
        statuses.add(response.status_code)

    assert {200, 400, 404} <= statuses <= {200, 400, 404, 409, 429}


def rest_request(method: Method, fields: dict[str, Any], random: Random) -> tuple[str, bytes]:
    """Return the URL and the body of a request."""
    path, query, body = transcoded(method, fields)
    # A path that begins with an empty part never reaches the service.
    path = quote(path.lstrip("/"), safe="/:", errors="replace")
    if random.random() < 0.05:
        query["x"] = "y"
    text = urlencode({key: str(value) for key, value in query.items()}, errors="replace")
    data = json.dumps(body).encode()
    if random.random() < 0.05:
        data = data[: random.randrange(len(data) + 1)]
    return f"/{method.version}/{path}?{text}", data


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("version", VERSIONS.values(), ids=list(VERSIONS))
def test_grpc(grpc_api: GrpcApi, emulator: Emulator, seed: int, version: Version) -> None:
    """Every status is one that the service means."""
    requests, config = Requests(seed, version), emulator.config
    codes = set()
    for number in range(REQUESTS):
        if number % QUEUES_LAST == 0:
            emulator.reconfigure(config)
        method, fields = requests.next()
        try:
            grpc_api.send(method, grpc_request(method, fields, requests))
        except ApiRefused as refused:
            codes.add(refused.code)

    faults = {"UNKNOWN", "INTERNAL", "UNAVAILABLE", "UNIMPLEMENTED", "DEADLINE_EXCEEDED"}
    assert codes & faults == set()
    assert {"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"} <= codes


def grpc_request(method: Method, fields: dict[str, Any], requests: Requests) -> bytes:
    """Return the bytes of a request, in some requests not all as they should be."""
    message = message_class(method.version, method.request)()
    with suppress(Exception):  # what could be parsed is in the message
        ParseDict(fields, message, ignore_unknown_fields=True)
    data = bytearray(message.SerializeToString())
    while data and not requests.tidy and requests.random.random() < 0.5:
        data[requests.random.randrange(len(data))] = requests.random.randrange(256)
    return bytes(data)
