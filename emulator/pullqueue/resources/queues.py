"""Operations on queues and their tasks."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Annotated, Literal

from msgspec import UNSET
from msgspec.structs import asdict

from pullqueue.api.errors import ApiError
from pullqueue.clock import duration_usec, parse_time
from pullqueue.config.model import DEFAULT_QUEUE
from pullqueue.engine import verbs
from pullqueue.engine.events import EventKind
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue, lost_payload
from pullqueue.engine.store import QueueStatistics
from pullqueue.errors import ClockError, InvalidEtaError, TaskLeaseExpiredError, UnknownTaskError
from pullqueue.resources import models
from pullqueue.resources.models import (
    EXHAUSTED,
    PREVIEW_BYTES,
    Refusal,
    ShownState,
    build_task_resources,
)
from pullqueue.resources.operations import operation
from pullqueue.resources.queue_resource import QueueResource, build_resource
from pullqueue.resources.task_lists import TaskFilter, matching_tasks
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Maybe, Model, about, given
from pullqueue.tasks import (
    DeleteResult,
    NewTask,
    Task,
    TaskAlreadyExistsError,
    TombstonedTaskError,
    count_tasks,
    not_deleted,
)
from pullqueue.text import closest, list_first, quoted

_QUEUE = "/queues/{queue}"
_TASK = "/queues/{queue}/tasks/{task}"
_ENDS = {
    EventKind.DELETED: "was deleted",
    EventKind.PURGED: "was deleted by a purge",
    EventKind.ATTEMPT_SUCCEEDED: "succeeded and was deleted",
    EventKind.EXHAUSTED: "was exhausted, and is no longer recorded",
}
"""What became of tasks that are gone, by their last event."""
_NAMED = 3
"""Tasks that are named in an action."""
MAX_FAILED = 100
"""How many of the tasks that could not be changed are listed."""


class Change(TaskFilter, kw_only=True):
    """An operation on tasks: on those named, or on all that match the filter."""

    action: Literal["delete", "release", "requeue"]
    state: Annotated[Maybe[ShownState], about("Only tasks in this state.")] = UNSET
    tasks: Annotated[Maybe[list[str]], about("Names of the tasks.")] = UNSET
    all: Annotated[bool, about("All tasks, if there is no filter.")] = False


class Changed(Model):
    """How many tasks were changed, and why others (at most 100) were not, by name."""

    changed: Count
    failed: dict[str, str]


@operation("GET", "/queues", key="queues")
def list_queues(state: ServerState) -> list[QueueResource]:
    """List queues and their numbers; `default` if it is in queue.yaml, used, or the only one."""
    return [build_resource(state, *each) for each in collect_statistics(state)]


@operation("GET", _QUEUE, key="queue")
def get_queue(state: ServerState, queue: str) -> QueueResource:
    """Return one queue."""
    return build_resource(state, state.emulator.queue(queue))


@operation("POST", f"{_QUEUE}/purge", key="deleted")
def purge_queue(state: ServerState, queue: str) -> Count:
    """Delete all tasks of a queue."""
    deleted = state.emulator.queue(queue).purge()
    state.activity.record(f"purged queue {queue}: {count_tasks(deleted)} deleted")
    return deleted


@operation("POST", f"{_QUEUE}/pause", key="queue")
def pause_queue(state: ServerState, queue: str) -> QueueResource:
    """Pause a queue: its tasks are neither leased nor sent until it is resumed."""
    state.emulator.queue(queue).pause()
    state.activity.record(f"paused queue {queue}")
    return get_queue(state, queue)


@operation("POST", f"{_QUEUE}/resume", key="queue")
def resume_queue(state: ServerState, queue: str) -> QueueResource:
    """Resume a paused queue."""
    state.emulator.queue(queue).resume()
    state.activity.record(f"resumed queue {queue}")
    return get_queue(state, queue)


@operation("GET", f"{_QUEUE}/tags", key="tags")
def list_tags(state: ServerState, queue: str) -> dict[str, Count]:
    """Return the 100 most frequent tags with their numbers of tasks."""
    return state.emulator.queue(queue).count_tags()


@operation("POST", f"{_QUEUE}/tasks")
def add_tasks(state: ServerState, queue: str, body: models.NewTasks) -> models.AddedTasks:
    """Add up to 100 tasks; names in use are reported in `refused`, the other tasks are added."""
    found = state.emulator.queue(queue)
    now_usec = found.now_usec()
    tasks = [_make_task(task, now_usec, place) for place, task in enumerate(body.tasks)]
    insertion = verbs.insert(found, tasks)
    refused: dict[str, Refusal] = {
        name: "exists" if issubclass(kind, TaskAlreadyExistsError) else "tombstoned"
        for name, kind in insertion.refused.items()
    }
    added = build_task_resources(insertion.added, found, state, payload_bytes=PREVIEW_BYTES)
    return models.AddedTasks(tasks=added, refused=refused)


@operation("POST", f"{_QUEUE}/lease")
def lease_tasks(state: ServerState, queue: str, body: models.LeaseRequest) -> models.LeasedTasks:
    """Lease the first available tasks."""
    found = state.emulator.queue(queue)
    tag = given(body.tag)
    lease = verbs.lease(
        found,
        body.lease_seconds,
        body.max_tasks,
        group_by_tag=tag is not None if body.group_by_tag is UNSET else body.group_by_tag,
        tag=tag,
    )
    state.activity.count_tasks(EventKind.LEASED, queue, len(lease.tasks))
    if lease.tasks:
        names = list_first([task.name for task in lease.tasks], _NAMED)
        leased = count_tasks(len(lease.tasks))
        state.activity.record(f"leased {leased} of queue {queue}: {names}")
    return models.LeasedTasks(build_task_resources(lease.tasks, found, state), lease.rate_limited)


@operation("GET", _TASK, key="task")
def get_task(state: ServerState, queue: str, task: str) -> models.TaskResource:
    """Return one task with its payload, also after it was exhausted."""
    found = state.emulator.queue(queue)
    shown, exhausted = find_task(found, task)
    return build_task_resources([shown], found, state, exhausted=exhausted)[0]


@operation("POST", f"{_TASK}/lease", key="task")
def change_lease(
    state: ServerState, queue: str, task: str, body: models.LeaseChange
) -> models.TaskResource:
    """Change the end of the current lease of a task, or release it."""
    found = state.emulator.queue(queue)
    expected = given(body.eta_usec)
    changed = verbs.modify_lease(found, task, body.lease_seconds, expected_eta_usec=expected)
    end_usec = found.retention.end_usec(changed)
    is_past = end_usec is not None and end_usec <= changed.eta_usec
    exhausted = body.lease_seconds == 0 and is_past
    return build_task_resources([changed], found, state, exhausted=exhausted)[0]


@operation("POST", f"{_QUEUE}/change")
def change_tasks(state: ServerState, queue: str, body: Change) -> Changed:
    """Delete, release or requeue tasks by name, or all that match a filter."""
    found = state.emulator.queue(queue)
    if body.action == "release":
        found.check_pull()
    exhausted = body.action == "requeue" or body.state == EXHAUSTED
    if exhausted and body.action == "release":
        raise ApiError("exhausted tasks have no lease to release: requeue or delete them")
    if exhausted and body.state not in (UNSET, EXHAUSTED):
        raise ApiError(f"state is {body.state}: only exhausted tasks can be requeued")
    if body.tasks is not UNSET:
        names = list(dict.fromkeys(body.tasks))
    elif body.state is UNSET and not body.is_limited and not body.all:
        raise ApiError(
            "neither tasks nor a filter: send tasks, state, tag, status, reason, search or all"
        )
    else:
        state_of_tasks = EXHAUSTED if exhausted else given(body.state)
        names = [task.name for task in matching_tasks(found, body, state_of_tasks)]
    failed: dict[str, str]
    if body.action == "requeue":
        changed, failed = _requeue(found, names)
    elif exhausted:
        changed, failed = found.remove_exhausted(names), {}
    elif body.action == "delete":
        changed, failed = _delete(state, found, names)
    else:
        changed, failed = _release(found, names)
    if changed:
        names = [name for name in names if name not in failed]
        state.activity.record(_what_changed(queue, body, names))
    return Changed(changed=changed, failed=dict(islice(failed.items(), MAX_FAILED)))


def _what_changed(queue: str, body: Change, names: list[str]) -> str:
    """Return what an operator did to tasks: which, and by which filter."""
    done = {"delete": "deleted", "release": "released", "requeue": "requeued"}[body.action]
    text = f"{done} {count_tasks(len(names))} of queue {queue}"
    fields = [*([] if body.action == "requeue" else ["state"]), *TaskFilter.__struct_fields__]
    filters = {name: getattr(body, name) for name in fields}
    filters["reason"] = filters.pop("pattern") or filters["reason"]
    if chosen := [f"{name}={value}" for name, value in filters.items() if value not in (UNSET, "")]:
        text += f" with {', '.join(chosen)}"
    return f"{text}: {list_first(names, _NAMED)}"


@operation("POST", f"{_TASK}/requeue", key="task")
def requeue_task(
    state: ServerState, queue: str, task: str, body: models.ChangedTask
) -> models.TaskResource:
    """Add an exhausted task again, with changes."""
    found = state.emulator.queue(queue)
    exhausted, is_exhausted = find_task(found, task)
    if not is_exhausted:
        raise ApiError(f"task {quoted(task)} of queue {quoted(queue)} is not exhausted")
    payload, request = _read_payload(body, "the task"), None
    if payload == exhausted.payload:
        payload = None
    changed = [] if payload is None else ["payload"]
    if body.request is not UNSET:
        known = exhausted.require_request()
        wanted = {name: v for name, v in asdict(body.request).items() if v is not UNSET}
        if "headers" in wanted:
            wanted["headers"] = tuple(wanted["headers"])
        fields = {name: value for name, value in wanted.items() if value != getattr(known, name)}
        request = known._replace(**fields) if fields else None
        changed += fields
    result = found.requeue([task], payload=payload, request=request)
    if task in result.refused:
        raise ApiError(f"task {quoted(task)} of queue {quoted(queue)} exists again")
    others = f" with another {', '.join(changed)}" if changed else ""
    state.activity.record(f"requeued task {task} of queue {queue}{others}")
    return build_task_resources(result.added, found, state)[0]


def find_current_task(state: ServerState, queue: str, task: str) -> Task:
    """Return a task of a queue that is not exhausted.

    Raises:
        TombstonedTaskError: it is gone; the message says what became of it.
        UnknownTaskError: the queue does not have it.
    """
    found = state.emulator.queue(queue)
    current, exhausted = find_task(found, task)
    if exhausted:
        command = f"`pullqueue tasks requeue {found.name} {task}`"
        again = f"add it again with {state.address_commands(command)}"
        raise TombstonedTaskError(
            f'task {quoted(task)} of queue "{found.name}" is exhausted: {again}',
            queue_name=found.name,
            task_name=task,
        )
    return current


def find_task(queue: Queue, name: str) -> tuple[Task, bool]:
    """Return a task, and whether it is exhausted; the error for one that is gone says its end."""
    try:
        return queue.get_task(name), False
    except (UnknownTaskError, TombstonedTaskError) as error:
        end = _find_end(queue, name)  # a tombstone does not record it
        if end in (None, _ENDS[EventKind.EXHAUSTED]):  # else another task of this name
            for task in reversed(queue.exhausted):
                if task.name == name:
                    return task, True
        if end is None:
            raise
        message = f'task {quoted(name)} of queue "{queue.name}" {end}'
        raise type(error)(message, queue_name=queue.name, task_name=name) from None


def _find_end(queue: Queue, name: str) -> str | None:
    events = queue.history(name)
    return _ENDS.get(events[-1].kind) if events else None


@bypass_interceptors()
def list_shown_queues(state: ServerState) -> list[Queue]:
    """Return the queues; a `default` that nobody wrote only where it is used, or the only one."""
    queues = state.emulator.queues
    return [
        queue
        for queue in queues
        if not queue.is_push
        or queue.name != DEFAULT_QUEUE
        or queue.settings.line > 0
        or len(queues) == 1
        or _is_used(queue)
    ]


def _is_used(queue: Queue) -> bool:
    numbers = queue.fetch_statistics()
    return bool(numbers.tasks or numbers.exhausted or queue.flow(since_usec=0))


def collect_statistics(state: ServerState) -> list[tuple[Queue, QueueStatistics]]:
    """Return the shown queues with their statistics."""
    return [(queue, queue.fetch_statistics()) for queue in list_shown_queues(state)]


def _requeue(queue: Queue, names: list[str]) -> tuple[int, dict[str, str]]:
    exhausted = {task.name: task for task in queue.exhausted}
    failed = {
        name: _why_not_exhausted(queue, name, exhausted) for name in names if name not in exhausted
    }
    for name in names:
        if name in exhausted and lost_payload(exhausted[name]):
            failed[name] = "has lost its payload, which was deleted when the queue was purged"
    added, refused = queue.requeue(name for name in names if name not in failed)
    return len(added), {**failed, **dict.fromkeys(refused, "exists again")}


def _why_not_exhausted(queue: Queue, name: str, exhausted: Collection[str]) -> str:
    try:
        queue.get_task(name)
    except TombstonedTaskError:
        return _find_end(queue, name) or not_deleted(DeleteResult.TOMBSTONED)
    except UnknownTaskError:
        near = closest(name, exhausted)
        hint = f": did you mean {quoted(near)}?" if near else ""
        return f"{not_deleted(DeleteResult.UNKNOWN)}{hint}"
    return "is not exhausted"


def _delete(state: ServerState, queue: Queue, names: list[str]) -> tuple[int, dict[str, str]]:
    results = dict(zip(names, queue.delete_tasks(names), strict=True))
    failed = {
        name: not_deleted(result)
        for name, result in results.items()
        if result is not DeleteResult.DELETED
    }
    state.activity.count_tasks(EventKind.DELETED, queue.name, len(results) - len(failed))
    if failed:
        exhausted = {task.name for task in queue.exhausted}.intersection(failed)
        queue.remove_exhausted(exhausted)
        failed = {name: reason for name, reason in failed.items() if name not in exhausted}
    return len(results) - len(failed), failed


def _release(queue: Queue, names: list[str]) -> tuple[int, dict[str, str]]:
    changed, failed = 0, {}
    for name in names:
        try:
            verbs.modify_lease(queue, name, 0)
            changed += 1
        except (TaskLeaseExpiredError, UnknownTaskError, TombstonedTaskError) as error:
            failed[name] = str(error)
    return changed, failed


def _read_payload(task: models.NewTask | models.ChangedTask, name: str) -> bytes | None:
    if task.payload is not UNSET and task.payload_base64 is not UNSET:
        raise ApiError(f"{name} has both payload and payload_base64: send one of them")
    text = given(task.payload)
    return given(task.payload_base64) if text is None else text.encode()


def _make_task(task: models.NewTask, now_usec: int, place: int) -> NewTask:
    payload = _read_payload(task, f"task {place}")
    if task.eta is not UNSET and task.countdown is not UNSET:
        raise ApiError(f"task {place} has both eta and countdown: send one of them")
    eta = None if task.eta is UNSET else parse_time(task.eta, "eta", InvalidEtaError)
    eta_usec = None
    if task.countdown is not UNSET:
        try:
            eta_usec = now_usec + duration_usec(task.countdown)
        except ClockError as error:
            raise InvalidEtaError(f"countdown: {error}") from None
    request = None if task.request is UNSET else task.request.http_request
    return NewTask(
        payload or b"", given(task.name), given(task.tag), eta, request, eta_usec=eta_usec
    )
