"""Which files belong to a project: no symbolic link of a project is followed out of it.

Whoever writes a pull request writes links, too. A message about a file shows parts of it, so a link
to `/proc/self/environ` or to `.git/config` would print secrets of the machine that checks the file.
"""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

from pullqueue.errors import ConfigFileError
from pullqueue.text import escaped


def work_tree(start: Path) -> Path | None:
    """Return the root of the work tree that an absolute path is in; None outside of one."""
    return next((folder for folder in (start, *start.parents) if _has_repository(folder)), None)


def real_path(path: str | PathLike[str]) -> Path:
    """Return where a path leads, without links.

    The project is the folder of the nearest `.git` above the path as it is written; without one, it
    is the working directory, and for a file elsewhere the folder of the file. The path itself is
    trusted, with its `..`, and so are links above a project, such as `/tmp` on macOS. A link in a
    project may lead to files of the same project or of the working directory's, but not into
    `.git`, which contains credentials. The path of the working directory is the shell's: somebody
    may have changed to it through a link of a project.

    Raises:
        ConfigFileError: a link leads out of the project.
    """
    folder = Path.cwd()
    whole = folder / path
    inside = whole.is_relative_to(folder)
    shown = _shown_folder(folder)
    if inside and shown != folder:
        walk = _Walk(Path(shown.anchor))
        if not all(walk.step(part) for part in shown.parts[1:]):
            name = f'the working directory "{escaped(str(shown))}"'
            raise _leads_out(name, walk, "change to the folder with `cd -P`")
    walk = _Walk(folder.resolve() if inside else Path(whole.anchor), home=folder.resolve())
    parts = whole.relative_to(folder).parts if inside else whole.parts[1:]
    for index, part in enumerate(parts, 1):
        if not walk.step(part, last=index == len(parts)):
            raise _leads_out(f'"{escaped(str(path))}"', walk, "pass the path of the file itself")
    return walk.place


def _leads_out(name: str, walk: _Walk, advice: str) -> ConfigFileError:
    project = escaped(str(walk.project or walk.place))
    return ConfigFileError(
        f'cannot use {name}: a symbolic link leads out of the project "{project}": {advice}'
    )


def _shown_folder(folder: Path) -> Path:
    """Return the path of the working directory that a shell shows, with its links."""
    shown = Path(os.environ.get("PWD", ""))
    if not shown.is_absolute() or ".." in shown.parts:
        return folder
    try:
        return shown if shown.samefile(folder) else folder
    except OSError:
        return folder


class _Walk:
    """The way along a path, and the project it has come to."""

    def __init__(self, start: Path, *, home: Path | None = None) -> None:
        self.place = start
        self.project = _project_at(start)
        self._home = _project_at(home) if home else None
        self._followed = False
        """True if a link of a project was followed: then `..` no longer means what it reads."""

    def step(self, part: str, *, last: bool = False) -> bool:
        """Go one part of the path further, unless it leads out of the project."""
        if part == "..":
            return self._leave()
        place = self.place / part
        if not os.path.islink(place):  # noqa: PTH114 - False where it may not be looked at
            self.place = place
        elif not self._follow(Path(os.path.realpath(place)), last=last):
            return False
        if _has_repository(self.place):
            self.project = self.place
        return True

    def _leave(self) -> bool:
        parent = self.place.parent
        if self.project is not None and not parent.is_relative_to(self.project):
            if self._followed:
                return False
            self.project = _project_at(parent)
        self.place = parent
        return True

    def _follow(self, target: Path, *, last: bool) -> bool:
        if self.project is None and not last:
            self.project = work_tree(target)
        elif _contains(self.project or self.place, target):
            self._followed = True
        elif self._home and _contains(self._home, target):
            self._followed, self.project = True, self._home
        else:
            return False
        self.place = target
        return True


def _project_at(folder: Path) -> Path | None:
    """Return the project that a folder is in; None for the root of the file system."""
    root = Path(folder.anchor)
    tree = work_tree(folder)
    found = folder if tree in (None, root) else tree
    return None if found == root else found


def _contains(project: Path, target: Path) -> bool:
    """Return whether a path without links is in a project, and not in a `.git` there."""
    if project == Path(project.anchor) or not target.is_relative_to(project):
        return False
    places = (target, *target.parents)
    return not any(map(_is_repository, places[: places.index(project)]))


def _has_repository(folder: Path) -> bool:
    return os.path.exists(folder / ".git")  # noqa: PTH110 - False where it may not be looked at


def _is_repository(path: Path) -> bool:
    """Return whether a path is a `.git`, however it is spelled: file systems ignore its case."""
    try:
        return path.samefile(path.parent / ".git")
    except OSError:
        return False
