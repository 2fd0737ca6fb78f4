"""Random requests, most of them made from the discovery documents: no fault, no odd response."""

from __future__ import annotations

import json
import random
import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest
from cloudtasks_api import LOCATION, MADE, PULL, PUSH, ApiRefused, GrpcApi
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from rest_app import CONFIG, methods_of, refusal
from stores import LONG
from werkzeug.test import Client, TestResponse

from pullqueue import Emulator, Limits, ManualClock, Task
from pullqueue.api.discovery import document
from pullqueue.cloudtasks.discovery import document as cloudtasks_document
from pullqueue.cloudtasks.messages import message_class
from pullqueue.cloudtasks.methods import NAME, Method
from pullqueue.cloudtasks.versions import VERSIONS
from pullqueue.error_codes import RPC_CODES
from pullqueue.server.app import create_app
from pullqueue.server.lifecycle import Server

REQUESTS = 10_000 if LONG else 100
FORM = "application/x-www-form-urlencoded"
REQUESTS_OF_A_ROUND = 10
"""After so many requests everything is as it was at first."""

DOCUMENTS = {"v1beta2": document("v1beta2")} | {
    version.name: cloudtasks_document(version, "") for version in VERSIONS.values()
}
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 1.5, 1e308, float("nan"), [], {}, [[]]),
    *("", " ", "\0", "\ud800", "é" * 300, "x" * 501, "%", "*", "null", "1e3", "٣", "-0s", "1s"),
    *("0", "-1", "true", "False", "%00", "items(id", "0.0000000001s", "315576000001s", {"a": {}}),
    *("9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00Z", "10000-01-01T00:00:00Z"),
    *("2026-01-01T00:00:00+25:00", "tag=", 'tag="', "a,b.c", "MS0x"),
)
BYTES = ("", "d29yaw==", "_-8")
GOOD: dict[str | None, tuple[Any, ...]] = {
    "project": ("app", "s~app"),
    "taskqueue": ("pull", "limited"),
    "task": ("one", "two", "held"),
    "alt": ("json",),
    "fields": ("*", "items(id,tag)", "kind", "id", "name", "tasks(name)"),
    "id": ("one", "held", "new", ""),
    "queueName": ("pull", "limited", "projects/s~app/taskqueues/pull"),
    "leaseTimestamp": ("0", "1767225600000000", "1767225660000000"),
    "tag": ("", "red", "é"),
    "name": ("", f"{PULL}/tasks/held", f"{PULL}/tasks/one", f"{PULL}/tasks/none", MADE),
    "filter": ("", "tag=red", 'tag="red"', "tag_function=oldest_tag()", "state=RUNNING", "name:p"),
    "url": ("https://api.example.com/work", "http://localhost/x?y"),
    "relativeUri": ("", "/mail"),
    "pageToken": ("", "MSAx"),
    **dict.fromkeys(("payloadBase64", "byte"), BYTES),
    "google-datetime": ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-02T00:00:00.5Z"),
    "google-duration": ("0s", "60s", "0.5s", "600s", "604801s", "-1s"),
    "google-fieldmask": ("name", "stats", "retryConfig.maxAttempts", "stats.tasksCount"),
    "integer": (0, 1, 60, 1001, "5"),
    "boolean": ("true", "false"),
    "number": (0.5, 100),
    "string": ("x", "5"),
    "object": ({}, {"X-A": "b"}),
}
"""By the name, the format or the type of a field."""
NAMES = (
    *("projects/app", LOCATION, PULL, f"{LOCATION}/queues/limited", PUSH),
    *(f"{PULL}/tasks/held", f"{PULL}/tasks/one", f"{PULL}/tasks/none", f"{LOCATION}/queues/none"),
    *("", "projects", "projects/", f"{PULL}/tasks/", f"{PULL}/tasks/a b", "projects/é/locations/l"),
)


class RandomCall(NamedTuple):
    """A method of a document, and what a request to it has."""

    method: dict[str, Any]
    names: dict[str, str]
    """The parameters in the path."""
    query: dict[str, Any]
    body: Any


