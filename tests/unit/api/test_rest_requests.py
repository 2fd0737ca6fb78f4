"""What a request may look like: verbs, parameters, bodies, headers, and what is refused."""

from __future__ import annotations

import gzip
import json
import logging
from typing import Any

import pytest
from rest_app import ROOT, Call, refusal
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator

FORM = "application/x-www-form-urlencoded"
TASK = '{"payloadBase64": "aGk=", "id": "one"}'
INCOMPLETE = (
    "the body is not JSON: "
    r"it is cut off, or its last text has half of a surrogate pair, such as \ud800"
)
ZIPPED = gzip.compress(TASK.encode(), mtime=0)  # in names of tests, which workers compare


class TestBodies:
    @each_row(
        ("content_type", "charset"),
        [
            (None, "utf-8"),
            ("application/json", "utf-8-sig"),
            ("application/json; charset=UTF-8", "utf-8"),
            ("application/json;charset=utf-16", "utf-16"),
            ("application/json; charset=iso-8859-1", "iso-8859-1"),
            ("text/plain", "utf-8"),
            (FORM, "utf-8"),
        ],
    )
    def test_a_json_body_is_accepted_in_any_charset_and_content_type(
        self, call: Call, content_type: str | None, charset: str
    ) -> None:
        body = '{"payloadBase64": "", "tag": "é"}'.encode(charset)
        response = call("POST", "pull/tasks", data=body, content_type=content_type)

        assert response.get_json()["tag"] == "é"

    @each_row(
        ("body", "content_type"),
        [
            (b"{", None),
            (b"nothing", "application/json"),
            (b"payloadBase64=aGk", FORM),
            (b"\xff\xfe{}", "application/json"),
            (b'{"payloadBase64": "\xe4"}', "application/json"),
            (b"[" * 100_000, "application/json"),
            (b'{"a":' * 100_000, "application/json"),
            (b'{"retry_count": ' + b"9" * 5_000 + b"}", "application/json"),
            (b'{"payloadBase64": "", "retry_count": NaN}', "application/json"),
            (b'{"payloadBase64": "", "retry_count": -Infinity}', "application/json"),
            (b'{"payloadBase64": "", "retry_count": 1e999}', "application/json"),
            (TASK.encode(), "application/json; charset=rot13"),
            (TASK.encode(), "application/json; charset=zlib"),
            (TASK.encode(), "application/json; charset=no-such"),
        ],
    )
    def test_a_body_that_is_not_json_is_a_parse_error(
        self, call: Call, body: bytes, content_type: str | None, emulator: Emulator
    ) -> None:
        response = call("POST", "pull/tasks", data=body, content_type=content_type)

        assert refusal(response) == (400, "parseError", "Parse Error")
        assert emulator.queue("pull").list_tasks() == []

    @pytest.mark.parametrize("body", ["[]", "5", '"text"', "null", "[1, 2]"])
    def test_a_body_that_is_not_an_object_is_refused(self, call: Call, body: str) -> None:
        response = call("POST", "pull/tasks", data=body, content_type="application/json")

        assert refusal(response) == (400, "invalid", "The request body must contain a task.")

    @pytest.mark.parametrize("value", ['"\\ud800"', '"a\\u0000b"'])
    def test_a_tag_without_a_utf8_form_is_refused(self, call: Call, value: str) -> None:
        body = f'{{"payloadBase64": "", "tag": {value}}}'

        response = call("POST", "pull/tasks", data=body, content_type="application/json")

        assert response.status_code == (400 if "ud800" in value else 200)


