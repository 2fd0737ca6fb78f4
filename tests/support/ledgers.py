"""A worker that books the tasks of a queue."""

from __future__ import annotations

from contextlib import suppress

from pullqueue import Queue, Task
from pullqueue.errors import PullQueueError


class Ledger:
    """A worker that books each task, in the wrong order or the right one."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.booked: list[str] = []

    def setup(self) -> None:
        """Begin with one task and nothing booked."""
        self.booked.clear()
        self.queue.add(name="one")

    def book_first(self) -> None:
        """Book the task that is leased, and then delete it."""
        for task in self.queue.lease_tasks(60, 1):
            self.queue.fetch_statistics()
            with suppress(PullQueueError):
                self.book(task)

    def book(self, task: Task) -> None:
        """Book a task, and then delete it."""
        self.booked.append(task.name)
        self.queue.delete_tasks(task)

    def check(self) -> bool:
        """Return whether the task was booked once."""
        return self.booked == ["one"]
