"""The versions of the API: what differs between them, one object for each.

A field that a version's message does not have is not read or written; only what has another name,
another place or another default is here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pullqueue.cloudtasks.methods import (
    LOCATION,
    QUEUE,
    TASK,
    V2BETA2_METHODS,
    Method,
)


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
    """Whether pull queues are in it as well."""
    dispatch_rate: str
    """The field of `RateLimits` with the tasks per second."""
    max_concurrent: str
    """The field of `RateLimits` with the attempts at the same time."""
    routing_override: str
    """Where in a queue the service is that gets its tasks."""


V2BETA2: Final = Version(
    name="v2beta2",
    description="App Engine's queues under the API of Cloud Tasks.",
    methods=V2BETA2_METHODS,
    unimplemented=(
        ("getCmekConfig", "GET", f"{LOCATION}/cmekConfig"),
        ("updateCmekConfig", "PATCH", f"{LOCATION}/cmekConfig"),
        ("batchCreate", "POST", f"{QUEUE}/tasks:batchCreate"),
        ("batchDelete", "POST", f"{QUEUE}/tasks:batchDelete"),
        ("buffer", "POST", f"{TASK}:buffer"),
    ),
    has_pull_queues=True,
    dispatch_rate="max_tasks_dispatched_per_second",
    max_concurrent="max_concurrent_tasks",
    routing_override="app_engine_http_target.app_engine_routing_override",
)
VERSIONS: Final = {version.name: version for version in (V2BETA2,)}
