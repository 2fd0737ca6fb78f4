"""The queues of an earlier version of a file, from another file or from git."""

from __future__ import annotations

from pathlib import Path

from click import UsageError

from pullqueue.config.check import check
from pullqueue.config.files import read_bytes
from pullqueue.config.settings import Settings
from pullqueue.config.text import escaped
from pullqueue.lint.git import Revision, find_revision


class Earlier:
    """What files are compared with: a revision of the user's work tree, or one file."""

    def __init__(self, name: str) -> None:
        """Find the revision, or else the file.

        Raises:
            click.UsageError: the name is neither.
        """
        self.name = escaped(name)
        source = find_revision(name, Path.cwd())
        if source is None and not Path(name).is_file():
            raise UsageError(f'"{self.name}" is neither a git revision of this folder nor a file')
        self._source: Revision | Path = source or Path(name)

    def names(self, path: Path) -> tuple[str, ...] | None:
        """Return the names of the queues the file had; None where nothing can be compared.

        Raises:
            ConfigFileError: the file to compare with cannot be read.
        """
        source = self._source
        data = source.read(path) if isinstance(source, Revision) else read_bytes(source)
        view = check(data, file=self.name, settings=Settings()).view if data is not None else None
        if view is None:
            return None
        return tuple(dict.fromkeys(queue.name for queue in view.queues if queue.name))
