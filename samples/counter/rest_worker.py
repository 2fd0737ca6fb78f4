"""The same worker outside App Engine: it uses the REST API of the queue."""

from __future__ import annotations

import json
import os
import time
from base64 import urlsafe_b64decode
from typing import Any
from urllib.request import Request, urlopen

import counts

ROOT = f"http://{os.environ.get('PULLQUEUE_EMULATOR_HOST', 'localhost:8124')}"
TASKS = f"{ROOT}/taskqueue/v1beta2/projects/s~my-app/taskqueues/counts/tasks"


def call(verb: str, path: str) -> dict[str, Any]:
    """Make one call and return its response."""
    data = b"" if verb == "POST" else None
    request = Request(f"{TASKS}{path}", data, method=verb)  # noqa: S310 - the emulator's address
    with urlopen(request) as response:  # noqa: S310 - the emulator's address
        return dict(json.loads(response.read() or "{}"))


def work() -> str | None:
    """Count the votes for the thing that has waited longest; None where there are none."""
    answer = call("POST", "/lease?leaseSecs=60&numTasks=1000&groupByTag=true")
    tasks = answer.get("items", [])
    if not tasks:
        return None
    thing = tasks[0]["tag"]
    votes = sum(int(urlsafe_b64decode(task["payloadBase64"])) for task in tasks)
    counts.add(thing, votes)
    for task in tasks:
        call("DELETE", f"/{task['id']}")
    return f"{thing}: {votes}"


if __name__ == "__main__":
    while True:
        if counted := work():
            print(counted, flush=True)
        else:
            time.sleep(0.2)  # noqa: TID251 - a real worker waits for real votes
