"""Cloud Tasks v2beta2 over REST: JSON, query parameters, errors."""

from __future__ import annotations

import re
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from cloudtasks_api import LOCATION, PULL, RestApi
from programs import completed

from pullqueue import Emulator
from pullqueue.error_codes import RPC_CODES
from pullqueue.extras import install_command
from pullqueue.server.lifecycle import Server

LEASE = {"leaseDuration": "60s"}
MASKS = ("color", "name.x", "stats.", ",", "retry__config")
"""They name no field of a queue."""


@pytest.mark.parametrize("text", ["", "  ", "{}"])
def test_a_body_may_be_left_out(rest: RestApi, text: str) -> None:
    """Where nothing is to be said."""
    assert rest.send("POST", f"{PULL}:purge", text.encode())[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        {"lease_duration": "60s", "max_tasks": 1, "response_view": "FULL"},
        {"leaseDuration": "60s", "maxTasks": "1", "responseView": 2, "filter": None},
        {"leaseDuration": "60s", "maxTasks": 1.0, "responseView": "FULL"},
    ],
)
def test_the_json_of_protobuf(rest: RestApi, emulator: Emulator, body: dict[str, Any]) -> None:
    """Names in either case, numbers as text, enums by number, null for what is absent."""
    emulator.queue("pull").add(b"\xff\xfe")

    status, answer = rest.send("POST", f"{PULL}/tasks:lease", body)

    assert status == 200
    assert answer["tasks"][0]["pullMessage"] == {"payload": "//4="}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"leaseDuration": "60"}, "Duration"),
        ({"leaseDuration": 60}, "leaseDuration"),
        ({"leaseDuration": "60s", "maxTasks": "many"}, "maxTasks"),
        ({"leaseDuration": "60s", "maxTasks": 1.5}, "maxTasks"),
        ({"leaseDuration": "60s", "maxTasks": 2**31}, "maxTasks"),
        ({"leaseDuration": "60s", "maxTasks": 10**400}, "maxTasks"),
        ({"leaseDuration": "60s", "responseView": "SOME"}, "responseView"),
        ({"leaseDuration": "60s", "filter": "\ud800"}, "not JSON"),
        ({"leaseDuration": "60s", "filter": ["tag"]}, "filter"),
        ({"leaseDuration": "9" * 5000 + "s"}, "LeaseTasksRequest"),
        ({"leaseDuration": "60s", "tag": "red"}, '"tag"'),
        (b"{", "the body is not JSON: "),
        (b"[]", "the body is JSON, but not an object"),
        (b'{"leaseDuration": NaN}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"leaseDuration":' * 1000, "not JSON"),
    ],
)
def test_a_body_that_is_not_valid(rest: RestApi, body: Any, text: str) -> None:
    """The status is INVALID_ARGUMENT, and the message names the place."""
    status, answer = rest.send("POST", f"{PULL}/tasks:lease", body)

    assert (status, answer["error"]["code"]) == (400, 400)
    assert answer["error"]["status"] == "INVALID_ARGUMENT"
    assert text in answer["error"]["message"]


@pytest.mark.parametrize("payload", ["***", "d29 yaw==", "d29yaw===", "d29yaw==d", "ж"])
@pytest.mark.parametrize("field", ["pullMessage", "pull_message"])
def test_a_payload_that_is_not_base64(
    rest: RestApi, emulator: Emulator, field: str, payload: str
) -> None:
    """Nothing of it is left out."""
    status, answer = rest.send("POST", f"{PULL}/tasks", {"task": {field: {"payload": payload}}})

    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert answer["error"]["message"] == f'payload is "{payload}": it must be base64'
    assert emulator.queue("pull").list_tasks() == []


@pytest.mark.parametrize("payload", ["++//", "--__", "d29yaw==", "d29yaw", ""])
def test_base64(rest: RestApi, emulator: Emulator, payload: str) -> None:
    """Of either alphabet, with or without padding."""
    status, _ = rest.send("POST", f"{PULL}/tasks", {"task": {"pullMessage": {"payload": payload}}})

    assert status == 200
    assert emulator.queue("pull").list_tasks()[0].payload in (b"\xfb\xef\xff", b"work", b"")


