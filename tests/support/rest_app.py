"""What the tests of REST share: the queues, a form of calls, and what is looked at in an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from werkzeug.test import TestResponse

from pullqueue.config.model import AclEntry, QueueConfig, QueueMode, QueueSettings, RetryParameters

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

Call = Callable[..., TestResponse]
"""Calls the API with a verb and a path below the queues."""

NOW_USEC = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z, where the clock is."""


def answer(response: TestResponse) -> dict[str, Any]:
    """Return the JSON of an answer that must be a success."""
    assert response.status_code == 200, response.text
    return dict(response.json or {})


def refusal(response: TestResponse) -> tuple[int, str, str]:
    """Return status, reason and message of an answer that must be the envelope."""
    assert response.content_type == "application/json; charset=UTF-8"
    assert response.json is not None, response.text
    error = response.json["error"]
    (detail,) = error["errors"]
    assert error["code"] == response.status_code
    assert detail["domain"] == "global"
    assert detail["message"] == error["message"]
    return response.status_code, detail["reason"], error["message"]


def methods_of(resource: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the methods of a discovery document, or of a resource in it."""
    yield from resource.get("methods", {}).values()
    for inner in resource.get("resources", {}).values():
        yield from methods_of(inner)
