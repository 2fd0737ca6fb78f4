"""Every error this package raises on purpose, and what each is called at each door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pullqueue.config.findings import Finding
    from pullqueue.tasks import Task


class PullQueueError(Exception):
    """something went wrong in pullqueue"""

    def __init__(self, message: str | None = None) -> None:
        """Carry `message`, or the class's docstring where none is given."""
        super().__init__(message or type(self).__doc__)


class ClockError(PullQueueError, ValueError):
    """a clock cannot be moved so, or a moment or duration is not one"""


class InvalidQueueConfigError(PullQueueError):
    """a queue.yaml is not valid"""

    def __init__(self, problems: Sequence[Finding]) -> None:
        """Carry every problem found; the message lists them all."""
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ConfigFileError(PullQueueError):
    """a queue.yaml cannot be read"""


class QueueError(PullQueueError):
    """a queue does not do what was asked of it"""

    def __init__(self, message: str | None = None, *, queue_name: str) -> None:
        """Name the queue concerned."""
        self.queue_name = queue_name
        super().__init__(message)


class UnknownQueueError(QueueError):
    """there is no queue of this name"""


class InvalidQueueModeError(QueueError):
    """the queue is a push queue"""


class QueueDisabledError(QueueError):
    """the queue was removed from queue.yaml and is disabled"""


class InvalidTaskError(PullQueueError, ValueError):
    """a task cannot be added as it is"""


class InvalidTaskNameError(InvalidTaskError):
    """a task's name is not valid"""


class InvalidTagError(InvalidTaskError):
    """a tag is not valid"""


class InvalidEtaError(InvalidTaskError):
    """an eta is not valid"""


class TaskTooLargeError(InvalidTaskError):
    """a task's payload is too large"""


class TooManyTasksError(PullQueueError, ValueError):
    """too many tasks in one call"""


class DuplicateTaskNameError(PullQueueError, ValueError):
    """one name twice in one batch"""


class InvalidLeaseTimeError(PullQueueError, ValueError):
    """a lease cannot last so long"""


class InvalidMaxTasksError(PullQueueError, ValueError):
    """one lease cannot ask for so many tasks"""


class OverQuotaError(PullQueueError):
    """the add would pass total_storage_limit"""

    def __init__(self, message: str | None = None, *, limit_bytes: int, needed_bytes: int) -> None:
        """Tell the limit and what the queues would have held, in bytes."""
        self.limit_bytes = limit_bytes
        self.needed_bytes = needed_bytes
        super().__init__(message)


class StoreFullError(PullQueueError):
    """the store holds as many tasks as it may"""


class TaskError(PullQueueError):
    """a task is not in the state the call needs"""

    def __init__(self, message: str | None = None, *, queue_name: str, task_name: str) -> None:
        """Name the task and its queue."""
        self.queue_name = queue_name
        self.task_name = task_name
        super().__init__(message)


class UnknownTaskError(TaskError):
    """the queue has no task of this name"""


class TaskLeaseExpiredError(TaskError):
    """the task is not leased, or another lease of it is current"""


class NameTakenError(TaskError):
    """a task of this name exists or existed; `.added` and `.refused` split the batch"""

    def __init__(
        self,
        message: str | None = None,
        *,
        queue_name: str,
        task_name: str,
        added: Sequence[Task] = (),
        refused: Mapping[str, type[NameTakenError]] | None = None,
    ) -> None:
        """Tell what of a batch was added, and which names were refused and why."""
        self.added = list(added)
        self.refused = dict(refused or {})
        super().__init__(message, queue_name=queue_name, task_name=task_name)


class TaskAlreadyExistsError(NameTakenError):
    """the queue already has a task of this name"""


class TombstonedTaskError(NameTakenError):
    """a task of this name was deleted or given up not long ago"""


class TransientError(PullQueueError):
    """the call failed for a passing reason; try it again"""


class InternalError(PullQueueError):
    """the service failed"""


class DeadlineExceededError(PullQueueError):
    """the call took longer than its deadline"""


class RateLimitExceededError(PullQueueError):
    """too many calls; try again later"""


class StoreError(PullQueueError):
    """a store cannot be opened"""


class ServerAddressError(PullQueueError):
    """the address of a server is none, or one that cannot be used"""


def is_refusal(failure: object) -> bool:
    """Tell whether pytest shows an error raised here on purpose (`failure` is its `excinfo`).

    As `__tracebackhide__` of a module it takes the module's frames out of such reports: what was
    wrong stands in the test. A fault of pullqueue itself is shown in full.
    """
    return isinstance(getattr(failure, "value", None), PullQueueError)
