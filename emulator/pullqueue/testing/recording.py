"""Remembering tasks that have left their queues, so that assertions can still speak of them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import EventKind
from pullqueue.engine.interceptors import QueueCall
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import Insertion
from pullqueue.errors import is_refusal
from pullqueue.tasks import Task

__tracebackhide__ = is_refusal


class AddedTasks:
    """Every task that was added, as it was then."""

    def __init__(self) -> None:
        self._tasks: dict[str, list[Task]] = {}
        self._lock = threading.Lock()

    def __call__(self, _: QueueCall, proceed: Callable[[], object]) -> object:
        """Let a call through, and remember what it added."""
        answer = proceed()
        if isinstance(answer, Insertion):
            with self._lock:
                for task in answer.added:
                    self._tasks.setdefault(task.queue_name, []).append(task)
        return answer

    def of(self, queue_name: str) -> list[Task]:
        """Give the tasks that were added to a queue, in order."""
        with self._lock:
            return list(self._tasks.get(queue_name, ()))


@contextmanager
def remember_added(emulator: Emulator) -> Iterator[None]:
    """Remember tasks added in the block, so that `assert_added` knows them once they are gone."""
    added = AddedTasks()
    emulator.interceptors.add(added, bypassed=False)
    try:
        yield
    finally:
        emulator.interceptors.remove(added)


def added_tasks(queue: Queue) -> tuple[list[Task], list[str]]:
    """Give the tasks added to a queue, in order, and the names of those no longer known."""
    known: defaultdict[tuple[str, int], dict[int, Task]] = defaultdict(dict)
    for task in [*queue.exhausted, *stored_tasks(queue), *_remembered(queue)]:
        known[task.name, task.enqueued_usec][task.sequence] = task
    tasks: list[Task] = []
    unknown: list[str] = []
    # The latest first: events of long ago may be forgotten when their tasks are still known.
    for event in reversed(queue.events()):
        if event.kind is EventKind.ADDED:
            same_name = known[event.task_name, event.usec]
            if same_name:
                tasks.append(same_name.pop(max(same_name)))
            else:
                unknown.append(event.task_name)
    return tasks[::-1], unknown[::-1]


def _remembered(queue: Queue) -> Iterator[Task]:
    for interceptor in queue.interceptors:
        if isinstance(interceptor, AddedTasks):
            yield from interceptor.of(queue.name)


def stored_tasks(queue: Queue) -> Iterator[Task]:
    """Give all tasks of a queue, in order of eta and arrival."""
    page = queue.list_tasks(limit=1000)
    while page:
        yield from page
        page = queue.list_tasks(limit=1000, after=page[-1])
