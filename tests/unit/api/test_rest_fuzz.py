"""Requests generated from the discovery document: no fault, no response outside the envelope."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rest_answers import refusal
from rest_app import CONFIG
from werkzeug.test import Client, TestResponse

from pullqueue import Emulator, ManualClock, Task
from pullqueue.api.discovery import document
from pullqueue.server.app import create_app

DOCUMENT = document("v1beta2")
METHODS = [
    method for resource in DOCUMENT["resources"].values() for method in resource["methods"].values()
]
STANDARD = DOCUMENT["parameters"]

odd_text = st.text(max_size=20) | st.sampled_from(
    ["", "0", "-1", "1", "1e3", "٣", "true", "False", "null", "%00", "a" * 501, "*", "items(id"]
)
odd_value: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | odd_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text, inner, max_size=3),
    max_leaves=5,
)
good_texts = {
    "project": ["app", "s~app"],
    "taskqueue": ["pull", "limited"],
    "task": ["one", "two", "held"],
    "fields": ["*", "items(id,tag)", "kind", "id"],
    "alt": ["json"],
    "tag": ["red", ""],
    "id": ["one", "held", "new", ""],
    "queueName": ["pull", "limited", "projects/s~app/taskqueues/pull"],
    "payloadBase64": ["aGk=", "", "_-8"],
    "leaseTimestamp": ["0", "1767225600000000", "1767225660000000"],
    "enqueueTimestamp": ["5"],
    "kind": ["taskqueues#task"],
}


def value_of(name: str, shape: dict[str, Any], *, tidy: bool) -> st.SearchStrategy[Any]:
    """Return values for a parameter or a field: such as the document describes, or others too."""
    good: st.SearchStrategy[Any] = st.sampled_from(good_texts.get(name, ["x"]))
    if shape["type"] == "integer":
        good = st.integers(1, 70)
    if shape["type"] == "boolean":
        good = st.sampled_from(["true", "false"])
    return good if tidy else good | odd_text


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Return a call of one of the methods, in half of all cases just as the document has it."""
    method = draw(st.sampled_from(METHODS))
    tidy = draw(st.booleans())

    def drawn(parameters: dict[str, Any], location: str) -> dict[str, str]:
        return {
            name: str(draw(value_of(name, shape, tidy=tidy)))
            for name, shape in parameters.items()
            if shape["location"] == location
            and ((tidy and shape.get("required")) or draw(st.booleans()) or location == "path")
        }

    inside = drawn(method["parameters"], "path")
    path = method["path"].format(**{name: quote(inside[name], safe="") for name in inside})
    query = drawn(method["parameters"], "query")
    if not tidy:
        query |= drawn(STANDARD, "query")
    body = draw(tasks(tidy=tidy) if tidy else tasks(tidy=tidy) | odd_bodies)
    kinds = ["application/json", "application/x-www-form-urlencoded", "text/plain", ""]
    return {
        "path": f"/taskqueue/v1beta2/projects/{path}",
        "method": method["httpMethod"],
        "query_string": query,
        "data": body if "request" in method or not tidy else b"",
        "content_type": draw(st.sampled_from(kinds)),
    }


odd_bodies = st.binary(max_size=50) | odd_value.map(lambda value: json.dumps(value).encode())


@st.composite
def tasks(draw: st.DrawFn, *, tidy: bool) -> bytes:
    """Return a Task, or something like it."""
    properties = DOCUMENT["schemas"]["Task"]["properties"]
    names = draw(st.sets(st.sampled_from(sorted(properties))))
    if tidy:
        names |= {"queueName", "payloadBase64"}
    task = {
        name: draw(value_of(name, properties[name], tidy=tidy) if tidy else odd_value)
        for name in names
    }
    return json.dumps(task).encode()


def snapshot(emulator: Emulator) -> list[list[Task]]:
    """Return everything that a request could change."""
    return [queue.list_tasks(1000) + queue.exhausted for queue in emulator.queues]


def check(response: TestResponse) -> None:
    """Check that an answer is what the API may answer."""
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert set(response.get_json()) == {"error"}
        assert all(refusal(response))
    elif response.data:
        assert response.content_type == "application/json; charset=UTF-8"
        assert "error" not in response.get_json()


@pytest.fixture(scope="module")
def emulator() -> Emulator:
    """Return an emulator that all examples of a test share, and reset."""
    return Emulator(CONFIG, clock=ManualClock())


@pytest.fixture(scope="module")
def client(emulator: Emulator) -> Client:
    """Return a client of its application."""
    return Client(create_app(emulator))


@given(calls=st.lists(requests(), min_size=1, max_size=5))
def test_calls_of_the_api(client: Client, emulator: Emulator, calls: list[dict[str, Any]]) -> None:
    """Whatever a client sends, the answer is the API's; what is refused has changed nothing."""
    emulator.reset()
    for name in ("held", "one", "two"):
        emulator.queue("pull").add(b"work", name=name, tag="red")
    emulator.queue("pull").lease_tasks(60, 1)
    for call in calls:
        before = snapshot(emulator)
        response = client.open(**call)
        check(response)
        if response.status_code >= 400:
            assert snapshot(emulator) == before


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
def test_any_request(
    client: Client, verb: str, path: str, headers: dict[str, str], body: bytes
) -> None:
    """Any verb on any path with any body gets an answer that a client of the API can read."""
    response = client.open(
        "/" + quote(path.lstrip("/"), safe="/$"), method=verb, headers=headers, data=body
    )

    if not response.content_type.startswith("multipart/mixed"):
        assert response.status_code < 500
        if response.status_code >= 400 and verb != "HEAD":
            check(response)


@given(
    claims=st.dictionaries(
        st.sampled_from(["iss", "aud", "exp", "iat", "scope", "sub", "x"]), odd_value
    ),
    head=st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64"]), odd_value),
    garbage=st.binary(max_size=20),
)
def test_any_assertion(
    client: Client, claims: dict[str, Any], head: dict[str, Any], garbage: bytes
) -> None:
    """No assertion that the emulator did not make a key for is worth a token, or a fault."""
    parts = (json.dumps(head).encode(), json.dumps(claims).encode(), garbage)
    assertion = ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    body = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}

    response = client.post("/token", data=body)

    assert (response.status_code, response.get_json()["error"]) == (400, "invalid_grant")
