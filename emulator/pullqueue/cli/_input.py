"""What a command is given to read: a file, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pullqueue.cli._reasons import reason_of

STDIN = "-"
"""Stands for standard input where a file can be named."""


def content_of(file: Path) -> bytes:
    """Give what a file holds, or standard input.

    Raises:
        ClickException: it cannot be read.
    """
    if str(file) == STDIN:
        if sys.stdin is None:
            raise click.ClickException("standard input is closed: give a file")
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise click.ClickException(f"cannot read {str(file)!r}: {reason_of(error)}") from None
