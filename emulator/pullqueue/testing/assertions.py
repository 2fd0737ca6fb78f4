"""Assertions about queues, whose messages show what was there instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_view import AnyTask, name_of
from pullqueue.tasks import Task, count_tasks
from pullqueue.testing.describing import describe_payload, describe_queue, describe_task
from pullqueue.testing.payloads import json_payload
from pullqueue.testing.recording import added_tasks

Payload = bytes | str | json_payload
"""A payload, or a matcher that equals it."""

_MISSES_SHOWN = 5


def assert_empty(queue: Queue) -> None:
    """Assert that a queue holds no task, neither available nor leased nor scheduled.

    Raises:
        AssertionError: it holds some.
    """
    __tracebackhide__ = True
    with bypass_interceptors():
        count = queue.fetch_statistics().tasks
        if count:
            _fail(queue, f"queue {queue.name!r} is not empty, it holds {count_tasks(count)}")


def assert_available(queue: Queue, count: int | None = None) -> None:
    """Assert that a queue has tasks to lease: just `count`, or one at least.

    Raises:
        AssertionError: it has another number.
    """
    __tracebackhide__ = True
    with bypass_interceptors():
        _check_count(queue, "available", queue.fetch_statistics().available, count)


def assert_leased(queue: Queue, count: int | None = None) -> None:
    """Assert that tasks of a queue are leased: just `count`, or one at least.

    Raises:
        AssertionError: another number is.
    """
    __tracebackhide__ = True
    with bypass_interceptors():
        _check_count(queue, "leased", queue.fetch_statistics().leased, count)


def assert_exhausted(
    queue: Queue, task: AnyTask | str | None = None, count: int | None = None
) -> None:
    """Assert that a task used up its leases and was deleted; or `count` tasks, or any.

    `task` may be one of App Engine's SDK.

    Raises:
        AssertionError: it is not so.
    """
    __tracebackhide__ = True
    with bypass_interceptors():
        exhausted = queue.exhausted
        if task is None:
            _check_count(queue, "exhausted", len(exhausted), count)
            return
        name = name_of(task)
        found = sum(task.name == name for task in exhausted)
        if found != (count if count is not None else max(found, 1)):
            limit = queue.retry_limit.leases
            rule = "has no task_retry_limit" if limit is None else f"permits {limit} leases"
            _fail(queue, f"task {name!r} of queue {queue.name!r}, which {rule}, is not exhausted")


def assert_added(
    queue: Queue,
    *,
    count: int | None = None,
    payload: Payload | None = None,
    tag: str | None = None,
    name: str | None = None,
) -> None:
    """Assert that tasks were added to a queue, whatever became of them since.

    Of the tasks with this `payload`, `tag` and `name` (those that are given) just `count` must have
    been added, or one at least. Under the pytest fixtures, or in a block of `remember_added`, all
    tasks are known; else only those that the queue holds or that were exhausted.

    Raises:
        AssertionError: another number was added; the message shows the nearest misses.
    """
    __tracebackhide__ = True
    wanted = _Wanted(payload, tag, name)
    with bypass_interceptors():
        tasks, unknown = added_tasks(queue)
    if wanted.is_name_only:
        found = [*(t.name for t in tasks if t.name == name), *(n for n in unknown if n == name)]
    else:
        found = [task.name for task in tasks if not wanted.differences(task)]
    total = len(tasks) + len(unknown) if wanted.is_anything else len(found)
    if total == (count if count is not None else max(total, 1)):
        return
    expected = "at least one" if count is None else str(count)
    lines = [f"expected {expected} {wanted} added to queue {queue.name!r}, but found {total}"]
    lines += _misses(wanted, tasks, queue.clock.now_usec())
    if unknown:
        lines.append(
            f"  {count_tasks(len(unknown))} left the queue, and what they held is not known"
        )
    raise AssertionError("\n".join(lines))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What an added task should be like."""

    payload: Payload | None
    tag: str | None
    name: str | None

    @property
    def is_anything(self) -> bool:
        return self.payload is self.tag is self.name is None

    @property
    def is_name_only(self) -> bool:
        return self.payload is self.tag is None and self.name is not None

    def differences(self, task: Task) -> list[str]:
        """Tell in what a task differs."""
        found = []
        if self.name is not None and task.name != self.name:
            found.append(f"name is {task.name!r}")
        if self.tag is not None and task.tag != self.tag:
            found.append("it has no tag" if task.tag is None else f"tag is {task.tag!r}")
        payload = self.payload.encode() if isinstance(self.payload, str) else self.payload
        if payload is not None and payload != task.payload:
            found.append(f"payload is {describe_payload(task.payload)}")
        return found

    def __str__(self) -> str:
        parts = [("name", self.name), ("tag", self.tag), ("payload", self.payload)]
        given = [f"{word}={value!r}" for word, value in parts if value is not None]
        return f"task with {', '.join(given)}" if given else "task"


def _misses(wanted: _Wanted, tasks: Sequence[Task], now_usec: int) -> Iterable[str]:
    """Show the tasks that come nearest, with what is wrong about each."""
    misses = [(len(d), d, task) for task in tasks if (d := wanted.differences(task))]
    misses.sort(key=lambda miss: miss[0])
    if not tasks:
        yield "  nothing was added"
    elif misses:
        yield "  nearest misses:"
    for _, differences, task in misses[:_MISSES_SHOWN]:
        yield f"    {', '.join(differences)}: {describe_task(task, now_usec)}"
    if len(misses) > _MISSES_SHOWN:
        yield f"    and {len(misses) - _MISSES_SHOWN} more"


def _check_count(queue: Queue, state: str, found: int, count: int | None) -> None:
    __tracebackhide__ = True
    if found != (count if count is not None else max(found, 1)):
        expected = "some" if count is None else str(count)
        _fail(queue, f"expected {expected} {state} in queue {queue.name!r}, but found {found}")


def _fail(queue: Queue, message: str) -> None:
    __tracebackhide__ = True
    state = "\n".join(describe_queue(queue))
    raise AssertionError(f"{message}\n{state}")
