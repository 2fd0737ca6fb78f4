"""The state of queues and tasks as text, for the messages of failed tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta

from pullqueue.clock import from_usec
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import Event, EventKind
from pullqueue.engine.interceptors import QueueCall, bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState
from pullqueue.faults.fault import find_faults
from pullqueue.pickled import describe_pickle
from pullqueue.push.dispatcher import why_not_sent
from pullqueue.push.request import PushRequest
from pullqueue.tasks import HttpRequest, NewTask, Task, TaskState, result_text
from pullqueue.testing.record import records_of
from pullqueue.text import quoted

_STATES = (
    TaskState.AVAILABLE,
    TaskState.LEASED,
    TaskState.RUNNING,
    TaskState.RETRYING,
    TaskState.SCHEDULED,
)
"""The states of tasks in the order in which they are shown."""
_TASKS_SHOWN = 5
_EVENTS_SHOWN = 10
_PAYLOAD_SHOWN = 60
"""Maximum number of bytes, or of characters where they are UTF-8."""


def describe(emulator: Emulator) -> str:
    """Return the state of an emulator's queues, their last events, and the faults.

    Push queues to which nothing was added are left out.
    """
    return describe_rest(emulator, "")


@bypass_interceptors()
def describe_rest(emulator: Emulator, message: str, faults: Iterable[str] | None = None) -> str:
    """Return what `describe` returns without the queues and faults that `message` shows.

    Empty if it shows all of them. `faults` are those to show instead of those that are set.
    """
    if faults is None:
        faults = map(str, find_faults(emulator))
    shown = {line.strip() for line in message.splitlines()}
    queues = [queue for queue in emulator.queues if not queue.is_push or queue.events()]
    parts = [list(describe_queue(queue)) for queue in queues]
    parts += [[f"fault {fault}"] for fault in faults]
    rest = [line for part in parts if part[0] not in shown for line in part]
    if parts and not rest:
        return ""
    return "\n".join([f"the time is {from_usec(emulator.now_usec()).isoformat()}", *rest])


@bypass_interceptors()
def describe_due(emulator: Emulator, ignored: Collection[str]) -> str:
    """Return the state of the queues that have due tasks, which nothing keeps; empty: none has.

    `ignored` are the names of queues that may have some.
    """
    due = [queue for queue in emulator.queues if queue.name not in ignored and _is_due(queue)]
    return "\n".join(line for queue in due for line in describe_queue(queue))


def _is_due(queue: Queue) -> bool:
    if not queue.fetch_statistics().available:
        return False
    return why_not_sent(queue) is None if queue.is_push else queue.state is QueueState.RUNNING


def describe_queue(queue: Queue) -> Iterator[str]:
    """Yield the state of a queue and its last events, line by line."""
    now_usec = queue.now_usec()
    exhausted = queue.exhausted
    events = queue.events()
    yield f'queue "{queue.name}": {_summary(queue)}'
    if queue.is_push:
        yield from _how_to_send(queue)
    for state in _STATES:
        found = queue.list_tasks(limit=_TASKS_SHOWN + 1, state=state)
        tasks = [task for task in found if task.state_at(now_usec) is state]
        yield from _labelled(f"  {state.value:<9}", (_task_line(queue, t, now_usec) for t in tasks))
    # The end of its last lease no longer matters.
    yield from _labelled("  exhausted", (_task_line(queue, t, t.eta_usec) for t in exhausted))
    for record in records_of(queue):
        if times := record.early_lease(queue.name):
            early, added = (from_usec(usec).isoformat() for usec in times)
            yield f"  leased in vain at {early}, before tasks were added at {added}:"
            yield "    the clock went back; freeze it before the first task is added"
    if events:
        yield f"  last events of {len(events)}:" if len(events) > _EVENTS_SHOWN else "  events:"
        yield from (f"    {_describe_event(queue, event)}" for event in events[-_EVENTS_SHOWN:])


def _how_to_send(queue: Queue) -> Iterator[str]:
    """Yield why tasks of a push queue are not sent, or how they are."""
    if queue.fetch_statistics().available:
        why = why_not_sent(queue)
        sent = "due tasks are sent by run_tasks(emulator, app), or by drain(..., app=app)"
        yield f"  not sent: {why}" if why else f"  {sent}"
    elif queue.fetch_statistics().tasks and (change := queue.next_change_usec()):
        left = timedelta(microseconds=change - queue.now_usec())
        yield f"  nothing is due: the next is in {left}; run_tasks(..., until=...) moves the clock"


def _summary(queue: Queue) -> str:
    counts = queue.fetch_statistics()
    words = [*(state.value for state in _STATES), "exhausted"]
    parts = ((getattr(counts, word), word) for word in words)
    return ", ".join(f"{count} {word}" for count, word in parts if count) or "empty"


def _task_line(queue: Queue, task: Task, now_usec: int) -> str:
    return describe_task(task, now_usec) + _lessee(queue, task.name, task.retry_count)


def describe_task(task: Task, now_usec: int) -> str:
    """Return a task in one line."""
    parts = [quoted(task.name)]
    if task.tag is not None:
        parts.append(f"tag {quoted(task.tag)}")
    if task.request is not None:
        parts.append(f"{task.request.method} {task.request.url}")
    if task.retry_count:
        times = {1: "once", 2: "twice"}.get(task.retry_count, f"{task.retry_count} times")
        parts.append(f"leased {times}" if task.request is None else f"attempted {times}")
    if task.attempts.status is not None:
        parts[-1] += f", last: {result_text(task.attempts.status, task.attempts.reason)},"
    if task.eta_usec > now_usec:
        word = "from" if task.waiting_state is TaskState.SCHEDULED else "until"
        left = timedelta(microseconds=task.eta_usec - now_usec)
        parts.append(f"{word} {task.eta.isoformat()} (in {left})")
    parts.append(f"payload {describe_payload(task.payload)}")
    return " ".join(parts)


def describe_request(request: HttpRequest | PushRequest | None, payload: bytes) -> str:
    """Return the method and URL of a push task, and its pickled call, if any."""
    sent = "" if request is None else f"{request.method} {request.url}"
    return " ".join(filter(None, (sent, describe_pickle(payload))))


def describe_payload(payload: bytes) -> str:
    """Return the beginning of a payload, quoted; a pickled call as its function and types."""
    shown: bytes | str = payload
    if not payload.isascii():
        with suppress(UnicodeDecodeError):
            shown = payload.decode()
    rest = f"... ({len(payload)} bytes)" if len(shown) > _PAYLOAD_SHOWN else ""
    return describe_pickle(payload) or f"{shown[:_PAYLOAD_SHOWN]!r}{rest}"


def describe_call(call: QueueCall) -> str:
    """Return a call as it is written in Python."""
    arguments = [_short(argument) for argument in call.arguments]
    if call.verb == "lease_tasks_by_tag" and call.options.get("tag") is not None:
        arguments.append(f"tag={quoted(call.options['tag'])}")
    where = f'on queue "{call.queue.name}"'
    if call.options.get("transactional"):
        where += " in a transaction"
    return f"{call.verb}({', '.join(arguments)}) {where}"


def _short(argument: object) -> str:
    if isinstance(argument, Task):
        return quoted(argument.name)
    if isinstance(argument, NewTask):
        if argument.name is not None:
            return quoted(argument.name)
        request = argument.request
        return describe_payload(argument.payload) if request is None else quoted(request.url)
    if isinstance(argument, list | tuple):
        names = [_short(item) for item in argument[:3]]
        return f"[{', '.join(names)}{', ...' if len(argument) > 3 else ''}]"
    return quoted(argument)


def _describe_event(queue: Queue, event: Event) -> str:
    text = f'{event.time.isoformat()} "{event.task_name}" {event.kind.value}'
    if event.status is not None:
        text += f" ({result_text(event.status)})"
    if event.until is not None:
        text += f" until {event.until.isoformat()}"
    if event.kind is EventKind.LEASED:
        text += _lessee(queue, event.task_name, event.retry_count)
    return text


def _lessee(queue: Queue, task_name: str, lease_number: int) -> str:
    for record in records_of(queue):
        if lessee := record.lessee(queue.name, task_name, lease_number):
            return f", by {lessee}"
    return ""


def _labelled(label: str, lines: Iterable[str]) -> Iterator[str]:
    rest = list(lines)
    yield from (f"{label} {line}" for line in rest[:_TASKS_SHOWN])
    if len(rest) > _TASKS_SHOWN:
        yield f"{label} and more"
