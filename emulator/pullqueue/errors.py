"""The errors that this package raises on purpose, but for those that carry tasks or findings."""

from __future__ import annotations


class PullQueueError(Exception):
    """an error in pullqueue"""

    def __init__(self, message: str | None = None) -> None:
        """Use `message`, or the docstring of the class if there is none."""
        super().__init__(message or type(self).__doc__)


class ClockError(PullQueueError, ValueError):
    """a clock cannot be moved, or a time or duration is not valid"""


class InvalidCronError(PullQueueError):
    """a cron.yaml is not valid"""


class ConfigFileError(PullQueueError):
    """a queue.yaml cannot be read"""


class QueueError(PullQueueError):
    """a queue cannot do what was requested"""

    def __init__(self, message: str | None = None, *, queue_name: str) -> None:
        """Keep the name of the queue."""
        self.queue_name = queue_name
        super().__init__(message)


class UnknownQueueError(QueueError):
    """there is no queue with this name"""


class InvalidQueueModeError(QueueError):
    """the queue is a push queue, or a pull queue, and the call is for the other mode"""


class QueueDisabledError(QueueError):
    """the queue was removed from queue.yaml and is disabled"""


class QueuePausedError(QueueError):
    """the queue is paused"""


class InvalidQueueNameError(QueueError):
    """a queue cannot have this name"""


class InvalidQueueSettingsError(QueueError):
    """a queue cannot have these settings"""


class QueueNameInUseError(QueueError):
    """a queue of this name exists, or was deleted not long ago"""


class InvalidTaskError(PullQueueError, ValueError):
    """a task cannot be added as it is"""


class InvalidTaskNameError(InvalidTaskError):
    """a task's name is not valid"""


class InvalidTagError(InvalidTaskError):
    """a tag is not valid"""


class InvalidEtaError(InvalidTaskError):
    """an eta is not valid"""


class TaskTooLargeError(InvalidTaskError):
    """a task is too large"""


class TooManyTasksError(PullQueueError, ValueError):
    """too many tasks in one call"""


class DuplicateTaskNameError(PullQueueError, ValueError):
    """a name occurs twice in one batch"""


class InvalidLeaseTimeError(PullQueueError, ValueError):
    """the duration of a lease is not valid"""


class InvalidMaxTasksError(PullQueueError, ValueError):
    """the number of tasks to lease or list is not valid"""


class OverQuotaError(PullQueueError):
    """the add would exceed total_storage_limit"""

    def __init__(self, message: str | None = None, *, limit_bytes: int, needed_bytes: int) -> None:
        """Keep the limit and the bytes that all queues would have had."""
        self.limit_bytes = limit_bytes
        self.needed_bytes = needed_bytes
        super().__init__(message)


class StoreFullError(PullQueueError):
    """the store has the maximum number of tasks"""


class TaskError(PullQueueError):
    """a task is not in the state that the call requires"""

    def __init__(self, message: str | None = None, *, queue_name: str, task_name: str) -> None:
        """Keep the names of the task and its queue."""
        self.queue_name = queue_name
        self.task_name = task_name
        super().__init__(message)


class UnknownTaskError(TaskError):
    """the queue has no task of this name"""


class TaskLeaseExpiredError(TaskError):
    """the task is not leased, or another lease or attempt of it is current"""


class TransientError(PullQueueError):
    """the call failed temporarily; try it again"""


class InternalError(PullQueueError):
    """the service failed"""


class DeadlineExceededError(PullQueueError):
    """the call took longer than its deadline"""


class RateLimitExceededError(PullQueueError):
    """too many calls; try again later"""


class StoreError(PullQueueError):
    """a store cannot be opened"""


class ServerAddressError(PullQueueError):
    """the address of a server is missing, or cannot be used"""


def is_expected_error(failure: object) -> bool:
    """Return whether an error was raised on purpose (`failure` is pytest's `excinfo`).

    As `__tracebackhide__` of a module it removes the module's frames from such reports: the cause
    is in the test. An error in pullqueue itself is shown in full.
    """
    return isinstance(getattr(failure, "value", None), PullQueueError)
