"""Earlier versions of files, from git or from another file, without trusting the tree.

A tree that is linted may be hostile. Git obeys the configuration of whatever repository it finds,
and several settings are commands (`core.fsmonitor`, `core.sshCommand`, filters, hooks). So git is
not used to find files, and it runs only in the work tree the user is in, which has a
`.git` that no commit can contain.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pullqueue.config.files import read_project_file
from pullqueue.config.project import work_tree
from pullqueue.config.settings import Settings
from pullqueue.lint.check import check
from pullqueue.lint.errors import InvalidOptionError
from pullqueue.lint.search import absolute
from pullqueue.text import escaped


class Earlier:
    """The earlier version of files: a revision of the user's work tree, or one file."""

    def __init__(self, name: str, folder: Path) -> None:
        """Find the revision in the work tree of a folder, or else the file.

        Raises:
            InvalidOptionError: the name is neither, or git is not installed.
        """
        self._name = escaped(name)
        self._root = work_tree(folder) or folder
        self._tree = b""
        if (self._root / ".git").exists() and name and not name.startswith("-"):
            revision = ("--verify", "--quiet", "--end-of-options", f"{name}^{{tree}}")
            self._tree = _git(self._root, "rev-parse", *revision).strip()
        self._file = Path(name)
        if not self._tree and not self._file.is_file():
            raise InvalidOptionError(self._why_missing(name))

    @property
    def is_revision(self) -> bool:
        """False if another file is compared."""
        return bool(self._tree)

    def _why_missing(self, name: str) -> str:
        if not name:
            return "--against is empty: pass a git revision or a file"
        if self._file.is_dir():
            return f'"{self._name}" is a folder: pass a git revision or a file'
        if not (self._root / ".git").exists():
            return f'no file "{self._name}" here, and this folder is in no git repository'
        return (
            f'no git revision and no file "{self._name}" here: fetch the revision first '
            "(in CI, check out the whole history)"
        )

    def modes(self, path: Path, notes: list[str]) -> dict[str, str | None]:
        """Return the modes of the queues that a file had; note a file that cannot be compared."""
        data = self.content(path)
        view = check(data, file=self._name, settings=Settings()).view
        if view is None:
            why = "is not valid there" if data else "is new, was moved, or is not in this clone"
            notes.append(f'not compared with "{self._name}": "{escaped(str(path))}" {why}')
            return {}
        return {queue.name: queue.mode for queue in view.queues if queue.name}

    def content(self, path: Path) -> bytes:
        """Return the earlier version of a file; empty if the revision does not have it.

        Also empty if a link leads out of the revision, or if the content is missing in a partial
        clone: it is not fetched.
        """
        if not self._tree:
            return read_project_file(self._file)
        place = absolute(path)
        if not place.is_relative_to(self._root) or "\n" in str(place):
            return b""
        name = b"%b:%b\n" % (self._tree, os.fsencode(place.relative_to(self._root).as_posix()))
        command = ("cat-file", "--batch=%(objecttype)", "--follow-symlinks")
        kind, _, content = _git(self._root, *command, stdin=name).partition(b"\n")
        return content[:-1] if kind == b"blob" else b""


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


def _git(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Return the output of a plumbing command that reads objects; empty if it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in _OF_ANOTHER_REPOSITORY}
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            [*_GIT, *arguments],
            cwd=root,
            env=environment | _SAFE | {"GIT_CEILING_DIRECTORIES": str(root.parent)},
            input=stdin,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise InvalidOptionError(f"cannot run git: {escaped(str(error.strerror))}") from None
    return done.stdout if done.returncode == 0 else b""
