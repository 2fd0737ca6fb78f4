"""pullqueue.api.batch: many calls in one request."""

from __future__ import annotations

import gzip
import json
import sys
from email import message_from_bytes
from email.message import Message
from typing import Any

import pytest
from rest_app import ROOT
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator

MIXED = 'multipart/mixed; boundary="sep"'


def part(request: str, *, identifier: str = "") -> str:
    lines = ["--sep", "Content-Type: application/http"]
    if identifier:
        lines.append(f"Content-ID: {identifier}")
    return "\r\n".join([*lines, "", request, ""])


def send(
    client: Client, *parts: str, path: str = "/batch/taskqueue/v1beta2", zipped: bool = False
) -> list[Message]:
    body = "".join([*parts, "--sep--\r\n"]).encode()
    response = client.post(
        path,
        data=gzip.compress(body) if zipped else body,
        content_type=MIXED,
        headers={"Content-Encoding": "gzip"} if zipped else {},
    )
    assert response.status_code == 200, response.text
    head = f"Content-Type: {response.content_type}\r\n\r\n".encode()
    answers = message_from_bytes(head + response.data).get_payload()
    assert isinstance(answers, list)
    return [each for each in answers if isinstance(each, Message)]


def inner(answer: Message) -> tuple[str, dict[str, Any]]:
    """Return the status line and the JSON of one answer."""
    payload = answer.get_payload(decode=True)
    assert isinstance(payload, bytes)
    head, _, body = payload.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode(), json.loads(body) if body.strip() else {}


@pytest.mark.parametrize(
    "path", ["/batch", "/batch/taskqueue/v1beta2", "/batch/taskqueue/v1beta1", "/batch/"]
)
def test_calls_are_answered_in_order(client: Client, emulator: Emulator, path: str) -> None:
    """Each part is a call of its own, answered in its place, whatever becomes of the others."""
    body = '{"payloadBase64": "aGk=", "id": "one"}'
    answers = send(
        client,
        part(
            f"POST {ROOT}/pull/tasks HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{body}",
            identifier="<abc + 1>",
        ),
        part(f"GET {ROOT}/pull/tasks?fields=items/id HTTP/1.1\r\n\r\n", identifier="<abc + 2>"),
        part(f"DELETE {ROOT}/pull/tasks/never HTTP/1.1\r\n\r\n", identifier="x"),
        part(f"DELETE {ROOT}/pull/tasks/one\n\n"),
        path=path,
    )

    assert [(answer["Content-ID"], inner(answer)[0]) for answer in answers] == [
        ("<response-abc + 1>", "HTTP/1.1 200 OK"),
        ("<response-abc + 2>", "HTTP/1.1 200 OK"),
        ("response-x", "HTTP/1.1 400 Bad Request"),
        (None, "HTTP/1.1 204 No Content"),
    ]
    assert b"\r\nContent-Length: 0\r\n\r\n" in (answers[3].get_payload(decode=True) or b"")
    assert "\r\nContent-Type:" not in str(answers[3].get_payload())
    assert inner(answers[1])[1] == {"items": [{"id": "one"}]}
    assert inner(answers[2])[1]["error"]["message"] == "The task name is invalid."
    assert emulator.queue("pull").list_tasks() == []