class TestParameters:
    LEASE = "numTasks=5&leaseSecs=60&groupByTag=True&tag=r%C3%A9d"

    @pytest.mark.parametrize(
        "options",
        [
            {"query_string": LEASE},
            {"data": LEASE, "content_type": FORM},
            {"query_string": LEASE, "data": "", "content_type": FORM},
            {"query_string": LEASE, "data": "{}", "content_type": "application/json"},
            {"query_string": LEASE, "data": "", "content_type": "application/json"},
            {"query_string": f"{LEASE}&numTasks=5&unknown=1&key=k&quotaUser=u&userIp=1.2.3.4"},
            {"query_string": f"{LEASE}&alt=json"},
        ],
    )
    def test_parameters_may_be_in_the_query_or_a_form(
        self, call: Call, options: dict[str, Any], emulator: Emulator
    ) -> None:
        """Where parameters stand does not matter, nor one that is repeated or unknown."""
        emulator.queue("pull").add(b"", tag="réd")

        response = call("POST", "pull/tasks/lease", **options)

        assert len(response.get_json()["items"]) == 1

    @pytest.mark.parametrize("query", ["tag=%FF", "tag=\xe9", "&".join(["a=1"] * 1001)])
    def test_parameters_that_are_not_utf8_or_too_many_are_refused(
        self, client: Client, query: str
    ) -> None:
        environ = {"QUERY_STRING": query}
        response = client.get(f"{ROOT}/pull", environ_overrides=environ)

        assert refusal(response)[:2] == (400, "badRequest")
        assert client.get(f"{ROOT}/pull?{'&'.join(['a=1'] * 1000)}").status_code == 200

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("alt=media", "Invalid string value: 'media'. Allowed values: [json]"),
            ("alt=", "Invalid string value: ''. Allowed values: [json]"),
            (
                "callback=f",
                "callback is not supported: responses are JSON, never a script; leave it out",
            ),
            ("prettyPrint=2", "Invalid boolean value: '2'."),
            ("getStats=odd", "Invalid boolean value: 'odd'."),
        ],
    )
    def test_common_parameters_that_are_not_valid_are_refused(
        self, call: Call, query: str, message: str
    ) -> None:
        refused = refusal(call("GET", "pull", query_string=query))
        assert refused == (400, "invalidParameter", message)

    def test_answers_are_indented_unless_asked_otherwise(self, call: Call) -> None:
        pretty = call("GET", "pull?prettyPrint=true").text
        compact = call("GET", "pull?prettyPrint=false").text

        assert pretty == call("GET", "pull").text
        assert pretty.startswith('{\n "kind": "taskqueues#taskqueue",\n')
        assert compact == json.dumps(json.loads(pretty), separators=(",", ":"))


class TestVerbs:
    @pytest.mark.parametrize("path", ["pull/tasks", "pull/tasks/"])
    def test_a_slash_at_the_end_changes_nothing(self, call: Call, path: str) -> None:
        assert call("POST", path, data=TASK).get_json()["id"] == "one"
        assert call("GET", path).status_code == 200

    def test_a_post_can_represent_another_verb(self, call: Call, emulator: Emulator) -> None:
        emulator.queue("pull").add(b"", name="one")
        emulator.queue("pull").lease_tasks(60, 1)

        def post(path: str, verb: str, data: str) -> Any:
            headers = {"X-HTTP-Method-Override": verb}
            return call("POST", path, data=data, content_type=FORM, headers=headers)

        listed = post("pull/tasks", "GET", "fields=items/id&alt=json")
        patched = post("pull/tasks/one?newLeaseSeconds=5", "PATCH", '{"queueName": "pull"}')
        deleted = post("pull/tasks/one", "delete", "")

        assert listed.get_json() == {"items": [{"id": "one"}]}
        assert (patched.status_code, deleted.status_code) == (200, 204)

    @pytest.mark.parametrize("verb", ["NONSENSE", "PUT"])
    def test_an_override_by_an_unknown_verb_is_405(self, call: Call, verb: str) -> None:
        response = call("POST", "pull/tasks", headers={"X-HTTP-Method-Override": verb})

        assert refusal(response) == (405, "httpMethodNotAllowed", "Method Not Allowed")
        assert response.headers["Allow"] == "GET, HEAD, OPTIONS, POST"

    def test_head_is_get_without_the_body_unless_a_post_represents_it(self, call: Call) -> None:
        """Only a POST can represent another verb."""
        override = {"X-HTTP-Method-Override": "HEAD"}
        head, get = call("HEAD", "pull"), call("GET", "pull", headers=override)
        posted = call("POST", "pull", headers=override)

        assert (head.status_code, head.data) == (200, b"")
        assert head.headers["Content-Length"] == str(len(get.data))
        assert posted.data == get.data

    def test_options_returns_the_methods_of_a_path(self, call: Call) -> None:
        response = call("OPTIONS", "pull/tasks/one")

        assert (response.status_code, response.data) == (200, b"")
        allowed = response.headers["Allow"].split(", ")
        assert sorted(allowed) == ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST"]

    def test_a_task_called_lease_can_be_used_but_not_updated(self, call: Call) -> None:
        call("POST", "pull/tasks", json={"payloadBase64": "", "id": "lease"})

        leased = call("POST", "pull/tasks/lease?numTasks=1&leaseSecs=60").get_json()
        got = call("GET", "pull/tasks/lease")
        patched = call("PATCH", "pull/tasks/lease?newLeaseSeconds=5", json={"queueName": "pull"})
        deleted = call("DELETE", "pull/tasks/lease")

        assert leased["kind"] == "taskqueue#tasks"
        assert [got.status_code, patched.status_code, deleted.status_code] == [200, 200, 204]


