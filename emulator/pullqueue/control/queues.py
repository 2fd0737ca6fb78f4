"""Operations on queues and their tasks."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import accumulate, islice
from typing import Any

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.clock import duration_usec
from pullqueue.config.model import QueueMode
from pullqueue.control.operations import Answer, Call
from pullqueue.control.schemas import SIGNED_64
from pullqueue.control.serializers import PREVIEW_BYTES, moment_of, queue_json, task_json
from pullqueue.engine.queue import Queue
from pullqueue.errors import InvalidEtaError, TaskAlreadyExistsError
from pullqueue.tasks import DeleteResult, NewTask, Task, TaskState, not_deleted

_PAGE = 1_000
_SEARCHED = 100_000
"""How many tasks one search looks through; `next` then leads on."""


def list_queues(call: Call) -> Answer:
    """All queues."""
    now_usec = call.emulator.clock.now_usec()
    queues = [queue_json(queue, now_usec=now_usec) for queue in call.emulator.queues]
    return Answer(body={"queues": queues})


def get_queue(call: Call) -> Answer:
    """One queue."""
    return Answer(body={"queue": queue_json(call.queue, now_usec=call.emulator.clock.now_usec())})


def list_tasks(call: Call) -> Answer:
    """Tasks in order, a page at a time."""
    limit = call.values["limit"]
    state = call.values.get("state")
    tasks, following = _search(
        call.queue,
        limit,
        state=None if state is None else TaskState(state),
        tag=call.values.get("tag"),
        text=call.values.get("search", "").casefold(),
        after=_position(call.values.get("after")),
    )
    whole = call.values["payload"] == "full"
    if whole and len(fitting := _fitting(tasks, call)) < len(tasks):
        tasks, following = fitting, fitting[-1][:2]
    return Answer(
        body={
            "tasks": _tasks_json(call, tasks, payload_bytes=None if whole else PREVIEW_BYTES),
            "next": None if following is None else f"{following[0]}-{following[1]}",
        }
    )


def add_tasks(call: Call) -> Answer:
    """Add tasks; names that are taken are told, not raised."""
    now = call.emulator.clock.now()
    tasks = [_new_task(task, now, place) for place, task in enumerate(call.body["tasks"])]
    insertion = call.queue.insert(tasks)
    refused = {
        name: "exists" if issubclass(kind, TaskAlreadyExistsError) else "tombstoned"
        for name, kind in insertion.refused.items()
    }
    return Answer(
        body={
            "tasks": _tasks_json(call, insertion.added, payload_bytes=PREVIEW_BYTES),
            "refused": refused,
        }
    )


def lease_tasks(call: Call) -> Answer:
    """Lease tasks."""
    tag = call.body.get("tag")
    lease = call.queue.lease(
        call.body.get("lease_seconds", 60),
        call.body.get("max_tasks", 1),
        group_by_tag=call.body.get("group_by_tag", tag is not None),
        tag=tag,
    )
    return Answer(
        body={
            "tasks": _tasks_json(call, lease.tasks, payload_bytes=None),
            "rate_limited": lease.rate_limited,
        }
    )


def get_task(call: Call) -> Answer:
    """One task, with its payload."""
    return _task_answer(call, call.queue.get_task(call.values["task"]))


def change_lease(call: Call) -> Answer:
    """Let a lease end at another moment."""
    task = call.queue.modify_lease(
        call.values["task"],
        call.body["lease_seconds"],
        expected_eta_usec=call.body.get("eta_usec"),
    )
    return _task_answer(call, task)


def delete_task(call: Call) -> Answer:
    """Delete one task, leased or not."""
    name = call.values["task"]
    result = call.queue.delete_tasks(name)[0]
    if result is not DeleteResult.DELETED:
        message = f"task {name!r} of queue {call.queue.name!r} {not_deleted(result)}"
        raise ApiError(message, status=404, reason="notFound")
    return Answer(body={"deleted": 1})


def delete_tasks(call: Call) -> Answer:
    """Delete tasks by name."""
    names = call.body["tasks"]
    results = call.queue.delete_tasks(names)
    return Answer(
        body={
            "results": [
                {"task": name, "result": result.value}
                for name, result in zip(names, results, strict=True)
            ]
        }
    )


def purge_queue(call: Call) -> Answer:
    """Delete all tasks of a queue."""
    return Answer(body={"deleted": call.queue.purge()})


def purge_all(call: Call) -> Answer:
    """Delete all tasks of all queues that can be used."""
    queues = call.emulator.queues
    usable = [queue for queue in queues if queue.mode is QueueMode.PULL and not queue.disabled]
    return Answer(body={"deleted": sum(queue.purge() for queue in usable)})


def list_exhausted(call: Call) -> Answer:
    """The tasks that used up their leases, the last one first."""
    queues = _queues(call)
    tasks = [task for queue in queues for task in reversed(queue.exhausted)]
    tasks.sort(key=lambda task: task.eta_usec, reverse=True)
    now_usec = call.emulator.clock.now_usec()
    return Answer(
        body={
            "tasks": [
                task_json(
                    task,
                    call.emulator.queue(task.queue_name),
                    now_usec=now_usec,
                    payload_bytes=PREVIEW_BYTES,
                )
                for task in tasks[: call.values["limit"]]
            ],
            "next": None,
        }
    )


def pull_queues(call: Call) -> list[Queue]:
    """Give the queues whose tasks can be asked for."""
    return [queue for queue in call.emulator.queues if queue.mode is QueueMode.PULL]


def _queues(call: Call) -> list[Queue]:
    return [call.queue] if "queue" in call.values else pull_queues(call)


def _tasks_json(call: Call, tasks: list[Task], *, payload_bytes: int | None) -> list[Json]:
    now_usec = call.emulator.clock.now_usec()
    return [
        task_json(task, call.queue, now_usec=now_usec, payload_bytes=payload_bytes)
        for task in tasks
    ]


def _task_answer(call: Call, task: Task) -> Answer:
    return Answer(body={"task": _tasks_json(call, [task], payload_bytes=None)[0]})


def _search(
    queue: Queue,
    limit: int,
    *,
    state: TaskState | None,
    tag: str | None,
    text: str,
    after: tuple[int, int] | None,
) -> tuple[list[Task], tuple[int, int] | None]:
    """Give a page of tasks, and behind which one the next page begins, if there may be more."""
    size = limit + 1 if not text else _PAGE

    def walk(position: tuple[int, int] | None) -> Iterator[Task]:
        while page := queue.list_tasks(size, state=state, tag=tag, after=position):
            yield from page
            position = page[-1][:2]
            if len(page) < size:
                return

    found: list[Task] = []
    last: Task | None = None
    for task in islice(walk(after), _SEARCHED):
        if len(found) == limit:
            return found, found[-1][:2]
        last = task
        if text in task.name.casefold() or _is_in(task.payload, text):
            found.append(task)
    more = text and last is not None and queue.list_tasks(1, state=state, tag=tag, after=last)
    return found, last[:2] if more and last is not None else None


def _is_in(payload: bytes, text: str) -> bool:
    """Tell whether a payload has a text, in any case."""
    if text.isascii():
        return text.encode() in payload.lower()
    return text in payload.decode("utf-8", "replace").casefold()


def _fitting(tasks: list[Task], call: Call) -> list[Task]:
    """Give the tasks from the first to the last whose payloads fit one answer; one always does."""
    limit = call.emulator.limits.lease_payload_bytes
    weights = accumulate(len(task.payload) for task in tasks)
    fitting = sum(1 for weight in weights if weight <= limit)
    return tasks[: max(1, fitting)]


def _position(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    eta_usec, _, sequence = text.rpartition("-")
    try:
        position: tuple[int, int] | None = int(eta_usec), int(sequence)
    except ValueError:
        position = None
    if position is None or any(number not in SIGNED_64 for number in position):
        message = f"after is {text!r:.60}: give what `next` said in the answer before"
        raise ApiError.parameter(message, "after")
    return position


def _new_task(fields: dict[str, Any], now: datetime, place: int) -> NewTask:
    if "payload" in fields and "payload_base64" in fields:
        raise ApiError(f"task {place} has both payload and payload_base64: send one of them")
    payload: bytes | str = fields.get("payload", b"")
    if "payload_base64" in fields:
        try:
            payload = b64decode(fields["payload_base64"], validate=True)
        except binascii.Error as error:
            raise ApiError(f"payload_base64 of task {place} is not base64: {error}") from None
    return NewTask(
        payload=payload, name=fields.get("name"), tag=fields.get("tag"), eta=_eta(fields, now)
    )


def _eta(fields: dict[str, Any], now: datetime) -> datetime | None:
    if "countdown" in fields:
        try:
            return now + timedelta(microseconds=duration_usec(fields["countdown"]))
        except OverflowError:
            raise InvalidEtaError("countdown leads past the year 9999") from None
    return moment_of(fields["eta"], "eta", InvalidEtaError) if "eta" in fields else None
