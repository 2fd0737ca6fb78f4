"""Clients of the Task Queue API in Python, unmodified: Google's own, google-auth and requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests
from google.auth.transport.requests import AuthorizedSession
from google.oauth2 import service_account
from googleapiclient.discovery import (  # type: ignore[import-untyped]
    build,
    build_from_document,
)
from googleapiclient.errors import HttpError  # type: ignore[import-untyped]
from rest_clients import GONE, check_lifecycle, guarded_server, key_file

from pullqueue import ManualClock, SystemClock
from pullqueue.server.lifecycle import Server

SCOPES = ["https://www.googleapis.com/auth/taskqueue"]
IN_QUEUE = {"project": "s~app", "taskqueue": "pull-queue"}


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    """Return the time, which is stopped until it is moved."""
    return ManualClock(SystemClock().now())


@pytest.fixture(scope="module")
def server(clock: ManualClock) -> Iterator[Server]:
    """Yield a running server that enforces the acl."""
    with guarded_server(clock) as server:
        yield server


@pytest.fixture(scope="module")
def key(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the worker's key file."""
    return key_file(server, tmp_path_factory.mktemp("key") / "key.json")


def credentials(key: Path) -> Any:
    """Load a key file as any worker does."""
    return service_account.Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
        str(key), scopes=SCOPES
    )


def built(server: Server, key: Path, version: str, path: str) -> Any:
    """Build the client from the discovery service."""
    url = server.url + path
    return build("taskqueue", version, credentials=credentials(key), discoveryServiceUrl=url)


OLDER, NEWER = "/discovery/v1/apis/{api}/{apiVersion}/rest", "/$discovery/rest?version={apiVersion}"


@pytest.fixture
def api(server: Server, key: Path) -> Iterator[Any]:
    """Yield Google's client, and an empty queue."""
    with closing(built(server, key, "v1beta2", OLDER)) as api:
        yield api
    server.emulator.queue("pull-queue").purge()


@pytest.mark.parametrize(("version", "path"), [("v1beta1", OLDER), ("v1beta2", NEWER)])
def test_other_ways_to_build_it(server: Server, key: Path, version: str, path: str) -> None:
    """The older version, and the newer form of the discovery service."""
    with closing(built(server, key, version, path)) as api:
        leased = api.tasks().lease(**IN_QUEUE, numTasks=1, leaseSecs=1).execute()

    assert leased == {"kind": "taskqueue#tasks"}


def test_a_document_that_was_fetched_before(server: Server, key: Path) -> None:
    """The client can be built from it."""
    url = server.url + OLDER.format(api="taskqueue", apiVersion="v1beta2")
    document = requests.get(url, timeout=60).text
    with closing(build_from_document(document, credentials=credentials(key))) as api:
        assert api.taskqueues().get(**IN_QUEUE).execute()["kind"] == "taskqueues#taskqueue"


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


# The client leaves the connection that it gets the token through to the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket")
def test_a_batch(api: Any) -> None:
    """Calls in a batch are answered one by one."""
    answers: dict[str, tuple[Any, Any]] = {}
    batch = api.new_batch_http_request(
        callback=lambda identifier, answer, error: answers.update({identifier: (answer, error)})
    )
    for payload in ("YQ==", "Yg==", "+"):
        body = {"queueName": "pull-queue", "payloadBase64": payload}
        batch.add(api.tasks().insert(**IN_QUEUE, body=body))
    batch.add(api.taskqueues().get(**IN_QUEUE, getStats=True))
    batch.execute()

    assert [answers[key][0]["payloadBase64"] for key in ("1", "2")] == ["YQ==", "Yg=="]
    assert answers["3"][1].reason == "Invalid payloadBase64 value."
    assert answers["4"][0]["stats"]["totalTasks"] == 2


def test_an_over_long_get(api: Any) -> None:
    """A GET whose address is too long arrives as a POST and is taken as what it is."""
    fields = ",".join(["items(id,tag)"] * 300)

    assert api.tasks().list(**IN_QUEUE, fields=fields).execute() == {}


def test_an_authorized_session(server: Server, key: Path, clock: ManualClock) -> None:
    """google-auth gets its token from the emulator, and another when that has expired."""
    url = f"{server.url}/taskqueue/v1beta2/projects/app/taskqueues/pull-queue"
    with AuthorizedSession(credentials(key)) as session:  # type: ignore[no-untyped-call]
        first = session.get(url).status_code
        clock.advance(7200)
        second = session.get(url).status_code

    assert (first, second) == (200, 200)
