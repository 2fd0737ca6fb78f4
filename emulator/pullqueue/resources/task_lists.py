"""Operations that list tasks: of one queue, of all, exhausted ones, and why they failed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest, nsmallest
from itertools import count, islice
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from pullqueue.clock import to_usec
from pullqueue.engine.queue import Queue, walk
from pullqueue.errors import UnknownTaskError
from pullqueue.observe.patterns import pattern_of
from pullqueue.resources.models import (
    EXHAUSTED,
    NOT_RECORDED,
    PREVIEW_BYTES,
    Holder,
    ShownState,
    TaskResource,
    Tasks,
    build_task_resources,
    parse_since,
)
from pullqueue.resources.operations import operation
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Maybe, Model, about, given
from pullqueue.tasks import Task, TaskState, TombstonedTaskError

_PAGE = 1_000
_SEARCHED_TASKS = 100_000
"""How many tasks are read to search, sort or count them."""
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

    tag: Annotated[Maybe[str], about("Only tasks with this tag.")] = UNSET
    search: Annotated[
        str, about("Only tasks with this text in name, payload, URL or last reason, in any case.")
    ] = ""
    status: Annotated[
        Maybe[Count], about("Only push tasks with this last status; 0: no response.")
    ] = UNSET
    reason: Annotated[
        str,
        about(
            "Only push tasks with this text in the reason of their last failure, the "
            "first line of the response or why there was none, or in its pattern."
        ),
    ] = ""
    pattern: Annotated[
        str, about("Only failed tasks of this pattern, as `/failures` returns it.")
    ] = ""
    since: Annotated[
        str,
        about(
            "Only tasks whose last attempt or lease ended from this time on: "
            "2026-01-01T14:05:00Z, or 14:05 (UTC), when it last was."
        ),
    ] = ""
    until: Annotated[
        str, about("Only tasks whose last attempt or lease ended before this time.")
    ] = ""

    @property
    def is_limited(self) -> bool:
        """True if not all tasks, or all in a state, are meant."""
        texts = (self.search, self.reason, self.pattern, self.since, self.until)
        return self.tag is not UNSET or self.status is not UNSET or any(texts)


class ListQuery(TaskFilter):
    """Which tasks to return."""

    limit: Limit = 100
    offset: Annotated[
        int, Meta(ge=0, le=10**9, description="Number of matching tasks to skip.")
    ] = 0


class TaskQuery(ListQuery):
    """Which tasks of a queue to return, and in which order."""

    state: Annotated[Maybe[ShownState], about("Only tasks in this state.")] = UNSET
    sort: Annotated[
        Literal["eta", "name", "tag", "size", "leases", "added"],
        about("Sort order. Orders other than eta sort the first 100,000 tasks only."),
    ] = "eta"
    descending: bool = False
    client: Annotated[
        str, about("Only tasks that this client has leased; its name as in `/workers`.")
    ] = ""

    @property
    def is_limited(self) -> bool:
        """True if not all tasks, or all in a state, are meant."""
        return bool(self.client or super().is_limited)


class ExhaustedQuery(ListQuery):
    """Which exhausted tasks to return, and how much of them."""

    queue: Annotated[Maybe[str], about("Only tasks of this queue.")] = UNSET
    payload: Annotated[
        Literal["preview", "full"],
        about("How much of each payload to return: its first 256 bytes, or all."),
    ] = "preview"


@operation("GET", "/queues/{queue}/tasks")
def list_tasks(state: ServerState, queue: str, query: TaskQuery) -> Tasks:
    """List tasks in order of eta and arrival, without leasing them."""
    found = state.emulator.queue(queue)
    exhausted = query.state == EXHAUSTED
    tasks, total = _page(found, query)
    shown = build_task_resources(
        tasks, found, state, payload_bytes=PREVIEW_BYTES, exhausted=exhausted, search=query.search
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
        for queue in chosen_queues(state, query.queue)
        for task in matching_tasks(queue, query, EXHAUSTED)
    ]
    found.sort(key=lambda pair: pair[0].eta_usec, reverse=True)
    found.sort(key=lambda pair: pair[0].name != query.search)
    payload_bytes = None if query.payload == "full" else PREVIEW_BYTES
    shown = [
        build_task_resources(
            [task], queue, state, payload_bytes=payload_bytes, exhausted=True, search=query.search
        )[0]
        for task, queue in found[query.offset : query.offset + query.limit]
    ]
    return Tasks(tasks=shown, total=len(found))


def chosen_queues(state: ServerState, name: Maybe[str]) -> Sequence[Queue]:
    """Return the queue of a name, or all."""
    return state.emulator.queues if isinstance(name, UnsetType) else [state.emulator.queue(name)]


def matching_tasks(
    queue: Queue, chosen: TaskFilter, state: str | None, *, client: str = ""
) -> Iterator[Task]:
    """Yield all tasks in a state, or in any but exhausted, that match a filter.

    Exhausted ones are the latest first. With a `client`, those that it has leased.
    """
    if state == EXHAUSTED:
        return select(reversed(queue.exhausted), chosen, queue.now_usec())
    in_state = None if state is None else TaskState(state)
    found = walk(queue, page=_PAGE, state=in_state, tag=given(chosen.tag))
    if client:
        found = _leased_by(queue, found, client)
    return select(found, chosen, queue.now_usec())


def failed_usec(task: Task) -> int:
    """Return when the last attempt, or the last lease, of a failed task ended."""
    ended_usec = task.attempts.ended_usec
    return task.eta_usec if ended_usec is None else ended_usec


def select(tasks: Iterator[Task], chosen: TaskFilter, now_usec: int) -> Iterator[Task]:
    """Yield those of some tasks that match a filter."""
    if chosen.since or chosen.until:
        start_usec = to_usec(parse_since(chosen.since, now_usec))
        end_usec = to_usec(parse_since(chosen.until, now_usec)) if chosen.until else sys.maxsize
        tasks = (task for task in tasks if start_usec <= failed_usec(task) < end_usec)
    if chosen.tag is not UNSET:
        tasks = (task for task in tasks if task.tag == chosen.tag)
    if chosen.status is not UNSET or chosen.reason or chosen.pattern:
        tasks = (task for task in tasks if _failed_so(task, chosen))
    text = chosen.search.casefold()
    return (task for task in tasks if _contains(task, text)) if text else tasks


def _page(queue: Queue, query: TaskQuery) -> tuple[list[Task], int]:
    """Return a page in any order, and how many tasks match."""
    end = query.offset + query.limit
    state, total = given(query.state), None
    found = matching_tasks(queue, query, state, client=query.client)
    matching = islice(found, _SEARCHED_TASKS)
    if not (state == EXHAUSTED or query.is_limited):  # it is known without looking at all
        total = getattr(queue.fetch_statistics(), state or "tasks")
    counter = count()
    counted = (task for task, _ in zip(matching, counter, strict=False))
    is_by_eta = query.sort == "eta" and not query.descending
    if is_by_eta and query.search:  # a task of exactly this name is first, wherever it is
        first = nsmallest(end, counted, lambda task: task.name != query.search)
    elif is_by_eta:
        first = list(islice(counted, end))
    else:
        first = (nlargest if query.descending else nsmallest)(end, counted, _KEYS[query.sort])
    if total is None:
        total = sum(1 for _ in matching) + next(counter)
    return first[query.offset :], total


def _has(queue: Queue, name: str) -> bool:
    try:
        queue.get_task(name)
    except (UnknownTaskError, TombstonedTaskError):
        return False
    return True


def _leased_by(queue: Queue, tasks: Iterable[Task], client: str) -> Iterator[Task]:
    now_usec = queue.now_usec()
    leased = [task for task in tasks if task.state_at(now_usec) is TaskState.LEASED]
    leases = queue.last_leases([task.name for task in leased])
    clients = {name: Holder.of(lease, now_usec).client for name, lease in leases.items()}
    return (task for task in leased if clients.get(task.name, NOT_RECORDED) == client)


def _failed_so(task: Task, chosen: TaskFilter) -> bool:
    """Return whether a task failed last with a status, and for a reason, that are chosen."""
    attempts, text = task.attempts, chosen.reason.casefold()
    if chosen.status is not UNSET and chosen.status != attempts.status:
        return False
    # The text is one of the reason or its pattern, in lower case.
    if text and not (
        attempts.reason and text in f"{attempts.reason}\n{pattern_of(task)}".casefold()
    ):
        return False
    return not chosen.pattern or chosen.pattern == pattern_of(task)


def _contains(task: Task, text: str) -> bool:
    """Return whether name, payload, URL or last reason contain a text, in any case."""
    if text in task.name.casefold():
        return True
    if task.request is not None and text in task.request.url.casefold():
        return True
    if task.attempts.reason is not None and text in task.attempts.reason.casefold():
        return True
    if text.isascii():
        return text.encode() in task.payload.lower()
    return text in task.payload.decode("utf-8", "replace").casefold()
