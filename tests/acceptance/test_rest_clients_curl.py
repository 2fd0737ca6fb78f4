"""curl as a client of the Task Queue API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from programs import completed, program
from rest_clients import guarded_server

from pullqueue.server.lifecycle import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """Yield a running server that enforces the acl."""
    with guarded_server() as server:
        yield server


def curl(*arguments: str) -> tuple[int, Any]:
    """Run curl and return the status and the JSON of the answer."""
    run = completed(
        [program("curl", package="curl"), "-sS", "-w", "\n%{http_code}", *arguments], check=True
    )
    body, _, status = run.stdout.rpartition("\n")
    return int(status), json.loads(body) if body.strip() else None


def test_the_lifecycle_of_a_task(server: Server) -> None:
    """Insert, list, get, lease, lease by tag, update, patch and delete from a shell."""
    root = f"{server.url}/taskqueue/v1beta2/projects/app/taskqueues/pull-queue"
    _, answer = curl(f"{server.url}/_emulator/token?email=worker@example.com")
    login = ("-H", f"Authorization: Bearer {answer['access_token']}")
    task = '{"payloadBase64": "aGVsbG8=", "tag": "red"}'

    unknown, _ = curl(root)
    _, made = curl(*login, "-d", task, f"{root}/tasks")
    path = f"{root}/tasks/{made['id']}"
    _, listed = curl(*login, f"{root}/tasks")
    _, got = curl(*login, "-H", "User-Agent: curl (gzip)", "--compressed", path)
    _, queue = curl(*login, f"{root}?getStats=true&fields=stats/totalTasks")
    _, other = curl(
        *login, "-X", "POST", f"{root}/tasks/lease?numTasks=1&leaseSecs=9&groupByTag=true&tag=blue"
    )
    form = ("-d", "numTasks=1", "-d", "leaseSecs=60", "-d", "groupByTag=true")
    _, leased = curl(*login, *form, f"{root}/tasks/lease")
    held = json.dumps(leased["items"][0])
    _, updated = curl(*login, "-d", held, f"{path}?newLeaseSeconds=90")
    _, patched = curl(
        *login, "-X", "PATCH", "-d", '{"queueName": "pull-queue"}', f"{path}?newLeaseSeconds=0"
    )
    refused, error = curl(*login, "-d", held, f"{path}?newLeaseSeconds=90")
    deleted, nothing = curl(*login, "-X", "DELETE", path)

    assert [item["id"] for item in listed["items"]] == [made["id"]]
    assert got == made
    assert queue == {"stats": {"totalTasks": 1}}
    assert "items" not in other
    assert leased["items"][0]["retry_count"] == 1
    assert int(updated["leaseTimestamp"]) > int(patched["leaseTimestamp"])
    assert (refused, error["error"]["message"]) == (400, "The task lease has expired.")
    assert (deleted, nothing, unknown) == (204, None, 401)
