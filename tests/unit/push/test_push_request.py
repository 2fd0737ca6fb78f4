"""The request of an attempt: its headers, and what a user cannot set."""

from __future__ import annotations

import pytest
from tables import each_row

from pullqueue.config.model import HttpTarget, QueueSettings
from pullqueue.push.http_target import describe_target
from pullqueue.push.request import (
    PushRequest,
    PushResponse,
    Send,
    list_targets,
    push_request,
    send_following,
)
from pullqueue.tasks import AttemptRecord, HttpRequest, RequestToken, Task

SETTINGS = QueueSettings(name="web")
SECOND = 1_000_000
URL = "https://api.example.com/work"
AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"


def headers_of(
    request: HttpRequest,
    attempts: AttemptRecord | None = None,
    *,
    retry_count: int = 1,
    payload: bytes = b"",
) -> dict[str, str]:
    attempts = attempts or AttemptRecord(schedule_usec=1_767_225_600_000_042)
    task = Task(0, 1, retry_count, "t1", "web", payload, None, 0, 5, request, attempts)
    return push_request(task, SETTINGS).headers


def service_headers(headers: dict[str, str], prefix: str) -> dict[str, str]:
    """Return the headers with a prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in headers.items() if k.startswith(prefix)}


FIRST = {
    "QueueName": "web",
    "TaskName": "t1",
    "TaskRetryCount": "0",
    "TaskExecutionCount": "0",
    "TaskETA": "1767225600.000042",
}
FRONT_END = {
    "User-IP": "0.1.0.2",
    "Request-Log-Id": "9ea2b21d",
    "Country": "ZZ",
    "Https": "off",
    "Timeout-Ms": "600000",
}


def test_the_first_attempt_has_the_headers_of_app_engine() -> None:
    headers = headers_of(HttpRequest("/mail"))

    assert service_headers(headers, "X-AppEngine-") == {**FIRST, **FRONT_END}
    assert headers["User-Agent"] == AGENT
    assert headers["X-Google-Internal-SkipAdminCheck"] == "true"
    assert len(headers) == len(FIRST) + len(FRONT_END) + 3


def test_the_first_attempt_at_an_http_target_has_headers_of_cloud_tasks() -> None:
    headers = dict(headers_of(HttpRequest(URL)))

    assert service_headers(headers, "X-CloudTasks-") == FIRST
    assert headers["User-Agent"] == "Google-Cloud-Tasks"
    assert headers["Host"] == "api.example.com"
    assert len(headers) == len(FIRST) + 3


@each_row(
    ("target", "app_host", "host"),
    [
        (None, "guestbook.appspot.com", "guestbook.appspot.com"),
        ("v1.worker", "guestbook.appspot.com", "v1.worker.guestbook.appspot.com"),
        ("worker", None, None),
    ],
)
def test_the_host_is_the_target_before_that_of_the_app(
    target: str | None, app_host: str | None, host: str | None
) -> None:
    """If that is known."""
    task = Task(0, 1, 1, "t1", "web", b"", None, 0, 5, HttpRequest("/mail", target=target))

    headers = dict(push_request(task, SETTINGS, app_host=app_host).headers)
    assert headers.get("Host") == host


def test_the_length_of_a_body_is_among_the_headers() -> None:
    """Also of an empty body where there may be one."""
    assert dict(headers_of(HttpRequest("/mail"), payload=b"abc"))["Content-Length"] == "3"
    assert dict(headers_of(HttpRequest("/mail")))["Content-Length"] == "0"
    assert "Content-Length" not in headers_of(HttpRequest("/mail", "GET"))


def test_headers_are_found_without_regard_to_case() -> None:
    headers = headers_of(
        HttpRequest("/mail", headers=(("content-type", "text/plain"), ("X-A", "")))
    )

    assert headers["Content-Type"] == headers.get("CONTENT-TYPE") == headers["content-type"]
    assert headers["x-appengine-queuename"] == "web"
    assert "x-a" in headers
    assert "X-B" not in headers
    assert (headers.get("X-B"), headers.get("X-B", "b")) == (None, "b")
    with pytest.raises(KeyError, match="X-B"):
        headers["X-B"]
    assert list(headers)[:2] == ["content-type", "X-A"]


def test_a_token_replaces_the_header_of_the_user() -> None:
    """In whatever case the name is."""
    request = HttpRequest(URL, headers=(("authorization", "mine"), ("X-A", "1")))
    task = Task(0, 1, 1, "t1", "web", b"", None, 0, 5, request)

    headers = push_request(task, SETTINGS, authorization="Bearer a").headers

    others = push_request(
        task._replace(request=HttpRequest(URL, headers=(("X-A", "1"),))), SETTINGS
    ).headers
    assert headers == {**others, "Authorization": "Bearer a"}


@each_row(
    ("method", "target", "body"),
    [
        ("GET", None, b"x"),
        ("POST", HttpTarget(host="a.example"), b"x"),
        ("POST", HttpTarget(method="GET"), b""),
        ("GET", HttpTarget(host="a.example"), b""),
    ],
)
def test_a_queue_that_overrides_the_method_leaves_out_the_body(
    method: str, target: HttpTarget | None, body: bytes
) -> None:
    task = Task(0, 1, 1, "t1", "web", b"x", None, 0, 5, HttpRequest(URL, method))

    request = push_request(task, QueueSettings(name="web", http_target=target))

    assert request.body == body
    assert request.headers.get("Content-Length") == ("1" if body else None)


@each_row(
    ("url", "status", "response", "reason"),
    [
        ("/mail", 503, "503", "App Error"),
        ("/mail", 302, "302", "App Error"),
        ("/mail", 0, "0", "Instance Unavailable"),
        (URL, 503, "503", ""),
        (URL, 302, "302", ""),
        (URL, 0, "504", ""),
    ],
)
def test_later_attempts_send_the_previous_response_and_reason(
    url: str, status: int, response: str, reason: str
) -> None:
    attempts = AttemptRecord(finished=1, executions=1, schedule_usec=5 * SECOND, status=status)
    prefix = "X-AppEngine-" if url == "/mail" else "X-CloudTasks-"

    found = service_headers(headers_of(HttpRequest(url), attempts, retry_count=2), prefix)

    for name in FRONT_END:
        found.pop(name, None)
    assert found == {
        **FIRST,
        "TaskRetryCount": "1",
        "TaskExecutionCount": "1",
        "TaskETA": "5.000000",
        "TaskPreviousResponse": response,
        "TaskRetryReason": reason,
    }


def test_an_attempt_that_a_crash_ended_is_a_retry_without_a_response() -> None:
    attempts = AttemptRecord(finished=1, responses=1, executions=1, status=500)

    headers = headers_of(HttpRequest("/mail"), attempts, retry_count=3)

    assert headers["X-AppEngine-TaskRetryCount"] == "2"
    assert headers["X-AppEngine-TaskExecutionCount"] == "1"
    assert headers["X-AppEngine-TaskPreviousResponse"] == "0"
    assert headers["X-AppEngine-TaskRetryReason"] == "Instance Unavailable"


@each_row(
    "name",
    [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "X-Google-Anything",
        "x-appengine-taskname",
        "X-AppEngine-TaskPreviousResponse",
        "X-AppEngine-User-IP",
        "X-AppEngine-Request-Log-Id",
        "X-AppEngine-Country",
        "X_AppEngine_QueueName",
        "x-appengine_TaskName",
        "X-CloudTasks-TaskName",
        "X_CloudTasks_Mine",
        "Transfer_Encoding",
    ],
)
@each_row("url", ["/mail", URL])
def test_headers_that_users_cannot_set_are_dropped(url: str, name: str) -> None:
    others = (("X-A", "1"),)
    forged = headers_of(HttpRequest(url, headers=((name, "forged"), *others)))

    assert forged == headers_of(HttpRequest(url, headers=others))


def test_what_the_sdk_sets_is_passed_on() -> None:
    """Namespaces and FailFast reach the app, also with an empty value; not an HTTP target."""
    prefixes = ("X-AppEngine-Current-Namespace", "x-appengine-default-namespace")
    given = tuple((name, "") for name in (*prefixes, "X-AppEngine-FailFast"))

    assert dict(given).items() <= headers_of(HttpRequest("/mail", headers=given)).items()
    assert not dict(given).keys() & headers_of(HttpRequest(URL, headers=given)).keys()


@pytest.mark.parametrize(
    ("url", "expected"), [("/mail", f"mine/1.0 {AGENT}"), (URL, "Google-Cloud-Tasks")]
)
def test_app_engine_appends_its_user_agent(url: str, expected: str) -> None:
    """Cloud Tasks replaces the user's."""
    headers = headers_of(HttpRequest(url, headers=(("user-agent", "mine/1.0"),)))

    agents = {k: v for k, v in headers.items() if k.lower() == "user-agent"}
    assert agents == {"User-Agent": expected}


