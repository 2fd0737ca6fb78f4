"""Operations on queues and their tasks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import accumulate, islice
from typing import Annotated, Literal

from msgspec import UNSET, Meta

from pullqueue.api.errors import ApiError
from pullqueue.clock import duration_usec, from_usec
from pullqueue.control import models
from pullqueue.control.models import PREVIEW_BYTES, Maybe, Refusal, given, tasks_of, time_of
from pullqueue.control.operations import operation
from pullqueue.control.state import ServerState
from pullqueue.engine.queue import Queue
from pullqueue.errors import InvalidEtaError, TaskAlreadyExistsError
from pullqueue.tasks import DeleteResult, NewTask, Task, TaskState, not_deleted

_QUEUE = "/queues/{queue}"
_TASK = "/queues/{queue}/tasks/{task}"
_PAGE = 1_000
_SEARCHED_TASKS = 100_000
"""How many tasks one search reads; `next` then leads on."""
_SIGNED_64 = range(-(2**63), 2**63)


class PageQuery(models.Model):
    """How much to return."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number.")] = 100


class TaskQuery(PageQuery):
    """Which tasks to return, and how much of them."""

    state: Annotated[Maybe[TaskState], Meta(description="Only tasks in this state.")] = UNSET
    tag: Annotated[Maybe[str], Meta(description="Only tasks with this tag.")] = UNSET
    search: Annotated[
        str, Meta(description="Only tasks with this in name or payload, in any case.")
    ] = ""
    after: Annotated[Maybe[str], Meta(description="`next` of the page before.")] = UNSET
    payload: Annotated[
        Literal["preview", "full"],
        Meta(description="How much of each payload: its first 256 bytes, or all."),
    ] = "preview"


@operation("GET", "/queues")
def list_queues(state: ServerState) -> models.Queues:
    """List all queues with their numbers and settings."""
    return models.Queues(queues=[models.Queue.of(queue) for queue in state.emulator.queues])


@operation("GET", _QUEUE)
def get_queue(state: ServerState, queue: str) -> models.OneQueue:
    """Return one queue."""
    return models.OneQueue(queue=models.Queue.of(state.emulator.queue(queue)))


@operation("POST", f"{_QUEUE}/purge")
def purge_queue(state: ServerState, queue: str) -> models.Deleted:
    """Delete all tasks of a queue."""
    return models.Deleted(deleted=state.emulator.queue(queue).purge())


@operation("POST", "/purge")
def purge_all(state: ServerState) -> models.Deleted:
    """Delete all tasks of all pull queues that are not disabled."""
    usable = [queue for queue in state.pull_queues() if not queue.disabled]
    return models.Deleted(deleted=sum(queue.purge() for queue in usable))


@operation("GET", f"{_QUEUE}/tasks")
def list_tasks(state: ServerState, queue: str, query: TaskQuery) -> models.Tasks:
    """List tasks in order of eta and arrival, without leasing them."""
    found = state.emulator.queue(queue)
    tasks, following = _search(found, query)
    whole = query.payload == "full"
    if whole:
        fitting = _fitting(tasks, state.emulator.limits.lease_payload_bytes)
        if len(fitting) < len(tasks):
            tasks, following = fitting, fitting[-1][:2]
    return models.Tasks(
        tasks=tasks_of(tasks, found, payload_bytes=None if whole else PREVIEW_BYTES),
        next=None if following is None else f"{following[0]}-{following[1]}",
    )


@operation("POST", f"{_QUEUE}/tasks")
def add_tasks(state: ServerState, queue: str, body: models.NewTasks) -> models.AddedTasks:
    """Add up to 100 tasks; names in use are reported in `refused`, the other tasks are added."""
    found = state.emulator.queue(queue)
    now = from_usec(found.now_usec())
    tasks = [_new_task(task, now, place) for place, task in enumerate(body.tasks)]
    insertion = found.insert(tasks)
    refused: dict[str, Refusal] = {
        name: "exists" if issubclass(kind, TaskAlreadyExistsError) else "tombstoned"
        for name, kind in insertion.refused.items()
    }
    added = tasks_of(insertion.added, found, payload_bytes=PREVIEW_BYTES)
    return models.AddedTasks(tasks=added, refused=refused)


@operation("POST", f"{_QUEUE}/lease")
def lease_tasks(state: ServerState, queue: str, body: models.LeaseRequest) -> models.LeasedTasks:
    """Lease the first available tasks."""
    found = state.emulator.queue(queue)
    tag = given(body.tag)
    lease = found.lease(
        body.lease_seconds,
        body.max_tasks,
        group_by_tag=tag is not None if body.group_by_tag is UNSET else body.group_by_tag,
        tag=tag,
    )
    tasks = tasks_of(lease.tasks, found, payload_bytes=None)
    return models.LeasedTasks(tasks=tasks, rate_limited=lease.rate_limited)


@operation("POST", f"{_QUEUE}/delete")
def delete_tasks(state: ServerState, queue: str, body: models.TaskNames) -> models.Deletions:
    """Delete tasks by name, leased or not."""
    results = state.emulator.queue(queue).delete_tasks(body.tasks)
    return models.Deletions(
        results=[
            models.Deletion(task=name, result=result.value)
            for name, result in zip(body.tasks, results, strict=True)
        ]
    )


