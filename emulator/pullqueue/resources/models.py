"""What goes into the control routes and comes out of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, field

from pullqueue import errors
from pullqueue.api.errors import ApiError
from pullqueue.clock import USEC_PER_SECOND, from_usec, parse_time
from pullqueue.engine import queue as engine
from pullqueue.engine.events import Event, Interface
from pullqueue.observe.activity import IN_PROCESS
from pullqueue.push.retry import find_retry
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Bytes, Count, Maybe, Model, Signed64, Time, about, iso_usec
from pullqueue.tasks import HttpRequest, RetryParameters, Task, TaskState
from pullqueue.text import format_span, quoted

PREVIEW_BYTES: Final = 256
_AROUND = 40
"""Characters before and after a text that was searched for."""
Refusal = Literal["exists", "tombstoned"]
"""Why the name of a task cannot be used."""
NOT_RECORDED: Final = "not recorded"
"""Instead of the client of leases that are too old to be recorded, or came with a snapshot."""
EXHAUSTED: Final = "exhausted"
Since = Annotated[
    str,
    about(
        "Only what happened from this time on: 2026-01-01T14:05:00Z, or 14:05 (UTC), "
        "when it last was."
    ),
]
_TIME_OF_DAY = re.compile(r"\d\d:\d\d(:\d\d)?")
ShownState = Literal["available", "leased", "scheduled", "running", "retrying", "exhausted"]
"""The states of tasks, and what has become of those that used up their leases or retries."""


class SentRequest(Model):
    """The HTTP request by which a push task is sent."""

    url: str
    method: str = "POST"
    headers: list[tuple[str, str]] = field(default_factory=list)
    target: str | None = None

    @property
    def http_request(self) -> HttpRequest:
        """The request as the engine has it."""
        return HttpRequest(self.url, self.method, tuple(self.headers), self.target)


class PushState(Model):
    """How a push task is sent, and what its attempts have left behind."""

    request: SentRequest
    attempts: Count
    """How many attempts were started."""
    responses: Count
    last_status: Count | None
    """The status of the last attempt that ended; 0: it got no response."""
    last_reason: str | None
    """Why it failed: the first line of its response (of HTML the title), or why there was none."""
    last_ended: Time | None
    """When the last attempt ended."""
    next_attempt: Time | None
    """When the next attempt is due; None: one is running, or the task is exhausted."""
    kept: str | None
    """What is missing to send the task."""
    deadline_seconds: float
    """How long an attempt can take."""
    limits: str | None
    """How many attempts it gets at most; None: any number."""

    @classmethod
    def of(
        cls, task: Task, queue: engine.Queue, server: ServerState, state: ShownState
    ) -> PushState | None:
        """Return what a push task has, in a state; None: it is a pull task."""
        request, attempts = task.request, task.attempts
        if request is None:
            return None
        return cls(
            request=SentRequest(
                url=request.url,
                method=request.method,
                headers=list(request.headers),
                target=request.target,
            ),
            attempts=task.retry_count,
            responses=attempts.responses,
            last_status=attempts.status,
            last_reason=attempts.reason,
            last_ended=iso_usec(attempts.ended_usec),
            next_attempt=None if state in ("running", EXHAUSTED) else task.eta.isoformat(),
            kept=server.address_commands(server.push_to.missing(task, queue.settings)),
            deadline_seconds=request.deadline_seconds,
            limits=_describe_limits(find_retry(task, queue.settings), task.retry_count),
        )


def _describe_limits(retry: RetryParameters, attempts: int) -> str | None:
    """Return how often and how long a push task is tried, or why it still is."""
    limit, age = retry.task_retry_limit, retry.task_age_limit_seconds
    if limit is None:
        return None if age is None else f"until {format_span(age)} after the first"
    if age is None:
        return f"of {limit + 1}"
    if attempts > limit:
        return f"retry limit {limit}, but the age limit of {format_span(age)} is not over"
    return f"of {limit + 1}, or more until {format_span(age)} after the first"


class Holder(Model):
    """Who has leased a task."""

    client: Annotated[str, about("Who leased it, or renewed its lease, last; as in `/workers`.")]
    interface: Interface | None
    leased: Annotated[Time, about("When it was leased, or its lease was renewed.")]
    seconds: Annotated[float, about("How long ago that was.")]

    @classmethod
    def of(cls, lease: Event, now_usec: int) -> Holder:
        """Return who has a task since a lease."""
        origin = lease.origin
        return cls(
            client=(origin.client if origin is not None else "") or IN_PROCESS,
            interface=None if origin is None else origin.interface,
            leased=lease.time.isoformat(),
            seconds=(now_usec - lease.usec) / USEC_PER_SECOND,
        )


class Match(Model):
    """Where a text occurs first that was searched for, with what is around it."""

    field: Literal["payload", "URL", "reason"]
    before: str
    text: str
    after: str

    @classmethod
    def find(cls, task: Task, text: str) -> Match | None:
        """Return where a text occurs in a task; None: nowhere, or in its name."""
        pattern = re.compile(re.escape(text), re.IGNORECASE)
        if not text or pattern.search(task.name):
            return None
        payload = task.payload.decode("utf-8", "replace")
        url = "" if task.request is None else task.request.url
        places: tuple[tuple[Literal["payload", "URL", "reason"], str], ...] = (
            ("payload", payload),
            ("URL", url),
            ("reason", task.attempts.reason or ""),
        )
        for place, content in places:
            if found := pattern.search(content):
                start, end = max(0, found.start() - _AROUND), found.end() + _AROUND
                before = ("…" if start else "") + content[start : found.start()]
                after = content[found.end() : end] + ("…" if end < len(content) else "")
                return cls(place, before, found[0], after)
        return None


class TaskResource(Model):
    """A task as it is now."""

    name: str
    queue: str
    tag: str | None
    state: ShownState
    eta: Time
    eta_usec: int
    enqueued: Time
    lease_seconds_left: float | None
    leased_by: Holder | None
    """Who has leased it, as far as that is recorded."""
    retry_count: Count
    retry_limit: Count | None
    """Its task_retry_limit: of leases, or of retries of a push task."""
    bytes_stored: Count
    payload: Bytes
    push: PushState | None
    """What a push task has that a pull task does not have."""
    match: Match | None = None
    """What a search has found in it; null: it has the text in its name, or there was no search."""


def build_task_resources(
    tasks: Sequence[Task],
    queue: engine.Queue,
    server: ServerState,
    *,
    payload_bytes: int | None = None,
    exhausted: bool = False,
    search: str = "",
) -> list[TaskResource]:
    """Return tasks of a queue as they are now, or as they were when they were exhausted.

    Of each payload they have the first `payload_bytes`, or all; `search` is the text that they were
    found by.
    """
    now_usec, shown = queue.now_usec(), []
    leased = [each.name for each in tasks if each.state_at(now_usec) is TaskState.LEASED]
    leases = queue.last_leases(leased) if leased and not exhausted else {}
    for task in tasks:
        state: ShownState = EXHAUSTED if exhausted else task.state_at(now_usec).value
        left = (task.eta_usec - now_usec) / USEC_PER_SECOND
        one = TaskResource(
            name=task.name,
            queue=task.queue_name,
            tag=task.tag,
            state=state,
            eta=task.eta.isoformat(),
            eta_usec=task.eta_usec,
            enqueued=task.enqueued.isoformat(),
            lease_seconds_left=left if state == "leased" else None,
            leased_by=Holder.of(leases[task.name], now_usec) if task.name in leases else None,
            retry_count=task.retry_count,
            retry_limit=find_retry(task, queue.settings).task_retry_limit
            if task.request
            else queue.retention.leases,
            bytes_stored=task.stored_bytes,
            payload=Bytes.of(task.payload, payload_bytes),
            push=PushState.of(task, queue, server, state),
            match=Match.find(task, search),
        )
        shown.append(one)
    return shown


class NewTask(Model):
    """A task to add."""

    payload: Annotated[Maybe[str], about("Payload as text, stored as UTF-8.")] = UNSET
    payload_base64: Annotated[Maybe[bytes], about("Payload in base64.")] = UNSET
    name: Maybe[str] = UNSET
    tag: Maybe[str] = UNSET
    eta: Annotated[Maybe[Time], about("Earliest time of a lease or an attempt. Default: now.")] = (
        UNSET
    )
    countdown: Annotated[Maybe[float], about("Alternative to `eta`: delay in seconds.")] = UNSET
    request: Annotated[
        Maybe[SentRequest], about("How a push task is sent. Default: POST to /_ah/queue/QUEUE.")
    ] = UNSET


class ChangedRequest(Model):
    """What to change in how a push task is sent."""

    url: Maybe[str] = UNSET
    method: Maybe[str] = UNSET
    headers: Annotated[
        Maybe[list[tuple[str, str]]], about("All headers: they replace those it has.")
    ] = UNSET
    target: Maybe[str] = UNSET


class ChangedTask(Model):
    """What to change in an exhausted task; what is absent stays as it is."""

    payload: Annotated[Maybe[str], about("Payload as text, stored as UTF-8.")] = UNSET
    payload_base64: Annotated[Maybe[bytes], about("Payload in base64.")] = UNSET
    request: Maybe[ChangedRequest] = UNSET


class NewTasks(Model):
    """Tasks to add."""

    tasks: Annotated[list[NewTask], Meta(min_length=1)]


class LeaseRequest(Model):
    """How many tasks to lease, and for how long."""

    lease_seconds: float = 60
    max_tasks: int = 1
    group_by_tag: Annotated[
        Maybe[bool], about("Whether all tasks must have one tag. Default: true if `tag` is set.")
    ] = UNSET
    tag: Maybe[str] = UNSET


class LeaseChange(Model):
    """A new end of a lease."""

    lease_seconds: Annotated[
        float, about("Lease duration in seconds from now; 0 releases the task.")
    ]
    eta_usec: Annotated[
        Maybe[Signed64], about("Current end of the lease; the change is refused if it is another.")
    ] = UNSET


class Tasks(Model):
    """A page of tasks."""

    tasks: list[TaskResource]
    total: Count
    """How many tasks match."""


class AddedTasks(Model):
    """The tasks that were added, and why others were refused, by name."""

    tasks: list[TaskResource]
    refused: dict[str, Refusal]


class LeasedTasks(Model):
    """The tasks that were leased."""

    tasks: list[TaskResource]
    rate_limited: bool


FIELD_OF_ERROR: Final[Mapping[type[errors.PullQueueError], str]] = {
    errors.ClockError: "countdown",
    errors.InvalidEtaError: "eta",
    errors.InvalidLeaseTimeError: "lease_seconds",
    errors.InvalidMaxTasksError: "max_tasks",
    errors.InvalidTagError: "tag",
    errors.InvalidTaskNameError: "name",
}
"""The field of a new task, or of a lease, that an error of the engine is about."""


def parse_since(since: str, now_usec: int) -> datetime:
    """Return the time that is meant; if the text is empty, the first of all.

    Raises:
        ApiError: the text is not a time.
    """
    text, now = since.strip(), from_usec(now_usec)
    if not text:
        return datetime.min.replace(tzinfo=UTC)
    if not _TIME_OF_DAY.fullmatch(text):
        return parse_time(text, "since", ApiError)
    try:
        day_time = time.fromisoformat(text)
    except ValueError:
        message = f"since is {quoted(text)}, which is not a time of the day: use one such as 14:05"
        raise ApiError(message) from None
    today = datetime.combine(now.date(), day_time, now.tzinfo)
    return today if today <= now or now.toordinal() == 1 else today - timedelta(days=1)