def test_a_part_has_headers_of_its_own_and_is_never_zipped(client: Client) -> None:
    request = (
        f"POST http://www.googleapis.com{ROOT}/pull HTTP/1.1\r\nX-HTTP-Method-Override: GET\r\n"
        "User-Agent: x (gzip)\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    (answer,) = send(client, part(request))

    assert inner(answer)[1]["id"] == "projects/s~app/taskqueues/pull"


def test_a_batch_can_be_zipped_but_not_its_parts(client: Client) -> None:
    request = f"POST {ROOT}/pull/tasks HTTP/1.1\r\nContent-Encoding: gzip\r\n\r\n"

    (answer,) = send(client, part(f'{request}{{"payloadBase64": ""}}'), zipped=True)

    assert inner(answer)[0] == "HTTP/1.1 200 OK"


@each_row(
    ("request_text", "status"),
    [
        ("GET /batch HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
        ("POST /_emulator/clock HTTP/1.1\r\n\r\n{}", "HTTP/1.1 404 Not Found"),
        ("GET /taskqueue/nothing HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
        ("nonsense", "HTTP/1.1 400 Bad Request"),
        ("", "HTTP/1.1 400 Bad Request"),
        ("GET http://[bad HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"),
    ],
)
def test_a_part_that_is_not_a_call_is_refused_in_its_place(
    client: Client, request_text: str, status: str
) -> None:
    (answer,) = send(client, part(request_text))

    line, body = inner(answer)
    assert line == status
    assert body["error"]["errors"][0]["domain"] == "global"


def test_a_multipart_within_a_multipart_is_refused_in_its_place(client: Client) -> None:
    head = "--sep\r\nContent-Type: multipart/mixed; boundary=in\r\n\r\n"
    (answer,) = send(client, f"{head}--in\r\n\r\nx\r\n--in--\r\n")

    assert inner(answer)[0] == "HTTP/1.1 400 Bad Request"


def test_a_batch_has_at_most_a_thousand_calls(client: Client, emulator: Emulator) -> None:
    assert len(send(client, *[part("nonsense")] * 1000)) == 1000

    call = part(f'POST {ROOT}/pull/tasks HTTP/1.1\r\n\r\n{{"payloadBase64": ""}}')
    response = client.post("/batch", data=call * 1001, content_type=MIXED)

    assert response.status_code == 400
    assert "more than 1000 calls in one batch" in response.text
    assert emulator.queue("pull").list_tasks() == []


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("multipart/mixed", "--sep--"),
        ("multipart/mixed; boundary=sep", ""),
        ("multipart/mixed; boundary=other", "--sep\r\n\r\n--sep--"),
        ("application/json", "{}"),
        ("", "x"),
    ],
)
def test_a_batch_without_parts_is_refused_whole(
    client: Client, content_type: str, data: str
) -> None:
    response = client.post("/batch", data=data, content_type=content_type)

    assert response.status_code == 400
    assert response.get_json()["error"]["message"] == "Failed to parse batch request."


def test_a_batch_nested_deeper_than_can_be_read_is_refused(client: Client) -> None:
    head = "Content-Type: multipart/mixed; boundary={0}\r\n\r\n--{0}\r\n"
    body = "--sep\r\n" + "".join(head.format(f"b{number}") for number in range(400))
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(400)  # the time to read it grows with the square of its depth
    try:
        response = client.post("/batch", data=body, content_type=MIXED)
    finally:
        sys.setrecursionlimit(usual)

    assert response.status_code == 400
    assert "too deep" in response.text


def test_a_response_that_would_be_too_large(client: Client, emulator: Emulator) -> None:
    """Calls after the limit of the response are refused, and not carried out."""
    emulator.queue("pull").add(b"x" * 2**20, name="big")
    get = part(f"GET {ROOT}/pull/tasks/big HTTP/1.1\r\n\r\n")
    delete = part(f"DELETE {ROOT}/pull/tasks/big HTTP/1.1\r\n\r\n")

    response = client.post("/batch", data=get * 50 + delete, content_type=MIXED)

    assert response.data.count(b"HTTP/1.1 200 OK") < 50
    assert response.data.count(b"HTTP/1.1 204 No Content") == 0
    assert b"HTTP/1.1 403 Forbidden" in response.data
    assert b'"reason": "responseTooLarge"' in response.data
    assert len(response.data) < 70 * 2**20


@pytest.mark.parametrize("before", ["", "\r\n"], ids=["of the part", "of its call"])
@pytest.mark.parametrize(("size", "is_refused"), [(65_536, False), (65_537, True)])
def test_headers_have_a_maximum_size(
    client: Client, *, before: str, size: int, is_refused: bool
) -> None:
    """The headers of a part, and of the call in it, have a limit, as those of a request have."""
    part = before + "GET /x HTTP/1.1\r\nX: ".ljust(size, "x")
    response = client.post("/batch", data=f"--sep\r\n{part}\r\n--sep--", content_type=MIXED)

    assert ("the headers of a part exceed 65536 bytes" in response.text) == is_refused


def test_more_parts_than_are_parsed(client: Client) -> None:
    """A body of nothing but boundaries is refused before its parts are parsed."""
    data = b"--sep\r\n" * (2**24 // 7 - 1)

    response = client.post("/batch", data=data, content_type=MIXED)

    assert response.status_code == 400
    assert "more than 1000 calls" in response.text
