"""A running server, and a function that runs a command against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Done, Run

from pullqueue import Emulator, ManualClock
from pullqueue.cli import main
from pullqueue.control.config_file import ConfigFile
from pullqueue.server.lifecycle import Server

QUEUE_YAML = """\
queue:
- name: pull
  mode: pull
  retry_parameters:
    task_retry_limit: 3
- name: other
  mode: pull
- name: push
  rate: 5/s
"""


@pytest.fixture
def queue_yaml(tmp_path: Path) -> Path:
    """Return a queue.yaml."""
    path = tmp_path / "queue.yaml"
    path.write_text(QUEUE_YAML)
    return path


@pytest.fixture
def emulator(queue_yaml: Path) -> Emulator:
    """Return an emulator whose clock is stopped."""
    return Emulator.from_file(queue_yaml, clock=ManualClock())


@pytest.fixture
def server(emulator: Emulator, queue_yaml: Path) -> Iterator[Server]:
    """Yield a running server."""
    with Server(emulator, config_file=ConfigFile(queue_yaml)) as server:
        yield server


@pytest.fixture
def run(server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command against the server."""
    monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", f"{server.host}:{server.port}")

    def run(*arguments: str) -> Done:
        status = main(arguments)
        return Done(status, *capfd.readouterr())

    return run
