"""The queue as both programs of the sample use it: a few calls of `taskqueue/v1beta2`."""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any
from urllib.request import Request, urlopen

_HOST = os.environ.get("PULLQUEUE_EMULATOR_HOST", "127.0.0.1:8124")
_TASKS = f"http://{_HOST}/taskqueue/v1beta2/projects/sample/taskqueues/pictures/tasks"


def add(payload: bytes) -> str:
    """Add a task and return its name."""
    task = {"payloadBase64": urlsafe_b64encode(payload).decode()}
    return str(_call("POST", _TASKS, task)["id"])


def lease(*, seconds: int, count: int) -> dict[str, bytes]:
    """Lease tasks and return their payloads by name."""
    answer = _call("POST", f"{_TASKS}/lease?leaseSecs={seconds}&numTasks={count}")
    return {
        task["id"]: urlsafe_b64decode(task["payloadBase64"]) for task in answer.get("items", [])
    }


def delete(name: str) -> None:
    """Delete a task that is done."""
    _call("DELETE", f"{_TASKS}/{name}")


def _call(verb: str, url: str, body: object = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method=verb)  # noqa: S310
    with urlopen(request, timeout=30) as answer:  # noqa: S310 - the address is the sample's own
        text = answer.read()
    return dict(json.loads(text)) if text else {}