class TestGzip:
    @pytest.mark.parametrize(
        ("agent", "encoding", "sent"),
        [
            ("google-api-python-client/1.6.2 (gzip)", "gzip, deflate", "gzip"),
            ("curl/8", "gzip", None),
            ("curl/8 gzip", "identity", None),
            ("curl/8 gzip", "gzip;q=0, identity", None),
            ("curl/8 gzip", None, None),
        ],
    )
    def test_an_answer_is_zipped_if_both_headers_ask_for_it(
        self, call: Call, agent: str, encoding: str | None, sent: str | None
    ) -> None:
        headers = {"User-Agent": agent} | ({"Accept-Encoding": encoding} if encoding else {})
        response = call("GET", "pull", headers=headers)

        assert response.headers.get("Content-Encoding") == sent
        data = gzip.decompress(response.data) if sent else response.data
        assert json.loads(data)["id"] == "projects/s~app/taskqueues/pull"

    @pytest.mark.parametrize("content_type", [FORM, "application/json", None])
    def test_a_zipped_body_without_its_header_is_refused(
        self, call: Call, content_type: str | None
    ) -> None:
        """Its sender learns what is missing."""
        response = call("POST", "pull/tasks", data=ZIPPED, content_type=content_type)

        (detail,) = response.get_json()["error"]["details"]
        assert "the body is gzip: send Content-Encoding: gzip with it" in detail["message"]

    @pytest.mark.parametrize(
        ("coding", "data"),
        [("gzip", ZIPPED), ("GZip", ZIPPED), ("x-gzip", ZIPPED), ("identity", TASK)],
    )
    def test_a_zipped_body_is_unzipped(self, call: Call, coding: str, data: bytes | str) -> None:
        headers = {"Content-Encoding": coding}
        response = call("POST", "pull/tasks", data=data, headers=headers)

        assert response.get_json()["id"] == "one"
        empty = gzip.compress(b"") if "z" in coding.lower() else b""
        path = "pull/tasks/lease?numTasks=1&leaseSecs=60"
        assert call("POST", path, data=empty, headers=headers).status_code == 200

    @pytest.mark.parametrize(
        ("body", "coding", "status", "message"),
        [
            (TASK.encode(), "gzip", 400, "the body cannot be unzipped, as its Content-Encoding"),
            (ZIPPED[:-3], "gzip", 400, "the body cannot be unzipped"),
            (ZIPPED[:20] + bytes(9), "gzip", 400, "the body cannot be"),
            (ZIPPED + b"more", "gzip", 400, "the body cannot be unzipped"),
            (TASK.encode(), "br", 415, 'Content-Encoding is "br": send gzip, or leave it out'),
        ],
        ids=["plain", "cut off", "spoilt", "more behind it", "br"],
    )
    def test_a_body_that_cannot_be_unzipped_is_refused(
        self, call: Call, emulator: Emulator, *, body: bytes, coding: str, status: int, message: str
    ) -> None:
        response = call("POST", "pull/tasks", data=body, headers={"Content-Encoding": coding})

        assert refusal(response)[0] == status
        assert refusal(response)[2].startswith(message)
        assert emulator.queue("pull").list_tasks() == []

    @pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 413)])
    def test_an_unzipped_body_has_a_maximum_size(
        self, call: Call, emulator: Emulator, more: int, status: int
    ) -> None:
        data = TASK.encode().ljust(emulator.limits.rest_body_bytes + more)
        headers = {"Content-Encoding": "gzip"}

        response = call("POST", "pull/tasks", data=gzip.compress(data, 1), headers=headers)

        assert response.status_code == status
        assert (response.status_code == 413) == ("Request payload size" in response.text)
        assert len(emulator.queue("pull").list_tasks()) == 1 - more


