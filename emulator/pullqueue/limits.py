"""The documented limits of queues, one line each, with the source of the number.

Sources: *SDK*, the constants of `google.appengine.api.taskqueue`; *guide*, Google's "Using Pull
Queues" guide; *REST*, the reference of `taskqueue/v1beta2`; *ours*, a bound of the emulator's own.
"""

from __future__ import annotations

from typing import NamedTuple

KIB = 1024
MIB = 1024 * KIB
DAY_SECONDS = 86_400
SNAPSHOT_BYTES = 512 * MIB
"""The largest file that a command or a request reads (ours)."""


class Limits(NamedTuple):
    """What an emulator permits. Pass another number to override one: `Limits(task_bytes=10)`."""

    tasks_per_add: int = 100
    """Tasks in one batch of adds (SDK: MAX_TASKS_PER_ADD)."""
    tasks_per_lease: int = 1000
    """Tasks in one lease (SDK: MAX_TASKS_PER_LEASE)."""
    lease_seconds: int = 7 * DAY_SECONDS
    """Longest lease (SDK: MAX_LEASE_SECONDS)."""
    lease_payload_bytes: int = 32 * MIB
    """Payload of all tasks of one lease (guide)."""
    rest_lease_payload_bytes: int = MIB
    """Payload of all tasks of one lease over REST (guide)."""
    leases_per_second: int | None = None
    """Lease calls a second on one queue (guide: 10); None: any number."""
    task_bytes: int = MIB
    """Payload of one task (SDK: MAX_PULL_TASK_SIZE_BYTES)."""
    push_task_bytes: int = 100 * KIB
    """URL, headers and body of one push task (SDK: MAX_PUSH_TASK_SIZE_BYTES)."""
    cloud_tasks_task_bytes: int = 1_048_569
    """The message of one push task through Cloud Tasks (recorded from production)."""
    http_headers_bytes: int = 80 * KIB
    """Headers of an HTTP task, which must have fewer bytes (Cloud Tasks)."""
    tasks_per_batch_delete: int = 1000
    """Tasks in one BatchDeleteTasks (Cloud Tasks)."""
    url_characters: int = 2083
    """Length of the URL of a push task (SDK: MAX_URL_LENGTH)."""
    min_deadline_seconds: int = 15
    """Shortest deadline of an attempt (SDK, Cloud Tasks)."""
    max_deadline_seconds: int = DAY_SECONDS + 15
    """Longest deadline of an attempt (Cloud Tasks)."""
    http_deadline_seconds: int = 1800
    """Longest deadline of an attempt of an HTTP task (Cloud Tasks)."""
    eta_seconds_ahead: int = 30 * DAY_SECONDS
    """How far in the future an eta may be (guide)."""
    task_name_characters: int = 500
    """Length of a task's name (SDK: MAX_TASK_NAME_LENGTH)."""
    tag_characters: int = 500
    """Length of a tag (SDK: MAX_TAG_LENGTH, which counts characters)."""
    tombstone_seconds: int = 7 * DAY_SECONDS
    """How long the name of a deleted task is reserved (guide, REST)."""
    created_queue_task_seconds: int = 31 * DAY_SECONDS
    """Age at which a task of a queue created at run time is deleted (Cloud Tasks)."""
    created_queue_tombstone_seconds: int = 3600
    """As `tombstone_seconds`, in a queue created at run time (Cloud Tasks)."""
    created_v2_queue_tombstone_seconds: int = DAY_SECONDS
    """The same, if it was created through v2 (Cloud Tasks)."""
    deleted_queue_seconds: int = 7 * DAY_SECONDS
    """How long the name of a deleted queue is reserved (Cloud Tasks)."""
    rest_body_bytes: int = 16 * MIB
    """Body of one REST request (ours)."""
    tasks_in_memory: int | None = None
    """Tasks of all queues together in memory (ours); None: no limit."""
    exhausted_kept: int = 1_000
    """Exhausted tasks kept per queue, the latest (ours)."""
    exhausted_payload_bytes: int = 16 * MIB
    """Payload of the exhausted tasks kept per queue together (ours)."""
    events_kept: int = 100_000
    """Events kept per queue, the latest (ours)."""


QUEUE_NAME_CHARACTERS = 100
"""The longest name of a queue (Cloud Tasks)."""
QUEUE_NAME = f"[A-Za-z0-9-]{{1,{QUEUE_NAME_CHARACTERS}}}"
"""The pattern of a queue's name (Cloud Tasks, which deploys queue.yaml)."""
LOCATION_NAME = "[A-Za-z0-9-]{1,100}"
"""The pattern of a location's name (ours: longer than any is)."""
RATE_PER_SECOND = 500
"""Largest `rate` of a push queue, in tasks a second (guide)."""
BUCKET_SIZE = 500
"""Largest `bucket_size` of a push queue (guide)."""
CONCURRENT_REQUESTS = 5000
"""Largest `max_concurrent_requests` of a push queue (Cloud Tasks)."""
SERVED_TASKS = 5_000_000
"""The default of a server for `Limits.tasks_in_memory` (ours)."""
PRODUCTION_LEASES_PER_SECOND = 10
"""The default of a server for `Limits.leases_per_second` (guide)."""
