"""App Engine's task queues on your own machine.

    from pullqueue import Emulator, ManualClock

    emulator = Emulator.from_file("queue.yaml", clock=ManualClock())
    queue = emulator.queue("pull-queue")

Other interfaces are elsewhere: `pullqueue serve` on the command line, the fixtures of
the pytest plugin, `pullqueue.server` for another WSGI server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullqueue.clock import Clock, ManualClock, SystemClock
from pullqueue.errors import (
    ClockError,
    ConfigFileError,
    DeadlineExceededError,
    DuplicateTaskNameError,
    InternalError,
    InvalidCronError,
    InvalidEtaError,
    InvalidLeaseTimeError,
    InvalidMaxTasksError,
    InvalidQueueModeError,
    InvalidQueueNameError,
    InvalidQueueSettingsError,
    InvalidTagError,
    InvalidTaskError,
    InvalidTaskNameError,
    OverQuotaError,
    PullQueueError,
    QueueDisabledError,
    QueueError,
    QueueNameInUseError,
    QueuePausedError,
    RateLimitExceededError,
    ServerAddressError,
    StoreError,
    StoreFullError,
    TaskError,
    TaskLeaseExpiredError,
    TaskTooLargeError,
    TooManyTasksError,
    TransientError,
    UnknownQueueError,
    UnknownTaskError,
)
from pullqueue.limits import Limits
from pullqueue.tasks import (
    AttemptRecord,
    DeleteResult,
    HttpRequest,
    NameInUseError,
    NewTask,
    RequestToken,
    RetryParameters,
    Task,
    TaskAlreadyExistsError,
    TaskState,
    TombstonedTaskError,
)

if TYPE_CHECKING:
    from pullqueue.config.findings import InvalidQueueConfigError
    from pullqueue.engine.emulator import Emulator
    from pullqueue.engine.events import Event, EventKind
    from pullqueue.engine.queue import Queue
    from pullqueue.engine.queue_base import QueueState
    from pullqueue.engine.store import QueueStatistics

    __version__: str

__all__ = [
    "AttemptRecord",
    "Clock",
    "ClockError",
    "ConfigFileError",
    "DeadlineExceededError",
    "DeleteResult",
    "DuplicateTaskNameError",
    "Emulator",
    "Event",
    "EventKind",
    "HttpRequest",
    "InternalError",
    "InvalidCronError",
    "InvalidEtaError",
    "InvalidLeaseTimeError",
    "InvalidMaxTasksError",
    "InvalidQueueConfigError",
    "InvalidQueueModeError",
    "InvalidQueueNameError",
    "InvalidQueueSettingsError",
    "InvalidTagError",
    "InvalidTaskError",
    "InvalidTaskNameError",
    "Limits",
    "ManualClock",
    "NameInUseError",
    "NewTask",
    "OverQuotaError",
    "PullQueueError",
    "Queue",
    "QueueDisabledError",
    "QueueError",
    "QueueNameInUseError",
    "QueuePausedError",
    "QueueState",
    "QueueStatistics",
    "RateLimitExceededError",
    "RequestToken",
    "RetryParameters",
    "ServerAddressError",
    "StoreError",
    "StoreFullError",
    "SystemClock",
    "Task",
    "TaskAlreadyExistsError",
    "TaskError",
    "TaskLeaseExpiredError",
    "TaskState",
    "TaskTooLargeError",
    "TombstonedTaskError",
    "TooManyTasksError",
    "TransientError",
    "UnknownQueueError",
    "UnknownTaskError",
]


_IMPORTED_WHEN_USED = {
    "Emulator": "engine.emulator",
    "Event": "engine.events",
    "EventKind": "engine.events",
    "InvalidQueueConfigError": "config.findings",
    "Queue": "engine.queue",
    "QueueState": "engine.queue_base",
    "QueueStatistics": "engine.store",
}


def __getattr__(name: str) -> object:
    """Import names of the engine and of the linter, and the version, when they are asked for.

    What imports this package for less, as the plugin does, must not wait for them.
    """
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - costs more than all the rest

        return version("pullqueue")
    if name in _IMPORTED_WHEN_USED:
        from importlib import import_module  # noqa: PLC0415 - most programs need none

        module = import_module(f"{__name__}.{_IMPORTED_WHEN_USED[name]}")
        return globals().setdefault(name, getattr(module, name))
    raise AttributeError(f'module "{__name__}" has no attribute "{name}"')
