"""How many leases there were lately."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from pullqueue.clock import USEC_PER_SECOND

_MINUTE_SECONDS = 60
_HOUR_SECONDS = 3600


class LeaseCounter:
    """Counts leased tasks over the last minute and hour, to the second."""

    def __init__(self) -> None:
        self._seconds: deque[list[int]] = deque()
        self._total = 0

    def add(self, now_usec: int, tasks: int) -> None:
        """Count tasks leased now."""
        second = now_usec // USEC_PER_SECOND
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += tasks
        else:
            self._seconds.append([second, tasks])
        self._total += tasks
        self._forget(second - _HOUR_SECONDS)

    def last_hour(self, now_usec: int) -> int:
        """Count the tasks leased in the last hour."""
        self._forget(now_usec // USEC_PER_SECOND - _HOUR_SECONDS)
        return self._total

    def last_minute(self, now_usec: int) -> int:
        """Count the tasks leased in the last minute."""
        since = now_usec // USEC_PER_SECOND - _MINUTE_SECONDS
        total = 0
        for second, tasks in reversed(self._seconds):
            if second <= since:
                break
            total += tasks
        return total

    def seconds(self) -> list[tuple[int, int]]:
        """Give the seconds of the last hour in which tasks were leased, and how many."""
        return [(second, tasks) for second, tasks in self._seconds]

    def restore(self, seconds: Iterable[tuple[int, int]]) -> None:
        """Take what `seconds` gave."""
        self._seconds = deque([second, tasks] for second, tasks in seconds)
        self._total = sum(tasks for _, tasks in self._seconds)

    def _forget(self, until_second: int) -> None:
        while self._seconds and self._seconds[0][0] <= until_second:
            self._total -= self._seconds.popleft()[1]


class CallRate:
    """Admits a number of calls within any one second."""

    def __init__(self) -> None:
        self._admitted: deque[int] = deque()

    def admit(self, now_usec: int, calls_per_second: int | None) -> bool:
        """Tell whether a call may go ahead now, and count it if so; None admits any."""
        if calls_per_second is None:
            return True
        if self._admitted and self._admitted[-1] > now_usec:
            self._admitted.clear()  # the system's clock was set back
        while self._admitted and self._admitted[0] <= now_usec - USEC_PER_SECOND:
            self._admitted.popleft()
        if len(self._admitted) >= calls_per_second:
            return False
        self._admitted.append(now_usec)
        return True
