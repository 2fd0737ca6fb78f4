"""The counter sample, an app of App Engine's, run three ways without a change."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from programs import completed
from served import free_port

SAMPLE = Path(__file__).parents[2] / "samples" / "counter"

PYTHON = [sys.executable, "-W", "ignore"]
EXEC = [sys.executable, "-m", "pullqueue", "exec"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the sample."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "counter"))


@contextmanager
def running(command: list[str], folder: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command in the folder until the block ends."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def read_until(process: subprocess.Popen[str], pattern: str) -> str:
    """Read the error stream up to a line that matches, and return the match."""
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen += line
        if found := re.search(pattern, line):
            return found.group(1)
    raise AssertionError(seen)


def vote(port: int, thing: str) -> None:
    """Vote through the web."""
    request = Request(f"http://127.0.0.1:{port}/votes/{thing}", method="POST")
    with urlopen(request, timeout=60) as response:  # noqa: S310 - the test's own server
        assert response.status == 202


def test_under_pytest(folder: Path) -> None:
    """The sample's own tests pass in one process, with the clock moved."""
    done = completed([*PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder)

    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.parametrize("worker", ["worker.py", "rest_worker.py"])
def test_with_real_processes(folder: Path, worker: str) -> None:
    """A web app and a worker share their queue as processes; the worker may be a REST worker."""
    port = free_port()
    with ExitStack() as stack:
        web = stack.enter_context(
            running([*EXEC, "--", *PYTHON, "main.py"], folder, PORT=str(port))
        )
        address = read_until(web, r"pullqueue listening on http://(\S+)")
        read_until(web, r"(Running on)")
        for thing in ("tea", "coffee", "tea"):
            vote(port, thing)
        working = stack.enter_context(
            running([*EXEC, "--", *PYTHON, worker], folder, PULLQUEUE_EMULATOR_HOST=address)
        )
        assert working.stdout is not None
        counted = [working.stdout.readline().strip() for _ in range(2)]
        with urlopen(f"http://127.0.0.1:{port}/", timeout=60) as response:
            shown = response.read().decode()

    assert counted == ["tea: 2", "coffee: 1"]
    assert shown.strip() == '{"coffee":1,"tea":2}' or '"tea": 2' in shown
