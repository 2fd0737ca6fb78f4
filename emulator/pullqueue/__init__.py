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
from pullqueue.config.findings import InvalidQueueConfigError
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


_ENGINE_MODULES = {
    "Emulator": "emulator",
    "Event": "events",
    "EventKind": "events",
    "Queue": "queue",
    "QueueState": "queue_base",
    "QueueStatistics": "store",
}


def __getattr__(name: str) -> object:
    """Import the engine's names, and the version, when they are asked for.

    The linter and the plugin, which import this package, must not wait for the engine.
    """
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - costs more than all the rest

        return version("pullqueue")
    if name in _ENGINE_MODULES:
        from importlib import import_module  # noqa: PLC0415 - most programs need none

        module = import_module(f"{__name__}.engine.{_ENGINE_MODULES[name]}")
        return globals().setdefault(name, getattr(module, name))
    raise AttributeError(f'module "{__name__}" has no attribute "{name}"')
