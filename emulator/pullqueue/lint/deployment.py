"""What a deployment of queue.yaml sets: one table for `convert`, `plan` and the docs.

`gcloud app deploy queue.yaml` writes queues through the API of Cloud Tasks. It sends every field,
with defaults that are not those of Cloud Tasks, and takes most zeros for values that are not set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from pullqueue.config import model
from pullqueue.limits import CONCURRENT_REQUESTS
from pullqueue.text import decimal

Value = int | float | str | None
"""A value as Cloud Tasks has it; durations are in seconds. None: not set."""

UNLIMITED = -1
RATE_DECIMALS = 9
BACKOFF_DECIMALS = 8
_GCLOUD = "gcloud 528, app deploy queue.yaml"
_QUEUE = "Cloud Tasks v2, Queue"
_YAML = "queue.yaml reference"


class Field(NamedTuple):
    """One field of a queue in queue.yaml, and what it is in Cloud Tasks."""

    key: str
    """As in queue.yaml, without `retry_parameters`."""
    message: str
    """The path in a Queue of Cloud Tasks v2; empty: it has none that can be set."""
    flag: str
    """The flag of `gcloud tasks queues create` and `update`; empty: there is none."""
    kind: Literal["number", "duration", "target"]
    default: Value
    """What a deployment sends if the file sets nothing."""
    deployed: Callable[[model.QueueSettings], Value]
    """Returns what a deployment sends for a queue."""
    shown: Callable[[Value], str]
    """Returns a value of Cloud Tasks in the terms of queue.yaml."""
    meaning: str
    """What differs, for the documentation."""
    source: str
    on_pull: bool = False
    """True if a deployment sends it for pull queues, too."""


def _retry(settings: model.QueueSettings) -> model.RetryParameters:
    return settings.retry_parameters or model.RetryParameters()


def _rate(settings: model.QueueSettings) -> float:
    return round(settings.effective_rate, RATE_DECIMALS)


def _attempts(settings: model.QueueSettings) -> int:
    limit = _retry(settings).task_retry_limit
    return UNLIMITED if limit is None else limit + 1


def _backoffs(settings: model.QueueSettings) -> tuple[float, float]:
    """Return the shortest and the longest backoff; a value that is set wins over a default."""
    retry = _retry(settings)
    shortest = retry.min_backoff_seconds or model.DEFAULT_MIN_BACKOFF_SECONDS
    longest = retry.max_backoff_seconds or model.DEFAULT_MAX_BACKOFF_SECONDS
    if shortest > longest:
        shortest = longest = shortest if retry.min_backoff_seconds else longest
    return round(shortest, BACKOFF_DECIMALS), round(longest, BACKOFF_DECIMALS)


def _show_number(value: Value) -> str:
    return decimal(value) if isinstance(value, int | float) else "not set"


def _show_rate(value: Value) -> str:
    return f"{decimal(value)}/s" if isinstance(value, int | float) else "not set"


def _show_attempts(value: Value) -> str:
    return f"{int(value) - 1}" if isinstance(value, int | float) and value > 0 else "no limit"


FIELDS = (
    Field(
        "rate", "rateLimits.maxDispatchesPerSecond", "--max-dispatches-per-second", "number",
        None, _rate, _show_rate,
        "per second; `0` pauses the queue (a new one if `mode: push` is written) and leaves its "
        "rate", _GCLOUD,
    ),
    Field(
        "bucket_size", "", "", "number",
        model.DEFAULT_BUCKET_SIZE, lambda settings: settings.effective_bucket_size, _show_number,
        "`maxBurstSize` is output only: Cloud Tasks chooses it by the rate", _QUEUE,
    ),
    Field(
        "max_concurrent_requests", "rateLimits.maxConcurrentDispatches",
        "--max-concurrent-dispatches", "number",
        model.DEFAULT_CONCURRENT_REQUESTS,
        lambda settings: settings.effective_concurrent_requests, _show_number,
        f"the nearest number from 1 to {CONCURRENT_REQUESTS}", _GCLOUD,
    ),
    Field(
        "target", "appEngineRoutingOverride", "--routing-override", "target",
        None, lambda settings: settings.target, lambda value: str(value or "not set"),
        "`version.service` becomes service and version; only for App Engine tasks", _GCLOUD,
    ),
    Field(
        "task_retry_limit", "retryConfig.maxAttempts", "--max-attempts", "number",
        UNLIMITED, _attempts, _show_attempts,
        "counts retries, Cloud Tasks attempts: N becomes N + 1. Not set: unlimited, where Cloud "
        "Tasks would make 100 attempts", _GCLOUD, on_pull=True,
    ),
    Field(
        "task_age_limit", "retryConfig.maxRetryDuration", "--max-retry-duration", "duration",
        0, lambda settings: _retry(settings).task_age_limit_seconds or 0,
        lambda value: f"{_show_number(value)}s" if value else "no limit",
        "whole seconds; `0s` means without limit. With both limits, a task is retried until "
        "both are reached, here and there", _QUEUE,
    ),
    Field(
        "min_backoff_seconds", "retryConfig.minBackoff", "--min-backoff", "duration",
        model.DEFAULT_MIN_BACKOFF_SECONDS, lambda settings: _backoffs(settings)[0], _show_number,
        "not above `max_backoff_seconds`, by default either", _GCLOUD,
    ),
    Field(
        "max_backoff_seconds", "retryConfig.maxBackoff", "--max-backoff", "duration",
        model.DEFAULT_MAX_BACKOFF_SECONDS, lambda settings: _backoffs(settings)[1], _show_number,
        "not below `min_backoff_seconds`, by default either", _GCLOUD,
    ),
    Field(
        "max_doublings", "retryConfig.maxDoublings", "--max-doublings", "number",
        model.DEFAULT_MAX_DOUBLINGS,
        lambda settings: _retry(settings).max_doublings or model.DEFAULT_MAX_DOUBLINGS,
        _show_number,
        "`0` is deployed as 16", _GCLOUD,
    ),
)  # fmt: skip
"""The fields that a deployment sends, in the order of the documentation."""

LOST = {
    "mode": ("a pull queue, which Cloud Tasks does not have: use Pub/Sub", _QUEUE),
    "bucket_size": (
        "not carried over: Cloud Tasks chooses the burst by the rate, and no client can set it",
        _QUEUE,
    ),
    "acl": ("not carried over: grant access with IAM roles", _GCLOUD),
    "total_storage_limit": (
        "not carried over: Cloud Tasks has no storage limit; count the tasks with Cloud Monitoring",
        _GCLOUD,
    ),
    "resume_paused_queues": (
        "not carried over: resume a paused queue with `gcloud tasks queues resume`",
        _YAML,
    ),
}
"""What has no counterpart, by its key: what to do instead, and the source."""


class DeployedQueue(NamedTuple):
    """A queue as it is deployed, or as a file would deploy it."""

    mode: model.QueueMode
    paused: bool
    values: Mapping[str, Value]
    """By key of queue.yaml; a key that is missing is at the default of a deployment."""
    rate: model.Rate | None = None
    """As queue.yaml has it; None where only the rate per second is known."""

    def shown(self, field: Field) -> str:
        """Return a value in the terms of queue.yaml."""
        text = field.shown(self.values.get(field.key, field.default))
        if field.key == "rate" and self.rate and self.rate.unit != "s":
            return f"{self.rate} ({text})"
        return text

    @classmethod
    def of(cls, settings: model.QueueSettings) -> DeployedQueue:
        """Return a queue as deployed; the first deployment may not pause it (see `make_plan`)."""
        paused = not settings.is_pull and _rate(settings) == 0
        sent = [field for field in FIELDS if field.on_pull or not settings.is_pull]
        values = {field.key: field.deployed(settings) for field in sent}
        return cls(settings.mode, paused, values, settings.rate)
