"""Clients of Cloud Tasks v2, unmodified but for the endpoint: from new tasks to their handlers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from programs import npm_packages, pip_install, program
from push_app import until
from task_handlers import TaskHandlers, task_handlers

QUEUE_YAML = """
queue:
- name: mail
  rate: 500/s
  retry_parameters:
    min_backoff_seconds: 0.1
- name: resize
  rate: 5/s
"""
LOCATION = "projects/app/locations/us-central1"
NPM = Path(__file__).parent / "npm_cloud_tasks"
EMULATED = "emulated-service-acct@email.com"
"""Whom firebase-admin names where it has no credentials."""


@pytest.fixture(scope="module")
def handlers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskHandlers]:
    """Run a server, and an app with handlers of tasks."""
    with task_handlers(QUEUE_YAML, tmp_path_factory.mktemp("served")) as handlers:
        yield handlers


def reported(handlers: TaskHandlers, *command: str) -> Any:
    """Run a program with the address of the server, and return the JSON that it prints."""
    address = urlsplit(handlers.served.url).netloc
    run = subprocess.run(
        command,
        env={**os.environ, "CLOUD_TASKS_EMULATOR_HOST": address, "NO_GCE_CHECK": "true"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def listed(handlers: TaskHandlers, queue: str) -> list[str]:
    """Return the ids of the tasks of a queue."""
    with urlopen(f"{handlers.served.url}/v2/{LOCATION}/queues/{queue}/tasks") as response:  # noqa: S310
        tasks = json.load(response).get("tasks", [])
    return [task["name"].rpartition("/")[2] for task in tasks]


def check_firebase(handlers: TaskHandlers, body: Any) -> None:
    """Check that a function got its task, and that no other is left."""
    until(lambda: handlers.handled["resize"])
    assert handlers.handled.pop("resize") == [(204, EMULATED)]
    assert handlers.bodies["resize"] == body
    until(lambda: listed(handlers, "resize") == [])


def test_firebase_node(handlers: TaskHandlers, tmp_path: Path) -> None:
    """firebase-admin adds and deletes tasks of a function, whose URL is that of production."""
    packages = npm_packages(NPM, tmp_path)
    node = program("node", package="nodejs")
    found = reported(handlers, node, str(NPM / "firebase.js"), str(packages))

    assert found == {"again": "functions/task-already-exists", "missing": "functions/not-found"}
    check_firebase(handlers, {"data": {"image": "cat.png"}})


FIREBASE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import firebase_admin
from firebase_admin import exceptions, functions

firebase_admin.initialize_app(options={"projectId": "app"})
queue = functions.task_queue("resize")
later = functions.TaskOptions(task_id="bird", schedule_delay_seconds=3600)
reported = [bool(queue.enqueue({"image": "cat.png"})), queue.enqueue({"image": "dog.png"}, later)]
try:
    queue.enqueue({}, later)
except exceptions.FirebaseError as error:
    reported.append(error.code)
queue.delete("bird")
print(json.dumps(reported))
"""


def test_firebase_python(handlers: TaskHandlers, tmp_path: Path) -> None:
    """The Python library reads the id of a new task from the response."""
    # What it needs for Firestore and Storage is not wanted here.
    pip_install("--target", str(tmp_path), "--no-deps", "firebase-admin==7.7.0")
    command = [sys.executable, "-W", "ignore", "-c", FIREBASE, str(tmp_path)]

    assert reported(handlers, *command) == [True, "bird", "ALREADY_EXISTS"]
    check_firebase(handlers, {"image": "cat.png"})