class TestRefusals:
    @each_row(
        "path",
        [
            "/taskqueue",
            "/taskqueue/v1beta3/projects/p/taskqueues/q",
            f"{ROOT}/pull/tasks/one/more",
            f"{ROOT}//pull",
            f"{ROOT}/pull/tasks//one",
            "/taskqueue/v1beta2/projects/p/taskqueues",
            "/%00/%FF",
        ],
    )
    def test_an_unknown_route_is_not_found_with_a_hint(self, client: Client, path: str) -> None:
        response = client.get(path)

        assert refusal(response)[:2] == (404, "notFound")
        assert "/_emulator/openapi.json list the routes" in response.text

    @pytest.mark.parametrize("path", ["pull/tasks/a%2Fb", "pull/tasks/%F0%9F", "p%20q/tasks"])
    def test_names_that_no_task_can_have_are_not_found(self, call: Call, path: str) -> None:
        assert refusal(call("GET", path))[0] == 404

    def test_a_fault_of_our_own(
        self, client: Client, emulator: Emulator, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A bug answers 500 in the envelope; what it was is in the log alone."""

        def broken() -> None:
            raise ZeroDivisionError("secret detail")

        emulator.queue("pull").fetch_statistics = broken  # type: ignore[method-assign,assignment]
        with caplog.at_level(logging.ERROR):
            response = client.get(f"{ROOT}/pull?getStats=true")

        assert refusal(response) == (500, "internalError", "Internal Error")
        assert "secret" not in response.text
        assert "ZeroDivisionError: secret detail" in caplog.text

    @pytest.mark.parametrize(
        ("method", "path", "body", "details"),
        [
            (
                *("POST", "pull/tasks", '{"payloadBase64": "a+b"}'),
                "payloadBase64 is not URL-safe base64: use only A-Z a-z 0-9 - _",
            ),
            ("POST", "pull/tasks", r'{"tag": "\ud800"}', INCOMPLETE),
            ("POST", "pull/tasks", '{"tag": "red', INCOMPLETE),
            (
                *("POST", "pull/tasks", r'{"tag": "\ud800", "payloadBase64": ""}'),
                "the body is not JSON: unexpected end of escaped utf-16 surrogate pair (byte 15)",
            ),
            (
                *("PATCH", "pull/tasks/one?newLeaseSeconds=5", "{}"),
                'queueName is missing: set it to "pull"',
            ),
        ],
    )
    def test_the_details_of_an_error_say_what_exactly_was_wrong(
        self, call: Call, method: str, path: str, body: str, details: str
    ) -> None:
        response = call(method, path, data=body, content_type="application/json")

        assert response.get_json()["error"]["details"][0]["message"] == details
