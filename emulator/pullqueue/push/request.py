"""The HTTP request of an attempt to send a push task, with the headers of the service.

Names and rules are those of production, as recorded there in 2026, and of Google's documentation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urljoin
from zlib import crc32

from pullqueue.address import SplitUrl, split_url, why_not_callable
from pullqueue.clock import USEC_PER_SECOND
from pullqueue.config.model import QueueSettings
from pullqueue.engine.request_validation import METHODS_WITH_BODY
from pullqueue.limits import KIB
from pullqueue.push.http_target import override
from pullqueue.tasks import HttpRequest, Task, queue_id
from pullqueue.text import shorten

APP_ENGINE_USER_AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"
CLOUD_TASKS_USER_AGENT = "Google-Cloud-Tasks"
SOURCE_IP = "0.1.0.2"
"""The address from which push tasks reach an app."""

NO_RESPONSE = "Instance Unavailable"
"""Why the previous attempt failed that got no response, in a header."""

_PASSED_ON = frozenset(
    {"x-appengine-current-namespace", "x-appengine-default-namespace", "x-appengine-failfast"}
)
"""Headers that the SDK's client or a user sets on a task, and the service leaves alone."""

_FRAMING = frozenset(
    {
        "host",
        "content-length",
        "connection",
        "expect",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of the connection or of the message; the sender sets those that are needed."""

_RESERVED = ("x-google-", "x-appengine-", "x-cloudtasks-")
"""Beginnings of the headers that only the service sets."""

_REPEATING = (307, 308)
_REDIRECTS = (301, 302, 303, *_REPEATING)
_MOST_REDIRECTS = 5

_URL_CHARACTERS = "!$%&'()*+,/:;=?@[]~"
"""What a URL may have besides letters, digits and `_.-`; everything else is quoted."""


class Headers(dict[str, str]):
    """The headers of a request, whose names are found without regard to case."""

    def __missing__(self, name: str) -> str:
        """Return the value of a header of which the name was written in another case."""
        for key, value in self.items():
            if key.lower() == name.lower():
                return value
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a header of a name."""
        return isinstance(name, str) and self.get(name) is not None

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as of any dict
        """Return the value of a header, or a default."""
        try:
            return self[name]
        except KeyError:
            return default


class PushRequest(NamedTuple):
    """One attempt to send a push task, as an HTTP request."""

    method: str
    url: str
    """A path, with a query or without; of an HTTP target the whole URL."""
    headers: dict[str, str]
    """All headers, written as the task has them (the SDK writes `content-type`), and found without
    regard to case. Host is missing where the host of the app is not known."""
    body: bytes
    target: str | None
    """The service, version or instance that gets it, of an HTTP target its origin, such as
    `https://api.example.com`; None: the version that added the task."""
    queue_name: str
    task_name: str
    attempt: int
    """The number of the attempt, the first being 1."""
    deadline_seconds: float
    """How long it can take until the response is complete."""

    @property
    def path(self) -> str:
        """The path and the query, as they are sent."""
        return build_path(self.url)

    @property
    def late(self) -> str:
        """Why there is no response after the deadline."""
        return f"no response within {self.deadline_seconds:g} s"


_SUMMARY_CHARACTERS = 200
_title = re.compile(
    r"\s*<(?:!doctype|html)\b.*?<title\b[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL
).match

BODY_KEPT = 4 * KIB
"""Bytes of a response's body that are kept, from its beginning."""


class PushResponse(NamedTuple):
    """What came back from one attempt."""

    status: int | None
    """The HTTP status; None: there was no response."""
    body: bytes = b""
    """The beginning of the response's body."""
    reason: str | None = None
    """Why there was no response, or which fault answered."""
    error: Exception | None = None
    """The exception that the app's handler raised, if it runs in this process."""
    retry_after: str = ""
    """The header Retry-After."""
    location: str = ""
    """The header Location."""
    fault: int | None = None
    """The number of the fault that answered, or because of which there was no response."""

    @property
    def summary(self) -> str | None:
        """What came back, in one short line.

        The exception of the handler, where it is known. Else the first line of the body, the
        message of an error in JSON, or the title of an HTML page; else why there was no response.
        """
        if self.error is not None and self.reason is None:
            raised = f"{type(self.error).__name__}: {self.error}".removesuffix(": ")
            return shorten(raised, limit=_SUMMARY_CHARACTERS)
        text = self.body[:BODY_KEPT].decode("utf-8", "replace")
        title = _title(text)
        text = _message_in(text) if title is None else unescape(" ".join(title[1].split()))
        lines = text.splitlines()
        line = next(filter(None, map(str.strip, lines)), None) or self.reason
        return None if line is None else shorten(line, limit=_SUMMARY_CHARACTERS)


def _message_in(text: str) -> str:
    """Return the message of an error in JSON; other text unchanged."""
    try:
        found: Any = json.loads(text) if text.lstrip().startswith("{") else {}
    except (ValueError, RecursionError):
        return text
    error = found.get("error")
    found = error if isinstance(error, dict) else found
    messages = (found.get(name) for name in ("message", "detail", "error"))
    return next((each for each in messages if each and isinstance(each, str)), text)


Send: TypeAlias = Callable[[PushRequest], PushResponse]
"""Sends a request and returns what came back."""


def push_request(
    task: Task,
    settings: QueueSettings,
    *,
    authorization: str | None = None,
    app_host: str | None = None,
) -> PushRequest:
    """Return the request of the current attempt of a task, which has been started.

    `authorization` replaces the header of this name. `app_host` is the host of the default version
    of the app, if it is known.
    """
    request = effective_request(task, settings)
    target = find_target(request, settings)
    body = task.payload
    if settings.http_target is not None and request.method not in METHODS_WITH_BODY:
        body = b""  # documented: it is ignored if the queue overrides the method
    headers = base_headers(request, body)
    if request.is_http_target:
        headers["Host"] = SplitUrl(str(target)).netloc
        headers |= _service_headers(task, "X-CloudTasks-")
    else:
        if app_host is not None:
            headers["Host"] = app_host if target is None else f"{target}.{app_host}"
        headers |= front_end_headers(
            f"{task.queue_name}/{task.name}/{task.retry_count}", request.deadline_seconds
        )
        headers |= _service_headers(task, "X-AppEngine-")
    if authorization is not None:
        others = {k: v for k, v in headers.items() if k.lower() != "authorization"}
        headers = others | {"Authorization": authorization}
    if body or request.method in METHODS_WITH_BODY:
        headers["Content-Length"] = str(len(body))
    return PushRequest(
        method=request.method,
        url=request.url,
        headers=Headers(headers),
        body=body,
        target=target,
        queue_name=task.queue_name,
        task_name=task.name,
        attempt=task.retry_count,
        deadline_seconds=request.deadline_seconds,
    )


def send_following(
    request: PushRequest, find_sender: Callable[[PushRequest], Send | None]
) -> PushResponse:
    """Send a request, and follow the redirects of an HTTP target.

    Only those are followed that lead to where there is a sender. The response of the last request
    is that of the attempt.
    """
    end = perf_counter() + request.deadline_seconds
    send, response = find_sender(request), PushResponse(None, reason="there is no address")
    for _ in range(1 + _MOST_REDIRECTS):
        if send is None:
            break
        response = send(request)
        following = _redirected(request, response)
        if following is None:
            break
        request = following._replace(deadline_seconds=max(0, end - perf_counter()))
        send = find_sender(request)
    return response


def _redirected(request: PushRequest, response: PushResponse) -> PushRequest | None:
    """Return the request that follows a redirect of an HTTP target; None: there is none.

    As usual, statuses 307 and 308 repeat the request, and the others make it a GET. A token is
    sent to its own origin only.
    """
    is_redirect = response.status in _REDIRECTS and response.location
    if not is_redirect or "://" not in str(request.target):
        return None
    try:
        url = urljoin(request.url, response.location)
    except ValueError:
        return None
    split = split_url(url)
    if split is None or why_not_callable(url) is not None:
        return None
    dropped = {"authorization"} if split.origin != request.target else set[str]()
    if response.status not in _REPEATING and request.method not in ("GET", "HEAD"):
        dropped |= {"content-length", "content-type"}
        request = request._replace(method="GET", body=b"")
    headers = {k: v for k, v in request.headers.items() if k.lower() not in dropped}
    headers["Host"] = split.netloc
    return request._replace(url=url, target=split.origin, headers=Headers(headers))


def front_end_headers(request_name: str, deadline_seconds: float) -> dict[str, str]:
    """Return what App Engine's front end adds, as far as apps recognize its requests by it.

    The name of the request decides the id of its log, which is the same in each run.
    """
    return {
        "X-AppEngine-User-IP": SOURCE_IP,
        "X-AppEngine-Request-Log-Id": f"{crc32(request_name.encode()):08x}",
        "X-AppEngine-Country": "ZZ",
        "X-AppEngine-Https": "off",
        "X-AppEngine-Timeout-Ms": str(round(deadline_seconds * 1000)),
        "X-Google-Internal-SkipAdminCheck": "true",
    }


def base_headers(request: HttpRequest, body: bytes) -> dict[str, str]:
    """Return the headers of every attempt: those of the user, and defaults of the service."""
    headers = _user_headers(request)
    given = {name.lower(): name for name in headers}
    agent = headers.pop(given["user-agent"]) if "user-agent" in given else None
    if request.is_http_target:
        # Documented: a Content-Type is not set for HTTP tasks.
        return headers | {"User-Agent": CLOUD_TASKS_USER_AGENT}
    if body and "content-type" not in given:
        headers["Content-Type"] = "application/octet-stream"
    # Documented: App Engine's is appended to one that a user sets.
    headers["User-Agent"] = f"{agent} {APP_ENGINE_USER_AGENT}" if agent else APP_ENGINE_USER_AGENT
    return headers


def effective_request(task: Task, settings: QueueSettings) -> HttpRequest:
    """Return the request of a push task, with what its queue overrides in HTTP tasks."""
    request = task.require_request()
    if settings.http_target is None or not request.is_http_target:
        return request
    return override(request, settings.http_target)


def find_target(request: HttpRequest, settings: QueueSettings) -> str | None:
    """Return where a request goes: an origin, or the service that the queue or the task names."""
    split = split_url(request.url)
    return settings.target or request.target if split is None else split.origin


def list_targets(target: str | None) -> tuple[str | None, ...]:
    """Return the names by which the app of a target can be given: `v1.worker` is also `worker`."""
    if target is None or "://" in target:
        return (target,)
    return target, target.rpartition(".")[2]


def build_path(url: str) -> str:
    """Return the path and the query of a URL, as they are sent."""
    split = split_url(url)
    path = (url if split is None else split.path).partition("#")[0]
    return quote(f"/{path.removeprefix('/')}", safe=_URL_CHARACTERS)


def counts_as_execution(request: HttpRequest, status: int | None) -> bool:
    """Return whether an attempt with a status, or None for no response, counts as an execution.

    Those of HTTP targets do not count with a status of 500 or more.
    """
    return status is not None and not (request.is_http_target and status >= 500)


def _user_headers(request: HttpRequest) -> dict[str, str]:
    """Return the headers of a task that its user may set, each name once."""
    headers: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, value in request.headers:
        # To a WSGI app `_` and `-` are the same.
        lower = name.lower().replace("_", "-")
        if lower in _FRAMING:
            continue
        if lower.startswith(_RESERVED) and (request.is_http_target or lower not in _PASSED_ON):
            continue
        first = names.setdefault(lower, name)
        # Several headers of a name mean the same as one with all values (RFC 9110, 5.3).
        separator = "; " if lower == "cookie" else ", "
        headers[first] = f"{headers[first]}{separator}{value}" if first in headers else value
    return headers


def _service_headers(task: Task, prefix: str) -> dict[str, str]:
    attempts = task.attempts
    seconds, usec = divmod(task.scheduled_usec, USEC_PER_SECOND)
    headers = {
        "QueueName": queue_id(task.queue_name),
        "TaskName": task.name,
        "TaskRetryCount": str(task.retry_count - 1),
        "TaskExecutionCount": str(attempts.executions),
        "TaskETA": f"{seconds}.{usec:06}",
    }
    if task.retry_count > 1:
        # An attempt that a crash has ended left no status: there was no response.
        ended = attempts.finished == task.retry_count - 1
        status = (attempts.status or 0) if ended else 0
        if prefix == "X-AppEngine-":
            headers["TaskPreviousResponse"] = str(status)
            headers["TaskRetryReason"] = "App Error" if status else NO_RESPONSE
        else:
            headers["TaskPreviousResponse"] = str(status or 504)
            headers["TaskRetryReason"] = ""
    return {f"{prefix}{name}": value for name, value in headers.items()}
