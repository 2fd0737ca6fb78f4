"""The versions of the API: what differs between them, one object for each.

A field that a version's message does not have is not read or written; only what has another name,
another place or another default is here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pullqueue.cloudtasks.methods import LOCATION, QUEUE, Method, find_methods


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of the API."""

    name: str
    """Its name, such as `v2`: how its paths begin."""
    description: str
    """What it is for, in one sentence."""
    methods: tuple[Method, ...]
    unimplemented: tuple[tuple[str, str, str], ...]
    """Methods that are refused: name, HTTP verb and path."""
    has_pull_queues: bool
    """True if pull queues are in it as well."""
    sets_burst: bool
    """True if callers can set `max_burst_size`; otherwise it follows from the rate."""
    deleted_queue_code: str
    """The code of the error when a queue has the name of one that was deleted recently."""
    tombstone_limit: str
    """The name of the limit for how long names of tasks are reserved in a new queue."""
    dispatch_rate: str
    """The field of `RateLimits` with the tasks per second."""
    max_concurrent: str
    """The field of `RateLimits` with the attempts at the same time."""
    routing_override: str
    """Where in a queue the service is that gets its tasks."""
    relative_url: str
    """The field of `AppEngineHttpRequest` with the path."""
    payload: str
    """The field of `AppEngineHttpRequest` with the body."""
    attempts: str
    """Where in a task its attempts are; empty: in the task itself."""
    attempt_fields: tuple[str, str, str, str]
    """Where in that are: the number of attempts, that of responses, the first and the last."""


_NOWHERE: Final = (
    ("getCmekConfig", "GET", f"{LOCATION}/cmekConfig"),
    ("updateCmekConfig", "PATCH", f"{LOCATION}/cmekConfig"),
    ("operations.get", "GET", f"{LOCATION}/operations/<operation>"),
)
"""Methods that no version has here."""
V2BETA2: Final = Version(
    name="v2beta2",
    description="Manages queues, pull tasks and push tasks.",
    methods=find_methods("v2beta2"),
    unimplemented=(
        *_NOWHERE,
        ("batchCreate", "POST", f"{QUEUE}/tasks:batchCreate"),
        ("batchDelete", "POST", f"{QUEUE}/tasks:batchDelete"),
    ),
    has_pull_queues=True,
    sets_burst=True,
    deleted_queue_code="ALREADY_EXISTS",
    tombstone_limit="created_queue_tombstone_seconds",
    dispatch_rate="max_tasks_dispatched_per_second",
    max_concurrent="max_concurrent_tasks",
    routing_override="app_engine_http_target.app_engine_routing_override",
    relative_url="relative_url",
    payload="payload",
    attempts="status",
    attempt_fields=(
        *("attempt_dispatch_count", "attempt_response_count"),
        *("first_attempt_status", "last_attempt_status"),
    ),
)
V2: Final = Version(
    name="v2",
    description="Manages queues, App Engine tasks and HTTP tasks.",
    methods=find_methods("v2"),
    unimplemented=_NOWHERE,
    has_pull_queues=False,
    sets_burst=False,
    deleted_queue_code="FAILED_PRECONDITION",
    tombstone_limit="created_v2_queue_tombstone_seconds",
    dispatch_rate="max_dispatches_per_second",
    max_concurrent="max_concurrent_dispatches",
    routing_override="app_engine_routing_override",
    relative_url="relative_uri",
    payload="body",
    attempts="",
    attempt_fields=("dispatch_count", "response_count", "first_attempt", "last_attempt"),
)
V2BETA3: Final = replace(
    V2,
    name="v2beta3",
    description="Manages queues with their statistics, App Engine tasks, HTTP and pull tasks.",
    methods=find_methods("v2beta3"),
    has_pull_queues=True,
    sets_burst=True,
    routing_override="app_engine_http_queue.app_engine_routing_override",
)
VERSIONS: Final = {version.name: version for version in (V2, V2BETA2, V2BETA3)}
