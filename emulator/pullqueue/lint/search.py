"""Find the files to check: those that are named, and those in folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from warnings import catch_warnings

from pullqueue.config.document import Source
from pullqueue.config.files import read_bytes
from pullqueue.config.findings import UnreadableError
from pullqueue.config.programs import OtherProgram, other_program, unknown_program
from pullqueue.config.project import real_path, work_tree
from pullqueue.config.reader import read_tree
from pullqueue.errors import ConfigFileError
from pullqueue.lint.errors import InvalidOptionError
from pullqueue.text import escaped

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

CANONICAL = "queue.yaml"

_NAMES = re.compile(r"(?:.*[-_.])?queue(?:[-_.].*)?\.ya?ml", re.IGNORECASE)
_QUEUES = re.compile(r"^[ \t]*[\"']?queue[\"']?[ \t]*:", re.MULTILINE)
_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__"})
_BYTES_READ = 65_536
_MAX_WILDCARDS = 4
"""With more `*` in one pattern, matching can take minutes."""


class Input(NamedTuple):
    """A file to check."""

    path: Path
    searched: bool
    """True if found by a search, False if named."""


class Inputs(NamedTuple):
    """The files to check."""

    files: list[Input]
    notes: list[str]
    """The files that are skipped, and why."""


class Patterns:
    """Patterns as in `.gitignore`, relative to a folder."""

    def __init__(self, folder: Path, lines: Iterable[str], *, strict: bool = False) -> None:
        """Compile the patterns; `folder` is absolute.

        Raises:
            InvalidOptionError: a pattern is invalid, and `strict` is set; else it matches nothing.
        """
        self._folder = folder
        self._spec: GitIgnoreSpec | None = None
        with catch_warnings(action="ignore"):  # on a class such as `[[:space:]]`
            compiled = [(line, _compile(line)) for line in lines if line.strip()]
        for line, spec in compiled:
            if spec is None and strict:
                raise InvalidOptionError(f'invalid pattern "{escaped(line)}"')
        specs = [spec for _, spec in compiled if spec is not None]
        if specs:
            self._spec = type(specs[0])([pattern for spec in specs for pattern in spec.patterns])

    def decide(self, path: Path, *, folder: bool = False) -> bool | None:
        """Return whether an absolute path matches; None if no pattern applies."""
        if self._spec is None or not path.is_relative_to(self._folder):
            return None
        name = path.relative_to(self._folder).as_posix()
        return self._spec.check_file(f"{name}/" if folder else name).include

    def match(self, path: Path) -> bool:
        """Return whether a file, or a folder that contains it, matches."""
        parents = (parent for parent in path.parents if parent != self._folder)
        return bool(self.decide(path)) or any(self.decide(part, folder=True) for part in parents)


def _compile(line: str) -> GitIgnoreSpec | None:
    """Compile a line of a `.gitignore`; None if git would not use it, or it could take too long."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - only where there are patterns

    if line.replace("**", "").count("*") > _MAX_WILDCARDS:
        return None
    try:
        return GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return None


