"""`load` and `loads`: a file's content as data, or all its problems."""

from __future__ import annotations

from pathlib import Path

import pytest
from tables import each_row

from pullqueue.config import load, loads
from pullqueue.config.findings import InvalidQueueConfigError
from pullqueue.config.model import (
    AclEntry,
    QueueConfig,
    QueueMode,
    QueueSettings,
    Rate,
    RetryParameters,
)
from pullqueue.errors import ConfigFileError

EVERYTHING = """\
total_storage_limit: 1.5G
resume_paused_queues: no
application: s~my-app
queue:
- name: mail
  rate: 10/m
  bucket_size: "40"
  max_concurrent_requests: 10
  target: v2.worker
  retry_parameters:
    task_retry_limit: 7
    task_age_limit: 2d
    min_backoff_seconds: 0.5
    max_backoff_seconds: 200
    max_doublings: 3
- mode: pull
  name: jobs
  retry_parameters:
  acl:
  - user_email: worker@example.com
    writer_email: worker@example.com
  - writer_email: feeder@example.com
"""


def test_every_field_is_read() -> None:
    assert loads(EVERYTHING, file="x.yaml", profile="sdk") == QueueConfig(
        file="x.yaml",
        total_storage_limit_bytes=3 * 512 * 1024**2,
        resume_paused_queues=False,
        application="s~my-app",
        queues=(
            QueueSettings(
                name="mail",
                rate=Rate(count=10.0, unit="m"),
                bucket_size=40,
                max_concurrent_requests=10,
                target="v2.worker",
                retry_parameters=RetryParameters(
                    task_retry_limit=7,
                    task_age_limit_seconds=172_800,
                    min_backoff_seconds=0.5,
                    max_backoff_seconds=200.0,
                    max_doublings=3,
                ),
                line=5,
                column=3,
            ),
            QueueSettings(
                name="jobs",
                mode=QueueMode.PULL,
                acl=(
                    AclEntry(user_email="worker@example.com", writer_email="worker@example.com"),
                    AclEntry(writer_email="feeder@example.com"),
                ),
                line=16,
                column=3,
            ),
        ),
    )


@each_row("text", ["queue:", "queue: []", "total_storage_limit: 1M", "{}"])
def test_a_file_without_queues_loads(text: str) -> None:
    assert loads(text).queues == ()


def test_all_problems_are_raised_at_once() -> None:
    """One error carries every problem with its place, code, rule, path and message."""
    text = "queue:\n- name: a_b\n  rate: 1/min\n- mode: pull\n  name: jobs\n  rate: 5/s\n"
    with pytest.raises(InvalidQueueConfigError) as raised:
        loads(text, file="q.yaml")
    assert [(p.line, p.column, p.code, p.key_path) for p in raised.value.problems] == [
        (2, 9, "QY201", "queue[0].name"),
        (3, 9, "QY208", "queue[0].rate"),
        (6, 3, "QY301", "queue[1].rate"),
    ]
    assert str(raised.value).splitlines()[1] == (
        'q.yaml:3:9: QY208 rate-format: invalid rate "1/min": did you mean `1/m`?'
    )


@each_row(
    "text",
    [
        "queue:\n- name: a\n",
        "queue:\n- name: a\n  mode: pull\n  rate: 5/s\n",
        "queue:\n- name: a\n  rate: 501/s\n  bucket_size: 1000\n",
        "queue:\n- {name: a, rate: 1/s}\n- {name: a, rate: 2/s}\n",
        "queue:\n- name: a\n  rate: 5/s\n  acl: []\n",
        f"queue:\n- name: {'a' * 101}\n  mode: pull\n",
    ],
)
def test_sdk_profile_is_lenient(text: str) -> None:
    """What Google's Python library accepts loads in its profile."""
    assert loads(text, profile="sdk").queues


def test_of_queues_with_one_name_the_last_counts() -> None:
    text = "queue:\n- {name: a, rate: 1/s}\n- {name: a, rate: 2/s}\n"
    (queue,) = loads(text, profile="sdk").queues
    assert queue.rate == Rate(count=2.0)


def test_comment_hides_a_policy_but_not_what_cannot_be_read() -> None:
    """With a comment a file is loaded that production refuses, but not one without a meaning."""
    hidden = "queue:\n- name: a\n  mode: pull\n  rate: 5/s # queue-lint: ignore[push-key-on-pull]\n"
    assert loads(hidden).queues[0].rate == Rate(count=5.0)
    unreadable = "queue:\n- name: a\n  rate: fast # queue-lint: ignore[rate-format]\n"
    with pytest.raises(InvalidQueueConfigError):
        loads(unreadable)


def test_unknown_profile_is_refused() -> None:
    with pytest.raises(ValueError, match=r'unknown profile "gclod": use one of gcloud, sdk, java'):
        loads("queue:", profile="gclod")


def test_file_is_loaded_by_path(tmp_path: Path) -> None:
    """`load` reads a file and names it in the result."""
    path = tmp_path / "queue.yaml"
    path.write_bytes(b"\xef\xbb\xbfqueue:\r\n- name: a\r\n  mode: pull\r\n")
    config = load(path)
    assert config.file == str(path)
    assert [(queue.name, queue.line, queue.column) for queue in config.queues] == [("a", 2, 3)]


def test_unreadable_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match=r'cannot read ".*queue.yaml": no such file'):
        load(tmp_path / "queue.yaml")
    with pytest.raises(ConfigFileError, match=r"cannot read .*: is a directory"):
        load(tmp_path)
    with pytest.raises(ConfigFileError, match=r"cannot read .*: embedded null"):
        load("a\0b")