class RandomCalls:
    """Makes calls of random methods, half of them with good values alone."""

    def __init__(self, version: str) -> None:
        # pytest-randomly has seeded the module; its seed is the one that pytest shows.
        self.random = random.Random(random.getrandbits(64))  # noqa: S311 - repeatable chance
        self.tidy = True
        self._document = DOCUMENTS[version]
        self._methods = list(methods_of(self._document))
        # Of the oneofs, what fits the queue.
        self._left_out = {"httpTarget", "appEngineHttpTarget", "httpRequest"}
        self._queue = PUSH
        if version == "v2beta2":
            self._left_out.add("appEngineHttpRequest")
            self._queue = PULL

    def next(self) -> RandomCall:
        self.tidy = self.random.random() < 0.5
        method = self.random.choice(self._methods)
        shapes = dict(method["parameters"])
        if not self.tidy and self.random.random() < 0.2:
            shapes |= self._document["parameters"]
        query = {name: shape for name, shape in shapes.items() if shape["location"] == "query"}
        names = {name: self._name(name, shapes[name]) for name in shapes if name not in query}
        body = self._value("", method["request"], 0) if "request" in method else None
        return RandomCall(method, names, self._fields(query, 0), body)

    def _name(self, name: str, shape: dict[str, Any]) -> str:
        if "pattern" not in shape:
            return str(self._value(name, shape, 0))
        fitting = [one for one in NAMES if re.search(shape["pattern"], one)]
        return str(self._chosen(fitting if self.random.random() < 0.9 else NAMES))

    def _fields(self, shapes: dict[str, Any], depth: int) -> dict[str, Any]:
        return {
            name: self._value(name, shape, depth + 1)
            for name, shape in shapes.items()
            if self.random.random() < (0.3 if depth else 0.7)
            or (self.tidy and shape.get("required"))
            if not (self.tidy and name in self._left_out)
        }

    def _value(self, name: str, shape: dict[str, Any], depth: int) -> Any:
        if depth > 4 or (not self.tidy and self.random.random() < 0.1):
            text = "".join(chr(self.random.randrange(0x110000)) for _ in range(5))
            return self.random.choice((*ODD, text))
        if "$ref" in shape:
            return self._fields(self._document["schemas"][shape["$ref"]]["properties"], depth)
        if shape["type"] == "array":
            return [self._value(name, shape["items"], depth)]
        kinds = (name, shape.get("format"), shape["type"])
        good = shape.get("enum") or next(GOOD[kind] for kind in kinds if kind in GOOD)
        return self._chosen(good)

    def _chosen(self, values: Sequence[Any]) -> Any:
        value = self.random.choice(values)
        return value.replace(PULL, self._queue) if isinstance(value, str) else value


def rest_request(calls: RandomCalls, version: str) -> dict[str, Any]:
    """Return the next call as a request over REST, in some not all as it should be."""
    call, path = calls.next(), f"/{DOCUMENTS[version]['servicePath']}"
    path += call.method["path"].replace("{+", "{")
    # A path that begins with an empty part never reaches the service.
    names = {
        name: quote(text.lstrip("/"), "/:", errors="replace") for name, text in call.names.items()
    }
    body = b"" if call.body is None else json.dumps(call.body).encode()
    if not calls.tidy and calls.random.random() < 0.2:
        body = body[: calls.random.randrange(len(body) + 1)] + calls.random.randbytes(2)
    return {
        "path": path.format(**names),
        "method": call.method["httpMethod"],
        "query_string": urlencode(call.query, errors="replace"),
        "data": body,
        "content_type": calls.random.choice(("application/json", FORM, "text/plain", "")),
    }


def grpc_request(calls: RandomCalls, version: str) -> tuple[Method, bytes]:
    """Return the method and the bytes of the next call, in some not as they should be."""
    call = calls.next()
    methods = {f"{NAME}.{method.method_id}": method for method in VERSIONS[version].methods}
    method = methods[call.method["id"]]
    body = call.body if isinstance(call.body, dict) else {}
    fields = call.query | (body if method.body == "*" else {method.body: body})
    *holders, last = method.field.split(".")
    holder = reduce(lambda outer, name: outer.setdefault(name, {}), holders, fields)
    holder[last] = next(iter(call.names.values()), "app")
    message = message_class(version, method.request)()
    with suppress(Exception):  # what could be parsed is in the message
        ParseDict(fields, message, ignore_unknown_fields=True)
    data = bytearray(message.SerializeToString())
    while data and not calls.tidy and calls.random.random() < 0.5:
        data[calls.random.randrange(len(data))] = calls.random.randrange(256)
    return method, bytes(data)