class _IgnoredFiles:
    """The files that the `.gitignore` files of a tree name; deeper ones take precedence."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._patterns: dict[Path, Patterns] = {}

    def match(self, path: Path, *, folder: bool) -> bool:
        decision, parent = None, path
        while decision is None and parent != self._root:
            parent = parent.parent
            decision = self._of(parent).decide(path, folder=folder)
        return bool(decision)

    def _of(self, folder: Path) -> Patterns:
        if folder not in self._patterns:
            path = folder / ".gitignore"
            text = "" if path.is_symlink() else _read_beginning(path, errors="surrogateescape")
            self._patterns[folder] = Patterns(folder, text.splitlines())
        return self._patterns[folder]


def find_inputs(
    paths: Iterable[str], *, exclude: Sequence[Patterns] = (), force_exclude: bool = False
) -> Inputs:
    """Return the files under the paths, each once, in order.

    Folders are searched for queue.yaml and for files that look like one. Files and folders in
    `.gitignore` are skipped, and so are hidden folders, packages, files of other programs, and
    symbolic links that lead out of the tree. Named files are checked whatever they are; with
    `force_exclude` only if a search would have found them.

    Raises:
        ConfigFileError: a path does not exist, or a folder is a link out of the project.
    """
    found: dict[Path, Input] = {}
    notes: list[str] = []
    for name in paths:
        path = Path(name)
        if path.is_dir():
            real_path(path)
            for file in _search(path, exclude, notes):
                found.setdefault(file, Input(file, searched=True))
        elif not os.path.lexists(path):
            raise ConfigFileError(f'cannot read "{escaped(name)}": no such file or directory')
        elif not force_exclude or _would_find(path, exclude, notes):
            found[path] = Input(path, searched=force_exclude)
    return Inputs(list(found.values()), notes)


def absolute(path: Path) -> Path:
    """Return the absolute path of a file without following it if it is a link."""
    return path.parent.resolve() / path.name


def _excluded(path: Path, exclude: Sequence[Patterns]) -> bool:
    return any(patterns.match(path) for patterns in exclude)


def _search(folder: Path, exclude: Sequence[Patterns], notes: list[str]) -> Iterator[Path]:
    top = folder.resolve()
    root = work_tree(top) or top
    ignored = _IgnoredFiles(root)
    if top != root and ignored.match(top, folder=True):  # named, so it is wanted
        ignored = _IgnoredFiles(top)
    for file in sorted(_walk(top, ignored, exclude)):
        path = folder / file.relative_to(top)
        if file.is_symlink() and not _is_in_project(file):
            notes.append(f'skipped "{escaped(str(path))}": it is a link to no file of the project')
        elif _is_ours(path, notes):
            yield path


def _is_ours(path: Path, notes: list[str]) -> bool:
    """Return whether a file is a queue.yaml by its content; note one of another program."""
    text = _read_beginning(path)
    if path.name != CANONICAL and not _QUEUES.search(text):
        return False
    program = _find_program(text)
    if program:
        notes.append(f'skipped "{escaped(str(path))}": it looks like {program.name}')
    return program is None


def _find_program(text: str) -> OtherProgram | None:
    program = other_program(text)
    if program or len(text) >= _BYTES_READ:
        return program
    try:
        return unknown_program(read_tree(Source(text, file=CANONICAL), {}))
    except UnreadableError:
        return None


def _would_find(path: Path, exclude: Sequence[Patterns], notes: list[str]) -> bool:
    """Return whether a search of the work tree would find a file, whatever its name."""
    file = absolute(path)
    if _excluded(file, exclude):
        return False
    real_path(path)  # its beginning is read
    root = work_tree(file.parent)
    if root is not None:
        folders = [folder for folder in file.parents if folder.is_relative_to(root)][:-1]
        ignored = _IgnoredFiles(root)
        if (
            any(_is_skipped(folder.name) for folder in folders)
            or any(ignored.match(folder, folder=True) for folder in folders)
            or ignored.match(file, folder=False)
        ):
            return False
    return _is_ours(path, notes)


def _is_skipped(folder: str) -> bool:
    return folder[0] == "." or folder in _SKIPPED


def _walk(top: Path, ignored: _IgnoredFiles, exclude: Sequence[Patterns]) -> Iterator[Path]:
    """Yield the files whose name matches; links to folders are not followed."""
    for root, folders, files in os.walk(top):
        folder = Path(root)
        folders[:] = [
            name
            for name in folders
            if not _is_skipped(name)
            and not ignored.match(folder / name, folder=True)
            and not any(patterns.decide(folder / name, folder=True) for patterns in exclude)
        ]
        for path in (folder / name for name in files if _NAMES.fullmatch(name)):
            if not (ignored.match(path, folder=False) or _excluded(path, exclude)):
                yield path


def _is_in_project(link: Path) -> bool:
    try:
        return real_path(link).exists()
    except (ConfigFileError, OSError):
        return False


def _read_beginning(path: Path, *, errors: str = "replace") -> str:
    """Return the beginning of a file, or nothing if it cannot be read."""
    try:
        return read_bytes(path, max_bytes=_BYTES_READ).decode(errors=errors)
    except ConfigFileError:
        return ""
