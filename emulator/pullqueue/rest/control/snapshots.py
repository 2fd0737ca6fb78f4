"""Operations on snapshots: everything the queues hold, as one JSON document.

Task payloads are base64; moments are microseconds since the epoch, so that nothing is lost.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine.store import QueueContents
from pullqueue.errors import PullQueueError
from pullqueue.rest.answers import Json, compact
from pullqueue.rest.control.operations import Answer, Call
from pullqueue.rest.errors import ApiError
from pullqueue.tasks import Task

FORMAT = "pullqueue-snapshot/1"
"""The format's name and version; another one is refused."""


def save(call: Call) -> Answer:
    """Give everything the queues hold, but for the record of events."""
    contents = call.emulator.export()
    document = {
        "format": FORMAT,
        "taken_usec": call.emulator.clock.now_usec(),
        "queues": {name: _queue_json(held) for name, held in contents.items()},
    }
    return Answer(body=compact(document))


def load(call: Call) -> Answer:
    """Hold what a snapshot has, instead of what is here; all of it or, if it is bad, nothing."""
    try:
        contents = _read(call)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, PullQueueError):
            raise
        message = f"the snapshot is damaged ({error!r:.100}): save it anew"
        raise ApiError(message) from None
    call.emulator.restore(contents)
    call.site.depths.clear()
    return Answer(body={"tasks": sum(len(held.tasks) for held in contents.values())})


def _read(call: Call) -> dict[str, QueueContents]:
    document = call.body
    if document["format"] != FORMAT:
        found = document["format"]
        raise ApiError(f"the snapshot's format is {found!r:.60}: only {FORMAT!r} can be loaded")
    moved_usec = 0
    if call.values["shift"]:
        moved_usec = call.emulator.clock.now_usec() - _integer(document["taken_usec"])
    return {name: _contents(name, held, moved_usec) for name, held in document["queues"].items()}


def _queue_json(held: QueueContents) -> Json:
    return {
        "tasks": [_task_json(task) for task in held.tasks],
        "exhausted": [_task_json(task) for task in held.exhausted],
        "tombstones": held.tombstones,
        "leased": held.leased,
    }


def _task_json(task: Task) -> Json:
    return {
        "name": task.name,
        "payload": b64encode(task.payload).decode(),
        "tag": task.tag,
        "eta_usec": task.eta_usec,
        "sequence": task.sequence,
        "retry_count": task.retry_count,
        "enqueued_usec": task.enqueued_usec,
    }


def _contents(queue_name: str, held: dict[str, Any], moved_usec: int) -> QueueContents:
    tasks = [_task(task, queue_name, moved_usec) for task in held["tasks"]]
    names = {task.name for task in tasks}
    sequences = {task.sequence for task in tasks}
    twice = len(names) < len(tasks) or len(sequences) < len(tasks)
    if twice or not names.isdisjoint(held["tombstones"]):
        raise ApiError(f"the snapshot of queue {queue_name!r} has a task twice: it is not whole")
    moved_seconds = moved_usec // USEC_PER_SECOND
    return QueueContents(
        tasks=sorted(tasks),
        exhausted=[_task(task, queue_name, moved_usec) for task in held["exhausted"]],
        tombstones={
            _text(name): _integer(usec) + moved_usec for name, usec in held["tombstones"].items()
        },
        leased=[
            (_integer(second) + moved_seconds, _integer(tasks)) for second, tasks in held["leased"]
        ],
    )


def _task(fields: dict[str, Any], queue_name: str, moved_usec: int) -> Task:
    name = _text(fields["name"])
    tag = None if fields["tag"] is None else _text(fields["tag"])
    payload = b64decode(_text(fields["payload"]), validate=True)
    return Task(
        eta_usec=_integer(fields["eta_usec"]) + moved_usec,
        sequence=_integer(fields["sequence"]),
        name=name,
        queue_name=queue_name,
        payload=payload,
        tag=tag,
        retry_count=_integer(fields["retry_count"]),
        enqueued_usec=_integer(fields["enqueued_usec"]) + moved_usec,
        stored_bytes=len(payload) + len(name.encode()) + len((tag or "").encode()),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is no text")
    return value


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise TypeError(f"{value!r:.60} is no 64-bit number")
    return value
