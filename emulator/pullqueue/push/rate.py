"""How fast the tasks of a push queue may start: a token bucket, as App Engine documents it."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.config.model import QueueSettings
from pullqueue.engine.events import AttemptEvent, EventKind
from pullqueue.tasks import is_success

_SLOWER = 0.5
_FASTER = 1.1
_SLOWEST_RATE = 1.0
"""Tasks a second to which statuses slow a queue down, at most."""
_ALMOST_ONE = 1 - 1e-9
"""A token, less what is lost when parts of it are added up."""


class TokenBucket:
    """The tokens of a queue that is not paused: each attempt takes one.

    It begins full, holds `bucket_size` tokens and is refilled at the queue's rate.
    """

    def __init__(self, settings: QueueSettings, now_usec: int) -> None:
        self._now_usec = now_usec
        self._throttle = 1.0
        """The part of the queue's rate that is enforced."""
        self.configure(settings)
        self._tokens = float(self._size)

    def configure(self, settings: QueueSettings) -> None:
        """Apply the settings of the queue, which may have changed."""
        self._full_rate = settings.effective_rate
        self._size = settings.effective_bucket_size

    @property
    def rate(self) -> float:
        """The tasks a second that are permitted now."""
        return self._full_rate * self._throttle

    def count(self, now_usec: int, *, late_seconds: float = 0) -> int:
        """Return how many attempts may start now.

        Who asks `late_seconds` later than intended gets what an empty bucket would have given until
        then, though it does not hold that much.
        """
        elapsed_seconds = max(0, now_usec - self._now_usec) / USEC_PER_SECOND
        most = float(self._size)
        if self._tokens < _ALMOST_ONE:
            most = max(most, min(late_seconds, elapsed_seconds) * self.rate)
        self._tokens = min(self._tokens + elapsed_seconds * self.rate, most)
        self._now_usec = now_usec
        return max(0, int(self._tokens / _ALMOST_ONE))

    def take(self) -> None:
        """Take a token."""
        self._tokens -= 1

    def refund(self) -> None:
        """Put a token back that was not used."""
        self._tokens += 1

    def next_usec(self, now_usec: int) -> int:
        """Return when the next attempt may start, which may be now."""
        if self.count(now_usec):
            return now_usec
        return now_usec + ceil((1 - self._tokens) / self.rate * USEC_PER_SECOND)

    def replay(
        self, events: Sequence[AttemptEvent], *, is_complete: bool, is_http_target: bool
    ) -> None:
        """Become what the attempts of a queue have left, by their events, oldest first.

        What was before them is not known, unless they are complete: the bucket was empty then.
        """
        if not events:
            return
        self._now_usec = events[0].usec
        if not is_complete:
            self._tokens = 0
        for usec, kind, status in events:
            if kind is EventKind.ATTEMPT_STARTED:
                self.count(usec)
                # Below 0 it was not empty at first, or more could start after a delay.
                self._tokens = max(0, self._tokens - 1)
            else:
                self.adapt(status, is_http_target=is_http_target)

    def adapt(self, status: int | None, *, is_http_target: bool) -> None:
        """Slow down after a status that says that the app has too much to do; recover with each
        success.
        """
        if is_overload(status, is_http_target=is_http_target):
            if self._full_rate > _SLOWEST_RATE:
                self._throttle = max(self._throttle * _SLOWER, _SLOWEST_RATE / self._full_rate)
        elif is_success(status):
            self._throttle = min(self._throttle * _FASTER, 1.0)


def is_overload(status: int | None, *, is_http_target: bool) -> bool:
    """Return whether a status slows a queue down: 503, and of HTTP targets 429 and 5xx."""
    if is_http_target:
        return status is not None and (status == 429 or 500 <= status <= 599)
    return status == 503
