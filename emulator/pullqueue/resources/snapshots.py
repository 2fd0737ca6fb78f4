"""Operations on snapshots: everything the queues contain, as one JSON document.

Times are microseconds since the epoch, so that nothing is lost.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import Meta, structs

from pullqueue.api.errors import ApiError
from pullqueue.clock import LAST_USEC, USEC_PER_SECOND, from_usec
from pullqueue.config.model import QueueSettings
from pullqueue.engine.settings_validation import check_settings
from pullqueue.engine.store import QueueContents, QueueRecord
from pullqueue.engine.validation import check_new_tasks, check_queue_name
from pullqueue.errors import InvalidTaskError, PullQueueError
from pullqueue.limits import Limits
from pullqueue.resources.operations import operation
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Model, about
from pullqueue.tasks import AttemptRecord, HttpRequest, NewTask, Task, TaskState, count_tasks
from pullqueue.text import quoted, shorten

Usec = Annotated[int, Meta(ge=0, le=LAST_USEC)]


class SavedTask(Model, omit_defaults=True):
    """A task in a snapshot; its payload is base64."""

    name: str
    payload: bytes
    tag: str | None
    eta_usec: Usec
    sequence: Annotated[int, Meta(ge=1, le=2**62)]
    """Leaves 64-bit numbers for the tasks that follow."""
    retry_count: Annotated[int, Meta(ge=0, le=2**30)]
    """Leaves 32-bit numbers for the leases that follow."""
    enqueued_usec: Usec
    request: HttpRequest | None = None
    """How a push task is sent."""
    attempts: AttemptRecord = AttemptRecord()
    """What the attempts to send it have left behind."""


class SavedRecord(Model):
    """What happened to a queue beside its tasks."""

    paused: bool = False
    purged_usec: Usec | None = None
    deleted_usec: Usec | None = None
    settings: QueueSettings | None = None
    """Those of a queue that was created at run time."""


class SavedQueue(Model):
    """A queue in a snapshot."""

    tasks: list[SavedTask]
    exhausted: list[SavedTask]
    tombstones: dict[str, Usec]
    leased: list[
        tuple[
            Annotated[int, Meta(ge=0, le=LAST_USEC // USEC_PER_SECOND)],
            Annotated[int, Meta(ge=0, le=2**30)],
        ]
    ]
    """Seconds since the epoch, and how many tasks were leased in each."""
    record: SavedRecord | None = None


class Snapshot(Model):
    """Everything the queues contain."""

    format: Literal["pullqueue-snapshot/1"]
    """Name and version; another one is refused."""
    taken_usec: Usec
    queues: dict[str, SavedQueue]


class SnapshotQuery(Model):
    """How to load a snapshot."""

    shift: Annotated[bool, about("Move all times by the time between the snapshot and now.")] = (
        False
    )


class LoadedSnapshot(Model):
    """What was loaded."""

    tasks: Count
    exhausted: Count
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
    warning = None if query.shift else _warning(body.taken_usec, now_usec)
    contents = {
        name: _contents(name, queue, shift_usec, limits) for name, queue in body.queues.items()
    }
    for each in contents.values():
        each.tasks[:] = sorted(_without_attempt(task, now_usec) for task in each.tasks)
    _check_unique(contents)
    state.emulator.restore(contents)
    state.snapshot_loaded = from_usec(now_usec)
    tasks = sum(len(each.tasks) for each in contents.values())
    exhausted = sum(len(each.exhausted) for each in contents.values())
    state.activity.record(f"loaded a snapshot: {count_tasks(tasks)}")
    return LoadedSnapshot(tasks=tasks, exhausted=exhausted, warning=warning)


@contextmanager
def _checked(queue_name: str, field: str) -> Iterator[None]:
    """Name the queue and the field in the error for what no queue can have."""
    try:
        yield
    except (PullQueueError, OverflowError) as error:
        place = f"queues[{quoted(queue_name)}].{field}"
        message = f"{place} is not valid: {shorten(str(error), limit=200)}"
        raise ApiError(message, reason="invalidParameter", location=place) from None


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


def _contents(queue: str, saved: SavedQueue, shift_usec: int, limits: Limits) -> QueueContents:
    tombstones: dict[str, int] = {}
    for name, usec in saved.tombstones.items():
        with _checked(queue, f"tombstones[{quoted(name)}]"):
            check_new_tasks([NewTask(name=name)], limits, lambda: 0)
            tombstones[name] = _shifted(usec, shift_usec)
    leased = Counter[int]()
    for place, (second, tasks) in enumerate(saved.leased):
        with _checked(queue, f"leased[{place}]"):
            usec = _shifted(second * USEC_PER_SECOND, shift_usec)
            leased[usec // USEC_PER_SECOND] += tasks
    record = None
    if saved.record is not None:
        with _checked(queue, "record"):
            record = _record(saved.record, queue, shift_usec)
    return QueueContents(
        tasks=_tasks(queue, "tasks", saved.tasks, shift_usec, limits),
        exhausted=_tasks(queue, "exhausted", saved.exhausted, shift_usec, limits),
        tombstones=tombstones,
        leased=sorted(leased.items()),
        record=record,
    )


def _tasks(
    queue: str, field: str, saved: Sequence[SavedTask], shift_usec: int, limits: Limits
) -> list[Task]:
    tasks = []
    for place, each in enumerate(saved):
        with _checked(queue, f"{field}[{place}]"):
            tasks.append(_task(each, queue, shift_usec, limits))
    return tasks


def _record(saved: SavedRecord, name: str, shift_usec: int) -> QueueRecord:
    fields = structs.asdict(saved)
    if saved.settings is not None:
        settings = replace(saved.settings, name=check_queue_name(name), line=0, column=0)
        check_settings(settings)
        fields["settings"] = settings
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
    fields = saved._asdict()
    for name, value in fields.items():
        if name.endswith("_usec") and (value or 0) < 0:
            raise InvalidTaskError(f"{name} is {value}: it must be a number from 0")
    return saved._replace(**_shifted_times(fields, shift_usec))


def _shifted_times(fields: Mapping[str, Any], shift_usec: int) -> dict[str, Any]:
    return {
        name: _shifted(usec, shift_usec)
        for name, usec in fields.items()
        if name.endswith("_usec") and usec is not None
    }


def _shifted(usec: int, shift_usec: int) -> int:
    from_usec(usec + shift_usec)  # raises after the year 9999
    return max(0, usec + shift_usec)


def _check_unique(contents: dict[str, QueueContents]) -> None:
    by_sequence: dict[int, Task] = {}
    for queue, each in contents.items():
        names = set(each.tombstones)
        for task in each.tasks:
            other = by_sequence.setdefault(task.sequence, task)
            with _checked(queue, "tasks"):
                if task.name in names:
                    raise InvalidTaskError(f"{quoted(task.name)} is there twice: save it again")
                if other is not task:
                    raise InvalidTaskError(
                        f"{quoted(task.name)} has sequence {task.sequence}, as "
                        f"{quoted(other.name)} of queue {quoted(other.queue_name)}: save it again"
                    )
            names.add(task.name)
