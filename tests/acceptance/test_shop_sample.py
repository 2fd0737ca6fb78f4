"""The shop sample: push tasks, a deferred call and a pull worker, run by one command."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from documents import blocks_of
from programs import completed
from push_app import until
from served import free_port

SAMPLE = Path(__file__).parents[2] / "samples" / "shop"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the sample."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "shop"))


def call(url: str, method: str = "GET") -> Any:
    """Return what the app responds, as text or JSON; None while it does not listen."""
    try:
        with urlopen(Request(url, method=method), timeout=60) as response:  # noqa: S310
            text = response.read().decode()
    except OSError:
        return None
    return json.loads(text) if text.startswith("{") else text


def test_its_own_suite(folder: Path) -> None:
    """The tests of the sample pass."""
    done = completed(
        [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder
    )

    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


def test_the_command_of_its_readme(folder: Path) -> None:
    """One command runs app, worker and queues: an order is mailed, counted and invoiced."""
    start, order = [b.text for b in blocks_of(folder / "README.md") if b.language == "console"]
    port = free_port()
    command = start.removeprefix("$ ").replace("8124", "0").replace("8080", str(port))
    app = f"http://127.0.0.1:{port}"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(
        shlex.split(command),
        cwd=folder,
        env={**os.environ, "PATH": path, "PORT": str(port), "PYTHONWARNINGS": "ignore"},
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: call(app) or process.poll() is not None)
        assert call(f"{app}/orders/tea", "POST") == "order 1\n"
        until(lambda: call(app)["orders"]["1"]["mails"] and call(app)["sold"])
        state = call(app)
    finally:
        process.terminate()
        status = process.wait(timeout=60)

    assert state == json.loads(order.splitlines()[-1])
    assert status == 128 + signal.SIGTERM
