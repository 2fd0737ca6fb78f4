"""Operations on snapshots: everything the queues hold, as one JSON document.

Task payloads are base64; moments are microseconds since the epoch, so that nothing is lost.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.clock import USEC_PER_SECOND, from_usec
from pullqueue.control.operations import Answer, Call
from pullqueue.engine.store import QueueContents
from pullqueue.engine.validation import validated_tasks
from pullqueue.errors import PullQueueError
from pullqueue.limits import Limits
from pullqueue.tasks import NewTask, Task

FORMAT = "pullqueue-snapshot/1"
"""The format's name and version; another one is refused."""

_LARGEST_SEQUENCE = 2**62
"""Leaves 64-bit numbers for the tasks that follow."""
_LARGEST_COUNT = 2**30
"""Leaves 32-bit numbers for the leases that follow."""


def save(call: Call) -> Answer:
    """Give everything the queues hold, but for the record of events."""
    contents = call.emulator.export()
    document = {
        "format": FORMAT,
        "taken_usec": call.emulator.clock.now_usec(),
        "queues": {name: _queue_json(held) for name, held in contents.items()},
    }
    return Answer(body=json.dumps(document, separators=(",", ":")))


def load(call: Call) -> Answer:
    """Hold what a snapshot has, instead of what is here; all of it or, if it is bad, nothing."""
    try:
        contents = _read(call)
    except ApiError:
        raise
    except KeyError as error:
        raise _damaged(f"{error.args[0]!r:.60} is missing") from None
    except (PullQueueError, ValueError) as error:
        raise _damaged(f"{error!s:.100}") from None
    except (AttributeError, OverflowError, RecursionError, TypeError):
        raise _damaged("a part of it is not what it should be") from None
    call.emulator.restore(contents)
    call.state.depths.clear()
    return Answer(body={"tasks": sum(len(held.tasks) for held in contents.values())})


def _damaged(why: str) -> ApiError:
    return ApiError(f"the snapshot is damaged ({why}): save it anew")


def _read(call: Call) -> dict[str, QueueContents]:
    document = call.body
    if "format" not in document:
        raise ApiError(
            "this is no snapshot: give one that was saved, as by `pullqueue snapshot save`"
        )
    if document["format"] != FORMAT:
        found = document["format"]
        raise ApiError(f"the snapshot's format is {found!r:.60}: only {FORMAT!r} can be loaded")
    moved_usec = 0
    if call.values["shift"]:
        moved_usec = call.emulator.clock.now_usec() - _integer(document["taken_usec"])
    limits = call.emulator.limits
    contents = {
        name: _contents(name, held, moved_usec, limits) for name, held in document["queues"].items()
    }
    sequences = [task.sequence for held in contents.values() for task in held.tasks]
    if len(set(sequences)) < len(sequences):
        raise ApiError("the snapshot has two tasks of one sequence: it is not whole")
    return contents


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


def _contents(
    queue_name: str, held: dict[str, Any], moved_usec: int, limits: Limits
) -> QueueContents:
    tasks = [_task(task, queue_name, moved_usec, limits) for task in held["tasks"]]
    names = {task.name for task in tasks}
    if len(names) < len(tasks) or not names.isdisjoint(held["tombstones"]):
        raise ApiError(f"the snapshot of queue {queue_name!r} has a task twice: it is not whole")
    return QueueContents(
        tasks=sorted(tasks),
        exhausted=[_task(task, queue_name, moved_usec, limits) for task in held["exhausted"]],
        tombstones={
            _name(name, limits): _moment(usec, moved_usec)
            for name, usec in held["tombstones"].items()
        },
        leased=[
            (
                _second(second, moved_usec),
                _integer(tasks, least=0, most=_LARGEST_COUNT),
            )
            for second, tasks in held["leased"]
        ],
    )


def _task(fields: dict[str, Any], queue_name: str, moved_usec: int, limits: Limits) -> Task:
    name = _text(fields["name"])
    tag = None if fields["tag"] is None else _text(fields["tag"])
    payload = b64decode(_text(fields["payload"]), validate=True)
    (validated,) = validated_tasks(
        [NewTask(payload=payload, name=name, tag=tag)], limits, lambda: 0
    )
    return Task(
        eta_usec=_moment(fields["eta_usec"], moved_usec),
        sequence=_integer(fields["sequence"], least=1, most=_LARGEST_SEQUENCE),
        name=name,
        queue_name=queue_name,
        payload=payload,
        tag=tag,
        retry_count=_integer(fields["retry_count"], least=0, most=_LARGEST_COUNT),
        enqueued_usec=_moment(fields["enqueued_usec"], moved_usec),
        stored_bytes=validated.size,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is no text")
    return value


def _name(value: object, limits: Limits) -> str:
    name = _text(value)
    validated_tasks([NewTask(name=name)], limits, lambda: 0)
    return name


def _moment(value: object, moved_usec: int) -> int:
    usec = _integer(value) + moved_usec
    from_usec(usec)  # refuses what lies beyond the years 1 to 9999
    return usec


def _second(value: object, moved_usec: int) -> int:
    second = _integer(value) + moved_usec // USEC_PER_SECOND
    from_usec(second * USEC_PER_SECOND)
    return second


def _integer(value: object, *, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{value!r:.60} is no whole number from {least} to {most}")
    return value
