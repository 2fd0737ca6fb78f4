"""A running server with a stopped clock, and a function that runs a command against it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from unittest.mock import patch

import pytest
from commands import Done, Run

from pullqueue.cli import main
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
def config_text() -> str:
    return QUEUE_YAML


@pytest.fixture
def run(server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command, written as in a shell, against the server.

    What follows the first argument is passed as it is; `stdin` None: standard input is closed.
    """
    monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", f"{server.host}:{server.port}")

    def run(order: str, *more: str, stdin: bytes | None = b"") -> Done:
        stream = None if stdin is None else TextIOWrapper(BytesIO(stdin))
        with patch.object(sys, "stdin", stream):
            status = main([*shlex.split(order), *more])
        return Done(status, *capfd.readouterr())

    return run


@pytest.fixture
def offered(capfd: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Return a function that returns what bash is offered for the last word of a command."""

    def offered(*words: str) -> list[str]:
        line, place = " ".join(["pullqueue", *words]), str(len(words))
        asked = {"_PULLQUEUE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": place}
        with patch.dict(os.environ, asked), pytest.raises(SystemExit):
            main(())
        return capfd.readouterr().out.splitlines()

    return offered
