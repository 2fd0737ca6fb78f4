"""The tasks of one queue in the order in which they are due, fast at any depth."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice, takewhile
from typing import Any, Generic, TypeVar

from pullqueue.engine.store import TaskFilter
from pullqueue.tasks import Task, TaskState

_CHUNK = 512
_LAST_SEQUENCE = sys.maxsize

Entry = TypeVar("Entry", bound=tuple[Any, ...])


class OrderedIndex(Generic[Entry]):
    """Tuples that begin with a time (microseconds) and a sequence number, in that order.

    A list of sorted chunks, and the last entry of each chunk in a list beside it. Finding an entry
    takes two binary searches, moving it shifts one chunk, whatever the depth; neighbours (the tasks
    of one lease, or of one batch) are added and removed as one slice.
    """

    __slots__ = ("_chunks", "_lasts", "_size")

    def __init__(self) -> None:
        self._chunks: list[list[Entry]] = []
        self._lasts: list[Entry] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Entry]:
        for chunk in self._chunks:
            yield from chunk

    def __reversed__(self) -> Iterator[Entry]:
        for chunk in reversed(self._chunks):
            yield from reversed(chunk)

    def first(self) -> Entry | None:
        """Return the first entry, or None."""
        return self._chunks[0][0] if self._chunks else None

    def due(self, now_usec: int, count: int) -> list[Entry]:
        """Return the first entries, at most `count`, whose time is not after `now_usec`."""
        found: list[Entry] = []
        bound = (now_usec + 1,)
        for chunk in self._chunks:
            wanted = min(count - len(found), len(chunk))
            end = bisect_left(chunk, bound, 0, wanted)
            found += chunk[:end]
            if end < len(chunk):
                break
        return found

    def after(self, usec: int, sequence: int | None = None) -> Iterator[Entry]:
        """Yield the entries after a time, or after a time and a sequence number, in order."""
        key = (usec + 1,) if sequence is None else (usec, sequence + 1)
        position = bisect_left(self._lasts, key)
        if position < len(self._chunks):
            chunk = self._chunks[position]
            yield from islice(chunk, bisect_left(chunk, key), None)
            for chunk in islice(self._chunks, position + 1, None):
                yield from chunk

    def count_after(self, usec: int) -> int:
        """Count the entries whose time is after `usec`."""
        key = (usec + 1,)
        position = bisect_left(self._lasts, key)
        if position == len(self._chunks):
            return 0
        before = bisect_left(self._chunks[position], key)
        return sum(map(len, islice(self._chunks, position, None))) - before

    def add(self, run: Sequence[Entry]) -> None:
        """Add entries that are sorted and not in the index."""
        self._size += len(run)
        start = 0
        while start < len(run):
            position = bisect_left(self._lasts, run[start])
            if position == len(self._chunks):
                self._append(run[start:])
                return
            end = bisect_left(run, self._lasts[position])
            _insert(self._chunks[position], run[start:end])
            self._split(position)
            start = end

    def remove(self, run: Sequence[Entry]) -> None:
        """Remove entries that are sorted and in the index."""
        self._size -= len(run)
        start = 0
        while start < len(run):
            position = bisect_left(self._lasts, run[start])
            end = bisect_right(run, self._lasts[position])
            chunk = self._chunks[position]
            _delete(chunk, run[start:end])
            if chunk:
                self._lasts[position] = chunk[-1]
            else:
                del self._chunks[position], self._lasts[position]
            start = end

    def _append(self, run: Sequence[Entry]) -> None:
        if not self._chunks:
            self._chunks.append([])
            self._lasts.append(run[-1])
        self._chunks[-1].extend(run)
        self._lasts[-1] = run[-1]
        self._split(len(self._chunks) - 1)

    def _split(self, position: int) -> None:
        chunk = self._chunks[position]
        if len(chunk) <= 2 * _CHUNK:
            return
        parts = [chunk[start : start + _CHUNK] for start in range(0, len(chunk), _CHUNK)]
        self._chunks[position : position + 1] = parts
        self._lasts[position : position + 1] = [part[-1] for part in parts]


def _insert(chunk: list[Entry], run: Sequence[Entry]) -> None:
    """Insert a run all of which is before the last entry of the chunk."""
    place = bisect_left(chunk, run[0])
    if run[-1] < chunk[place]:
        chunk[place:place] = run
    else:
        for entry in run:
            insort(chunk, entry)


def _delete(chunk: list[Entry], run: Sequence[Entry]) -> None:
    place = bisect_left(chunk, run[0])
    end = place + len(run)
    # Both are sorted, and every entry of the run is in the chunk: where the run's last entry is
    # `len(run)` places on, no other entry can be between them.
    if end <= len(chunk) and chunk[end - 1] is run[-1]:
        del chunk[place:end]
        return
    for entry in run:
        del chunk[bisect_left(chunk, entry)]


class TaskIndex:
    """The tasks of one queue by eta and arrival: all of them, and those of each tag and state."""

    def __init__(self) -> None:
        self._all: OrderedIndex[Task] = OrderedIndex()
        self._by_tag: dict[str | None, OrderedIndex[Task]] = {}
        # By the state until the eta. The tasks of no such index are leased.
        self._scheduled: OrderedIndex[Task] = OrderedIndex()
        self._attempted: dict[TaskState, OrderedIndex[Task]] = {}
        """Empty as long as there was no push task, so that pull tasks cost nothing more."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._all)

    def add(self, tasks: Iterable[Task]) -> None:
        """Add tasks: pull tasks, or push tasks."""
        run = sorted(tasks)
        self._all.add(run)
        for tag, group in _grouped(run).items():
            self._by_tag.setdefault(tag, OrderedIndex()).add(group)
        if run and run[0].request is not None:
            for state in (TaskState.RUNNING, TaskState.RETRYING):
                self._attempted.setdefault(state, OrderedIndex())
        self._add_states(run)

    def remove(self, tasks: Iterable[Task]) -> None:
        """Remove tasks; each must be as it was added."""
        run = sorted(tasks)
        self._all.remove(run)
        self._remove_states(run)
        for tag, group in _grouped(run).items():
            index = self._by_tag[tag]
            index.remove(group)
            if not index:
                del self._by_tag[tag]

    def move(self, old: Sequence[Task], new: Iterable[Task]) -> None:
        """Replace tasks, in their order, by the same tasks once they are leased or attempted."""
        run = sorted(new)
        self._all.remove(old)
        self._all.add(run)
        self._remove_states(old)
        leased = _grouped(run)
        for tag, group in _grouped(old).items():
            index = self._by_tag[tag]
            index.remove(group)
            index.add(leased[tag])
        if self._attempted:  # pull tasks are leased by now, and in no such index
            self._add_states(run)

    def _add_states(self, run: Sequence[Task]) -> None:
        self._scheduled.add(_scheduled(run))
        for state, index in self._attempted.items():
            index.add([task for task in run if task.waiting_state is state])

    def _remove_states(self, run: Sequence[Task]) -> None:
        self._scheduled.remove(_scheduled(run))
        for state, index in self._attempted.items():
            index.remove([task for task in run if task.waiting_state is state])

    def first(self) -> Task | None:
        """Return the first of all tasks, or None."""
        return self._all.first()

    def due(self, now_usec: int, count: int) -> list[Task]:
        """Return the first tasks that are due, at most `count`."""
        return self._all.due(now_usec, count)

    def due_by_tag(self, now_usec: int, count: int, tag: str | None) -> list[Task]:
        """Return the first due tasks of a tag; None: of the tag of the first task, or untagged."""
        first = self._all.first()
        if tag is None and first is not None:
            tag = first.tag
        index = self._by_tag.get(tag)
        return [] if index is None else index.due(now_usec, count)

    def matching(self, task_filter: TaskFilter, now_usec: int) -> Iterator[Task]:
        """Yield the tasks that match a filter, in order."""
        start, state = task_filter.after, task_filter.state
        index = self._all
        if task_filter.tag is not None:
            index = self._by_tag.get(task_filter.tag) or OrderedIndex()
        elif state not in (None, TaskState.AVAILABLE, TaskState.LEASED):
            index = self._of_state(state)
        if state not in (None, TaskState.AVAILABLE):
            start = max(start or (now_usec, _LAST_SEQUENCE), (now_usec, _LAST_SEQUENCE))
        tasks = iter(index) if start is None else index.after(*start)
        if state is None:
            return tasks
        if state is TaskState.AVAILABLE:
            return takewhile(lambda task: task.eta_usec <= now_usec, tasks)
        return (task for task in tasks if task.state_at(now_usec) is state)

    def count_future(self, now_usec: int, state: TaskState | None = None) -> int:
        """Count the tasks with an eta in the future: all, or those scheduled, running, retrying."""
        return (self._all if state is None else self._of_state(state)).count_after(now_usec)

    def count_tags(self, limit: int) -> dict[str, int]:
        """Return how many tasks have each tag, for the tags that most have, the most first."""
        counts = [(-len(index), tag) for tag, index in self._by_tag.items() if tag is not None]
        return {tag: -count for count, tag in nsmallest(limit, counts)}

    def _of_state(self, state: TaskState) -> OrderedIndex[Task]:
        if state is TaskState.SCHEDULED:
            return self._scheduled
        return self._attempted.get(state) or OrderedIndex()

    def next_eta_usec(self, now_usec: int) -> int | None:
        """Return the next eta in the future, or None."""
        return next((task.eta_usec for task in self._all.after(now_usec)), None)

    def last_lease_end_usec(self, now_usec: int) -> int | None:
        """Return the end of the current lease or attempt that ends last, or None."""
        found = [next(reversed(self._of_state(TaskState.RUNNING)), None)]
        others = (self._scheduled, *self._attempted.values())
        if self._all.count_after(now_usec) > sum(index.count_after(now_usec) for index in others):
            leased = (task for task in reversed(self._all) if task.retry_count and not task.request)
            found.append(next(leased))
        ends = [task.eta_usec for task in found if task is not None]
        return max((usec for usec in ends if usec > now_usec), default=None)


def _scheduled(run: Iterable[Task]) -> list[Task]:
    return [task for task in run if not task.retry_count]


def _grouped(run: Iterable[Task]) -> dict[str | None, list[Task]]:
    groups: defaultdict[str | None, list[Task]] = defaultdict(list)
    for task in run:
        groups[task.tag].append(task)
    return groups
