"""Operations on snapshots: everything the queues contain, as one JSON document.

Times are microseconds since the epoch, so that nothing is lost.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import Meta, structs

from pullqueue.api.errors import ApiError
from pullqueue.clock import USEC_PER_SECOND, from_usec
from pullqueue.config.model import QueueSettings
from pullqueue.control.models import Count, Model, Signed64
from pullqueue.control.operations import operation
from pullqueue.control.state import ServerState
from pullqueue.engine.store import QueueContents, QueueRecord
from pullqueue.engine.validation import check_new_tasks, queue_name
from pullqueue.errors import InvalidQueueSettingsError, InvalidTaskError, PullQueueError
from pullqueue.limits import Limits
from pullqueue.tasks import AttemptRecord, HttpRequest, NewTask, Task, TaskState, count_tasks
from pullqueue.text import quoted, shorten


class SavedTask(Model, omit_defaults=True):
    """A task in a snapshot; its payload is base64."""

    name: str
    payload: bytes
    tag: str | None
    eta_usec: Signed64
    sequence: Annotated[int, Meta(ge=1, le=2**62)]
    """Leaves 64-bit numbers for the tasks that follow."""
    retry_count: Annotated[int, Meta(ge=0, le=2**30)]
    """Leaves 32-bit numbers for the leases that follow."""
    enqueued_usec: Signed64
    request: HttpRequest | None = None
    """How a push task is sent."""
    attempts: AttemptRecord = AttemptRecord()
    """What the attempts to send it have left behind."""


class SavedRecord(Model):
    """What happened to a queue beside its tasks."""

    paused: bool = False
    purged_usec: Signed64 | None = None
    deleted_usec: Signed64 | None = None
    settings: QueueSettings | None = None
    """Those of a queue that was created at run time."""


class SavedQueue(Model):
    """A queue in a snapshot."""

    tasks: list[SavedTask]
    exhausted: list[SavedTask]
    tombstones: dict[str, Signed64]
    leased: list[tuple[Signed64, Annotated[int, Meta(ge=0, le=2**30)]]]
    record: SavedRecord | None = None


class Snapshot(Model):
    """Everything the queues contain."""

    format: Literal["pullqueue-snapshot/1"]
    """Name and version; another one is refused."""
    taken_usec: Signed64
    queues: dict[str, SavedQueue]


class SnapshotQuery(Model):
    """How to load a snapshot."""

    shift: Annotated[
        bool,
        Meta(description="Move all times by the time between the snapshot and now."),
    ] = False


class LoadedSnapshot(Model):
    """What was loaded."""

    tasks: Count
    warning: str | None
    """Why tasks may not become available as expected."""


@operation("GET", "/snapshot")
def save_snapshot(state: ServerState) -> Snapshot:
    """Return everything the queues contain except the record of events."""
    contents = state.emulator.export()
    return Snapshot(
        format="pullqueue-snapshot/1",
        taken_usec=state.emulator.now_usec(),
        queues={name: _saved_queue(each) for name, each in contents.items()},
    )


@operation("PUT", "/snapshot")
def load_snapshot(state: ServerState, query: SnapshotQuery, body: Snapshot) -> LoadedSnapshot:
    """Replace everything the queues contain; a bad snapshot changes nothing."""
    now_usec = state.emulator.now_usec()
    shift_usec = now_usec - body.taken_usec if query.shift else 0
    limits = state.emulator.limits
    try:
        warning = None if query.shift else _warning(body.taken_usec, now_usec)
        contents = {
            name: _contents(name, queue, shift_usec, limits) for name, queue in body.queues.items()
        }
        for each in contents.values():
            each.tasks[:] = sorted(_without_attempt(task, now_usec) for task in each.tasks)
    except (PullQueueError, OverflowError) as error:
        raise _damaged(error) from None
    _check_unique(contents)
    try:
        state.emulator.restore(contents)
    except InvalidQueueSettingsError as error:
        raise _damaged(error) from None
    state.snapshot_loaded = from_usec(now_usec)
    tasks = sum(len(each.tasks) for each in contents.values())
    state.activity.record(f"loaded a snapshot: {count_tasks(tasks)}")
    return LoadedSnapshot(tasks=tasks, warning=warning)


def _damaged(error: Exception) -> ApiError:
    return ApiError(f"the snapshot is damaged ({shorten(str(error), limit=200)}): save it again")


def _warning(taken_usec: int, now_usec: int) -> str | None:
    if taken_usec <= now_usec:
        return None
    taken, now = (from_usec(usec).isoformat() for usec in (taken_usec, now_usec))
    return (
        f"the snapshot was taken at {taken}, and the server's clock is at {now}: its tasks become "
        "available later than they did there; shift the snapshot when loading it, or move the clock"
    )


def _saved_queue(contents: QueueContents) -> SavedQueue:
    return SavedQueue(
        tasks=[_saved_task(task) for task in contents.tasks],
        exhausted=[_saved_task(task) for task in contents.exhausted],
        tombstones=contents.tombstones,
        leased=contents.leased,
        record=None if contents.record is None else SavedRecord(**contents.record._asdict()),
    )


def _saved_task(task: Task) -> SavedTask:
    return SavedTask(**{name: getattr(task, name) for name in SavedTask.__struct_fields__})


def _contents(queue_name: str, saved: SavedQueue, shift_usec: int, limits: Limits) -> QueueContents:
    for name in saved.tombstones:
        check_new_tasks([NewTask(name=name)], limits, lambda: 0)
    return QueueContents(
        tasks=[_task(task, queue_name, shift_usec, limits) for task in saved.tasks],
        exhausted=[_task(task, queue_name, shift_usec, limits) for task in saved.exhausted],
        tombstones={name: _shifted(usec, shift_usec) for name, usec in saved.tombstones.items()},
        leased=[
            (_shifted(second * USEC_PER_SECOND, shift_usec) // USEC_PER_SECOND, tasks)
            for second, tasks in saved.leased
        ],
        record=None if saved.record is None else _record(saved.record, queue_name, shift_usec),
    )


def _record(saved: SavedRecord, name: str, shift_usec: int) -> QueueRecord:
    fields = structs.asdict(saved)
    if saved.settings is not None:
        fields["settings"] = replace(saved.settings, name=queue_name(name), line=0, column=0)
    return QueueRecord(**fields | _shifted_times(fields, shift_usec))


def _task(saved: SavedTask, queue_name: str, shift_usec: int, limits: Limits) -> Task:
    fields = structs.asdict(saved)
    fields["attempts"] = _attempts(saved.attempts, saved.retry_count, shift_usec)
    new = NewTask(payload=saved.payload, name=saved.name, tag=saved.tag, request=saved.request)
    any_size = limits._replace(push_task_bytes=sys.maxsize)
    check_new_tasks([new], any_size, lambda: 0, absolute_urls=True)
    fields |= _shifted_times(fields, shift_usec)
    return Task(**fields, queue_name=queue_name, stored_bytes=new.stored_bytes)


def _without_attempt(task: Task, now_usec: int) -> Task:
    """Return a task that is due if an attempt was under way: nobody waits for its response."""
    if task.waiting_state is not TaskState.RUNNING:
        return task
    return task._replace(eta_usec=min(task.eta_usec, now_usec))


def _attempts(saved: AttemptRecord, retry_count: int, shift_usec: int) -> AttemptRecord:
    if not 0 <= saved.executions <= saved.responses <= saved.finished <= retry_count:
        raise InvalidTaskError("the numbers of attempts contradict each other")
    if not 0 <= (saved.status or 0) < 1000:
        raise InvalidTaskError(f"status is {saved.status}: it must be a number from 0 to 999")
    return saved._replace(**_shifted_times(saved._asdict(), shift_usec))


def _shifted_times(fields: Mapping[str, Any], shift_usec: int) -> dict[str, Any]:
    """Return those of some fields that are times, moved."""
    return {
        name: _shifted(usec, shift_usec)
        for name, usec in fields.items()
        if name.endswith("_usec") and usec is not None
    }


def _shifted(usec: int, shift_usec: int) -> int:
    from_usec(usec + shift_usec)  # raises outside the years 1 to 9999
    return usec + shift_usec


def _check_unique(contents: dict[str, QueueContents]) -> None:
    for name, each in contents.items():
        names = {task.name for task in each.tasks}
        if len(names) < len(each.tasks) or not names.isdisjoint(each.tombstones):
            raise ApiError(f"the snapshot of queue {quoted(name)} has a task twice: save it again")
    sequences = [task.sequence for each in contents.values() for task in each.tasks]
    if len(set(sequences)) < len(sequences):
        raise ApiError("the snapshot has two tasks of one sequence: save it again")
