"""What tests with real clients share: a queue.yaml with an acl, the worker's key, the checks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from programs import completed
from served import Served

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


def key_file(served: Served, path: Path, email: str = "worker@example.com") -> Path:
    """Have a key made with `pullqueue credentials`."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pullqueue", "credentials", email),
            *("--url", served.url, "--output", str(path)),
        ],
        check=True,
        timeout=60,
    )
    return path


def token_of(served: Served, email: str = "worker@example.com") -> str:
    """Return an access token, for clients that cannot be reported where theirs come from."""
    with urlopen(f"{served.url}/_emulator/token?email={email}", timeout=60) as response:  # noqa: S310 - the test's server
        return str(json.load(response)["access_token"])


GONE = {"code": 400, "message": "The task name is invalid."}
"""What a client of another language reports when it deletes a task that does not exist."""


def run_client(*command: str) -> dict[str, Any]:
    """Run a client with three tasks, check what it reports, and return that."""
    run = completed(command)
    assert run.returncode == 0, run.stderr
    reported: dict[str, Any] = json.loads(run.stdout)
    _check(reported)
    return reported


def _check(reported: dict[str, Any]) -> None:
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
