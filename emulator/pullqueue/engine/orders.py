"""The orders in which the tasks of a queue stand: all of them, those of each tag, those leased."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import takewhile

from pullqueue.engine.fields import ETA_USEC, RETRY_COUNT, TAG, Fields
from pullqueue.engine.index import OrderedIndex
from pullqueue.engine.store import TaskFilter
from pullqueue.tasks import TaskState

_LAST_SEQUENCE = sys.maxsize


class TaskOrders:
    """The tasks of one queue, by eta and arrival. A lease only moves a task to a later eta."""

    def __init__(self) -> None:
        self._all: OrderedIndex[Fields] = OrderedIndex()
        self._by_tag: dict[str | None, OrderedIndex[Fields]] = {}
        # Of what lies ahead, these are scheduled, and the others leased.
        self._never_leased: OrderedIndex[Fields] = OrderedIndex()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Fields]:
        return iter(self._all)

    def put(self, tasks: Iterable[Fields]) -> None:
        """Put tasks where they belong."""
        run = sorted(tasks)
        self._all.add(run)
        self._never_leased.add(_never_leased(run))
        for tag, group in _grouped(run).items():
            index = self._by_tag.get(tag)
            if index is None:
                index = self._by_tag[tag] = OrderedIndex()
            index.add(group)

    def take(self, tasks: Iterable[Fields]) -> None:
        """Take tasks out; each must be as it was put in."""
        run = sorted(tasks)
        self._all.remove(run)
        self._never_leased.remove(_never_leased(run))
        for tag, group in _grouped(run).items():
            index = self._by_tag[tag]
            index.remove(group)
            if not index:
                del self._by_tag[tag]

    def first(self) -> Fields | None:
        """Give the first of all tasks, or None."""
        return self._all.first()

    def due(self, now_usec: int, count: int) -> list[Fields]:
        """Give the first tasks that are due, `count` at most."""
        return self._all.due(now_usec, count)

    def due_by_tag(self, now_usec: int, count: int, tag: str | None) -> list[Fields]:
        """Give the first due tasks of a tag; None: of the tag (or the untagged) that is first."""
        first = self._all.first()
        if tag is None and first is not None:
            tag = first[TAG]
        index = self._by_tag.get(tag)
        return [] if index is None else index.due(now_usec, count)

    def passing(self, task_filter: TaskFilter, now_usec: int) -> Iterator[Fields]:
        """Give the tasks that pass a filter, in order."""
        index = self._all
        if task_filter.tag is not None:
            index = self._by_tag.get(task_filter.tag) or OrderedIndex()
        start, state = task_filter.after, task_filter.state
        if state in (TaskState.LEASED, TaskState.SCHEDULED):
            start = max(start or (now_usec, _LAST_SEQUENCE), (now_usec, _LAST_SEQUENCE))
        tasks = iter(index) if start is None else index.after(*start)
        if state is None:
            return tasks
        if state is TaskState.AVAILABLE:
            return takewhile(lambda task: task[ETA_USEC] <= now_usec, tasks)
        was_leased = state is TaskState.LEASED
        return (task for task in tasks if bool(task[RETRY_COUNT]) is was_leased)

    def count_leased(self, now_usec: int) -> int:
        """Count the tasks that are leased."""
        return self._all.count_after(now_usec) - self.count_scheduled(now_usec)

    def count_scheduled(self, now_usec: int) -> int:
        """Count the tasks that wait for their first moment."""
        return self._never_leased.count_after(now_usec)

    def next_eta_usec(self, now_usec: int) -> int | None:
        """Give the next eta that lies ahead, or None."""
        return next((task[ETA_USEC] for task in self._all.after(now_usec)), None)

    def last_lease_end_usec(self, now_usec: int) -> int | None:
        """Give the end of the longest lease now held, or None."""
        ahead = takewhile(lambda task: task[ETA_USEC] > now_usec, reversed(self._all))
        return next((task[ETA_USEC] for task in ahead if task[RETRY_COUNT]), None)


def _never_leased(run: Iterable[Fields]) -> list[Fields]:
    return [task for task in run if not task[RETRY_COUNT]]


def _grouped(run: Iterable[Fields]) -> dict[str | None, list[Fields]]:
    groups: defaultdict[str | None, list[Fields]] = defaultdict(list)
    for task in run:
        groups[task[TAG]].append(task)
    return groups
