"""Cloud Tasks over REST: JSON, query parameters, URLs, errors."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from typing import Any

import pytest
from cloudtasks_api import LOCATION, PULL, PUSH, RestApi, refused
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator, PullQueueError
from pullqueue.cloudtasks import texts
from pullqueue.extras import install_command
from pullqueue.server.lifecycle import Server

LEASE = {"leaseDuration": "60s"}
PURGE = f"{PULL}:purge"
UNKNOWN = "Cannot bind query parameter. Field 'page' could not be found in request message."


@pytest.mark.parametrize("text", ["", "  ", "{}"])
def test_a_body_may_be_left_out(call: RestApi, text: str) -> None:
    """A method whose request has only a name needs no body; where there is none it is ignored."""
    assert call.send("POST", f"{PULL}:purge", text.encode())["name"] == PULL
    assert call.send("GET", PULL, b"not JSON")["name"] == PULL


@pytest.mark.parametrize(
    "body",
    [
        {"lease_duration": "60s", "max_tasks": 1, "response_view": "FULL"},
        {"leaseDuration": "60s", "maxTasks": "1", "responseView": 2, "filter": None},
        {"leaseDuration": "60s", "maxTasks": 1.0, "responseView": "FULL"},
    ],
)
def test_json_is_read_as_protobuf_defines_it(
    call: RestApi, emulator: Emulator, body: dict[str, Any]
) -> None:
    """Names in either case, numbers as text, enums by number, null for what is absent."""
    emulator.queue("pull").add(b"\xff\xfe")

    answer = call.send("POST", f"{PULL}/tasks:lease", body)

    assert answer["tasks"][0]["pullMessage"] == {"payload": "//4="}


@pytest.mark.parametrize(
    ("field", "payload"),
    [
        *(("pullMessage", text) for text in ("***", "d29yaw==d", "d29yaw===")),
        ("pull_message", "d29 yaw=="),
    ],
)
def test_a_payload_that_is_not_base64_is_refused(
    call: RestApi, emulator: Emulator, field: str, payload: str
) -> None:
    text = f'(TYPE_BYTES), Base64 decoding failed for "{payload}"'
    with refused("INVALID_ARGUMENT", re.escape(text)):
        call.send("POST", f"{PULL}/tasks", {"task": {field: {"payload": payload}}})
    assert emulator.queue("pull").list_tasks() == []


@pytest.mark.parametrize("payload", ["++//", "--__", "d29yaw==", "d29yaw", ""])
def test_base64_is_accepted_in_either_alphabet_with_or_without_padding(
    call: RestApi, emulator: Emulator, payload: str
) -> None:
    call.send("POST", f"{PULL}/tasks", {"task": {"pullMessage": {"payload": payload}}})

    assert emulator.queue("pull").list_tasks()[0].payload in (b"\xfb\xef\xff", b"work", b"")


@pytest.mark.parametrize("body", [b'{"a":' + b"[" * 100_000, b'{"data": "***"}', b"\xff"])
def test_an_upload_without_json_is_the_file(call: RestApi, body: bytes) -> None:
    """What is not a JSON object with a file is read as the file."""
    with refused("INVALID_ARGUMENT", "queue.yaml:1:"):
        call.send("POST", "api/queue/update?appId=app", body)


def test_the_details_name_the_field_that_is_not_valid(call: RestApi) -> None:
    with refused("INVALID_ARGUMENT") as caught:
        call.send("POST", f"{PULL}/tasks:lease", {})

    text = str(caught.value).removeprefix("INVALID_ARGUMENT: ")
    violation = {"field": "lease_duration", "description": text}
    kind = "type.googleapis.com/google.rpc.BadRequest"
    assert caught.value.details == [{"@type": kind, "fieldViolations": [violation]}]


@pytest.mark.parametrize(
    "query",
    [
        "readMask=retryConfig,taskTtl",
        "read_mask=retry_config,task_ttl",
        "readMask=retryConfig,task_ttl",
    ],
)
def test_masks_in_a_query_have_either_spelling(call: RestApi, query: str) -> None:
    assert set(call.send("GET", f"{PULL}?{query}")) == {"name", "retryConfig", "taskTtl"}


@each_row(
    ("verb", "path", "text"),
    [
        *(
            ("GET", f"{PULL}?readMask={mask}", "read_mask")
            for mask in ("color", "stats.", ",", "retry__config")
        ),
        *((verb, f"{path}?page=1", UNKNOWN) for verb, path in (("GET", PULL), ("POST", PURGE))),
        ("GET", f"{PULL}/tasks?pageSize=x", "page_size"),
        ("POST", f"{PULL}/tasks:lease?maxTasks=1", "maxTasks is a query parameter: send it in the"),
        ("PATCH", f"{PULL}?queue=x", "queue is a query parameter: send it in the body"),
        ("POST", f"{PULL}/tasks:lease?alt=media", 'alt is "media": only json is supported'),
        ("POST", f"{PULL}/tasks:lease?$alt=proto", 'alt is "proto": only json is supported'),
        ("POST", "api/queue/update", "app_id is missing"),
        *(("POST", f"{PULL}/tasks:lease?{each}", "") for each in ("fields=colors", "$fields=t/x")),
    ],
)
def test_a_query_that_is_not_valid_is_refused_before_the_call(
    call: RestApi, emulator: Emulator, verb: str, path: str, text: str
) -> None:
    emulator.queue("pull").add(b"1")

    with refused("INVALID_ARGUMENT", text) as caught:
        call.send(verb, path, LEASE if verb == "POST" else None)
    assert emulator.queue("pull").fetch_statistics().leased == 0
    if text in (UNKNOWN, ""):
        [detail] = caught.value.details
        named = {} if text else {"field": "fields"}
        assert detail["fieldViolations"] == [{**named, "description": caught.value.message}]


def test_firebase_calls_two_methods_without_a_version(client: Client, emulator: Emulator) -> None:
    """A task has the URL of its function, unless it has one; the response has a leading slash."""
    path = f"/{PUSH}/tasks"
    urls = ("http://localhost/own", "https://us-central1-app.cloudfunctions.net/push")
    for name, url in zip("ab", urls, strict=True):
        request = {"url": url} if name == "a" else {"httpMethod": "POST"}
        task = {"name": f"{PUSH}/tasks/{name}", "httpRequest": request}
        created = client.post(path, json={"task": task}).get_json()

        assert list(created) == ["task"]
        assert created["task"]["name"] == f"{path}/{name}"
        assert created["task"]["httpRequest"]["url"] == url
    app_engine: dict[str, Any] = {"task": {"appEngineHttpRequest": {}}}
    assert "appEngineHttpRequest" in client.post(path, json=app_engine).get_json()["task"]
    assert client.delete(f"{path}/a").get_json() == {}
    assert emulator.queue("push").fetch_statistics().tasks == 2


@each_row(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3599, "59m59s"),
        (3600, "1h"),
        (86_415, "24h15s"),
        (2_592_000, "720h"),
    ],
)
def test_spans_are_written_as_in_production(seconds: int, text: str) -> None:
    assert texts.format_span(seconds) == text


def test_an_unknown_path_is_refused_with_the_document_of_all_methods(client: Client) -> None:
    for path in ("", "/", "/x/y"):
        error = client.get(f"/v2{path}").get_json()["error"]
        document = "see /$discovery/rest?version=v2"
        assert error["message"] == f"no method has GET /v2/{path.strip('/')}: {document}"


def test_parameters_of_every_api_are_accepted(call: RestApi) -> None:
    enums = "$alt=json;enum-encoding=string"
    for query in ("key=x", "quotaUser=x", "$.xgafv=1", "alt=json", enums, "uploadType="):
        assert call.send("GET", f"{PULL}?{query}")["state"] == "RUNNING", query
    # Google's client for Python asks for numbers.
    assert call.send("GET", f"{PULL}?%24alt=json%3Benum-encoding%3Dint")["state"] == 1


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ("name,retryConfig(unlimitedAttempts)", {"retryConfig": {"unlimitedAttempts": True}}),
        ("name,retryConfig/maxAttempts", {"retryConfig": {}}),
    ],
)
def test_fields_chooses_what_is_returned(
    call: RestApi, fields: str, answer: dict[str, Any]
) -> None:
    """A response that has no fields is empty whichever are chosen."""
    assert call.send("GET", f"{PULL}?fields={fields}") == {"name": PULL, **answer}
    assert call.send("DELETE", f"{PULL}?fields={fields}") == {}


def test_responses_are_indented_unless_pretty_print_is_false(client: Client) -> None:
    url = f"/v2beta2/{LOCATION}"

    for query in ("", "?prettyPrint=true", "?$prettyPrint=true&prettyPrint=false"):
        assert client.get(f"{url}{query}").data.startswith(b'{\n "name"'), query
    for query in ("?prettyPrint=false", "?$prettyPrint=false"):
        assert client.get(f"{url}{query}").data.startswith(b'{"name":'), query


@each_row(
    ("verb", "path", "code"),
    [
        ("GET", "", "NOT_FOUND"),
        ("POST", f"{PULL}:stop", "NOT_FOUND"),
        ("POST", f"{PULL}/tasks/one:finish", "NOT_FOUND"),
        ("PUT", PULL, "NOT_FOUND"),
        ("DELETE", f"{PULL}/tasks", "NOT_FOUND"),
        ("GET", f"{PULL}/tasks/one/two", "NOT_FOUND"),
        ("POST", f"{PULL}/tasks:batchCreate", "UNIMPLEMENTED"),
        ("PATCH", f"{LOCATION}/cmekConfig", "UNIMPLEMENTED"),
    ],
)
def test_a_url_of_no_method_is_not_found_or_unimplemented(
    call: RestApi, verb: str, path: str, code: str
) -> None:
    url = f"{verb} /v2beta2/{path}"
    text = f"no method has {url}: see"
    if code == "UNIMPLEMENTED":
        text = f"{url} is not supported by the emulator$"
    with refused(code, text):
        call.send(verb, path)


@pytest.mark.parametrize("path", ["/batch", "/batch/cloudtasks/v2beta2"])
def test_a_batch_calls_the_service_for_each_part(client: Client, path: str) -> None:
    """Its parts are calls of the service, and errors have the envelope of this API."""
    parts = [
        f'POST /v2beta2/{PULL}/tasks HTTP/1.1\r\n\r\n{{"task": {{}}}}',
        f"GET /v2beta2/{PULL}/tasks/missing HTTP/1.1\r\n\r\n",
        "POST /api/queue/update?appId=app HTTP/1.1\r\n\r\nqueue: []",
    ]
    head = "--sep\r\nContent-Type: application/http\r\nContent-ID: one\r\n\r\n"
    body = "".join(f"{head}{part}\r\n" for part in parts) + "--sep--"
    response = client.post(path, data=body, content_type="multipart/mixed; boundary=sep").text

    assert re.findall(r"HTTP/1.1 (\d+)", response) == ["200", "404", "200"]
    assert '"status": "NOT_FOUND"' in response
    assert response.count("Content-ID: response-one\r\n") == 3


@pytest.fixture
def _without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("servicer", "discovery"):
        monkeypatch.setitem(sys.modules, f"pullqueue.cloudtasks.{name}", None)


@pytest.mark.usefixtures("_without_extra")
@pytest.mark.parametrize("path", [f"/v2beta2/{PULL}", "/$discovery/rest?version=v2"])
def test_without_the_extra_calls_report_what_to_install(client: Client, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 501
    needed = f"Cloud Tasks needs an extra: {install_command('cloudtasks')}"
    assert answer.get_json()["error"]["message"].startswith(needed)


@pytest.mark.usefixtures("_without_extra")
def test_without_the_extra_a_server_with_grpc_does_not_start(emulator: Emulator) -> None:
    with pytest.raises(PullQueueError, match="Cloud Tasks needs an extra"):
        Server(emulator, grpc_port=0).start()


@each_row(
    ("fraction", "shown"),
    [("", ""), (".5", ".5"), (".690", ".69"), (".000001", ".000001"), (".120300", ".1203")],
)
def test_a_time_is_written_as_production_writes_it(fraction: str, shown: str) -> None:
    """In California, without zeros at the end of the fraction."""
    winter = datetime.fromisoformat(f"2025-02-13T06:20:41{fraction}+00:00")

    assert texts.format_time(winter) == f"2025-02-12T22:20:41{shown}-08:00"
