"""A line from time to time of a test that takes long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

_SECONDS = 10.0
"""Between two lines."""
_CLOCKS = (perf_counter,)
"""The machine's own, which is not replaced here where a test has frozen time."""
_writers: list[Callable[[str], object]] = []


@contextmanager
def written_by(write: Callable[[str], object]) -> Iterator[None]:
    """Pass the lines in the block to a function; otherwise they are written to standard error."""
    _writers.append(write)
    try:
        yield
    finally:
        _writers.remove(write)


class Stopwatch:
    """Real time since it was made, also where time is frozen."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """`clock` returns the time in seconds; None: the machine's."""
        self._clock = clock or _CLOCKS[0]
        self._start = self._clock()
        self._next = _SECONDS

    def __call__(self) -> float:
        """Return the seconds until now."""
        return self._clock() - self._start

    def report(self, line: Callable[[], str]) -> None:
        """Write a line if the last one was some time ago."""
        if (seconds := self()) >= self._next:
            self._next = seconds + _SECONDS
            write = _writers[-1] if _writers else lambda text: print(text, file=sys.stderr)  # noqa: T201 - as without pytest
            write(f"{line()} ({seconds:.0f} s)")
