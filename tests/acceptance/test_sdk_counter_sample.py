"""The counter sample, an app of App Engine's, run three ways without a change."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from programs import running
from served import free_port

SAMPLE = Path(__file__).parents[2] / "samples" / "counter"

PYTHON = [sys.executable, "-W", "ignore"]
EXEC = [sys.executable, "-m", "pullqueue", "exec"]


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


def test_under_pytest(pytester: pytest.Pytester) -> None:
    """The sample's own tests pass in one process, with the clock moved."""
    shutil.copytree(SAMPLE, pytester.path, dirs_exist_ok=True)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=2)


def test_with_real_processes(tmp_path: Path) -> None:
    """A web app and its workers share their queue as processes; one of them is a REST worker."""
    folder, port = Path(shutil.copytree(SAMPLE, tmp_path / "counter")), free_port()
    with running(*EXEC, "--", *PYTHON, "main.py", cwd=folder, PORT=str(port)) as web:
        address = read_until(web, r"pullqueue listening on http://(\S+)")
        read_until(web, r"(Running on)")
        for worker in ("worker.py", "rest_worker.py"):
            for thing in ("tea", "coffee", "tea"):
                vote(port, thing)
            command = (*EXEC, "--", *PYTHON, worker)
            with running(*command, cwd=folder, PULLQUEUE_EMULATOR_HOST=address) as working:
                assert working.stdout is not None
                counted = [working.stdout.readline().strip() for _ in range(2)]
            assert counted == ["tea: 2", "coffee: 1"]
        with urlopen(f"http://127.0.0.1:{port}/", timeout=60) as response:
            assert json.load(response) == {"coffee": 2, "tea": 4}
