"""`pullqueue exec`, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pullqueue.address import DEFAULT_ADDRESS

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


def start(*arguments: str, folder: Path, **variables: str) -> subprocess.Popen[str]:
    """Start `pullqueue exec` in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "pullqueue", "exec", *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments: str, folder: Path, given: str = "", **variables: str) -> tuple[int, str, str]:
    """Run `pullqueue exec` to its end and return status, output and errors.

    The errors leave out the hint at a server at the default address, which somebody may use.
    """
    process = start(*arguments, folder=folder, **variables)
    output, errors = process.communicate(given, timeout=120)
    hint = f"pullqueue: a server runs at {DEFAULT_ADDRESS}, "
    lines = [line for line in errors.splitlines(keepends=True) if not line.startswith(hint)]
    return process.returncode, output, "".join(lines)


def python(program: str) -> list[str]:
    """Return the command that runs a program of this interpreter's."""
    return ["--", sys.executable, "-W", "ignore", "-c", program]
