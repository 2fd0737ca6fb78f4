"""What git knows of a tree: ignored files and earlier versions, without trusting the tree.

A tree that is linted may be hostile. Git obeys the configuration of whatever repository it finds,
and several settings are commands (`core.fsmonitor`, `core.sshCommand`, filters, hooks). So ignored
files are found without git, and git itself runs only in the work tree the user is in, which has a
`.git` that no commit can contain.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from click import UsageError

from pullqueue.config.files import read_bytes
from pullqueue.config.text import escaped
from pullqueue.errors import ConfigFileError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_MOST_WILDCARDS = 4
"""More `*` in one pattern can keep the regular expression busy for minutes."""


def work_tree(start: Path) -> Path | None:
    """Return the root of the work tree that an absolute path is in; None outside of one."""
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def spec_of(lines: list[str]) -> GitIgnoreSpec:
    """Return what matches patterns written as in `.gitignore`."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - only where there are patterns

    usable = [line for line in lines if line.replace("**", "").count("*") <= _MOST_WILDCARDS]
    return GitIgnoreSpec.from_lines(usable)


class IgnoredFiles:
    """The files that the `.gitignore` files of a tree name."""

    def __init__(self, root: Path) -> None:
        """Begin with no `.gitignore` read; `root` is absolute."""
        self._root = root
        self._specs: dict[Path, GitIgnoreSpec | None] = {}

    def __contains__(self, path: Path) -> bool:
        """Whether an absolute path below the root is ignored; deeper files take precedence."""
        name = "/" if path.is_dir() else ""
        for folder in path.parents:
            if (spec := self._spec(folder)) is not None:
                ignored = spec.check_file(path.relative_to(folder).as_posix() + name).include
                if ignored is not None:
                    return ignored
            if folder == self._root:
                break
        return False

    def _spec(self, folder: Path) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            self._specs[folder] = self._read(folder / ".gitignore")
        return self._specs[folder]

    def _read(self, path: Path) -> GitIgnoreSpec | None:
        if path.is_symlink() or not path.exists():
            return None
        try:
            text = read_bytes(path).decode(errors="surrogateescape")
        except ConfigFileError:
            return None
        return spec_of(text.splitlines())


class Revision:
    """One revision of the work tree the user is in."""

    def __init__(self, name: str, root: Path, tree: str) -> None:
        """Keep the name of the revision, the root of its work tree and the id of its tree."""
        self.name = name
        self._root = root
        self._tree = tree

    def read(self, path: Path) -> bytes | None:
        """Return a file of this revision; None where it has none, or its content is not here.

        In a partial clone contents may be missing; they are not fetched.
        """
        try:
            name = (path.parent.resolve() / path.name).relative_to(self._root).as_posix()
        except ValueError:
            return None
        blob = _git(self._root, "rev-parse", "--verify", "--quiet", f"{self._tree}:{name}")
        return _git(self._root, "cat-file", "blob", blob.decode().strip()) if blob else None


def find_revision(name: str, folder: Path) -> Revision | None:
    """Return a revision of the work tree a folder is in; None where there is no such.

    Raises:
        click.UsageError: git is not installed.
    """
    root = work_tree(folder)
    if root is None or name.startswith("-"):
        return None
    arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{tree}}")
    tree = _git(root, *arguments)
    return Revision(name, root, tree.decode().strip()) if tree else None


_GIT = (
    "git",
    "--no-pager",
    "-c", "safe.bareRepository=explicit",
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "protocol.allow=never",
)  # fmt: skip
_SAFE = {
    "GIT_ALLOW_PROTOCOL": "none",  # before all configuration: a partial clone fetches nothing
    "GIT_NO_LAZY_FETCH": "1",  # the same, from git 2.45 on
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_OF_ANOTHER_REPOSITORY = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_WORK_TREE",
    }
)
"""Set while git runs a hook; the work tree is found from its root instead."""


def _git(root: Path, *arguments: str) -> bytes | None:
    """Run a plumbing command that reads objects; None where it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in _OF_ANOTHER_REPOSITORY}
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            [*_GIT, *arguments],
            cwd=root,
            env=environment | _SAFE | {"GIT_CEILING_DIRECTORIES": str(root.parent)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise UsageError(f"cannot run git: {escaped(str(error.strerror))}") from None
    return done.stdout if done.returncode == 0 else None
