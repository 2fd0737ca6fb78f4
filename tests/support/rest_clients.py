"""What tests with real clients share: a queue.yaml with an acl, the worker's key, the checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from linting import pullqueue
from programs import completed

from pullqueue import Emulator
from pullqueue.server.lifecycle import Server

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


def guarded_server() -> Server:
    """Return a server of these queues that enforces the acl."""
    return Server(Emulator.from_text(CLIENTS_YAML), acl=True)


def key_file(server: Server, path: Path, email: str = "worker@example.com") -> Path:
    """Have a key made with `pullqueue credentials`."""
    done = pullqueue("credentials", email, "--url", server.url, "--output", str(path))
    assert done.exit_code == 0, done.stderr
    return path


def token_of(server: Server) -> str:
    """Return the worker's access token, for clients that do not ask the server for one."""
    return server.tokens.issue("worker@example.com").text


GONE = {"code": 400, "message": "The task name is invalid."}
"""What a client of another language reports when it deletes a task that does not exist."""


def run_client(*command: str) -> dict[str, Any]:
    """Run a client with three tasks, check what it reports, and return that."""
    run = completed(command)
    assert run.returncode == 0, run.stderr
    reported: dict[str, Any] = json.loads(run.stdout)
    check_lifecycle(reported)
    return reported


def check_lifecycle(reported: dict[str, Any]) -> None:
    """Check what a client reports that has inserted, leased and deleted three tasks."""
    ids = [task["id"] for task in reported["inserted"]]
    assert [task["id"] for task in reported["listed"]["items"]] == ids
    assert reported["got"] == reported["inserted"][0]
    assert reported["queue"]["stats"]["totalTasks"] == 3
    assert [task["id"] for task in reported["leased"]["items"]] == ids[:1]
    assert [task["id"] for task in reported["leasedByTag"]["items"]] == ids[2:]
    ends = [int(reported["leased"]["items"][0]["leaseTimestamp"])]
    ends += [int(reported[name]["leaseTimestamp"]) for name in ("updated", "patched")]
    assert ends == sorted(ends)
    assert reported["stale"] == {"code": 400, "message": "The task lease has expired."}
    assert reported["unknown"] == {"code": 404, "message": "Queue not found."}
    assert reported["forbidden"] == {"code": 403, "message": "Forbidden"}
    assert reported["empty"] == {"kind": "taskqueue#tasks"}
