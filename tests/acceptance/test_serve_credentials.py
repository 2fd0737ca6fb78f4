"""`pullqueue serve --auth acl`, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from programs import completed
from rest_app import CLIENTS_YAML
from served import serve_here, serving

CLOSED = "- name: closed\n  mode: pull\n  retry_parameters: {task_retry_limit: 1}\n"


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    (folder / "queue.yaml").write_text(CLIENTS_YAML + CLOSED)
    return folder


def test_a_line_that_works_with_an_acl(folder: Path) -> None:
    with serving("--auth", "acl", folder=folder) as served:
        assert served.process.stdout is not None
        lines = [served.process.stdout.readline().rstrip("\n") for _ in range(6)]
        tried = completed(["sh", "-c", lines[5]])

    assert lines[:5] == [
        "queue.yaml: 3 pull queues",
        "  pull-queue",
        "  read-only",
        "  closed (each task can be leased 1 time; no acl: nobody may use it)",
        "Add a task:",
    ]
    assert json.loads(tried.stdout)["queueName"] == "pull-queue"


def test_no_line_to_try_is_shown_where_nobody_may_insert(folder: Path) -> None:
    (folder / "queue.yaml").write_text("queue:\n- name: closed\n  mode: pull\n")
    done, _ = serve_here("--auth", "acl")

    assert done.stdout.splitlines()[2] == "  closed (no acl: nobody may use it)"
    assert "curl" not in done.stdout
