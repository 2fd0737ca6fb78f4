"""Reading files, no further than a queue.yaml can reach."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from pullqueue.config.lexical import MAX_BYTES
from pullqueue.errors import ConfigFileError


def read_bytes(path: str | PathLike[str], *, max_bytes: int = MAX_BYTES) -> bytes:
    """Give a file's bytes, one more than the limit at most.

    Raises:
        ConfigFileError: the file cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigFileError(f'cannot read "{path}": {reason.lower()}') from error
