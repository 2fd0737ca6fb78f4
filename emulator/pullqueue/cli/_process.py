"""Helpers of `pullqueue serve`: logs and signals."""

from __future__ import annotations

import ctypes
import json
import logging
import signal
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from pullqueue.text import escaped

if TYPE_CHECKING:
    from pullqueue.server.lifecycle import Server

_POLL_SECONDS = 0.5
"""Interval of the checks for signals and for changes of the file."""
_STOP_SECONDS = 3.0
"""Time that calls have to finish after the server was stopped."""
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_M_ARENA_MAX = -8
"""The parameter of mallopt, from malloc.h."""
_EXTRAS = ("verb", "path", "status")
"""Fields of the log record of a request, beside its message."""


class LogFormatter(logging.Formatter):
    """Formats a record as a line of text, or as one JSON object per line.

    Control characters, which could forge lines or control a terminal, are escaped.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return a record and its traceback."""
        message = escaped(record.getMessage())
        traceback = self.formatException(record.exc_info) if record.exc_info else ""
        if not self._as_json:
            # A traceback is indented: no line of it looks like a record.
            lines = [f"  {escaped(line)}" for line in traceback.splitlines()]
            return "\n".join([f"{record.levelname} {record.name}: {message}", *lines])
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
        }
        line |= {name: vars(record)[name] for name in _EXTRAS if name in vars(record)}
        return json.dumps(line | ({"traceback": traceback} if traceback else {}))


def limit_arenas() -> None:
    """Make the threads of this process share two arenas of glibc's malloc; elsewhere do nothing.

    It makes up to eight for each processor, each of which keeps free memory of its own: the memory
    of a server grew for hours.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def set_up_logs(*, log_format: str, log_level: str) -> None:
    """Write the logs to the standard error stream, as text or as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(as_json=log_format == "json"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("pullqueue").setLevel(log_level.upper())


class Signals:
    """The signals that stop the server, or reload its configuration."""

    def __init__(self, server: Server) -> None:
        """Handle SIGINT and SIGTERM, which stop the server, and SIGHUP, which reloads the file."""
        self._server = server
        # Its `put` may interrupt its own `get`, as a handler does.
        self._received: SimpleQueue[int] = SimpleQueue()
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    def _receive(self, number: int, _frame: object) -> None:
        self._received.put(number)
        if number in _STOPPING:
            # Calls of a server that does not stop may wait for a database.
            threading.Thread(target=self._stop, daemon=True).start()

    def _stop(self) -> None:
        """Stop push tasks and cron jobs, and close the emulator after a while."""
        self._server.stop_sending()
        threading.Event().wait(_STOP_SECONDS)
        self._server.emulator.close()

    def wait(self, *, watch: bool) -> None:
        """Return once the server must stop; meanwhile reload its files."""
        while (number := self._next()) not in _STOPPING:
            self._server.check_files(changes=watch, now=number is not None)

    def _next(self) -> int | None:
        """Return the next signal; None after a while without any."""
        try:
            return self._received.get(timeout=_POLL_SECONDS)
        except Empty:
            return None
