"""Tasks as messages: the new task that a message describes, and what is shown of a stored one."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from google.rpc import code_pb2

from pullqueue.address import split_url, why_not_callable
from pullqueue.api.errors import LOCALE
from pullqueue.clock import LAST_USEC, USEC_PER_SECOND, from_usec
from pullqueue.cloudtasks import messages, texts
from pullqueue.cloudtasks.access import check_service_account
from pullqueue.cloudtasks.calls import Call, ResourceName
from pullqueue.cloudtasks.errors import CloudTasksError, invalid, invalid_field
from pullqueue.cloudtasks.http_target_messages import read_token, write_token
from pullqueue.cloudtasks.messages import Message
from pullqueue.cloudtasks.methods import TASK
from pullqueue.cloudtasks.queue_messages import read_target, write_routing
from pullqueue.cloudtasks.retry_messages import read_retry, write_retry
from pullqueue.engine import verbs
from pullqueue.engine.queue import Queue
from pullqueue.error_codes import RPC_CODES
from pullqueue.limits import DAY_SECONDS
from pullqueue.push.http_sender import is_disconnected
from pullqueue.push.request import base_headers
from pullqueue.tasks import (
    DEFAULT_DEADLINE_SECONDS,
    AttemptRecord,
    HttpRequest,
    NewTask,
    RequestToken,
    Task,
    TombstonedTaskError,
    why_in_use,
)

_PUSH_REQUESTS: Final = ("app_engine_http_request", "http_request")
_HTTP_BODY_METHODS: Final = ("POST", "PUT", "PATCH")
_APP_ENGINE_BODY_METHODS: Final = ("POST", "PUT")
_CODES: Final[Mapping[int, str]] = MappingProxyType(
    {row.http_status: code for code, row in [*RPC_CODES.items()][::-1]}
    | {416: "OUT_OF_RANGE", 499: "CANCELLED"}
)
"""The code that is shown for the HTTP status of an attempt."""
_CLASS_CODES: Final = {4: "FAILED_PRECONDITION", 5: "INTERNAL"}
"""The same for all other statuses that begin with this digit; UNKNOWN for the rest."""
_SECONDS: Final = range(-62_135_596_800, LAST_USEC // USEC_PER_SECOND + 1)
"""What a timestamp may hold: the years 1 to 9999."""
_ADDED_BYTES: Final = 10_000
"""More than what a task can have when it is stored, and does not have in a request."""
_GENERATED_NAME: Final = "0" * 20
"""A name as long as those that production generates."""
_unprintable = re.compile(r"[^!-~]+")


def read_time_usec(message: Message, field: str) -> int:
    """Return the microseconds since the epoch in a field; what is finer is cut off."""
    time = getattr(message, field)
    if time.seconds not in _SECONDS or not 0 <= time.nanos < 10**9:
        raise invalid_field(field, "is not a valid time: it must be in the years 1 to 9999")
    return int(time.ToMicroseconds())


def read_new_task(call: Call, queue: Queue, task: Message) -> NewTask:
    """Return the task that a message describes.

    Raises:
        CloudTasksError: INVALID_ARGUMENT: a value is not valid, or for the other mode of a queue.
    """
    name = None
    if task.name:
        parent = call.name.of_queue
        name = ResourceName.parse(task.name, TASK, field="task.name", parent=parent).task
    eta_usec = _new_eta_usec(call, queue, task)
    if not queue.is_push:
        if any(task.HasField(field) for field in _PUSH_REQUESTS):
            raise invalid_field(
                "task", f'is for queue "{queue.name}", a pull queue: set pull_message alone'
            )
        message = task.pull_message
        return NewTask(message.payload, name, message.tag or None, eta_usec=eta_usec)
    body, request = _push_request(call, queue, task)
    new = NewTask(body, name, request=request, eta_usec=eta_usec)
    _check_size(call, queue, new, task)
    return new


def _check_size(call: Call, queue: Queue, new: NewTask, task: Message) -> None:
    """Check the size of a push task as it is stored, with all that is added to it.

    As production measures it, the host is all that it has of a routing, and the deadline of an App
    Engine task counts if it was given.
    """
    most = call.emulator.limits.cloud_tasks_task_bytes
    if task.ByteSize() + _ADDED_BYTES <= most:
        return
    stored = call.message("Task")
    full = replace(call, request=call.message("CreateTaskRequest", response_view=messages.FULL))
    shown = new.stored(new.name or _GENERATED_NAME, queue.name, 0, queue.now_usec())
    write_tasks(full, [shown], lambda: stored)
    stored.ClearField("view")
    if stored.HasField("app_engine_http_request"):
        routing = stored.app_engine_http_request.app_engine_routing
        routing.CopyFrom(type(routing)(host=routing.host))
        if messages.has(stored, "dispatch_deadline") and not task.HasField("dispatch_deadline"):
            stored.ClearField("dispatch_deadline")
    size = stored.ByteSize()
    if size > most:
        advice = (
            f"the task has {size} bytes with its name, times and headers; the maximum is {most}: "
            "store the data elsewhere and put a reference in the task"
        )
        raise invalid(texts.TASK_TOO_LARGE, advice=advice)


def _new_eta_usec(call: Call, queue: Queue, task: Message) -> int | None:
    """Return when a new task can be sent or leased; None: at once."""
    if not task.HasField("schedule_time"):
        return None
    eta_usec, now_usec = read_time_usec(task, "schedule_time"), queue.now_usec()
    if eta_usec <= now_usec:
        return None  # it has passed; the store decides when now is
    most = call.emulator.limits.eta_seconds_ahead
    if eta_usec > now_usec + most * USEC_PER_SECOND:
        eta, latest = from_usec(eta_usec), from_usec(now_usec + most * USEC_PER_SECOND)
        raise invalid(
            texts.TOO_FAR.format(time=texts.format_time(eta), most=f"{most // 3600}h"),
            advice=f"task.schedule_time is {eta.isoformat()}; the latest is {latest.isoformat()}, "
            f"{most // DAY_SECONDS} days from now",
        )
    return eta_usec


def insert_tasks(queue: Queue, tasks: Sequence[NewTask]) -> list[Task | CloudTasksError]:
    """Add tasks, and return each as it is stored, or why its name cannot be used."""
    # Their size has been checked, as production measures it.
    inserted = verbs.insert(queue, tasks, absolute_urls=True, push_task_bytes=sys.maxsize)
    added = iter(inserted.added)
    results: list[Task | CloudTasksError] = []
    for task in tasks:
        error = inserted.refused.get(task.name) if task.name else None
        if error is None:
            results.append(next(added))
            continue
        results.append(_name_in_use(queue, task, existing=error is not TombstonedTaskError))
    return results


def _name_in_use(queue: Queue, task: NewTask, *, existing: bool) -> CloudTasksError:
    return CloudTasksError(
        texts.TASK_EXISTS if existing else texts.TASK_DELETED,
        rpc_code="ALREADY_EXISTS",
        advice=f'task "{task.name}" of queue "{queue.name}" {why_in_use(existing=existing)}: '
        "choose another name, or omit it",
    )


def write_tasks(call: Call, tasks: Iterable[Task], add: Callable[[], Message]) -> None:
    """Write tasks into the messages that `add` returns; their payloads only in the FULL view.

    Messages that are built on their own and copied into a response take half as long again.
    """
    queue = str(call.name.of_queue)
    full = getattr(call.request, "response_view", None) == messages.FULL
    for task in tasks:
        message = add()
        message.name = f"{queue}/tasks/{task.name}"
        message.view = messages.FULL if full else messages.BASIC
        eta_usec = task.eta_usec
        if task.request is None:
            _write_pull_message(call, message, task, full=full)
        else:
            _write_request(call, message, task, task.request)
            eta_usec = _write_attempts(call, message, task, task.attempts)
        message.create_time.seconds = task.enqueued_usec // USEC_PER_SECOND
        messages.write_time(message.schedule_time, eta_usec)


def _push_request(call: Call, queue: Queue, task: Message) -> tuple[bytes, HttpRequest]:
    if not any(task.HasField(field) for field in _PUSH_REQUESTS):
        raise invalid(
            texts.TASK_EMPTY,
            advice=f'queue "{queue.name}" is a push queue: set app_engine_http_request or '
            "http_request in the task",
        )
    read = _http_request if task.HasField("http_request") else _app_engine_request
    body, request = read(call, task)
    if messages.has(task, "retry_config") and task.HasField("retry_config"):
        request = request._replace(retry=read_retry(task.retry_config, "task.retry_config"))
    return body, request


def _app_engine_request(call: Call, task: Message) -> tuple[bytes, HttpRequest]:
    message, version = task.app_engine_http_request, call.version
    field = "task.app_engine_http_request"
    url = getattr(message, version.relative_url) or "/"
    if not url.startswith("/"):
        name = f"{field}.{version.relative_url}"
        raise invalid_field(name, f'is "{url:.200}": it must begin with /')
    body: bytes = getattr(message, version.payload)
    method = _method(message, body, _APP_ENGINE_BODY_METHODS, f"{field}.{version.payload}")
    most = call.emulator.limits.max_deadline_seconds
    request = HttpRequest(
        url,
        method,
        tuple(sorted(message.headers.items())),
        read_target(message.app_engine_routing),
        deadline_seconds=_deadline_seconds(call, task, most),
    )
    return body, request


def _http_request(call: Call, task: Message) -> tuple[bytes, HttpRequest]:
    message, field, limits = task.http_request, "task.http_request", call.emulator.limits
    url = _unprintable.sub(lambda match: quote(match[0]), message.url)
    if split_url(url) is None:
        problem = f'is "{url:.200}"' if url else "is missing"
        raise invalid(
            texts.URL_SCHEME if url else texts.URL_MISSING,
            advice=f"{field}.url {problem}: use an http:// or https:// URL",
        )
    if url != message.url and (why := why_not_callable(url)):
        advice = "write a host in ASCII, such as xn--bcher-kva.example"
        raise invalid_field(f"{field}.url", f'is "{message.url:.200}": {why}; {advice}')
    method = _method(message, message.body, _HTTP_BODY_METHODS, f"{field}.body")
    size = sum(len(name.encode()) + len(text.encode()) for name, text in message.headers.items())
    if size >= limits.http_headers_bytes:
        raise invalid_field(
            f"{field}.headers",
            f"have {size} bytes: they must have less than {limits.http_headers_bytes}",
        )
    request = HttpRequest(
        url,
        method,
        tuple(sorted(message.headers.items())),
        deadline_seconds=_deadline_seconds(call, task, limits.http_deadline_seconds),
        token=_token(call, message, url),
    )
    return message.body, request


def _method(message: Message, body: bytes, with_body: tuple[str, ...], field: str) -> str:
    method = messages.read_method(message, "http_method") or "POST"
    if body and method not in with_body:
        allowed = ", ".join(with_body)
        raise invalid_field(field, f"is set, and http_method is {method}: use {allowed}")
    return method


def _deadline_seconds(call: Call, task: Message, most: int) -> float:
    if not messages.has(task, "dispatch_deadline") or not task.HasField("dispatch_deadline"):
        return DEFAULT_DEADLINE_SECONDS
    duration = task.dispatch_deadline
    seconds = duration.seconds + duration.nanos // 1_000_000 / 1000
    if seconds == 0 and task.HasField("app_engine_http_request"):
        return DEFAULT_DEADLINE_SECONDS
    least, field = call.emulator.limits.min_deadline_seconds, "task.dispatch_deadline"
    if not least <= seconds <= most:
        spans = {"least": texts.format_span(least), "most": texts.format_span(most)}
        advice = f"{field} is {seconds} seconds: use {least} to {most}"
        raise invalid(texts.DEADLINE.format(**spans), advice=advice)
    return float(seconds)


def _token(call: Call, message: Message, url: str) -> RequestToken | None:
    """Return the token that a request asks for, which must not be sent to others in clear text."""
    token = read_token(message, "task.http_request")
    if token is None:
        return None
    field = f"task.http_request.{token.kind}"
    if url[:5].lower() == "http:" and call.state.push_to.find_url(url) is None:
        raise invalid(
            texts.AUTHORIZED_SCHEME,
            advice=f'task.http_request.url is "{url:.200}": with {field} it must begin with '
            "https://, or name this machine or an origin of --push-to",
        )
    check_service_account(call.emulator, token.email, f"{field}.service_account_email")
    return token


def _write_request(call: Call, message: Message, task: Task, request: HttpRequest) -> None:
    full = message.view == messages.FULL
    if not request.is_http_target:
        shown = message.app_engine_http_request
        setattr(shown, call.version.relative_url, request.url)
        target = request.target or call.queue.settings.target
        write_routing(shown.app_engine_routing, target, call.name)
        if full:
            setattr(shown, call.version.payload, task.payload)
        if task.payload:
            shown.headers["Content-Length"] = str(len(task.payload))
    else:
        shown = message.http_request
        shown.url = request.url
        if full:
            shown.body = task.payload
        write_token(shown, request.token)
    messages.write_method(shown, request.method)
    for name, text in base_headers(request, task.payload).items():
        shown.headers[name] = text
    if messages.has(message, "dispatch_deadline"):
        message.dispatch_deadline.FromMilliseconds(int(request.deadline_seconds * 1000))
    if request.retry is not None and messages.has(message, "retry_config"):
        write_retry(message.retry_config, request.retry)


def _write_pull_message(call: Call, message: Message, task: Task, *, full: bool) -> None:
    message.pull_message.SetInParent()
    if full:
        message.pull_message.payload = task.payload
    if task.tag:
        message.pull_message.tag = task.tag
    if task.retry_count:
        setattr(_holder(call, message), call.version.attempt_fields[0], task.retry_count)


def _holder(call: Call, message: Message) -> Message:
    """Return the part of a task that has its attempts."""
    version = call.version
    return getattr(message, version.attempts) if version.attempts else message


def _write_attempts(call: Call, message: Message, task: Task, attempts: AttemptRecord) -> int:
    """Write what the attempts of a task have left behind, and return its schedule time."""
    if not task.retry_count:
        return task.eta_usec
    holder = _holder(call, message)
    dispatches, responses, first, last = call.version.attempt_fields
    setattr(holder, dispatches, task.retry_count)
    setattr(holder, responses, attempts.responses)
    messages.write_time(getattr(holder, first).dispatch_time, attempts.first_usec)
    shown = getattr(holder, last)
    messages.write_time(shown.schedule_time, attempts.schedule_usec)
    messages.write_time(shown.dispatch_time, attempts.dispatched_usec)
    if attempts.finished < task.retry_count:
        # While an attempt is under way, the eta is the end of its lease.
        return task.scheduled_usec
    messages.write_time(shown.response_time, attempts.ended_usec)
    _write_outcome(shown.response_status, attempts)
    return task.eta_usec


def _write_outcome(message: Message, attempts: AttemptRecord) -> None:
    """Write what the last attempt ended with, as production describes it."""
    status = attempts.status or 0
    reason = None if status else attempts.reason or "no response before the deadline"
    if reason is not None and not is_disconnected(reason):
        status = 504  # the next attempt names it as the previous response, too
    name = _CODES.get(status) or _CLASS_CODES.get(status // 100, "UNKNOWN")
    message.code = code_pb2.Code.Value(name)
    message.message = f"{name}({message.code}): HTTP status code {status}"
    if reason is not None:
        detail = messages.message_class("v2", "LocalizedMessage")(locale=LOCALE, message=reason)
        message.details.add().Pack(detail)
