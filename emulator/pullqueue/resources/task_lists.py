"""Operations that list tasks: of one queue, of all, exhausted ones, and why they failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nlargest, nsmallest
from itertools import chain, count, islice
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from pullqueue.clock import from_usec
from pullqueue.engine.events import EventKind
from pullqueue.engine.queue import Queue, walk
from pullqueue.errors import UnknownTaskError
from pullqueue.observe.since import SINCE_FORMS, parse_since
from pullqueue.resources.models import (
    EXHAUSTED,
    NOT_RECORDED,
    PREVIEW_BYTES,
    Holder,
    ShownState,
    TaskResource,
    Tasks,
    build_task_resources,
)
from pullqueue.resources.operations import operation
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Maybe, Model, Time, given
from pullqueue.tasks import Task, TaskState, TombstonedTaskError

_QUEUE = "/queues/{queue}"
_PAGE = 1_000
_SEARCHED_TASKS = 100_000
"""How many tasks are read to search, sort or count them."""
_GROUPED_TASKS = 5_000
"""How many failed tasks of a queue in one state are read to group them."""
_MAX_DUE_TASKS = 20_000
"""How many tasks that became due since the first failure are read to find those that failed."""
_MAX_GROUPS = 100
"""How many groups of failures are returned: those with the most tasks."""
_KEYS: Mapping[str, Callable[[Task], Any]] = {
    "eta": lambda task: task[:2],
    "name": lambda task: task.name,
    "tag": lambda task: (task.tag is not None, task.tag),
    "size": lambda task: len(task.payload),
    "leases": lambda task: task.retry_count,
    "added": lambda task: (task.enqueued_usec, task.sequence),
}
"""What tasks are sorted by."""

Limit = Annotated[int, Meta(ge=1, le=100_000, description="Maximum number of results.")]


class TaskFilter(Model):
    """Which tasks are meant."""

    tag: Annotated[Maybe[str], Meta(description="Only tasks with this tag.")] = UNSET
    search: Annotated[
        str,
        Meta(
            description="Only tasks with this text in name, payload, URL or last reason, in any "
            "case."
        ),
    ] = ""
    status: Annotated[
        Maybe[Count],
        Meta(description="Only push tasks with this last status; 0: no response."),
    ] = UNSET
    reason: Annotated[
        str,
        Meta(
            description="Only push tasks with this text in the reason of their last failure: the "
            "first line of the response, or why there was none."
        ),
    ] = ""

    @property
    def is_limited(self) -> bool:
        """True if not all tasks, or all in a state, are meant."""
        return bool(self.tag is not UNSET or self.search or self.status is not UNSET or self.reason)


class ListQuery(TaskFilter):
    """Which tasks to return."""

    limit: Limit = 100
    offset: Annotated[
        int,
        Meta(ge=0, le=10**9, description="Number of matching tasks to skip."),
    ] = 0


class TaskQuery(ListQuery):
    """Which tasks of a queue to return, and in which order."""

    state: Annotated[Maybe[ShownState], Meta(description="Only tasks in this state.")] = UNSET
    sort: Annotated[
        Literal["eta", "name", "tag", "size", "leases", "added"],
        Meta(description="Sort order. Orders other than eta sort the first 100,000 tasks only."),
    ] = "eta"
    descending: bool = False
    client: Annotated[
        str, Meta(description="Only tasks that this client has leased; its name as in `/workers`.")
    ] = ""

    @property
    def is_limited(self) -> bool:
        """True if not all tasks, or all in a state, are meant."""
        return bool(self.client or super().is_limited)


class ExhaustedQuery(ListQuery):
    """Which exhausted tasks to return, and how much of them."""

    queue: Annotated[Maybe[str], Meta(description="Only tasks of this queue.")] = UNSET
    payload: Annotated[
        Literal["preview", "full"],
        Meta(description="How much of each payload to return: its first 256 bytes, or all."),
    ] = "preview"


FailedState = Literal["exhausted", "retrying"]


class FailureQuery(Model):
    """Which failed tasks to group."""

    queue: Annotated[Maybe[str], Meta(description="Only tasks of this queue.")] = UNSET
    state: Annotated[
        Maybe[FailedState],
        Meta(
            description="Only exhausted tasks, or those that will be sent again. Of the latter the "
            "first 5,000 of a queue are read; of those that are due again, those that are among "
            "the first 20,000 tasks that became due since one failed."
        ),
    ] = UNSET
    since: Annotated[
        str, Meta(description="Only tasks that failed from this time on." + SINCE_FORMS)
    ] = ""


class FailureGroup(Model):
    """Tasks of a queue that failed for the same reason."""

    queue: str
    state: Annotated[FailedState, Meta(description="retrying: they will be sent again.")]
    status: Annotated[
        Count | None,
        Meta(description="Status of the last attempt; 0: no response; null: it was leased."),
    ]
    reason: Annotated[
        str | None,
        Meta(description="First line of the last response, or why there was none; null: unknown."),
    ]
    tasks: Count
    latest: Annotated[str, Meta(description="Name of the task that failed last.")]
    last: Annotated[Time, Meta(description="When it failed.")]


class _Failure(NamedTuple):
    """What tasks of a group have in common."""

    queue: str
    state: FailedState
    status: int | None
    reason: str | None


@operation("GET", f"{_QUEUE}/tasks")
def list_tasks(state: ServerState, queue: str, query: TaskQuery) -> Tasks:
    """List tasks in order of eta and arrival, without leasing them."""
    found = state.emulator.queue(queue)
    exhausted = query.state == EXHAUSTED
    tasks, total = _page(found, query)
    shown = build_task_resources(
        tasks, found, state.push_to, payload_bytes=PREVIEW_BYTES, exhausted=exhausted
    )
    return Tasks(tasks=shown, total=total)


@operation("GET", "/tasks")
def list_all_tasks(state: ServerState, query: TaskQuery) -> Tasks:
    """List tasks of all queues, queue by queue, each in order of eta and arrival.

    A search lists the tasks that have exactly this name first.
    """
    shown: list[TaskResource] = []
    total = 0
    queues = state.emulator.queues
    if query.search:
        queues = sorted(queues, key=lambda queue: not _has(queue, query.search))
    for queue in queues:
        left = query.offset - total
        room = max(0, query.limit - len(shown))
        page = replace(query, offset=max(0, left), limit=room)
        found = list_tasks(state, queue.name, page)
        shown += found.tasks
        total += found.total
    return Tasks(tasks=shown, total=total)


@operation("GET", "/exhausted")
def list_exhausted(state: ServerState, query: ExhaustedQuery) -> Tasks:
    """List exhausted tasks, the latest first; of a search, those with exactly this name before."""
    found = [
        (task, queue)
        for queue in _queues(state, query.queue)
        for task in matching_tasks(queue, query, exhausted=True)
    ]
    found.sort(key=lambda pair: pair[0].eta_usec, reverse=True)
    found.sort(key=lambda pair: pair[0].name != query.search)
    payload_bytes = None if query.payload == "full" else PREVIEW_BYTES
    shown = [
        build_task_resources(
            [task], queue, state.push_to, payload_bytes=payload_bytes, exhausted=True
        )[0]
        for task, queue in found[query.offset : query.offset + query.limit]
    ]
    return Tasks(tasks=shown, total=len(found))


@operation("GET", "/failures", key="failures")
def list_failures(state: ServerState, query: FailureQuery) -> list[FailureGroup]:
    """Group the tasks that failed by queue, state, status and reason; the largest groups first."""
    groups = [
        FailureGroup(
            *failure,
            tasks=len(tasks),
            latest=tasks[0].name,
            last=_failed_at(tasks[0]).isoformat(),
        )
        for failure, tasks in _failures(state, query).items()
    ]
    groups.sort(key=lambda group: group.tasks, reverse=True)
    return groups[:_MAX_GROUPS]


def failed_names(
    state: ServerState, queue: str, status: int | None, reason: str | None
) -> list[str]:
    """Return the names of the exhausted tasks that are in a group of failures now."""
    found = _failures(state, FailureQuery(queue=queue, state=EXHAUSTED))
    failure = _Failure(queue, EXHAUSTED, status, reason)
    return [task.name for task in found.get(failure, ())]


def _failures(state: ServerState, query: FailureQuery) -> dict[_Failure, list[Task]]:
    """Return the tasks of each group, the latest first."""
    found: defaultdict[_Failure, list[Task]] = defaultdict(list)
    start = parse_since(query.since, state.emulator.now_usec())
    states: Sequence[FailedState] = ("exhausted", "retrying")
    for queue in _queues(state, query.queue):
        for each in states if query.state is UNSET else [query.state]:
            tasks = reversed(queue.exhausted) if each == EXHAUSTED else _failed_tasks(queue)
            for task in islice(tasks, _GROUPED_TASKS):
                if start is None or _failed_at(task) >= start:
                    last = task.attempts
                    found[_Failure(queue.name, each, last.status, last.reason)].append(task)
    for same in found.values():
        same.sort(key=_failed_at, reverse=True)
    return found


def _failed_tasks(queue: Queue) -> Iterator[Task]:
    """Yield tasks that failed and will be sent again: once they are due, or the rate permits."""
    if not queue.is_push:
        return iter(())
    # Those that are due again are behind all that were never sent: SQLite reads 45,000 a second.
    flow = queue.flow(since_usec=0).items()
    failed_usec = min(
        (usec for usec, kinds in flow if EventKind.ATTEMPT_FAILED in kinds), default=0
    )
    due = walk(queue, page=_PAGE, state=TaskState.AVAILABLE, after=(failed_usec - 1, 0))
    tasks = chain(walk(queue, page=_PAGE, state=TaskState.RETRYING), islice(due, _MAX_DUE_TASKS))
    return (task for task in tasks if task.attempts.status is not None)


def _queues(state: ServerState, name: Maybe[str]) -> Sequence[Queue]:
    """Return the queue of a name, or all."""
    return state.emulator.queues if isinstance(name, UnsetType) else [state.emulator.queue(name)]


def _failed_at(task: Task) -> datetime:
    """Return when the last attempt, or the last lease, of a task ended."""
    ended_usec = task.attempts.ended_usec
    return from_usec(task.eta_usec if ended_usec is None else ended_usec)


def matching_tasks(queue: Queue, chosen: TaskFilter, *, exhausted: bool) -> Iterator[Task]:
    """Yield all tasks that match a filter; exhausted ones are the latest first."""
    text, tag = chosen.search.casefold(), given(chosen.tag)
    if exhausted:
        found: Iterator[Task] = (
            task for task in reversed(queue.exhausted) if tag is None or task.tag == tag
        )
    else:
        state = given(getattr(chosen, "state", UNSET))
        in_state = None if state is None else TaskState(state)
        found = walk(queue, page=_PAGE, state=in_state, tag=tag)
        if client := getattr(chosen, "client", ""):
            found = _leased_by(queue, found, client)
    if chosen.status is not UNSET or chosen.reason:
        found = (task for task in found if _failed_so(task, given(chosen.status), chosen.reason))
    if not text:
        return found
    # Not for each task, as the URL of those without one: 12,500 take 8 ms instead of 11.
    data = text.encode() if text.isascii() else None
    return (task for task in found if _contains(task, text, data))


def _page(queue: Queue, query: TaskQuery) -> tuple[list[Task], int]:
    """Return a page in any order, and how many tasks match."""
    end = query.offset + query.limit
    exhausted = query.state == EXHAUSTED
    matching = islice(matching_tasks(queue, query, exhausted=exhausted), _SEARCHED_TASKS)
    total = None if exhausted else _count(queue, query)
    counter = count()
    counted = (task for task, _ in zip(matching, counter, strict=False))
    if (
        query.search and query.sort == "eta" and not query.descending
    ):  # as if it were not there, if it is the 101st
        first = nsmallest(end, counted, lambda task: task.name != query.search)
    elif query.sort == "eta" and not query.descending:
        first = list(islice(counted, end))
    else:
        first = (nlargest if query.descending else nsmallest)(end, counted, _KEYS[query.sort])
    if total is None:
        total = len(list(matching)) + next(counter)
    return first[query.offset :], total


def _has(queue: Queue, name: str) -> bool:
    """Return whether a queue has a task of this name."""
    try:
        queue.get_task(name)
    except (UnknownTaskError, TombstonedTaskError):
        return False
    return True


def _leased_by(queue: Queue, tasks: Iterable[Task], client: str) -> Iterator[Task]:
    """Return those tasks that a client has leased."""
    now_usec = queue.now_usec()
    leased = [task for task in tasks if task.state_at(now_usec) is TaskState.LEASED]
    leases = queue.last_leases([task.name for task in leased])
    clients = {name: Holder.of(lease, now_usec).client for name, lease in leases.items()}
    return (task for task in leased if clients.get(task.name, NOT_RECORDED) == client)


def _count(queue: Queue, chosen: TaskQuery) -> int | None:
    """Return how many tasks match, if that is known without looking at all."""
    if chosen.is_limited:
        return None
    state = given(chosen.state) or "tasks"
    numbers: int = getattr(queue.fetch_statistics(), state)
    return numbers


def _failed_so(task: Task, status: int | None, reason: str) -> bool:
    """Return whether the last attempt of a task had a status, and a reason that contains a text."""
    attempts = task.attempts
    if attempts.status is None or (status is not None and status != attempts.status):
        return False
    return reason.casefold() in (attempts.reason or "").casefold()


def _contains(task: Task, text: str, data: bytes | None) -> bool:
    """Return whether name, payload or URL contain a text, in any case; `data` is it in ASCII."""
    if text in task.name.casefold():
        return True
    if task.request is not None and text in task.request.url.casefold():
        return True
    if task.attempts.reason is not None and text in task.attempts.reason.casefold():
        return True
    if data is not None:
        return data in task.payload.lower()
    return text in task.payload.decode("utf-8", "replace").casefold()