@each_row(
    ("given", "payload", "expected"),
    [
        ((), b"", None),
        ((), b"x", ("Content-Type", "application/octet-stream")),
        ((("content-type", "text/csv"),), b"x", ("content-type", "text/csv")),
        ((("Content-Type", "text/csv"),), b"", ("Content-Type", "text/csv")),
    ],
)
def test_a_body_without_a_type_has_the_default(
    given: tuple[tuple[str, str], ...], payload: bytes, expected: tuple[str, str] | None
) -> None:
    """The user's may be in lower case."""
    headers = headers_of(HttpRequest("/mail", headers=given), payload=payload)

    found = [item for item in headers.items() if item[0].lower() == "content-type"]
    assert found == ([] if expected is None else [expected])


def test_the_values_of_a_header_that_is_given_twice_are_joined() -> None:
    given = (("X-A", "1"), ("x-a", "2"), ("Cookie", "a=1"), ("Cookie", "b=2"))

    headers = headers_of(HttpRequest("/mail", headers=given))

    assert (headers["X-A"], headers["Cookie"]) == ("1, 2", "a=1; b=2")
    assert "x-a" not in list(headers)


@each_row(
    ("url", "queue_target", "task_target", "expected"),
    [
        ("/mail", None, None, None),
        ("/mail", None, "w", "w"),
        ("/mail", "q", None, "q"),
        ("/mail", "q", "w", "q"),
        (URL, "worker", None, "https://api.example.com"),
    ],
)
def test_the_target_is_that_of_the_queue_before_that_of_the_task(
    url: str, queue_target: str | None, task_target: str | None, expected: str | None
) -> None:
    """Of an HTTP task it is the origin of its URL."""
    stored = HttpRequest(url, "PUT", target=task_target, deadline_seconds=30)
    task = Task(0, 1, 2, "t1", "web", b"x", None, 0, 5, stored)

    request = push_request(task, QueueSettings(name="web", target=queue_target))

    assert request.target == expected
    assert (request.method, request.url, request.body) == ("PUT", url, b"x")
    assert (request.queue_name, request.task_name, request.attempt) == ("web", "t1", 2)
    assert request.deadline_seconds == 30


