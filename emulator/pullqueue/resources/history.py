"""Operations on what is recorded: events and requests."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Annotated

from msgspec import UNSET, Meta
from msgspec.structs import replace

from pullqueue.api.errors import ApiError
from pullqueue.engine.events import Event as EngineEvent
from pullqueue.engine.events import EventKind, Interface
from pullqueue.errors import UnknownQueueError, UnknownTaskError
from pullqueue.observe import RECORDED
from pullqueue.observe.models import Request
from pullqueue.observe.request_log import RequestLog, excerpt
from pullqueue.resources.models import Since, TaskResource, build_task_resources, parse_since
from pullqueue.resources.operations import operation
from pullqueue.resources.queues import find_task
from pullqueue.resources.task_lists import Limit
from pullqueue.runtime.situation import MINUTE
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Bytes, Count, Maybe, Model, Time, about, iso
from pullqueue.tasks import TombstonedTaskError
from pullqueue.text import counted, quoted

_RPC = re.compile("([A-Z][A-Za-z]*?)(Task|Queue)s?")
"""A method of Cloud Tasks over gRPC; REST has the same methods by other names."""


class Event(Model):
    """One event in the history of a task."""

    kind: EventKind
    time: Time
    until: Annotated[
        Time | None,
        about(
            "When the lease ends, when the next attempt is due after a failed one, or "
            "by when the running attempt must end."
        ),
    ]
    retry_count: Count
    status: Annotated[
        Count | None, about("Status of an attempt that has ended; 0 if there was no response.")
    ]
    interface: Annotated[
        Interface | None,
        about("Interface of the call; null if time caused the event, or it is not known."),
    ]
    client: Annotated[
        str, about("The caller: the e-mail address of its credentials, or its User-Agent.")
    ]
    request: Annotated[
        Count | None,
        about(
            "Number of the request in `/requests`; null if there is none, or it is no "
            "longer among the latest."
        ),
    ]
    reason: Annotated[
        str | None,
        about("Why an attempt failed: the first line of the response, or why there was none."),
    ] = None
    fault: Annotated[Count | None, about("Number of the fault that made an attempt fail.")] = None
    requeued: Annotated[
        bool, about("Whether the exhausted task was added again, by an operator.")
    ] = False
    attempts: Annotated[
        Count,
        about(
            "How many attempts it counts, of which `retry_count` is the last: more "
            "than 1 where an address refused connections while a manual clock passed time, and "
            "only the first attempt was made."
        ),
    ] = 1

    @classmethod
    def of(
        cls, event: EngineEvent, requests: RequestLog, *, before: EngineEvent | None = None
    ) -> Event:
        """Return an event of the engine, as a server with its own request log shows it.

        `before` is the one before it.
        """
        origin, result = event.origin, event.result
        return cls(
            kind=event.kind,
            time=event.time.isoformat(),
            # Of an attempt it is the end of a lease, which is renewed until the deadline.
            until=None if event.kind is EventKind.ATTEMPT_STARTED else iso(event.until),
            retry_count=event.retry_count,
            attempts=event.attempts,
            status=event.status,
            interface=None if origin is None else origin.interface,
            client="" if origin is None else origin.client,
            request=requests.number_of(origin),
            reason=None if result is None else result.reason,
            fault=None if result is None else result.fault,
            requeued=event.kind is EventKind.ADDED
            and before is not None
            and before.kind is EventKind.EXHAUSTED
            and (origin is None or origin.interface not in RECORDED),
        )


class TaskHistory(Model):
    """The history of a task, with the task, or the reason why it does not exist."""

    events: list[Event]
    task: TaskResource | None
    problem: str | None
    missing: Annotated[
        str | None, about("Why the beginning of the history is missing; null: it is not.")
    ]
    last_response: Annotated[
        Bytes | None,
        about(
            "First 4 KiB of the response to its last attempt, if that has failed; null "
            "if it has not, or there was no response."
        ),
    ] = None


class HistoryQuery(Model):
    """Which events to return."""

    since: Since = ""


class Requests(Model):
    """A page of requests."""

    requests: list[Request]
    next: Count | None
    """The parameter `before` of the next page."""


class Throughput(Model):
    """What happened to the tasks of a queue in the last minute, as numbers of tasks."""

    added: Count
    leased: Count
    deleted: Annotated[Count, about("Number of deleted tasks, purged ones included.")]
    exhausted: Count


class RequestQuery(Model):
    """Which requests to return."""

    limit: Limit = 100
    before: Annotated[Maybe[Count], about("Value of `next` on the previous page.")] = UNSET
    queue: Annotated[str, about("Only requests on this queue.")] = ""
    task: Annotated[str, about("Only requests about this task.")] = ""
    interface: Annotated[Maybe[Interface], about("Only requests through this interface.")] = UNSET
    method: Annotated[
        str,
        about(
            "Only requests whose method contains this text, such as `lease`, "
            "`tasks.create` or `CreateTask`."
        ),
    ] = ""
    client: Annotated[
        str, about("Only requests whose client, agent or caller contains this text.")
    ] = ""
    status: Annotated[
        str,
        Meta(
            pattern="^(|failed|[1-5](xx|[0-9]{2}))$",
            examples=["404", "4xx", "failed"],
            description="Only requests with this status: 404, 4xx, or `failed` (400 on, or none).",
        ),
    ] = ""
    search: Annotated[
        str,
        about(
            "Only requests with this text in method, verb, path, query or bodies, or "
            "in the reason why they failed."
        ),
    ] = ""
    since: Since = ""
    failure: Annotated[Maybe[Count], about("Only requests of this failure in `/activity`.")] = UNSET
    fault: Annotated[
        Maybe[Count], about("Only requests on which the fault of this number triggered.")
    ] = UNSET


@operation("GET", "/queues/{queue}/tasks/{task}/history")
def get_history(state: ServerState, queue: str, task: str, query: HistoryQuery) -> TaskHistory:
    """Return a task and its history; only the history, and the reason, if it was deleted."""
    queue_of_task = state.emulator.queue(queue)
    start = parse_since(query.since, state.emulator.now_usec())
    history = queue_of_task.history(task)
    events = [
        Event.of(event, state.requests, before=before)
        for before, event in pairwise([None, *history])
        if event is not None
    ]
    found, problem, response = None, None, b""
    try:
        stored, exhausted = find_task(queue_of_task, task)
    except (UnknownTaskError, TombstonedTaskError) as error:
        if not events:
            raise
        problem = str(error)
    else:
        [found] = build_task_resources([stored], queue_of_task, state, exhausted=exhausted)
        response = stored.attempts.response
    if found and found.push and history and history[-1].kind is EventKind.ATTEMPT_STARTED:
        deadline = timedelta(seconds=found.push.deadline_seconds)
        with suppress(OverflowError):  # it is after the year 9999
            events[-1].until = iso(history[-1].time + deadline)
    return TaskHistory(
        events=[each for each in events if datetime.fromisoformat(each.time) >= start],
        task=found,
        problem=problem,
        missing=_explain_missing(state, events, found),
        last_response=excerpt(response) if response else None,
    )


def _explain_missing(
    state: ServerState, events: list[Event], task: TaskResource | None
) -> str | None:
    """Return why the add of a task is not among its events; None: it is."""
    if any(event.kind is EventKind.ADDED for event in events):
        return None
    loaded = state.snapshot_loaded
    if loaded is None or (task and datetime.fromisoformat(task.enqueued) > loaded):
        return "only the latest events of a queue are recorded"
    return f"recorded from the load of a snapshot on, at {loaded.isoformat()}"


@operation("GET", "/queues/{queue}/throughput", key="last_minute")
def get_throughput(state: ServerState, queue: str) -> Throughput:
    """Return what happened to the tasks of a queue in the last minute, through every interface."""
    counts = state.emulator.queue(queue).count_events(last=MINUTE)
    return Throughput(
        added=counts[EventKind.ADDED],
        leased=counts[EventKind.LEASED],
        deleted=counts[EventKind.DELETED] + counts[EventKind.PURGED],
        exhausted=counts[EventKind.EXHAUSTED],
    )


@operation("GET", "/requests")
def list_requests(state: ServerState, query: RequestQuery) -> Requests:
    """List the latest requests to the API and their responses, newest first."""
    start = parse_since(query.since, state.emulator.now_usec())
    if query.queue:
        with suppress(UnknownQueueError):  # of calls that failed
            query = replace(query, queue=state.emulator.queue(query.queue).name)
    latest = state.requests.latest()
    if query.since:
        latest = [each for each in latest if datetime.fromisoformat(each.time) >= start]
    matching = (logged for logged in latest if _matches(query, logged))
    found = list(islice(matching, query.limit + 1))
    shown = found[: query.limit]
    return Requests(requests=shown, next=shown[-1].number if len(found) > len(shown) else None)


def _matches(query: RequestQuery, logged: Request) -> bool:
    if query.before is not UNSET and logged.number >= query.before:
        return False
    # The first five leave few of 10,000 requests for the page of a push task.
    if (
        query.queue not in ("", logged.queue)
        or query.interface not in (UNSET, logged.interface)
        or query.failure not in (UNSET, logged.failure)
        or query.fault not in (UNSET, logged.fault)
        or (query.task and query.task not in logged.tasks)
    ):
        return False
    status = query.status.replace("xx", "..").replace("failed", "[45]..|0")
    if status and not re.fullmatch(status, str(logged.status)):
        return False
    client = f"{logged.client} {logged.agent} {logged.caller or ''}"
    return (
        any(each.casefold() in logged.method.casefold() for each in _methods(query.method))
        and query.client.casefold() in client.casefold()
        and _contains(logged, query.search.casefold())
    )


def _methods(text: str) -> list[str]:
    """Return a part of the name of a method; of one of gRPC also its name over REST."""
    found = _RPC.fullmatch(text)
    if found is None:
        return [text]
    verb, collection = found.groups()
    return [text, f"{collection}s.{verb}"]


def _contains(logged: Request, text: str) -> bool:
    if not text:
        return True
    call = f"{logged.interface} {logged.method} {logged.verb} {logged.path}?{logged.query}"
    shown = f"{call} {logged.reason}"
    return (
        text in shown.casefold()
        or text.encode() in logged.body.data.lower()
        or text.encode() in logged.response.data.lower()
    )


@operation("DELETE", "/requests", key="deleted")
def clear_requests(state: ServerState) -> Count:
    """Delete the record of the requests."""
    deleted = state.requests.clear()
    state.activity.record(f"deleted the record of {counted(deleted, 'request')}")
    return deleted


@operation("GET", "/requests/{number}", key="request")
def get_request(state: ServerState, number: str) -> Request:
    """Return one of the latest requests."""
    is_number = number.isdecimal() and len(number) < 19
    if is_number and (logged := state.requests.get(int(number))):
        return logged
    raise ApiError(f"request {quoted(number)} is not recorded: only the latest are", status=404)
