"""What `pullqueue serve` logs."""

from __future__ import annotations

import json
import logging
import sys

from pullqueue.cli._process import LogFormatter


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