@each_row(
    ("target", "names"),
    [
        (None, (None,)),
        ("worker", ("worker", "worker")),
        ("0.v1.worker", ("0.v1.worker", "worker")),
        (URL, (URL,)),
    ],
)
def test_a_version_is_of_its_service_and_an_origin_of_none(
    target: str | None, names: tuple[str | None, ...]
) -> None:
    assert list_targets(target) == names


@each_row(
    ("url", "expected"),
    [
        ("/mail", "/mail"),
        ("/go?to=http://a.example#part", "/go?to=http://a.example"),
        ("https://a.example", "/"),
        ("https://a.example?x=1", "/?x=1"),
        ("https://a.example/%zz/ä b?q=ü", "/%zz/%C3%A4%20b?q=%C3%BC"),
    ],
)
def test_a_path_keeps_its_query_and_no_fragment(url: str, expected: str) -> None:
    """What no URL may have is quoted."""
    task = Task(0, 1, 1, "t", "web", b"", None, 0, 5, HttpRequest(url))

    assert push_request(task, SETTINGS).path == expected


@each_row(
    ("body", "summary"),
    [
        (b"", None),
        (b" \n\t", None),
        (b"template 'xmas' not found\nTraceback", "template 'xmas' not found"),
        (b'\n {"error": "busy"}', "busy"),
        (b"5", "5"),
        (b'{\n  "error": {"code": 5, "message": "order 17 is gone"}\n}', "order 17 is gone"),
        (b'{"detail": "no\\ud800"}', r"no\ud800"),
        (b'{"error": 5}', '{"error": 5}'),
        (b'{"error": {"detail": []}}', '{"error": {"detail": []}}'),
        (b'{"error": "cut', '{"error": "cut'),
        (b"{" * 4096, "{" * 197 + "..."),
        (b"\x1b[31mred\x00", r"\x1b[31mred\x00"),
        (b"caf\xe9 \xc3\xa9", "caf\N{REPLACEMENT CHARACTER} \N{LATIN SMALL LETTER E WITH ACUTE}"),
        (b"x" * 4096, "x" * 197 + "..."),
        (
            b"<!DOCTYPE html>\n<html>\n<head><title>\n  KeyError at /mail: &#x27;a&#x27;\n</title>",
            "KeyError at /mail: 'a'",
        ),
        (b"<html><body><h1>Busy</h1>", "<html><body><h1>Busy</h1>"),
        (b"<!doctype html><title></title>", None),
    ],
)
def test_the_summary_of_a_response_is_one_printable_line(body: bytes, summary: str | None) -> None:
    """Of a page of HTML its title, of JSON its message, with at most 200 characters."""
    assert PushResponse(500, body).summary == summary


