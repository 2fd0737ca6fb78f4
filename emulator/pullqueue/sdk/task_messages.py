"""Tasks, requests and retry parameters as the SDK's messages have them."""

from __future__ import annotations

import re
from typing import Any

from pullqueue import tasks
from pullqueue.clock import USEC_PER_SECOND
from pullqueue.errors import InvalidTaskError
from pullqueue.sdk.environment import default_hostname
from pullqueue.sdk.imports import messages

RETRY_FIELDS = {
    "task_retry_limit": "retry_limit",
    "task_age_limit_seconds": "age_limit_sec",
    "min_backoff_seconds": "min_backoff_sec",
    "max_backoff_seconds": "max_backoff_sec",
    "max_doublings": "max_doublings",
}
"""The fields of `RetryParameters`, and of the protocol's message."""

_MESSAGE = messages.TaskQueueAddRequest
_APPSPOT = re.compile(r"(?:(?P<target>.+?)\.)??[^.]+(?:\.[a-z]+\.r)?\.appspot\.com", re.DOTALL)
"""The host of an app in production: a target, or none, the app, and in newer ones the region."""


def read_request(add: Any, queue_name: str) -> tasks.HttpRequest:
    """Return how the task of an add request is sent.

    Raises:
        InvalidTaskError: the URL is not text.
    """
    # WSGI and http.client read the bytes of a header in this way, too.
    headers = tuple(
        (header.key.decode("latin-1"), header.value.decode("latin-1")) for header in add.header
    )
    try:
        url = add.url.decode()
    except UnicodeDecodeError:
        raise InvalidTaskError(f"url is {add.url!r}: use text in UTF-8") from None
    seconds = tasks.DEFAULT_DEADLINE_SECONDS
    if add.HasField("dispatch_deadline_usec"):
        seconds = add.dispatch_deadline_usec / USEC_PER_SECOND
    return tasks.HttpRequest(
        url or tasks.default_url(queue_name),
        _MESSAGE.RequestMethod.Name(add.method),
        headers,
        next((_read_target(value) for name, value in headers if name.lower() == "host"), None),
        read_retry(add),
        seconds,
    )


def _read_target(host: str) -> str | None:
    """Return the target of a task, which the SDK's client puts before the host of the app.

    It is the default host that the emulator supplies, or that of an app in production. An app that
    sets the header itself may have `-dot-` where the client has a dot.
    """
    host, default = host.replace("-dot-", "."), default_hostname()
    if host.endswith(f".{default}"):
        return host.removesuffix(f".{default}")
    match = _APPSPOT.fullmatch(host)
    return None if match is None or host == default else match["target"]


def fill_task(message: Any, task: tasks.Task, now_usec: int) -> None:
    """Write what Google's functions show of a task into a `TaskQueueQueryTasksResponse.Task`."""
    message.task_name = task.name.encode()
    message.eta_usec = task.eta_usec
    message.retry_count = task.retry_count
    message.execution_count = task.retry_count
    message.body = task.payload
    message.creation_time_usec = task.enqueued_usec
    request, attempts = task.request, task.attempts
    if request is None:
        return
    message.url = request.url.encode()
    if request.method in type(message).RequestMethod.keys():  # noqa: SIM118 - not a mapping
        message.method = type(message).RequestMethod.Value(request.method)
    for name, value in request.headers:
        message.header.add(key=name.encode("latin-1"), value=value.encode("latin-1"))
    # What the next attempt's header says, or that of the one under way.
    message.retry_count = task.retry_count - (task.state_at(now_usec) is tasks.TaskState.RUNNING)
    message.execution_count = attempts.executions
    if request.deadline_seconds != tasks.DEFAULT_DEADLINE_SECONDS:
        message.dispatch_deadline_usec = round(request.deadline_seconds * USEC_PER_SECOND)
    if attempts.status is not None:
        message.runlog.response_code = attempts.status


def read_retry(request: Any) -> tasks.RetryParameters | None:
    """Return the retry parameters of a task or queue in a message; None: it has none."""
    if not request.HasField("retry_parameters"):
        return None
    retry = request.retry_parameters
    fields = {
        name: getattr(retry, field) for name, field in RETRY_FIELDS.items() if retry.HasField(field)
    }
    return tasks.RetryParameters(**fields)
