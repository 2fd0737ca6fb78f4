"""Files that commands read and write."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pullqueue.config.text import reason_of
from pullqueue.error_codes import EXIT_FAILURE

STDIN = "-"
"""Means standard input, or output, where a file can be named."""


class FileError(click.ClickException):
    """a file cannot be read or written"""

    exit_code = EXIT_FAILURE


def content_of(file: Path) -> bytes:
    """Return the content of a file or of standard input.

    Raises:
        FileError: it cannot be read.
    """
    if str(file) == STDIN:
        if sys.stdin is None:
            raise FileError("standard input is closed: name a file")
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {str(file)!r}: {reason_of(error)}") from None


def unwritable(path: Path, error: OSError) -> FileError:
    """Return the error for a file that cannot be written."""
    return FileError(f"cannot write {str(path)!r}: {reason_of(error)}")
