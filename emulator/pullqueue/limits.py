"""The documented limits of pull queues, one line each, with the source of the number.

Sources: *SDK*, the constants of `google.appengine.api.taskqueue`; *guide*, Google's "Using Pull
Queues" guide; *REST*, the reference of `taskqueue/v1beta2`; *ours*, a bound of the emulator's own.
"""

from __future__ import annotations

from typing import NamedTuple

KIB = 1024
MIB = 1024 * KIB
DAY_SECONDS = 86_400


class Limits(NamedTuple):
    """What an emulator permits. Give another number to override one: `Limits(task_bytes=10)`."""

    tasks_per_add: int = 100
    """Tasks in one batch of adds (SDK: MAX_TASKS_PER_ADD)."""
    tasks_per_lease: int = 1000
    """Tasks in one lease (SDK: MAX_TASKS_PER_LEASE)."""
    lease_seconds: int = 7 * DAY_SECONDS
    """Longest lease (SDK: MAX_LEASE_SECONDS)."""
    lease_payload_bytes: int = 32 * MIB
    """Payload handed out by one lease (guide)."""
    rest_lease_payload_bytes: int = MIB
    """Payload handed out by one lease over REST (guide)."""
    leases_per_second: int | None = None
    """Lease calls a second on one queue (guide: 10); None: any number."""
    task_bytes: int = MIB
    """Payload of one task (SDK: MAX_PULL_TASK_SIZE_BYTES)."""
    eta_seconds_ahead: int = 30 * DAY_SECONDS
    """How far ahead an eta may lie (guide)."""
    task_name_characters: int = 500
    """Length of a task's name (SDK: MAX_TASK_NAME_LENGTH)."""
    tag_characters: int = 500
    """Length of a tag (SDK: MAX_TAG_LENGTH, which counts characters)."""
    tombstone_seconds: int = 7 * DAY_SECONDS
    """How long a deleted task's name stays taken (guide, REST)."""
    rest_body_bytes: int = 16 * MIB
    """Body of one REST request (ours)."""
    tasks_in_memory: int | None = None
    """Tasks of all queues together in a store in memory (ours); None: what memory holds."""
    exhausted_kept: int = 1_000
    """Exhausted tasks remembered per queue, the latest (ours)."""
    events_kept: int = 100_000
    """Events remembered per queue, the latest (ours)."""


SERVED_TASKS = 5_000_000
"""What a server sets `Limits.tasks_in_memory` to, unless told otherwise (ours)."""
PRODUCTION_LEASES_PER_SECOND = 10
"""What a server sets `Limits.leases_per_second` to (guide)."""