@pytest.mark.parametrize("body", [b'{"a":' + b"[" * 100_000, b'{"data": "***"}', b"\xff"])
def test_an_upload_that_is_not_valid(rest: RestApi, body: bytes) -> None:
    """What is not a JSON object with a file is the file."""
    status, answer = rest.send("POST", "api/queue/update?appId=app", body)

    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert answer["error"]["message"].startswith("queue.yaml:1:")


def test_the_field_that_an_error_is_about(rest: RestApi) -> None:
    """It is in the details, as Google's APIs have it."""
    _, answer = rest.send("POST", f"{PULL}/tasks:lease", {})

    assert answer["error"]["details"] == [
        {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [
                {"field": "lease_duration", "description": answer["error"]["message"]}
            ],
        }
    ]


@pytest.mark.parametrize(
    "mask", ["retryConfig,taskTtl", "retry_config,task_ttl", "retryConfig,task_ttl"]
)
@pytest.mark.parametrize("name", ["readMask", "read_mask"])
def test_masks_in_a_query(rest: RestApi, name: str, mask: str) -> None:
    """Both spellings of a field are accepted."""
    status, answer = rest.send("GET", f"{PULL}?{name}={mask}")

    assert (status, set(answer)) == (200, {"name", "retryConfig", "taskTtl"})


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        *(("GET", f"{PULL}?readMask={mask}") for mask in MASKS),
        ("GET", f"{PULL}?pageSize=1"),
        ("GET", f"{PULL}/tasks?pageSize=x"),
        ("GET", f"{PULL}/tasks?responseView=SOME"),
        ("POST", f"{PULL}/tasks:lease?maxTasks=1"),
        ("PATCH", f"{PULL}?queue=x"),
    ],
)
def test_a_query_that_is_not_valid(rest: RestApi, verb: str, path: str) -> None:
    """Unknown parameters and values are refused."""
    status, answer = rest.send(verb, path, LEASE if verb == "POST" else None)

    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("query", ["alt=media", "$alt=proto", "fields=colors", "$fields=tasks/x"])
def test_a_response_that_cannot_be_sent(rest: RestApi, emulator: Emulator, query: str) -> None:
    """It is refused before the call is carried out: no task is leased."""
    emulator.queue("pull").add(b"1")

    status, answer = rest.send("POST", f"{PULL}/tasks:lease?{query}", LEASE)

    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert emulator.queue("pull").fetch_statistics().leased == 0


def test_parameters_of_every_api(rest: RestApi) -> None:
    """They are accepted."""
    enums = "$alt=json;enum-encoding=string"
    for query in ("key=x", "quotaUser=x", "$.xgafv=1", "alt=json", enums, "uploadType="):
        assert rest.send("GET", f"{PULL}?{query}")[1]["state"] == "RUNNING", query


def test_enums_as_numbers(rest: RestApi) -> None:
    """Google's client for Python asks for them."""
    assert rest.send("GET", f"{PULL}?%24alt=json%3Benum-encoding%3Dint")[1]["state"] == 1


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        (
            "name,retryConfig(unlimitedAttempts)",
            {"name": PULL, "retryConfig": {"unlimitedAttempts": True}},
        ),
        ("retryConfig/maxAttempts", {"retryConfig": {}}),
    ],
)
def test_partial_responses(rest: RestApi, fields: str, answer: dict[str, Any]) -> None:
    """`fields` chooses what is returned."""
    assert rest.send("GET", f"{PULL}?fields={fields}")[1] == answer


def test_indented_by_default(server: Server) -> None:
    """As Google's APIs."""
    bodies = []
    for query in ("", "?prettyPrint=false"):
        connection = HTTPConnection(server.host, server.port, timeout=60)
        connection.request("GET", f"/v2beta2/{LOCATION}{query}")
        bodies.append(connection.getresponse().read())
        connection.close()

    assert bodies[0].startswith(b'{\n "name"')
    assert bodies[1].startswith(b'{"name":')


