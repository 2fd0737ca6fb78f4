"""Files of their owner that commands write from what a server has responded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click

from pullqueue.cli._output import STDIN, read_content, show, write_bytes
from pullqueue.cli.client.connection import Json
from pullqueue.config.files import replace_file
from pullqueue.errors import ConfigFileError


def check_replaceable(file: Path, what: str, is_one: Callable[[Json], bool]) -> None:
    """Check that a file is not there, is empty, or is one that this command wrote before."""
    try:
        if str(file) == STDIN or not file.exists() or (file.is_file() and not file.stat().st_size):
            return
        replaceable = file.is_file() and is_json(is_one, read_content(file))
    except (OSError, ConfigFileError):  # of the look at it, or of reading it
        replaceable = False
    if not replaceable:
        raise click.ClickException(
            f'"{file}" exists, and is not {what}: name another file, or replace it with --force'
        )


def is_json(is_one: Callable[[Json], bool], data: bytes) -> bool:
    """Return whether data are a JSON object of a kind."""
    try:
        return is_one(json.loads(data))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def write_private(data: bytes, file: Path, what: str) -> None:
    """Write what a server answered to standard output (-), or a file for its owner alone."""
    if str(file) == STDIN:
        write_bytes(data)
        return
    replace_file(file, data, private=True)
    show({"file": str(file), "bytes": len(data)}, f"{file}: {what}")
