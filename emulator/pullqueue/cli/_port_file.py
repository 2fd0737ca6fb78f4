"""The file with the port of a running server, and what it shows of the server.

The server locks the file before it does anything else, and writes its port once it listens. The
operating system releases the lock when the process ends, however it ends, so the file shows whether
its server is starting, running or gone; an id of a process, or a port that somebody listens on,
would not. A server that is stopped deletes the file; one that fails, or is killed, leaves it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import IO

from pullqueue.cli.client import FailedError
from pullqueue.config.files import open_regular, read_stamp
from pullqueue.errors import ConfigFileError
from pullqueue.text import describe_os_error, escaped

_LEFT_OVER_SECONDS = 5.0
"""Time that a server has to take over the file that an earlier one has left."""
_TRIES = 20
_PAUSE_SECONDS = 0.05
"""`wait` locks the file, too, for as long as it takes to look."""
_MAX_DIGITS = 5

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30
    """A byte that is locked instead of the content, which others read."""

    def _lock(file: IO[bytes], *, shared: bool = False) -> bool:  # noqa: ARG001 - there is one kind
        """Lock a file; return False if another process has."""
        place = file.tell()
        file.seek(_FAR)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            file.seek(place)
        return True
else:
    import fcntl

    def _lock(file: IO[bytes], *, shared: bool = False) -> bool:
        """Lock a file; return False if another process has."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def port_file(path: Path | None) -> Iterator[Callable[[int], None]]:
    """Lock a file as long as the block runs, and yield a function that writes the port to it.

    Raises:
        ConfigFileError: it cannot be written, or another running server uses it.
    """
    if path is None:
        yield lambda _port: None
        return
    with _locked(path) as file:
        content = b""

        def write(port: int) -> None:
            nonlocal content
            content = f"{port}\n".encode()
            file.write(content)

        try:
            yield write
        except BaseException:
            file.truncate(0)
            raise
        file.seek(0)
        if file.read(len(content) + 1) == content and _is_at(file, path):
            file.truncate(0)
            with suppress(OSError):  # Windows deletes no open file
                path.unlink()


def _locked(path: Path) -> IO[bytes]:
    """Open the file that has a path and lock it."""
    try:
        for _ in range(_TRIES):
            file = open_regular(path, write=True)
            # Its server may just have deleted it.
            if _lock(file) and _is_at(file, path):
                file.truncate(0)
                os.utime(path)  # shows that it is no longer the file that was left
                return file
            file.close()
            threading.Event().wait(_PAUSE_SECONDS)
    except OSError as error:
        raise ConfigFileError(
            f'cannot write "{escaped(str(path))}": {describe_os_error(error)}'
        ) from None
    raise ConfigFileError(
        f'"{path}" is the port file of a running server: stop that server, or name another file'
    )


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Return whether an open file still has a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


class ServerOfFile:
    """The server that a port file is of, as `wait` sees it."""

    def __init__(self, path: Path) -> None:
        """Take the path of the file; the server need not be started yet."""
        self._path = path
        self._begin = monotonic()
        self._left_over = read_stamp(path)
        """The file as an earlier server may have left it."""
        self._seen: os.stat_result | None = None
        """The file as it was while its server ran."""
        self._listens = False
        """True if the file had a port then."""

    def look(self) -> tuple[str | None, str | None]:
        """Return where the server listens, or else why that is not known yet.

        Raises:
            FailedError: the server has ended, or the file cannot be read.
        """
        shown = escaped(str(self._path))
        try:
            with open_regular(self._path) as file:
                runs = not _lock(file, shared=True)
                # In this order: what has a port is not written again.
                content, status = file.read(_MAX_DIGITS + 1), os.fstat(file.fileno())
        except FileNotFoundError:
            if self._seen is not None:
                raise _ended(shown) from None
            if not self._path.parent.exists():
                raise FailedError(f'cannot read "{shown}": its folder does not exist') from None
            self._left_over = None
            return None, f'there is no port file "{shown}": start a server with --port-file'
        except OSError as error:
            raise FailedError(f'cannot read "{shown}": {describe_os_error(error)}') from None
        if not runs or self._is_another(status):
            left_over = self._seen is None and read_stamp(self._path) == self._left_over
            if not left_over or monotonic() - self._begin >= _LEFT_OVER_SECONDS:
                raise _ended(shown)
            return None, f'the server of "{shown}" has ended, and no other has started'
        self._seen = status
        self._listens = content.strip().isdigit()
        if not self._listens:
            return None, f'the server of "{shown}" does not listen yet'
        return f"http://127.0.0.1:{int(content)}", None

    def _is_another(self, status: os.stat_result) -> bool:
        """Return whether a file is not the one that was seen, but that of another server."""
        if self._seen is None:
            return False
        # A new file may get the inode of one that was deleted.
        is_written_again = self._listens and status.st_mtime_ns != self._seen.st_mtime_ns
        return is_written_again or not os.path.samestat(status, self._seen)


def _ended(shown: str) -> FailedError:
    return FailedError(f'the server of "{shown}" has ended: see what it printed')
