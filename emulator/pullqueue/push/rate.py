"""How fast the tasks of a push queue may start: a token bucket, as App Engine documents it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import ceil
from weakref import WeakKeyDictionary

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.config.model import QueueSettings
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import EventKind, Operation
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.tasks import is_success

_SLOWER = 0.5
_FASTER = 1.1
_SLOWEST_RATE = 1.0
"""Tasks a second to which statuses slow a queue down, at most."""
_ALMOST_ONE = 1 - 1e-9
"""A token, less what is lost when parts of it are added up."""
_EVENTS_REPLAYED = 2000
"""Enough to know the tokens and the rate: a bucket has 500 tokens, at most."""

_buckets: WeakKeyDictionary[Emulator, dict[str, TokenBucket]] = WeakKeyDictionary()
"""The tokens of an emulator's queues, from one dispatcher to the next."""


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

        Who asks up to `late_seconds` later than intended gets what an empty bucket would have given
        until then, though it does not hold that much.
        """
        elapsed_seconds = max(0, now_usec - self._now_usec) / USEC_PER_SECOND
        most = float(self._size)
        if self._tokens < _ALMOST_ONE:
            most = max(most, late_seconds * self.rate)
        self._tokens += elapsed_seconds * self.rate
        # Who asks as soon as the bucket is full is late by a part of a microsecond.
        if self._tokens >= most + self.rate / USEC_PER_SECOND:
            self._tokens = most
        self._now_usec = now_usec
        return max(0, int(self._tokens / _ALMOST_ONE))

    def take(self) -> None:
        """Take a token."""
        self._tokens -= 1

    def refund(self) -> None:
        """Put a token back that was not used."""
        self._tokens += 1

    def next_usec(self, now_usec: int, attempts: int = 1) -> int:
        """Return when the next attempt may start, or the last of several; it may be now."""
        if self.count(now_usec) >= attempts:
            return now_usec
        missing = attempts * _ALMOST_ONE - self._tokens
        return now_usec + ceil(missing / self.rate * USEC_PER_SECOND)

    def replay(
        self, events: Sequence[Operation], *, is_complete: bool, is_http_target: bool
    ) -> None:
        """Become what the attempts of a queue have left, by their events, oldest first.

        What was before them is not known, unless they are complete: the bucket was empty then.
        """
        if not events:
            return
        self._now_usec = events[0].usec
        if not is_complete:
            self._tokens = 0
        for each in events:
            if each.kind is EventKind.ATTEMPT_STARTED:
                self.count(each.usec)
                # Below 0 it was not empty at first, or more could start after a delay.
                self._tokens = max(0, self._tokens - 1)
            else:
                status = None if each.result is None else each.result.status
                self.adapt(status, is_http_target=is_http_target)

    def adapt(self, status: int | None, *, is_http_target: bool) -> None:
        """Adapt the rate to the status of a response.

        It decreases after a status that says that the app has too much to do, and recovers with
        each success.
        """
        if is_overload(status, is_http_target=is_http_target):
            if self._full_rate > _SLOWEST_RATE:
                self._throttle = max(self._throttle * _SLOWER, _SLOWEST_RATE / self._full_rate)
        elif is_success(status):
            self._throttle = min(self._throttle * _FASTER, 1.0)


class Rates:
    """The tokens of the queues of an emulator, from one dispatcher to the next; thread-safe."""

    def __init__(self, emulator: Emulator, *, throttle: bool, late_seconds: float) -> None:
        """Begin with those that a dispatcher of the emulator has left.

        `throttle`: apply what slows queues down, and count the attempts that the store has
        recorded, as those of a server before this one. `late_seconds`: see `TokenBucket.count`.
        """
        self._emulator = emulator
        self._throttle = throttle
        self._late_seconds = late_seconds
        self._buckets = _buckets.setdefault(emulator, {})
        self._lock = threading.Lock()

    def count(self, queue: Queue) -> int:
        """Return how many attempts of a queue may start now."""
        now_usec = self._emulator.now_usec()
        with self._lock:
            return self._bucket(queue).count(now_usec, late_seconds=self._late_seconds)

    def next_usec(self, queue: Queue, attempts: int) -> int:
        """Return when a queue may start its next attempt, or the last of several; it may be now."""
        now_usec = self._emulator.now_usec()
        with self._lock:
            return self._bucket(queue).next_usec(now_usec, attempts)

    def per_second(self, queue: Queue) -> float:
        """Return how many attempts of a queue may start in a second, on average."""
        with self._lock:
            return self._bucket(queue).rate

    def take(self, queue: Queue) -> None:
        """Take a token of a queue."""
        with self._lock:
            self._bucket(queue).take()

    def refund(self, queue_name: str) -> None:
        """Put a token back that was not used."""
        with self._lock:
            self._buckets[queue_name].refund()

    def adapt(self, queue: Queue, status: int | None, *, is_http_target: bool) -> None:
        """Apply the status of an attempt to the rate of a queue."""
        if self._throttle:
            with self._lock:
                self._bucket(queue).adapt(status, is_http_target=is_http_target)

    def restore(self, queue: Queue) -> None:
        """Begin again with what the attempts have left that the store has recorded."""
        with self._lock:
            self._buckets.pop(queue.name, None)

    def _bucket(self, queue: Queue) -> TokenBucket:
        bucket = self._buckets.get(queue.name)
        if bucket is None:
            bucket = self._buckets[queue.name] = self._restored(queue)
        else:
            bucket.configure(queue.settings)
        return bucket

    @bypass_interceptors()
    def _restored(self, queue: Queue) -> TokenBucket:
        bucket = TokenBucket(queue.settings, self._emulator.now_usec())
        if self._throttle:
            events = queue.store.list_last_attempts(queue.name, limit=_EVENTS_REPLAYED)
            # An event does not say what its task calls: the tasks of a queue all do the same.
            requests = [task.request for task in queue.list_tasks(1)]
            bucket.replay(
                events,
                is_complete=len(events) < _EVENTS_REPLAYED,
                is_http_target=any(each and each.is_http_target for each in requests),
            )
        return bucket


def is_overload(status: int | None, *, is_http_target: bool) -> bool:
    """Return whether a status slows a queue down: 503, and of HTTP targets 429 and 5xx."""
    if is_http_target:
        return status is not None and (status == 429 or 500 <= status <= 599)
    return status == 503
