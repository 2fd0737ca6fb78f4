"""Reading and replacing files that are not trusted."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO

from pullqueue.config.project import real_path
from pullqueue.config.settings import MAX_BYTES
from pullqueue.errors import ConfigFileError
from pullqueue.text import describe_os_error, escaped

Stamp = tuple[int, int, int]
"""Time, size and number of a file."""

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
}


def read_project_file(path: str | PathLike[str], *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return a file's bytes as `read_bytes` does; refuse a link that leads out of the project."""
    return _read(real_path(path), path, max_bytes)


def read_bytes(path: str | PathLike[str], *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return a regular file's bytes, at most one more than `max_bytes`.

    FIFOs, sockets and devices are refused without opening them: reading one may never end. Links
    are followed: use `read_project_file` where somebody else may have written them.
    """
    return _read(Path(path), path, max_bytes)


def open_regular(path: Path, *, write: bool = False) -> IO[bytes]:
    """Open a regular file to read, or to read and `write` in place; then it need not exist yet.

    A file is not written through a symbolic link.
    """
    if write:
        _status(path)
    opener = _in_place if write else _without_waiting
    file = open(path, "r+b" if write else "rb", buffering=0, opener=opener)  # noqa: SIM115 - the caller's
    _check_regular(os.fstat(file.fileno()))
    return file


def _in_place(path: str, flags: int) -> int:
    more = os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, flags | more | getattr(os, "O_NONBLOCK", 0), mode=0o666)


def _read(path: Path, name: str | PathLike[str], max_bytes: int) -> bytes:
    try:
        _check_regular(path.stat())
        with open(path, "rb", opener=_without_waiting) as file:
            return file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        message = f'cannot read "{escaped(str(name))}": {describe_os_error(error)}'
        raise ConfigFileError(message) from error


def read_stamp(path: str | PathLike[str]) -> Stamp | None:
    """Return what differs between two states of a file; None if there is none."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _without_waiting(path: str, flags: int) -> int:
    """Open a file that may have become a FIFO since it was looked at."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a special file")
        raise OSError(errno.EINVAL, f"is {kind}, not a regular file")


def replace_project_file(path: Path, data: bytes) -> None:
    """Write a file as `replace_file` does, or the file of the same project that a link leads to."""
    replace_file(real_path(path), data, name=path)


def replace_file(
    path: Path, data: bytes, *, private: bool = False, name: Path | None = None
) -> None:
    """Write a file as a whole: at any time it has its old content or the new one.

    The data are written to a temporary file in the same directory, which then replaces the file.
    Mode and owner are kept; a `private` file is for its owner alone. `name` is the path that
    messages show, if it is another one. A symbolic link is refused, so
    that nothing outside is written.

    Raises:
        ConfigFileError: the file cannot be written; it has its old content.
    """
    try:
        _replace(path, data, private=private)
    except OSError as error:
        message = f'cannot write "{escaped(str(name or path))}": {describe_os_error(error)}'
        raise ConfigFileError(message) from None


def _replace(path: Path, data: bytes, *, private: bool) -> None:
    old = _status(path)
    temporary = path.with_name(f".pullqueue-{os.urandom(8).hex()}.tmp")
    try:
        opener = partial(os.open, mode=0o600 if private or old else 0o666)
        with open(temporary, "xb", opener=opener) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            with suppress(AttributeError, OSError):  # no chown in Windows; some refuse it
                os.chown(temporary, old.st_uid, old.st_gid)
            temporary.chmod(0o600 if private else stat.S_IMODE(old.st_mode))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _status(path: Path) -> os.stat_result | None:
    """Return the status of a file that may be replaced; None if there is no file."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    _check_regular(status)
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return status
