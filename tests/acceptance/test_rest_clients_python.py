"""Google's API client for Python as a client of the Task Queue API, unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from google.oauth2.service_account import Credentials
from googleapiclient.discovery import build  # type: ignore[import-untyped]
from googleapiclient.errors import HttpError  # type: ignore[import-untyped]
from rest_clients import GONE, check_lifecycle, guarded_server, key_file

IN_QUEUE = {"project": "s~app", "taskqueue": "pull-queue"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Any]:
    """Yield Google's client, built from the description of a server that enforces the acl."""
    with guarded_server() as server:
        credentials = Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
            str(key_file(server, tmp_path / "key.json")),
            scopes=["https://www.googleapis.com/auth/taskqueue"],
        )
        url = f"{server.url}/discovery/v1/apis/{{api}}/{{apiVersion}}/rest"
        built = build("taskqueue", "v1beta2", credentials=credentials, discoveryServiceUrl=url)
        with closing(built) as api:
            yield api


def result(call: Any) -> Any:
    """Return what a call returns, or the error as the client reports it."""
    try:
        return call.execute()
    except HttpError as error:
        return {"code": error.status_code, "message": error.reason}


def test_the_lifecycle_of_tasks(api: Any) -> None:
    """Insert, list, get, lease, lease by tag, update, patch and delete, with Google's client."""
    tasks, named = api.tasks(), {"queueName": "pull-queue"}
    bodies = [{**named, "payloadBase64": "d29yaw==", "tag": tag} for tag in ("red", "blue", "red")]
    inserted = [tasks.insert(**IN_QUEUE, body=body).execute() for body in bodies]
    first = {**IN_QUEUE, "task": inserted[0]["id"]}
    reported = {
        "inserted": inserted,
        "listed": tasks.list(**IN_QUEUE).execute(),
        "got": tasks.get(**first).execute(),
        "queue": api.taskqueues().get(**IN_QUEUE, getStats=True).execute(),
        "leased": tasks.lease(**IN_QUEUE, numTasks=1, leaseSecs=30).execute(),
        "leasedByTag": tasks.lease(
            **IN_QUEUE, numTasks=9, leaseSecs=30, groupByTag=True, tag="red"
        ).execute(),
    }
    (held,) = reported["leased"]["items"]
    update = tasks.update(**first, newLeaseSeconds=60, body=held)
    reported["updated"], reported["stale"] = update.execute(), result(update)
    reported["patched"] = tasks.patch(**first, newLeaseSeconds=90, body=named).execute()
    deleted = [tasks.delete(**IN_QUEUE, task=task["id"]).execute() for task in inserted]
    refused = {"project": "app", "taskqueue": "read-only", "body": {"payloadBase64": ""}}

    check_lifecycle(
        {
            **reported,
            "unknown": result(tasks.list(project="app", taskqueue="nowhere")),
            "forbidden": result(tasks.insert(**refused)),
            "empty": tasks.lease(**IN_QUEUE, numTasks=1, leaseSecs=30).execute(),
        }
    )
    assert deleted == ["", "", ""]
    assert result(tasks.delete(**first)) == GONE