@pytest.mark.parametrize(
    ("verb", "path", "code"),
    [
        ("GET", "", "NOT_FOUND"),
        ("GET", "queues", "NOT_FOUND"),
        ("POST", f"{PULL}:stop", "NOT_FOUND"),
        ("POST", f"{PULL}/tasks/one:finish", "NOT_FOUND"),
        ("PUT", PULL, "NOT_FOUND"),
        ("DELETE", f"{PULL}/tasks", "NOT_FOUND"),
        ("GET", f"{PULL}/tasks/one/two", "NOT_FOUND"),
        ("POST", f"{PULL}/tasks:batchCreate", "UNIMPLEMENTED"),
        ("POST", f"{PULL}/tasks:batchDelete", "UNIMPLEMENTED"),
        ("POST", f"{PULL}/tasks/one:buffer", "UNIMPLEMENTED"),
        ("GET", f"{LOCATION}/cmekConfig", "UNIMPLEMENTED"),
        ("PATCH", f"{LOCATION}/cmekConfig", "UNIMPLEMENTED"),
    ],
)
def test_a_url_of_no_method(rest: RestApi, verb: str, path: str, code: str) -> None:
    """It is not found, or is that of a method that no client library has."""
    status, answer = rest.send(verb, path)

    assert (status, answer["error"]["status"]) == (RPC_CODES[code].http_status, code)


HIDDEN = """
import sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("google", "grpc")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""
WITHOUT_EXTRA = (
    HIDDEN
    + """
from pullqueue import Emulator
from werkzeug.test import Client
from pullqueue.server.app import create_app

client = Client(create_app(Emulator.from_text("queue:\\n- name: pull\\n  mode: pull\\n")))
answer = client.get("/v2beta2/projects/p/locations/l/queues")
print(answer.status_code, answer.json["error"]["message"])
"""
)
SERVED_WITHOUT_EXTRA = (
    HIDDEN
    + """
from pullqueue.cli import main

sys.exit(main(["serve", "queue.yaml", "--port", "0", "--grpc-port", "0"]))
"""
)


def test_without_the_extra() -> None:
    """Everything else works, and the answer says what to install."""
    done = completed([sys.executable, "-c", WITHOUT_EXTRA])

    assert f"501 Cloud Tasks needs an extra: {install_command('cloudtasks')}" in done.stdout


def test_grpc_without_the_extra(tmp_path: Path) -> None:
    """The command says what to install, and serves nothing."""
    (tmp_path / "queue.yaml").write_text("queue:\n- name: pull\n  mode: pull\n")
    done = completed([sys.executable, "-c", SERVED_WITHOUT_EXTRA], cwd=tmp_path)

    assert (done.returncode, done.stdout) == (3, "")
    assert install_command("cloudtasks") in done.stderr


UNUSED = """
import sys
from pullqueue import Emulator
from pullqueue.server.lifecycle import Server

with Server(Emulator.from_text("queue:\\n- name: pull\\n  mode: pull\\n")):
    print([name for name in sys.modules if name.startswith(("google.", "grpc"))])
"""


def test_what_is_not_used_is_not_imported() -> None:
    """A server that nobody asks for Cloud Tasks starts without Google's client."""
    done = completed([sys.executable, "-c", UNUSED])

    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("path", ["/batch", "/batch/cloudtasks/v2beta2"])
def test_a_batch(server: Server, path: str) -> None:
    """Its parts are calls of the service, and errors have the envelope of this API."""
    parts = [
        f'POST /v2beta2/{PULL}/tasks HTTP/1.1\r\n\r\n{{"task": {{}}}}',
        f"GET /v2beta2/{PULL}/tasks/missing HTTP/1.1\r\n\r\n",
        "POST /api/queue/update?appId=app HTTP/1.1\r\n\r\nqueue: []",
    ]
    head = "--sep\r\nContent-Type: application/http\r\nContent-ID: one\r\n\r\n"
    body = "".join(f"{head}{part}\r\n" for part in parts) + "--sep--"
    connection = HTTPConnection(server.host, server.port)
    connection.request("POST", path, body, {"Content-Type": "multipart/mixed; boundary=sep"})
    response = connection.getresponse().read().decode()
    connection.close()

    assert re.findall(r"HTTP/1.1 (\d+)", response) == ["200", "404", "200"]
    assert '"status": "NOT_FOUND"' in response
    assert response.count("Content-ID: response-one\r\n") == 3
