"""What `pullqueue serve` writes to its log, and reports to a service manager."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from pathlib import Path

import pytest

from pullqueue.cli._service import LogFormatter, notify_systemd


def record(message: str) -> logging.LogRecord:
    """Return the record of an error whose text came with a request."""
    fields = {"name": "pullqueue.server", "levelname": "ERROR", "msg": message, "verb": "GET"}
    try:
        raise ValueError("a\nERROR forged\x1b[31m\x85INFO forged")
    except ValueError:
        return logging.makeLogRecord({**fields, "exc_info": sys.exc_info()})


def test_logs_cannot_be_forged() -> None:
    """Control characters, which forge lines and control terminals, are escaped; the lines of a
    traceback are indented.
    """
    shown = LogFormatter(as_json=False).format(record("GET /\r\nERROR forged\x1b[31m\x9b"))

    first, *lines = shown.split("\n")
    assert first == r"ERROR pullqueue.server: GET /\r\nERROR forged\x1b[31m\x9b"
    assert all(line.startswith("  ") and line.isprintable() for line in lines)
    assert r"  ERROR forged\x1b[31m" in lines


def test_logs_as_json_cannot_be_forged() -> None:
    """A record is one line of JSON with the fields of its request."""
    shown = LogFormatter(as_json=True).format(record("GET /\r\nforged\x1b[31m\x9b"))

    assert shown.isprintable()
    line = json.loads(shown)
    assert (line["level"], line["verb"], "forged" in line["traceback"]) == ("error", "GET", True)


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_a_service_manager(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the state at the address in the environment."""
    address = str(tmp_path / "notify") if kind == "file" else f"\0pullqueue-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", address.replace("\0", "@"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        notify_systemd("READY=1")

        assert manager.recv(100) == b"READY=1"


def test_a_service_manager_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That is logged, and is not an error."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))

    notify_systemd("READY=1")

    (message,) = caplog.messages
    assert message.startswith('cannot report "READY=1" to the service manager: ')
