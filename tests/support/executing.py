"""What the tests of `pullqueue exec` share; the fixture `execute` runs it in this process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from forking import forked
from programs import running
from push_app import until
from served import free_port

Execute = Callable[..., tuple[int, str, str]]
"""Runs `pullqueue exec` with arguments and variables; returns status, output and errors."""

QUEUE_YAML = "queue:\n- name: pull\n  mode: pull\n"
CALL = """
import json, os, urllib.request

def call(path, data=None):
    url = f'http://{os.environ["PULLQUEUE_EMULATOR_HOST"]}/_emulator/{path}'
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))

"""
"""Begins a program that calls routes of its server."""
SHOW_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"
USE_QUEUE = """
import threading
from google.appengine.api import taskqueue

def work():
    queue = taskqueue.Queue("pull")
    queue.add(taskqueue.Task(payload=b"work", method="PULL", name="mine"))
    print([task.name for task in queue.lease_tasks(60, 10)])

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def forked_exec() -> tuple[str, str]:
    """Return `pullqueue exec` as a program that starts faster than `python -m pullqueue exec`."""
    return forked("pullqueue"), "exec"


def forked_python() -> tuple[str, str, str]:
    """Return a Python without warnings, in which what the SDK imports has been imported."""
    return forked("python"), "-W", "ignore"


def call(url: str, method: str = "GET") -> Any:
    """Return what an app responds, as text or JSON; None where there is no response."""
    try:
        with urlopen(Request(url, method=method), timeout=60) as response:  # noqa: S310
            text = response.read().decode()
    except (OSError, HTTPException):
        return None
    return json.loads(text) if text.startswith("{") else text


@contextmanager
def app_under_exec(
    script: Path, folder: Path, *options: str, **variables: str
) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """Run an app under `exec` in a folder; yield its URL, HOST:PORT of the server, and `exec`."""
    if not (folder / "queue.yaml").exists():
        (folder / "queue.yaml").write_text("queue: []")
    app, server = free_port(), free_port()
    url = f"http://localhost:{app}"
    command = (*forked_exec(), "--port", str(server), "--push-to", url, *options)
    command = (*command, "--", *forked_python(), str(script))
    with running(
        *command, cwd=folder, stderr=subprocess.DEVNULL, PORT=str(app), **variables
    ) as process:
        until(lambda: call(url) is not None or process.poll() is not None)
        yield url, f"127.0.0.1:{server}", process


def python(program: str) -> list[str]:
    """Return the command that runs a program of this interpreter's."""
    return ["--", sys.executable, "-W", "ignore", "-c", program]


def on_sdk(program: str) -> list[str]:
    """Return the command that runs a program; what the SDK imports has been imported."""
    return ["--", *forked_python(), "-c", program]
