"""A running server whose clock is stopped, and a client of its control routes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from control_client import ControlClient

from pullqueue import Emulator, ManualClock
from pullqueue.control.config_file import ConfigFile
from pullqueue.server.lifecycle import Server

QUEUE_YAML = """\
queue:
- name: pull
  mode: pull
- name: limited
  mode: pull
  retry_parameters:
    task_retry_limit: 1
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
def clock() -> ManualClock:
    """Return a clock that is at 2026-01-01."""
    return ManualClock()


@pytest.fixture
def emulator(queue_yaml: Path, clock: ManualClock) -> Emulator:
    """Return an emulator of that file."""
    return Emulator.from_file(queue_yaml, clock=clock)


@pytest.fixture
def server(emulator: Emulator, queue_yaml: Path) -> Iterator[Server]:
    """Yield a running server of that emulator."""
    with Server(emulator, config_file=ConfigFile(queue_yaml)) as server:
        yield server


@pytest.fixture
def control(server: Server) -> ControlClient:
    """Return a client of the control routes."""
    return ControlClient(server)
