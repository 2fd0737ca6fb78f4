"""The files to look at: named ones, and those a search of folders comes upon."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pullqueue.errors import ConfigFileError

CANONICAL = "queue.yaml"

_NAMES = re.compile(r"(?:.*[-_.])?queue(?:[-_.].*)?\.ya?ml", re.IGNORECASE)
_QUEUES = re.compile(rb"^[ \t]*[\"']?queue[\"']?[ \t]*:", re.MULTILINE)
_LEFT_OUT = frozenset({"node_modules", "site-packages", "__pycache__"})
_LOOKED_AT = 65_536


class Input(NamedTuple):
    """A file to look at."""

    path: Path
    searched: bool
    """Whether a search came upon it, or it was named."""


def find_inputs(paths: Iterable[str], *, exclude: Iterable[str] = ()) -> list[Input]:
    """Give the files under the paths, each once, in order.

    Folders are searched for queue.yaml and for files that look like one. Inside a git work tree
    what git ignores is left out, elsewhere hidden folders and packages are.

    Raises:
        ConfigFileError: there is no such path.
    """
    patterns = list(exclude)
    found: dict[Path, Input] = {}
    for name in paths:
        path = Path(name)
        if path.is_dir():
            for file in sorted(_search(path)):
                if not any(file.match(pattern) for pattern in patterns):
                    found.setdefault(file, Input(file, searched=True))
        elif path.exists() or path.is_symlink():
            found[path] = Input(path, searched=False)
        else:
            raise ConfigFileError(f'cannot read "{name}": no such file or directory')
    return list(found.values())


def _search(folder: Path) -> Iterator[Path]:
    candidates = _known_to_git(folder)
    for path in _walk(folder) if candidates is None else candidates:
        if path.name == CANONICAL or _looks_like_queues(path):
            yield path


def _known_to_git(folder: Path) -> list[Path] | None:
    """Give the files git does not ignore; None without git or outside a work tree."""
    import subprocess  # noqa: PLC0415 - only a search of folders needs it

    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            [*command, "--", ":(icase,glob)**/*queue*.y*ml"],
            cwd=folder,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    names = (os.fsdecode(name) for name in done.stdout.split(b"\0") if name)
    return [path for name in set(names) if (path := folder / name).is_file()]


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "." and name not in _LEFT_OUT]
        yield from (Path(root) / name for name in files if _NAMES.fullmatch(name))


def _looks_like_queues(path: Path) -> bool:
    if not _NAMES.fullmatch(path.name):
        return False
    try:
        with path.open("rb") as file:
            return _QUEUES.search(file.read(_LOOKED_AT)) is not None
    except OSError:
        return False


def misnamed(path: Path) -> bool:
    """Tell whether gcloud would not take a file for a queue.yaml."""
    return path.name != CANONICAL
