"""What a queue is, apart from its tasks: settings, state, and what its calls check first."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pullqueue.clock import Clock, from_usec
from pullqueue.config.model import QueueMode, QueueSettings
from pullqueue.engine import task_errors
from pullqueue.engine.events import MINUTE_USEC
from pullqueue.engine.interceptors import Interceptors
from pullqueue.engine.retention import compute_retention
from pullqueue.engine.store import QueueRecord, TaskStore
from pullqueue.errors import InvalidQueueModeError, QueueDisabledError, is_expected_error
from pullqueue.limits import Limits

__tracebackhide__ = is_expected_error


class QueueState(StrEnum):
    """Whether tasks can be leased from a queue, or are sent."""

    RUNNING = "running"
    PAUSED = "paused"
    """Tasks can be added, but are neither leased nor sent."""
    DISABLED = "disabled"
    """The queue was removed from queue.yaml; its tasks are kept."""


class QueueBase:
    """The settings and the state of one queue, and the store that has its tasks."""

    _rate_warning_usec = 0
    """When the lease rate can be logged again."""

    def __init__(
        self,
        settings: QueueSettings,
        *,
        store: TaskStore,
        limits: Limits,
        storage_limit_bytes: int | None,
        clock: Clock,
        interceptors: Interceptors,
    ) -> None:
        self.clock = clock
        self.interceptors = interceptors
        self.store = store
        self.limits = limits
        self.settings = settings
        """The queue's entry in queue.yaml."""
        self.storage_limit_bytes = storage_limit_bytes
        self.retention = compute_retention(settings)
        """The limits after which its tasks are exhausted."""
        self.is_disabled = False
        """True if every change is refused; the tasks are kept."""
        self.record = QueueRecord()
        """What the store has recorded of the queue."""
        # A store that outlives the process may know the queue by another limit.
        store.change_retention(settings.name, self.retention)

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    def configure(self, settings: QueueSettings, *, storage_limit_bytes: int | None) -> None:
        """Apply other settings; see `Emulator.reconfigure`."""
        before, self.retention = self.retention, compute_retention(settings)
        self.settings = settings
        self.storage_limit_bytes = storage_limit_bytes
        # Last: a lease made meanwhile has the new limit already.
        if self.retention != before:
            self.store.change_retention(self.name, self.retention)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.settings.name

    @property
    def mode(self) -> QueueMode:
        """Pull or push."""
        return self.settings.mode

    @property
    def is_push(self) -> bool:
        """True if App Engine sends its tasks, rather than workers leasing them."""
        return not self.settings.is_pull

    @property
    def state(self) -> QueueState:
        """Whether tasks can be leased or are sent."""
        if self.is_disabled:
            return QueueState.DISABLED
        return QueueState.PAUSED if self.record.paused else QueueState.RUNNING

    @property
    def is_runtime(self) -> bool:
        """True if the queue was created at run time and is not one of queue.yaml."""
        return self.record.settings is not None

    @property
    def purged_at(self) -> datetime | None:
        """When the queue was last purged, or None."""
        purged_usec = self.record.purged_usec
        return None if purged_usec is None else from_usec(purged_usec)

    def now_usec(self) -> int:
        """Return the time by which its tasks become due, in microseconds: that of the store."""
        return self.store.now_usec()

    def check_exists(self) -> None:
        """Raise `UnknownQueueError` if the queue was deleted."""
        if self.record.deleted_usec is not None:
            raise task_errors.deleted_queue(self.name)

    def check_usable(self) -> None:
        """Raise `UnknownQueueError` or `QueueDisabledError` if it was deleted, or is disabled."""
        self.check_exists()
        if self.is_disabled:
            why = "it is no longer in queue.yaml: put it back to use its tasks"
            if self.is_runtime:
                why = (
                    "a queue.yaml without it was applied after it was created: resume it; "
                    "--keep-created-queues leaves such queues as they are"
                )
            raise QueueDisabledError(
                f'queue "{self.name}" is disabled, since {why}', queue_name=self.name
            )

    def check_pull(self) -> None:
        """Check that tasks can be leased from the queue, unless it is paused.

        Raises:
            InvalidQueueModeError: it is a push queue.
            UnknownQueueError: it was deleted.
            QueueDisabledError: it was removed from queue.yaml.
        """
        if self.is_push:
            self.check_exists()
            rule = "only queues with `mode: pull` in queue.yaml can be used this way"
            raise self.wrong_mode(rule)
        self.check_usable()

    def wrong_mode(self, rule: str) -> InvalidQueueModeError:
        """Return the error for a call that is for queues of the other mode, with the rule."""
        return InvalidQueueModeError(
            f'queue "{self.name}" is a {self.mode.value} queue: {rule}', queue_name=self.name
        )

    def warn_of_rate(self) -> None:
        """Log that there are too many lease calls, once a minute."""
        import logging  # noqa: PLC0415 - importing pullqueue must stay cheap

        now_usec = self.clock.now_usec()
        if now_usec < self._rate_warning_usec:
            return
        self._rate_warning_usec = now_usec + MINUTE_USEC
        logging.getLogger("pullqueue.engine").warning(
            'queue "%s": more than %s lease calls in a second; the excess returns no tasks',
            self.name,
            self.limits.leases_per_second,
        )
