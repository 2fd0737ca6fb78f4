"""A running server whose clock is stopped, and a client of its control routes."""

from __future__ import annotations

import pytest
from control_client import ControlClient

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
def config_text() -> str:
    return QUEUE_YAML


@pytest.fixture
def control(server: Server) -> ControlClient:
    return ControlClient(server)