def test_the_summary_says_why_there_is_no_response() -> None:
    """Also in one line; or which exception the handler has raised."""
    response = PushResponse(None, reason="connection lost: a\nb")

    assert response.summary == r"connection lost: a\nb"
    assert PushResponse(500, b"a page", error=KeyError("a")).summary == "KeyError: 'a'"
    assert PushResponse(500, error=KeyError()).summary == "KeyError"
    assert PushResponse(None, reason="late", error=KeyError("a")).summary == "late"
    assert PushResponse(None).summary is None


class TestRedirects:
    """What follows the response of an HTTP target that sends elsewhere."""

    def follow(
        self,
        *responses: PushResponse,
        url: str = URL,
        unknown: str = "",
        method: str = "POST",
        deadline_seconds: float = 600,
    ) -> tuple[PushResponse, list[PushRequest]]:
        """Send a task, and return its response and the requests that were sent."""
        token = (("Authorization", "Bearer secret"), ("Content-Type", "text/plain"))
        request = HttpRequest(url, method, headers=token, deadline_seconds=deadline_seconds)
        task = Task(0, 1, 1, "t1", "web", b"x" if method == "POST" else b"", None, 0, 5, request)
        sent: list[PushRequest] = []

        def send(request: PushRequest) -> PushResponse:
            sent.append(request)
            return responses[len(sent) - 1]

        def find(request: PushRequest) -> Send | None:
            return None if unknown and unknown in request.url else send

        return send_following(push_request(task, SETTINGS), find), sent

    @each_row("status", [301, 302, 303])
    def test_most_become_a_get_with_what_is_left_of_the_deadline(self, status: int) -> None:
        """Without the body, and what belongs to it."""
        moved = PushResponse(status, location="/there?x=1")

        response, [_, second] = self.follow(moved, PushResponse(204))
        _, [_, late] = self.follow(moved, PushResponse(204), deadline_seconds=0)

        assert response.status == 204
        assert 0 < second.deadline_seconds <= 600
        assert late.deadline_seconds == 0
        assert (second.method, second.body) == ("GET", b"")
        assert second.url == "https://api.example.com/there?x=1"
        assert {"Content-Length", "Content-Type"}.isdisjoint(second.headers)
        assert second.headers["authorization"] == "Bearer secret"
        assert second.headers["X-CloudTasks-TaskName"] == "t1"
        away = PushResponse(status, location="http://other.example:81/there")
        _, [_, other] = self.follow(away, PushResponse(204))
        assert {"Authorization", "Content-Length", "Content-Type"}.isdisjoint(other.headers)

    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_a_request_without_a_body_keeps_its_method(self, method: str) -> None:
        """And its headers, but for a token at another origin."""
        moved = PushResponse(302, location="http://other.example:81/there")

        _, [_, second] = self.follow(moved, PushResponse(204), method=method)

        assert (second.method, second.headers["Content-Type"]) == (method, "text/plain")
        assert "Authorization" not in second.headers

    def test_without_an_address_nothing_is_sent(self) -> None:
        response, sent = self.follow(unknown="api.example.com")

        assert (response, sent) == (PushResponse(None, reason="there is no address"), [])

    @pytest.mark.parametrize("status", [307, 308])
    def test_others_repeat_the_request(self, status: int) -> None:
        """A token is sent to no other origin."""
        moved = PushResponse(status, location="http://other.example:81/there")

        _, [_, second] = self.follow(moved, PushResponse(200))

        assert (second.method, second.body) == ("POST", b"x")
        assert second.target == "http://other.example:81"
        assert second.headers["Host"] == "other.example:81"
        assert second.headers["Content-Length"] == "1"
        assert "Authorization" not in second.headers

    @each_row(
        "location",
        ["", "ftp://a.example/", "http://a..b/", "http://[::1", "https://unknown.example/"],
    )
    def test_one_that_leads_nowhere_is_the_response(self, location: str) -> None:
        """As one without a location was in production."""
        response, sent = self.follow(PushResponse(302, location=location), unknown="unknown")

        assert (response.status, len(sent)) == (302, 1)

    def test_the_sixth_redirect_is_not_followed(self) -> None:
        response, sent = self.follow(*[PushResponse(302, location="/again")] * 9)

        assert (response.status, len(sent)) == (302, 6)

    def test_those_of_app_engine_are_not_followed(self) -> None:
        """Documented, and recorded from production."""
        response, sent = self.follow(PushResponse(302, location="/there"), url="/mail")

        assert (response.status, len(sent)) == (302, 1)


@each_row(
    ("target", "text"),
    [
        (
            HttpTarget(scheme="https", host="api.example.com", path="/hooks", method="PUT"),
            "scheme https, host api.example.com, path /hooks, method PUT",
        ),
        (
            HttpTarget(port=0, query="", headers=(("X-Mine", "7"), ("X-Other", "8"))),
            "port (none), query (none), header X-Mine: 7, header X-Other: 8",
        ),
        (
            HttpTarget(host="b.example.com", if_not_exists=True),
            "host b.example.com (where the URL has none)",
        ),
        (HttpTarget(method="PUT", if_not_exists=True), "method PUT"),
        (
            HttpTarget(token=RequestToken("oidc_token", "a@example.com", "me")),
            "OIDC token of a@example.com, audience me",
        ),
        (
            HttpTarget(token=RequestToken("oauth_token", "a@example.com")),
            "OAuth token of a@example.com",
        ),
        (
            HttpTarget(token=RequestToken("oauth_token", "a@example.com", "all")),
            "OAuth token of a@example.com, scope all",
        ),
    ],
)
def test_a_target_is_described_in_words(target: HttpTarget, text: str) -> None:
    assert describe_target(target) == text
