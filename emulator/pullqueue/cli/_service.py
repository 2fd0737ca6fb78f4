"""Helpers of `pullqueue serve`: logs, a secret, systemd, signals."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import socket
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from pullqueue.cli._output import say
from pullqueue.config.text import escaped, reason_of
from pullqueue.errors import ConfigFileError

if TYPE_CHECKING:
    from pullqueue.control.delivery import Delivery
    from pullqueue.control.state import ServerState
    from pullqueue.engine.emulator import Emulator

_POLL_SECONDS = 0.5
"""Interval of the checks for signals and for changes of the file."""
_STOP_SECONDS = 3.0
"""Time that calls have to finish after the server was stopped."""
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_EXTRAS = ("verb", "path", "status")
"""Fields of the log record of a request, beside its message."""
_SECRET_CHARACTERS = 32
"""Minimum length of a secret."""

_log = logging.getLogger("pullqueue.serve")


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


def set_up_logs(*, log_format: str, log_level: str) -> None:
    """Write the logs to the standard error stream, as text or as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(as_json=log_format == "json"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("pullqueue").setLevel(log_level.upper())


def secret_of(path: Path) -> str:
    """Read the secret in a file that signs tokens and keys; if there is no file, make one.

    Raises:
        ConfigFileError: the file can be neither read nor written, or does not contain one.
    """
    try:
        if not path.exists():
            _make_secret(path)
        secret = path.read_text("utf-8").strip()
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        raise ConfigFileError(f'cannot use the secret file "{path}": {reason_of(error)}') from None
    except UnicodeDecodeError:
        raise ConfigFileError(f'cannot use the secret file "{path}": it is not UTF-8') from None
    if len(secret) < _SECRET_CHARACTERS:
        raise ConfigFileError(
            f'the secret in "{path}" has {len(secret)} characters, and could be guessed: use '
            f"{_SECRET_CHARACTERS} or more, or remove the file to have one generated"
        )
    if os.name == "posix" and mode & 0o077:
        say(
            f'warning: the secret in "{path}" can be read by other users (mode {mode:04o}): run '
            "`chmod 600` on it",
            err=True,
        )
    return secret


def _make_secret(path: Path) -> None:
    """Write a secret for its owner only; if several servers do so at once, all use the same one."""
    text = f"{secrets.token_hex(_SECRET_CHARACTERS)}\n"
    # The file is complete before it has its name: no other server reads half a secret.
    with NamedTemporaryFile("w", dir=path.parent) as whole:
        whole.write(text)
        whole.flush()
        try:
            os.link(whole.name, path)
        except OSError:
            if not path.exists():  # no other server was quicker: there are no links here
                with open(path, "x", opener=partial(os.open, mode=0o600)) as file:
                    file.write(text)


def notify_systemd(state: str) -> None:
    """Report a state to the service manager that started this process, if one did."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.connect(address)
            connection.sendall(state.encode())
    except OSError as error:
        _log.warning('cannot report "%s" to the service manager: %s', state, error)


class Signals:
    """The signals that stop the server, or reload its configuration."""

    def __init__(self, emulator: Emulator) -> None:
        """Handle SIGINT and SIGTERM, which stop the server, and SIGHUP, which reloads the file."""
        self._emulator = emulator
        self.delivery: Delivery | None = None
        """The delivery of push tasks, which stops at once."""
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
        """Stop the delivery of push tasks, and close the emulator after a while."""
        if self.delivery is not None:
            self.delivery.stop()
        threading.Event().wait(_STOP_SECONDS)
        self._emulator.close()

    def wait(self, state: ServerState, *, watch: bool) -> None:
        """Return once the server must stop; meanwhile reload its file."""
        while (number := self._next()) not in _STOPPING:
            if state.config_file is not None:
                state.config_file.check(state.emulator, changes=watch, now=number is not None)

    def _next(self) -> int | None:
        """Return the next signal; None after a while without any."""
        try:
            return self._received.get(timeout=_POLL_SECONDS)
        except Empty:
            return None
