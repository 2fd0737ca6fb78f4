"""Remembering tasks that have left their queues, so that assertions can still speak of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pullqueue.engine.calls import QueueCall
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import EventKind
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import Insertion
from pullqueue.tasks import Task


class AddedTasks:
    """Every task that was added, as it was then."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], Task] = {}
        self._lock = threading.Lock()

    def __call__(self, _: QueueCall, proceed: Callable[[], object]) -> object:
        """Let a call through, and remember what it added."""
        answer = proceed()
        if isinstance(answer, Insertion):
            with self._lock:
                for task in answer.added:
                    self._tasks[task.queue_name, task.name] = task
        return answer

    def get(self, queue_name: str, task_name: str) -> Task | None:
        """Give the task that was last added under a name."""
        return self._tasks.get((queue_name, task_name))


@contextmanager
def remember_added(emulator: Emulator) -> Iterator[None]:
    """Remember tasks added in the block, so that `assert_added` knows them once they are gone."""
    added = AddedTasks()
    emulator.call_path.add(added)
    try:
        yield
    finally:
        emulator.call_path.remove(added)


def added_tasks(queue: Queue) -> tuple[list[Task], list[str]]:
    """Give the tasks added to a queue, in order, and the names of those no longer known."""
    known = {task.name: task for task in [*queue.exhausted, *stored_tasks(queue)]}
    remembered = [i for i in queue.call_path.interceptors if isinstance(i, AddedTasks)]
    tasks: dict[str, Task] = {}
    unknown: dict[str, None] = {}
    for event in queue.events():
        if event.kind is EventKind.ADDED:
            name = event.task_name
            found = next((t for r in remembered if (t := r.get(queue.name, name))), None)
            task = found or known.get(name)
            if task is None:
                unknown[name] = None
            else:
                tasks[name] = task
    return list(tasks.values()), list(unknown)


def stored_tasks(queue: Queue) -> Iterator[Task]:
    """Give all tasks of a queue, in order of eta and arrival."""
    page = queue.list_tasks(limit=1000)
    while page:
        yield from page
        page = queue.list_tasks(limit=1000, after=page[-1])
