"""The queues that the tests of REST use, without a socket and with real clients."""

from __future__ import annotations

from pullqueue.config.model import (
    AclEntry,
    QueueConfig,
    QueueMode,
    QueueSettings,
    RetryParameters,
)

ROOT = "/taskqueue/v1beta2/projects/s~app/taskqueues"

CONFIG = QueueConfig(
    queues=(
        QueueSettings(name="pull", mode=QueueMode.PULL),
        QueueSettings(
            name="limited",
            mode=QueueMode.PULL,
            retry_parameters=RetryParameters(task_retry_limit=2),
            acl=(
                AclEntry(user_email="worker@example.com"),
                AclEntry(writer_email="writer@example.com"),
                AclEntry(user_email="both@example.com", writer_email="both@example.com"),
            ),
        ),
        QueueSettings(name="push"),
    ),
    total_storage_limit_bytes=5_000_000,
)

CLIENTS_YAML = """\
queue:
- name: pull-queue
  mode: pull
  acl:
  - user_email: worker@example.com
  - writer_email: worker@example.com
- name: read-only
  mode: pull
  acl:
  - user_email: worker@example.com
"""
"""A queue that the worker may use in every way, and one that it may not insert into."""
