"""A checked `queue.yaml` as data: one frozen dataclass per mapping of the format.

A key that the file does not set is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pullqueue.limits import CONCURRENT_REQUESTS
from pullqueue.tasks import RequestToken, RetryParameters
from pullqueue.text import SECONDS_PER_UNIT, decimal

__all__ = [
    "AclEntry",
    "HttpTarget",
    "IamBinding",
    "QueueConfig",
    "QueueMode",
    "QueueSettings",
    "Rate",
    "RetryParameters",
]

DEFAULT_QUEUE = "default"
"""Every app has it, whether or not queue.yaml lists it; it is a push queue."""
DEFAULT_RATE = 5.0
"""Tasks a second."""
DEFAULT_BUCKET_SIZE = 5
DEFAULT_CONCURRENT_REQUESTS = 1000
DEFAULT_MIN_BACKOFF_SECONDS = 0.1
DEFAULT_MAX_BACKOFF_SECONDS = 3600.0
DEFAULT_MAX_DOUBLINGS = 16
"""What App Engine uses where neither queue.yaml nor a push task sets a value; no limit is the
default of both limits of retries.
"""


def clamp_concurrent_requests(number: int) -> int:
    """Return the nearest `max_concurrent_requests` that a queue can have."""
    return min(max(number, 1), CONCURRENT_REQUESTS)


class QueueMode(StrEnum):
    """How a queue's tasks reach their worker."""

    PUSH = "push"
    """App Engine calls the worker."""
    PULL = "pull"
    """The worker leases tasks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """`rate`: how many tasks a push queue handles per unit of time."""

    count: float
    """Tasks per unit."""
    unit: str = "s"
    """`s`, `m`, `h` or `d`."""

    def __str__(self) -> str:
        is_tiny = 0 < self.count < 1e-9
        return f"{f'{self.count:g}' if is_tiny else decimal(self.count)}/{self.unit}"

    @property
    def per_second(self) -> float:
        """The rate in tasks per second."""
        return self.count / SECONDS_PER_UNIT[self.unit]


@dataclass(frozen=True, kw_only=True, slots=True)
class AclEntry:
    """One entry of `acl`: an e-mail address that may use the queue over REST."""

    user_email: str | None = None
    """May list, get, lease, update and delete."""
    writer_email: str | None = None
    """May insert."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IamBinding:
    """Who has a role on a queue, where `acl` cannot say so; only Cloud Tasks sets and shows it."""

    role: str
    members: tuple[str, ...]
    """Such as `allUsers`, `domain:example.com` or `user:ada@example.com`."""
    condition: tuple[str, str, str] | None = None
    """Expression, title and description."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpTarget:
    """What a queue overrides in its HTTP tasks when they are sent; only Cloud Tasks sets it."""

    scheme: str | None = None
    """`http` or `https`."""
    host: str | None = None
    port: int | None = None
    """0 removes the port of the URL."""
    path: str | None = None
    """`""` removes the path, and an empty query the query."""
    query: str | None = None
    if_not_exists: bool = False
    """True if only those parts of a URL are set that it does not have."""
    method: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Names and values, in order."""
    token: RequestToken | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSettings:
    """One entry of `queue`."""

    name: str
    """The queue's name."""
    mode: QueueMode = QueueMode.PUSH
    """Push unless the file says pull."""
    rate: Rate | None = None
    """Push only."""
    bucket_size: int | None = None
    """Push only."""
    max_concurrent_requests: int | None = None
    """Push only."""
    target: str | None = None
    """Push only: `[version.]service`."""
    retry_parameters: RetryParameters | None = None
    """Retry limits and backoff."""
    acl: tuple[AclEntry, ...] | None = None
    """Who may use the queue over REST."""
    iam_bindings: tuple[IamBinding, ...] = ()
    """What a policy of IAM grants beside `acl`; queue.yaml cannot set it."""
    task_lifetime_seconds: int | None = None
    """How old a task can become; queue.yaml cannot set it."""
    tombstone_seconds: int | None = None
    """How long the name of a deleted task is reserved; queue.yaml cannot set it."""
    log_sampling_ratio: float | None = None
    """Which part of its operations is logged, 0 to 1; only Cloud Tasks v2 sets and shows it."""
    http_target: HttpTarget | None = None
    """What it overrides in its HTTP tasks; only Cloud Tasks sets and shows it."""
    line: int = field(default=0, compare=False)
    """Where the entry begins in the file (1-based); 0 for a queue that is in no file."""
    column: int = field(default=0, compare=False)
    """The column of that place (1-based, in code points)."""

    @property
    def is_pull(self) -> bool:
        """True if the tasks wait for a worker to lease them."""
        return self.mode is QueueMode.PULL

    @property
    def effective_rate(self) -> float:
        """Tasks a second that a push queue sends; 0: none."""
        return DEFAULT_RATE if self.rate is None else self.rate.per_second

    @property
    def effective_bucket_size(self) -> int:
        """The `bucket_size` of a push queue."""
        return self.bucket_size or DEFAULT_BUCKET_SIZE

    @property
    def effective_concurrent_requests(self) -> int:
        """The `max_concurrent_requests` of a push queue, as gcloud deploys it."""
        return clamp_concurrent_requests(
            self.max_concurrent_requests or DEFAULT_CONCURRENT_REQUESTS
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueConfig:
    """A whole `queue.yaml`."""

    queues: tuple[QueueSettings, ...] = ()
    """The queues, in the order of the file."""
    total_storage_limit_bytes: int | None = None
    """`total_storage_limit` in bytes."""
    resume_paused_queues: bool | None = None
    """True if a deployment resumes paused queues."""
    application: str | None = None
    """An application id; refused by gcloud, ignored by Google's Python library."""
    default_queue: bool = True
    """True if there is a queue `default` even if none of `queues` has that name."""
    file: str = "queue.yaml"
    """Where the configuration was read from, for messages."""

    def by_name(self) -> dict[str, QueueSettings]:
        """Return the settings of each queue, those of `default` included if there is one."""
        settings = {each.name: each for each in self.queues}
        if self.default_queue:
            settings.setdefault(DEFAULT_QUEUE, QueueSettings(name=DEFAULT_QUEUE))
        return settings
