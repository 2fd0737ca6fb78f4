"""The files to check: those that are named, and those found in folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pullqueue.config.files import read_bytes
from pullqueue.config.text import escaped
from pullqueue.errors import ConfigFileError
from pullqueue.lint.git import IgnoredFiles, work_tree

CANONICAL = "queue.yaml"

_NAMES = re.compile(r"(?:.*[-_.])?queue(?:[-_.].*)?\.ya?ml", re.IGNORECASE)
_QUEUES = re.compile(rb"^[ \t]*[\"']?queue[\"']?[ \t]*:", re.MULTILINE)
_LEFT_OUT = frozenset({"node_modules", "site-packages", "__pycache__"})
_LOOKED_AT = 65_536


class Input(NamedTuple):
    """A file to check."""

    path: Path
    searched: bool
    """Whether a search found it, or it was named."""


class Inputs(NamedTuple):
    """What there is to check."""

    files: list[Input]
    notes: list[str]
    """What was left out, and why."""


def find_inputs(paths: Iterable[str], *, exclude: Iterable[str] = ()) -> Inputs:
    """Return the files under the paths, each once, in order.

    Folders are searched for queue.yaml and for files that look like one. What `.gitignore` names
    is left out, and so are hidden folders, packages of other programs, and symbolic links that
    lead out of the tree.

    Raises:
        ConfigFileError: a path does not exist.
    """
    patterns = list(exclude)
    found: dict[Path, Input] = {}
    notes: list[str] = []
    for name in paths:
        path = Path(name)
        if path.is_dir():
            for file in _search(path, notes):
                if not any(file.match(pattern) for pattern in patterns):
                    found.setdefault(file, Input(file, searched=True))
        elif os.path.lexists(path):
            found[path] = Input(path, searched=False)
        else:
            raise ConfigFileError(f'cannot read "{escaped(name)}": no such file or directory')
    return Inputs(list(found.values()), notes)


def _search(folder: Path, notes: list[str]) -> Iterator[Path]:
    top = folder.resolve()
    root = work_tree(top) or top
    ignored = IgnoredFiles(root)
    if top != root and top in ignored:  # named by hand, so it is wanted
        ignored = IgnoredFiles(top)
    for name in sorted(_walk(top, ignored)):
        path = folder / name
        if path.is_symlink() and not _leads_into(path, root):
            notes.append(f'skipped "{escaped(str(path))}": it is a symbolic link out of the tree')
        elif path.name == CANONICAL or _looks_like_queues(path):
            yield path


def _walk(top: Path, ignored: IgnoredFiles) -> Iterator[Path]:
    """Yield the files with a fitting name, relative to the folder; links are not followed."""
    for root, folders, files in os.walk(top):
        folder = Path(root)
        folders[:] = [
            name
            for name in folders
            if name[0] != "." and name not in _LEFT_OUT and folder / name not in ignored
        ]
        for name in files:
            if _NAMES.fullmatch(name) and folder / name not in ignored:
                yield (folder / name).relative_to(top)


def _leads_into(link: Path, root: Path) -> bool:
    try:
        return link.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # a dangling link, or a loop
        return False


def _looks_like_queues(path: Path) -> bool:
    if not _NAMES.fullmatch(path.name):
        return False
    try:
        return _QUEUES.search(read_bytes(path, max_bytes=_LOOKED_AT)) is not None
    except ConfigFileError:
        return False


def misnamed(path: Path) -> bool:
    """Whether gcloud would not accept a file as a queue.yaml."""
    return path.name != CANONICAL