@operation("GET", _TASK)
def get_task(state: ServerState, queue: str, task: str) -> models.OneTask:
    """Return one task with its payload."""
    found = state.emulator.queue(queue)
    return _one_task(found.get_task(task), found)


@operation("DELETE", _TASK)
def delete_task(state: ServerState, queue: str, task: str) -> models.Deleted:
    """Delete one task, leased or not."""
    result = state.emulator.queue(queue).delete_tasks(task)[0]
    if result is not DeleteResult.DELETED:
        message = f"task {task!r} of queue {queue!r} {not_deleted(result)}"
        raise ApiError(message, status=404, reason="notFound")
    return models.Deleted(deleted=1)


@operation("POST", f"{_TASK}/lease")
def change_lease(
    state: ServerState, queue: str, task: str, body: models.LeaseChange
) -> models.OneTask:
    """Change the end of the current lease of a task, or release it."""
    found = state.emulator.queue(queue)
    expected = given(body.eta_usec)
    changed = found.modify_lease(task, body.lease_seconds, expected_eta_usec=expected)
    return _one_task(changed, found)


@operation("GET", f"{_QUEUE}/exhausted")
def list_queue_exhausted(state: ServerState, queue: str, query: PageQuery) -> models.Tasks:
    """List the exhausted tasks of a queue, the latest first."""
    return _exhausted([state.emulator.queue(queue)], query.limit)


@operation("GET", "/exhausted")
def list_exhausted(state: ServerState, query: PageQuery) -> models.Tasks:
    """List the exhausted tasks of all queues, the latest first."""
    return _exhausted(state.pull_queues(), query.limit)


def _exhausted(queues: list[Queue], limit: int) -> models.Tasks:
    tasks = [(task, queue) for queue in queues for task in reversed(queue.exhausted)]
    tasks.sort(key=lambda pair: pair[0].eta_usec, reverse=True)
    shown = [
        tasks_of([task], queue, payload_bytes=PREVIEW_BYTES)[0] for task, queue in tasks[:limit]
    ]
    return models.Tasks(tasks=shown, next=None)


def _one_task(task: Task, queue: Queue) -> models.OneTask:
    return models.OneTask(task=tasks_of([task], queue, payload_bytes=None)[0])


def _search(queue: Queue, query: TaskQuery) -> tuple[list[Task], tuple[int, int] | None]:
    """Return a page of tasks, and after which one the next page begins, if there may be more."""
    state, tag, text = given(query.state), given(query.tag), query.search.casefold()
    size = query.limit + 1 if not text else _PAGE

    def walk(position: tuple[int, int] | None) -> Iterator[Task]:
        while page := queue.list_tasks(size, state=state, tag=tag, after=position):
            yield from page
            position = page[-1][:2]
            if len(page) < size:
                return

    found: list[Task] = []
    last: Task | None = None
    for task in islice(walk(_position(given(query.after))), _SEARCHED_TASKS):
        if len(found) == query.limit:
            return found, found[-1][:2]
        last = task
        if text in task.name.casefold() or _is_in(task.payload, text):
            found.append(task)
    more = text and last is not None and queue.list_tasks(1, state=state, tag=tag, after=last)
    return found, last[:2] if more and last is not None else None


def _is_in(payload: bytes, text: str) -> bool:
    """Return whether a payload contains a text, in any case."""
    if text.isascii():
        return text.encode() in payload.lower()
    return text in payload.decode("utf-8", "replace").casefold()


def _fitting(tasks: list[Task], limit: int) -> list[Task]:
    """Return the first tasks whose payloads fit one response; one always does."""
    sizes = accumulate(len(task.payload) for task in tasks)
    return tasks[: max(1, sum(1 for size in sizes if size <= limit))]


def _position(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    eta_usec, _, sequence = text.rpartition("-")
    try:
        position: tuple[int, int] | None = int(eta_usec), int(sequence)
    except ValueError:
        position = None
    if position is None or any(number not in _SIGNED_64 for number in position):
        message = f"after is {text!r:.60}: give what `next` said in the answer before"
        raise ApiError.parameter(message, "after")
    return position


def _new_task(task: models.NewTask, now: datetime, place: int) -> NewTask:
    if task.payload is not UNSET and task.payload_base64 is not UNSET:
        raise ApiError(f"task {place} has both payload and payload_base64: send one of them")
    payload = given(task.payload) if task.payload_base64 is UNSET else task.payload_base64
    return NewTask(
        payload=payload or b"", name=given(task.name), tag=given(task.tag), eta=_eta(task, now)
    )


def _eta(task: models.NewTask, now: datetime) -> datetime | None:
    if task.countdown is not UNSET:
        try:
            return now + timedelta(microseconds=duration_usec(task.countdown))
        except OverflowError:
            raise InvalidEtaError("countdown ends after the year 9999") from None
    return None if task.eta is UNSET else time_of(task.eta, "eta", InvalidEtaError)
