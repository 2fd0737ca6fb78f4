"""What the tests of `pullqueue exec` share; the fixture `execute` runs it in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

from forking import forked

Execute = Callable[..., tuple[int, str, str]]
"""Runs `pullqueue exec` with arguments and variables; returns status, output and errors."""

EXEC = (sys.executable, "-m", "pullqueue", "exec")
QUEUE_YAML = "queue:\n- name: pull\n  mode: pull\n"
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
    """Return `pullqueue exec` as a program that starts faster than `EXEC`."""
    return forked("pullqueue"), "exec"


def python(program: str) -> list[str]:
    """Return the command that runs a program of this interpreter's."""
    return ["--", sys.executable, "-W", "ignore", "-c", program]
