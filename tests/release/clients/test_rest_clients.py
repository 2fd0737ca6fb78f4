"""Clients of the Task Queue API in several languages, unmodified: one life of tasks with each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.oauth2.service_account import Credentials
from googleapiclient.discovery import build  # type: ignore[import-untyped]
from googleapiclient.errors import HttpError  # type: ignore[import-untyped]
from linting import run_pullqueue
from programs import completed, java_libraries, npm_packages, program
from rest_app import CLIENTS_YAML

from pullqueue import Emulator
from pullqueue.server.lifecycle import Server

FOLDER = Path(__file__).parent
SAMPLE = FOLDER.parents[2] / "samples" / "rest_worker"
IN_QUEUE = {"project": "s~app", "taskqueue": "pull-queue"}

GONE = {"code": 400, "message": "The task name is invalid."}
"""What a client of another language reports when it deletes a task that does not exist."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Emulator.from_text(CLIENTS_YAML), acl=True) as server:
        yield server


@pytest.fixture
def key(server: Server, tmp_path: Path) -> Path:
    return key_file(server, tmp_path / "key.json")


def key_file(server: Server, path: Path) -> Path:
    done = run_pullqueue(
        "credentials", "worker@example.com", "--url", server.url, "--output", str(path)
    )
    assert done.exit_code == 0, done.stderr
    return path


def token_of(server: Server) -> str:
    """Return the worker's access token, for clients that do not ask the server for one."""
    return server.tokens.issue("worker@example.com").text


def run_client(*command: str) -> dict[str, Any]:
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


def lifecycle(api: Any) -> dict[str, Any]:
    def result(call: Any) -> Any:
        try:
            return call.execute()
        except HttpError as error:
            return {"code": error.status_code, "message": error.reason}

    tasks, named = api.tasks(), {"queueName": "pull-queue"}
    bodies = [{**named, "payloadBase64": "d29yaw==", "tag": tag} for tag in ("red", "blue", "red")]
    inserted = [tasks.insert(**IN_QUEUE, body=body).execute() for body in bodies]
    first = {**IN_QUEUE, "task": inserted[0]["id"]}
    lease, by_tag = {**IN_QUEUE, "leaseSecs": 30}, {"groupByTag": True, "tag": "red"}
    reported = {
        "inserted": inserted,
        "listed": tasks.list(**IN_QUEUE).execute(),
        "got": tasks.get(**first).execute(),
        "queue": api.taskqueues().get(**IN_QUEUE, getStats=True).execute(),
        "leased": tasks.lease(**lease, numTasks=1).execute(),
        "leasedByTag": tasks.lease(**lease, numTasks=9, **by_tag).execute(),
    }
    update = tasks.update(**first, newLeaseSeconds=60, body=reported["leased"]["items"][0])
    reported["updated"], reported["stale"] = update.execute(), result(update)
    refused = {"project": "app", "taskqueue": "read-only", "body": {"payloadBase64": ""}}
    return reported | {
        "patched": tasks.patch(**first, newLeaseSeconds=90, body=named).execute(),
        "deleted": [tasks.delete(**IN_QUEUE, task=task["id"]).execute() for task in inserted],
        "gone": result(tasks.delete(**first)),
        "unknown": result(tasks.list(project="app", taskqueue="nowhere")),
        "forbidden": result(tasks.insert(**refused)),
        "empty": tasks.lease(**lease, numTasks=1).execute(),
    }


def discovered(server: Server, key: Path) -> Any:
    """Return Google's API client for Python, built from the description of the server."""
    credentials = Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
        str(key), scopes=["https://www.googleapis.com/auth/taskqueue"]
    )
    url = f"{server.url}/discovery/v1/apis/{{api}}/{{apiVersion}}/rest"
    return build("taskqueue", "v1beta2", credentials=credentials, discoveryServiceUrl=url)


def test_the_client_for_python_is_built_from_the_description(server: Server, key: Path) -> None:
    with discovered(server, key) as api:
        reported = lifecycle(api)

    check_lifecycle(reported)
    assert reported["deleted"] == ["", "", ""]
    assert reported["gone"] == GONE


@pytest.mark.parametrize(
    ("package", "made"),
    [
        ("googleapis-17", "discovered"),
        ("googleapis-27", "discovered"),
        ("googleapis-27", "generated"),
    ],
)
def test_googleapis_of_npm_works_in_each_of_its_ways(
    server: Server, tmp_path: Path, package: str, made: str
) -> None:
    folder = FOLDER / "npm"
    client = str(npm_packages(folder, tmp_path) / package)
    script = (program("node", package="nodejs"), str(folder / "lifecycle.js"))

    reported = run_client(*script, client, made, server.url, token_of(server))

    assert [answer or "" for answer in reported["deleted"]] == ["", "", ""]
    assert reported["gone"] == GONE


def test_the_client_for_java_works(server: Server, key: Path) -> None:
    java = program("java", package="default-jdk-headless")
    program("javac", package="default-jdk-headless")  # the program is run from its source
    source = FOLDER / "java" / "Lifecycle.java"

    reported = run_client(java, "-cp", java_libraries(), str(source), server.url, str(key))

    assert reported["deleted"] == [GONE, "", ""]


def test_the_client_for_ruby_works(server: Server) -> None:
    ruby = program("ruby", package="ruby")
    if completed([ruby, "-r", "google/apis/core/base_service", "-e", ""]).returncode:
        pytest.skip("Google's client is missing: apt-get install ruby-google-api-client")
    script = str(FOLDER / "ruby" / "lifecycle.rb")

    reported = run_client(ruby, script, server.url, token_of(server))

    assert reported["deleted"] == [None, None, None]
    assert reported["gone"] == GONE
    assert len(reported["methods"]) == 7


def test_a_worker_written_by_the_documentation_of_google_runs(tmp_path: Path) -> None:
    emulator = Emulator.from_file(SAMPLE / "queue.yaml")
    with Server(emulator, acl=True) as server:
        key = key_file(server, tmp_path / "key.json")

        def run(*command: str) -> list[str]:
            program = (sys.executable, str(SAMPLE / "worker.py"), "--root", server.url)
            return completed([*program, "--key", str(key), *command], check=True).stdout.split("\n")

        first, _ = run("add", "to be or not to be")
        emulator.queue("words").add(b"\xff", name="broken")
        printed = run("work")

    assert len(first) == 16
    assert printed == [
        '{"be": 2, "not": 1, "or": 1, "to": 2}',
        "cannot read broken, time 1",
        "cannot read broken, time 2",
        "cannot read broken, time 3",
        "",
    ]
    assert emulator.queue("words").list_tasks() == []


def test_python_shows_production_s_text_and_the_advice(
    server: Server, key: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pullqueue.server")
    with discovered(server, key) as api, pytest.raises(HttpError) as excinfo:
        api.tasks().delete(**IN_QUEUE, task="never").execute()

    advice = 'task "never" of queue "pull-queue" does not exist'
    assert excinfo.value.reason == "The task name is invalid."
    assert advice in str(excinfo.value)
    assert f"refused, 400: The task name is invalid. ({advice})" in caplog.text