def snapshot(emulator: Emulator) -> list[list[Task]]:
    """Return the tasks that a request could change."""
    return [queue.list_tasks(1000) + queue.exhausted for queue in emulator.queues]


def restore(emulator: Emulator) -> None:
    """Restore the queues, and add tasks, of which one is leased."""
    emulator.reset()
    emulator.reconfigure(CONFIG)
    for name in ("held", "one", "two"):
        emulator.queue("pull").add(b"work", name=name, tag="red")
        emulator.queue("push").add(b"work", name=name)
    emulator.queue("pull").lease_tasks(60, 1)


def check(response: TestResponse) -> None:
    """Check that an answer is what the API may answer."""
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert set(response.get_json()) == {"error"}
        error = response.get_json()["error"]
        if "status" in error:
            assert RPC_CODES[error["status"]].http_status == error["code"] == response.status_code
            assert error["message"]
        else:
            assert all(refusal(response))
    elif response.data:
        assert response.content_type.startswith("application/json")


@pytest.fixture(scope="module")
def emulator() -> Emulator:
    """Return an emulator that the tests share, and reset."""
    return Emulator(CONFIG, clock=ManualClock(), limits=Limits(tasks_in_memory=500))


@pytest.fixture(scope="module")
def client(emulator: Emulator) -> Client:
    return Client(create_app(emulator))


@pytest.mark.long
@pytest.mark.parametrize("version", DOCUMENTS)
def test_any_call_over_rest_is_answered_by_the_api(
    client: Client, emulator: Emulator, version: str
) -> None:
    calls, statuses = RandomCalls(version), set()
    for number in range(REQUESTS):
        if number % REQUESTS_OF_A_ROUND == 0:
            restore(emulator)
        before = snapshot(emulator)
        response = client.open(**rest_request(calls, version))
        check(response)
        if response.status_code >= 400:
            assert snapshot(emulator) == before
        statuses.add(response.status_code)

    assert {200, 400, 404} <= statuses


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_any_call_over_grpc_has_a_status_of_the_service(emulator: Emulator, version: str) -> None:
    calls, codes = RandomCalls(version), set()
    with Server(emulator) as server:
        api = GrpcApi(server)
        for number in range(REQUESTS):
            if number % REQUESTS_OF_A_ROUND == 0:
                restore(emulator)
            try:
                api.send(*grpc_request(calls, version))
            except ApiRefused as refused:
                codes.add(refused.code)
        api.channel.close()

    faults = {"UNKNOWN", "INTERNAL", "UNAVAILABLE", "UNIMPLEMENTED", "DEADLINE_EXCEEDED"}
    assert codes & faults == set()
    assert {"INVALID_ARGUMENT", "NOT_FOUND"} <= codes


@given(
    verb=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"]),
    path=st.text(max_size=30)
    | st.sampled_from(["/batch", "/discovery/v1/apis", "/$discovery/rest", "/taskqueue/v1beta2"]),
    headers=st.dictionaries(
        st.sampled_from(
            ["X-HTTP-Method-Override", "Content-Type", "Authorization", "Accept-Encoding"]
        ),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)
        | st.sampled_from(["multipart/mixed; boundary=a", "PATCH", "application/json"]),
    ),
    body=st.binary(max_size=60) | st.sampled_from([b"--a\r\n\r\nGET / HTTP/1.1\r\n\r\n--a--"]),
)
def test_any_request_gets_an_answer_that_clients_can_read(
    client: Client, verb: str, path: str, headers: dict[str, str], body: bytes
) -> None:
    response = client.open(
        "/" + quote(path.lstrip("/"), safe="/$"), method=verb, headers=headers, data=body
    )

    if not response.content_type.startswith("multipart/mixed"):
        assert response.status_code < 500
        if response.status_code >= 400 and verb != "HEAD":
            check(response)


odd_value: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    claims=st.dictionaries(
        st.sampled_from(["iss", "aud", "exp", "iat", "scope", "sub", "x"]), odd_value
    ),
    head=st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64"]), odd_value),
    garbage=st.binary(max_size=20),
)
def test_no_assertion_of_another_key_gets_a_token(
    client: Client, claims: dict[str, Any], head: dict[str, Any], garbage: bytes
) -> None:
    parts = (json.dumps(head).encode(), json.dumps(claims).encode(), garbage)
    assertion = ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    body = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}

    response = client.post("/token", data=body)

    assert (response.status_code, response.get_json()["error"]) == (400, "invalid_grant")
