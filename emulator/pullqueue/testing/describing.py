"""Queues and tasks in words, for the messages of failed tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from pullqueue.config.model import QueueMode
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import Event
from pullqueue.engine.faults import faults_of
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.tasks import Task, TaskState

_TASKS_SHOWN = 5
_EVENTS_SHOWN = 10
_PAYLOAD_SHOWN = 60


@bypass_interceptors()
def describe(emulator: Emulator) -> str:
    """Give the state of an emulator's pull queues, what happened in them last, and the faults."""
    lines = [f"the time is {emulator.clock.now().isoformat()}"]
    for queue in emulator.queues:
        if queue.mode is QueueMode.PULL:
            lines += describe_queue(queue)
    lines += [f"fault {fault}" for fault in faults_of(emulator)]
    return "\n".join(lines)


def describe_queue(queue: Queue) -> Iterator[str]:
    """Give the state of a queue and its last events, in lines."""
    now_usec = queue.clock.now_usec()
    exhausted = queue.exhausted
    events = queue.events()
    yield f"queue {queue.name!r}: {summary(queue)}"
    for state in TaskState:
        tasks = queue.list_tasks(limit=_TASKS_SHOWN + 1, state=state)
        yield from _shown(f"  {state.value:<9}", (describe_task(t, now_usec) for t in tasks))
    yield from _shown("  exhausted", (describe_task(task, now_usec) for task in exhausted))
    if events:
        yield f"  last events of {len(events)}:" if len(events) > _EVENTS_SHOWN else "  events:"
        yield from (f"    {describe_event(event)}" for event in events[-_EVENTS_SHOWN:])


def summary(queue: Queue) -> str:
    """Give the numbers of a queue in a few words."""
    counts = queue.fetch_statistics()
    parts = [
        (counts.available, "available"),
        (counts.leased, "leased"),
        (counts.scheduled, "scheduled"),
        (len(queue.exhausted), "exhausted"),
    ]
    return ", ".join(f"{count} {word}" for count, word in parts if count) or "empty"


def describe_task(task: Task, now_usec: int) -> str:
    """Give a task in one line."""
    parts = [repr(task.name)]
    if task.tag is not None:
        parts.append(f"tag {task.tag!r}")
    if task.retry_count:
        parts.append(f"leased {times(task.retry_count)}")
    if task.eta_usec > now_usec:
        word = "until" if task.retry_count else "from"
        left = timedelta(microseconds=task.eta_usec - now_usec)
        parts.append(f"{word} {task.eta.isoformat()} (in {left})")
    parts.append(f"payload {describe_payload(task.payload)}")
    return " ".join(parts)


def describe_payload(payload: bytes) -> str:
    """Give the beginning of a payload, quoted."""
    if len(payload) <= _PAYLOAD_SHOWN:
        return repr(payload)
    return f"{payload[:_PAYLOAD_SHOWN]!r}... ({len(payload)} bytes)"


def describe_event(event: Event) -> str:
    """Give an event in one line."""
    text = f"{event.moment.isoformat()} {event.task_name!r} {event.kind.value}"
    return text if event.until is None else f"{text} until {event.until.isoformat()}"


def times(count: int) -> str:
    """Give "once", "twice" or "3 times"."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _shown(label: str, lines: Iterable[str]) -> Iterator[str]:
    rest = list(lines)
    yield from (f"{label} {line}" for line in rest[:_TASKS_SHOWN])
    if len(rest) > _TASKS_SHOWN:
        yield f"{label} and more"
