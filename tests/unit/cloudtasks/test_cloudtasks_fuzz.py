"""Random requests: no fault of the server, and no answer outside the envelope."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from cloudtasks_api import LOCATION, PULL, ApiRefused, GrpcApi
from google.protobuf.json_format import ParseDict
from stores import LONG
from werkzeug.test import Client

from pullqueue import Emulator, Limits, ManualClock
from pullqueue.cloudtasks.messages import message_class
from pullqueue.cloudtasks.methods import Method
from pullqueue.cloudtasks.versions import VERSIONS, Version
from pullqueue.error_codes import RPC_CODES
from pullqueue.server.app import create_app
from pullqueue.server.lifecycle import Server

REQUESTS = 2_500 if LONG else 500
"""For each interface and seed."""
SEEDS = (1, 2)
QUEUES_LAST = 20
"""After so many requests, queues that were paused or deleted are back."""

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
    *("projects/app", LOCATION, PULL, f"{LOCATION}/queues/limited", f"{LOCATION}/queues/push"),
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
        self._queue = PULL.replace("pull", "push")
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
        fitting = [name for name in NAMES if name.count("/") == 2 * depth - 1] or ["app"]
        chosen = self.random.choice(fitting if self.random.random() < 0.9 else NAMES)
        holder[last] = chosen.replace(PULL, self._queue)
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
        if field.json_name in GOOD:
            return self.random.choice(GOOD[field.json_name])
        if field.message_type is None:
            return "x" if field.type == field.TYPE_STRING else 1
        if field.message_type.full_name in GOOD:
            return self.random.choice(GOOD[field.message_type.full_name])
        return self._message(field.message_type, depth + 1)


@pytest.fixture(params=list(VERSIONS.values()), ids=list(VERSIONS))
def version(request: pytest.FixtureRequest) -> Version:
    """Return each version."""
    version: Version = request.param
    return version


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    """Return an emulator whose queue has a task that is held."""
    text = "queue:\n" + "".join(
        f"- name: {name}\n  mode: {mode}\n"
        for name, mode in (("pull", "pull"), ("limited", "pull"), ("push", "push\n  rate: 1/s"))
    )
    emulator = Emulator.from_text(text, clock=clock, limits=Limits(tasks_in_memory=500))
    emulator.queue("pull").add(b"work", name="held", tag="red")
    emulator.queue("pull").lease_tasks(60, 1)
    emulator.queue("push").add(b"work", name="held")
    return emulator


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_rest(emulator: Emulator, seed: int, version: Version) -> None:
    """Every answer is JSON; a refusal has code, message and status."""
    client = Client(create_app(emulator))
    requests = Requests(seed, version)
    config = emulator.config
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

    assert statuses <= {200, 400, 404, 409, 429}
    assert {200, 400, 404} <= statuses


def rest_request(method: Method, fields: dict[str, Any], random: Random) -> tuple[str, bytes]:
    """Return the path and the body of a request."""
    holder: Any = fields
    *holders, last = method.field.split(".")
    for name in holders:
        holder = holder[name]
    # A path with empty parts never reaches the service.
    name = holder.pop(last).strip("/") or "x"
    path = quote(
        f"/{method.version}/{name if method.resource else ''}{method.suffix}",
        safe="/:",
        errors="replace",
    )
    if not method.resource:
        query, body = {"appId": name}, fields.get("httpBody")
    elif method.body == "*":
        query, body = {}, fields
    else:
        body = fields.pop(method.body, {}) if method.body else {}
        query = fields
    if random.random() < 0.05:
        query["x"] = "y"
    text = urlencode({key: str(value) for key, value in query.items()}, errors="replace")
    data = json.dumps(body).encode()
    if random.random() < 0.05:
        data = data[: random.randrange(len(data) + 1)]
    return f"{path}?{text}", data


def grpc_request(method: Method, fields: dict[str, Any], requests: Requests) -> bytes:
    """Return the bytes of a request, in some requests not all as they should be."""
    message = message_class(method.version, method.request)()
    with suppress(Exception):  # what could be parsed is in the message
        ParseDict(fields, message, ignore_unknown_fields=True)
    data = bytearray(message.SerializeToString())
    random = requests.random
    while data and not requests.tidy and random.random() < 0.5:
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_grpc(server: Server, seed: int, version: Version) -> None:
    """Every status is one that the service means."""
    api = GrpcApi(server)
    requests = Requests(seed, version)
    config = server.emulator.config
    codes = set()
    for number in range(REQUESTS):
        if number % QUEUES_LAST == 0:
            server.emulator.reconfigure(config)
        method, fields = requests.next()
        try:
            api.send(method, grpc_request(method, fields, requests))
        except ApiRefused as refused:
            codes.add(refused.code)
    api.channel.close()

    faults = {"UNKNOWN", "INTERNAL", "UNAVAILABLE", "UNIMPLEMENTED", "DEADLINE_EXCEEDED"}
    assert codes & faults == set()
    assert {"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"} <= codes
