"""Which due tasks of a queue can be sent, past many that wait for something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from pullqueue.engine.queue import Queue, walk
from pullqueue.tasks import Task, TaskState

_A = TypeVar("_A")
"""An address, in whatever form the caller has it."""

_PAGE = 200
"""Tasks that are read at once where some of them wait for more than their eta."""


class Scan:
    """Looks for the due tasks of one queue, and knows which it need not look at again."""

    def __init__(self) -> None:
        self._waiting: tuple[int, int] | None = None
        """Eta and sequence: all due tasks up to here wait, but for those added there later."""
        self._swept: tuple[int, int] | None = None
        """Those up to here were looked at once more, to find such tasks."""

    def find(
        self,
        queue: Queue,
        limit: int,
        *,
        find_address: Callable[[Task], _A | None],
        is_running: Callable[[Task], bool],
        sweeps: bool,
    ) -> list[tuple[Task, _A]]:
        """Return up to `limit` tasks that can be sent, with their addresses.

        Without `sweeps`, those that wait are not looked at once more.
        """
        found: list[tuple[Task, _A]] = []
        only_waiting = True
        for task in self._due(queue, limit):
            address = find_address(task)
            if address is not None:
                only_waiting = False
                if not is_running(task):
                    found.append((task, address))
                    if len(found) == limit:
                        return found
            elif only_waiting:
                self._waiting = task[:2]
        if self._waiting is not None and sweeps:
            swept = self._sweep(queue, self._waiting, find_address)
            found += [each for each in swept if not is_running(each[0])]
        return found[:limit]

    def _due(self, queue: Queue, limit: int) -> Iterator[Task]:
        """Yield the due tasks after those that wait; at first no more than are needed are read."""
        page = queue.list_tasks(limit, state=TaskState.AVAILABLE, after=self._waiting)
        yield from page
        if len(page) == limit:
            yield from walk(queue, page=_PAGE, state=TaskState.AVAILABLE, after=page[-1][:2])

    def _sweep(
        self, queue: Queue, last: tuple[int, int], find_address: Callable[[Task], _A | None]
    ) -> list[tuple[Task, _A]]:
        """Look at the next of the tasks that wait, up to the last, and return those that do not."""
        page = queue.list_tasks(_PAGE, state=TaskState.AVAILABLE, after=self._swept)
        below = [task for task in page if task[:2] <= last]
        found = [(t, address) for t in below if (address := find_address(t)) is not None]
        if not found:  # otherwise look at the same once more, when these have started
            self._swept = below[-1][:2] if len(below) == _PAGE else None
        return found
