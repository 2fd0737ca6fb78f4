"""The queues of an earlier version of a file, from another file or from git."""

from __future__ import annotations

import subprocess
from pathlib import Path

from click import UsageError

from pullqueue.config.check import check
from pullqueue.config.files import read_bytes
from pullqueue.config.settings import Settings


def previous_names(against: str, path: Path) -> tuple[str, ...]:
    """Give the names of the queues that a file, or a git revision of `path`, has.

    Raises:
        click.UsageError: `against` is neither.
        ConfigFileError: the file cannot be read.
    """
    earlier = Path(against)
    data = read_bytes(earlier) if earlier.is_file() else _from_git(against, path)
    view = check(data, file=against, settings=Settings()).view
    if view is None:
        raise UsageError(f'"{against}" holds no queues to compare with')
    return tuple(dict.fromkeys(queue.name for queue in view.queues if queue.name))


def _from_git(revision: str, path: Path) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            ["git", "show", "--end-of-options", f"{revision}:./{path.name}"],  # noqa: S607 - the user's git
            cwd=path.parent,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        message = f'"{revision}" is neither a file nor a git revision that has {path.name}'
        raise UsageError(message) from None
    return done.stdout
