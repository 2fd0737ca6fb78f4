"""What `pullqueue serve` logs, and how its process uses memory."""

from __future__ import annotations

import json
import logging
import platform
import subprocess
import sys

import pytest

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


COUNT_ARENAS = """
import ctypes, os, sys, threading
from pullqueue.cli._process import limit_arenas

if "limited" in sys.argv:
    limit_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
together = threading.Barrier(6)

def allocate():
    libc.malloc(1000)
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
reading, writing = os.pipe()
stream = ctypes.c_void_p(libc.fdopen(writing, b"w"))
libc.malloc_info(0, stream)
libc.fclose(stream)
print(os.read(reading, 1 << 20).count(b"<heap nr="))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_threads_share_two_arenas() -> None:
    """By default each of these threads gets one of its own."""

    def arenas(*arguments: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", COUNT_ARENAS, *arguments],
            check=True,
            capture_output=True,
        )
        return int(done.stdout)

    assert arenas() > 2
    assert arenas("limited") == 2
