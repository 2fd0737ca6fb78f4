"""An ordered set of tuples that stays quick at any depth."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

_CHUNK = 512
_SEARCHES_PER_SORT = 10
"""A chunk is sorted anew for a run longer than this part of it, and searched for a shorter one."""
_SEARCHES_PER_COPY = 10
"""A chunk is copied to a tuple after a run longer than this part of it."""

Entry = TypeVar("Entry", bound=tuple[Any, ...])


class OrderedIndex(Generic[Entry]):
    """Tuples that begin with a moment (microseconds) and a sequence number, in that order.

    A list of sorted chunks with the last entry of each chunk beside it. Finding an entry costs two
    binary searches, moving it costs shifting one chunk, whatever the depth; a run of neighbours
    (the tasks of one lease, or of one batch) is put in, and taken out, as one slice.

    A chunk is a list while few entries come and go, and a tuple again when many of them move: the
    interpreter's garbage collector lets go of a tuple of such tuples, but goes through a list time
    and again.
    """

    __slots__ = ("_chunks", "_lasts", "_size")

    def __init__(self) -> None:
        self._chunks: list[list[Entry] | tuple[Entry, ...]] = []
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
        """Give the first entry, or None."""
        return self._chunks[0][0] if self._chunks else None

    def due(self, now_usec: int, count: int) -> list[Entry]:
        """Give the first entries, `count` at most, whose moment is not after `now_usec`."""
        found: list[Entry] = []
        bound = (now_usec + 1,)
        for chunk, last in zip(self._chunks, self._lasts, strict=True):
            end = len(chunk) if last < bound else bisect_left(chunk, bound)
            found += chunk[: min(end, count - len(found))]
            if end < len(chunk) or len(found) == count:
                break
        return found

    def after(self, moment_usec: int, sequence: int | None = None) -> Iterator[Entry]:
        """Give the entries behind a moment, or behind a moment and a sequence, in order."""
        key = (moment_usec + 1,) if sequence is None else (moment_usec, sequence + 1)
        position = bisect_left(self._lasts, key)
        if position < len(self._chunks):
            chunk = self._chunks[position]
            yield from islice(chunk, bisect_left(chunk, key), None)
            for chunk in islice(self._chunks, position + 1, None):
                yield from chunk

    def count_after(self, moment_usec: int) -> int:
        """Count the entries whose moment is after `moment_usec`."""
        key = (moment_usec + 1,)
        position = bisect_left(self._lasts, key)
        if position == len(self._chunks):
            return 0
        in_chunk = len(self._chunks[position]) - bisect_left(self._chunks[position], key)
        return in_chunk + sum(map(len, islice(self._chunks, position + 1, None)))

    def add(self, entries: Sequence[Entry]) -> None:
        """Put in entries that are in ascending order among themselves and not in the index."""
        self._size += len(entries)
        if len(entries) == 1:
            self._add_one(entries[0])
            return
        start = 0
        while start < len(entries):
            if not self._lasts or entries[start] > self._lasts[-1]:
                self._append(entries[start:] if start else entries)
                return
            position = bisect_left(self._lasts, entries[start])
            end = bisect_left(entries, self._lasts[position], start + 1)
            chunk = self._opened(position)
            _merge(chunk, entries[start:end])
            self._close(position, end - start)
            self._split(position)
            start = end

    def remove(self, entries: Sequence[Entry]) -> None:
        """Take out entries that are in the index, given in ascending order."""
        self._size -= len(entries)
        if len(entries) == 1:
            self._remove_one(entries[0])
            return
        start = 0
        while start < len(entries):
            position = bisect_left(self._lasts, entries[start])
            end = bisect_right(entries, self._lasts[position], start + 1)
            chunk = self._opened(position)
            _take_out(chunk, entries[start:end])
            if chunk:
                self._lasts[position] = chunk[-1]
                self._close(position, end - start)
            else:
                del self._chunks[position], self._lasts[position]
            start = end

    def _add_one(self, entry: Entry) -> None:
        lasts = self._lasts
        if not lasts or entry > lasts[-1]:
            self._append((entry,))
            return
        position = bisect_left(lasts, entry)
        chunk = self._opened(position)
        insort(chunk, entry)
        if len(chunk) > 2 * _CHUNK:
            self._split(position)

    def _remove_one(self, entry: Entry) -> None:
        position = bisect_left(self._lasts, entry)
        chunk = self._opened(position)
        place = bisect_left(chunk, entry)
        del chunk[place]
        if not chunk:
            del self._chunks[position], self._lasts[position]
        elif place == len(chunk):
            self._lasts[position] = chunk[-1]

    def _append(self, entries: Sequence[Entry]) -> None:
        if not self._chunks:
            self._chunks.append([])
            self._lasts.append(entries[-1])
        position = len(self._chunks) - 1
        self._opened(position).extend(entries)
        self._lasts[position] = entries[-1]
        self._split(position)

    def _opened(self, position: int) -> list[Entry]:
        """Give a chunk as a list, to be changed."""
        chunk = self._chunks[position]
        if isinstance(chunk, tuple):
            chunk = self._chunks[position] = list(chunk)
        return chunk

    def _close(self, position: int, moved: int) -> None:
        """Make a tuple of a chunk again, if so much of it was moved that this costs little more."""
        chunk = self._chunks[position]
        if moved * _SEARCHES_PER_COPY >= len(chunk):
            self._chunks[position] = tuple(chunk)

    def _split(self, position: int) -> None:
        chunk = self._chunks[position]
        if len(chunk) <= 2 * _CHUNK:
            return
        parts = [tuple(chunk[start : start + _CHUNK]) for start in range(0, len(chunk), _CHUNK)]
        self._chunks[position : position + 1] = parts
        self._lasts[position : position + 1] = [part[-1] for part in parts]


def _merge(chunk: list[Entry], run: Sequence[Entry]) -> None:
    place = bisect_left(chunk, run[0])
    if run[-1] < chunk[place]:
        chunk[place:place] = run
    elif len(run) * _SEARCHES_PER_SORT < len(chunk):
        for entry in run:
            insort(chunk, entry, place)
    else:
        chunk.extend(run)
        chunk.sort()


def _take_out(chunk: list[Entry], run: Sequence[Entry]) -> None:
    place = bisect_left(chunk, run[0])
    behind = place + len(run)
    # Both are sorted and every entry of the run is in the chunk: where the run's last lies
    # `len(run)` places on, nothing else can lie between.
    if behind <= len(chunk) and chunk[behind - 1] is run[-1]:
        del chunk[place:behind]
        return
    for entry in run:
        place = bisect_left(chunk, entry, place)
        del chunk[place]
