"""How many tasks were leased recently, and how many lease calls there were."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import takewhile

from pullqueue.clock import USEC_PER_SECOND

_KEPT_SECONDS = 3600


class LeaseCounter:
    """Counts the tasks leased in the last hour, to the second."""

    def __init__(self) -> None:
        self._seconds: deque[list[int]] = deque()

    def add(self, now_usec: int, tasks: int) -> None:
        """Count tasks leased now."""
        second = now_usec // USEC_PER_SECOND
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += tasks
        else:
            self._seconds.append([second, tasks])
        while self._seconds[0][0] <= second - _KEPT_SECONDS:
            self._seconds.popleft()

    def count(self, now_usec: int, seconds: int) -> int:
        """Return the number of tasks leased in the last seconds."""
        since = now_usec // USEC_PER_SECOND - seconds
        recent = takewhile(lambda each: each[0] > since, reversed(self._seconds))
        return sum(tasks for _, tasks in recent)

    def seconds(self) -> list[tuple[int, int]]:
        """Return the seconds of the last hour in which tasks were leased, and how many."""
        return [(second, tasks) for second, tasks in self._seconds]

    def restore(self, seconds: Iterable[tuple[int, int]]) -> None:
        """Replace the counts by what `seconds` returned."""
        self._seconds = deque([second, tasks] for second, tasks in seconds)


class RateLimiter:
    """Permits a number of calls within any one second."""

    def __init__(self) -> None:
        self._permitted: deque[int] = deque()

    def permit(self, now_usec: int, calls_per_second: int | None) -> bool:
        """Return whether a call is permitted now, and count it if so; None permits any."""
        if calls_per_second is None:
            return True
        if self._permitted and self._permitted[-1] > now_usec:
            self._permitted.clear()  # the system's clock was set back
        while self._permitted and self._permitted[0] <= now_usec - USEC_PER_SECOND:
            self._permitted.popleft()
        if len(self._permitted) >= calls_per_second:
            return False
        self._permitted.append(now_usec)
        return True
