"""The composite indexes of an app: what its index.yaml has, and what its queries need."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pullqueue.config.files import replace_project_file
from pullqueue.errors import ConfigFileError
from pullqueue.sdk import DATASTORE
from pullqueue.sdk.imports import apiproxy_errors
from pullqueue.sdk.rpcs import ServiceCall, intercepted
from pullqueue.text import describe_os_error

with warnings.catch_warnings(action="ignore"):
    from google.appengine.api import validation, yaml_errors
    from google.appengine.datastore import datastore_index, datastore_pb

_ENTRY = re.compile(r"^( *)- +kind:", re.MULTILINE)
_NEED_INDEX = "no matching index found. recommended index is:\n{entry}\n"
"""The text of production, as many have logged it."""

_log = logging.getLogger("pullqueue.services")


@contextmanager
def indexes_required(path: Path) -> Iterator[None]:
    """Make queries of this process fail in the block if index.yaml lacks their composite index.

    Raises:
        ConfigFileError: the file cannot be read, or is not an index.yaml.
    """
    indexes = CompositeIndexes(path, required=True)

    def check(call: ServiceCall, call_next: Callable[[], object]) -> object:
        if (call.service, call.method) == (DATASTORE, "RunQuery"):
            try:
                indexes.check(call.request)
            except apiproxy_errors.ApplicationError as error:
                call.fail(error)
        return call_next()

    with intercepted(check):
        yield


class CompositeIndexes:
    """An index.yaml: where it is required, queries fail that need another index.

    Otherwise what they need is added to the file. A change of the file counts from the next query.
    Not thread-safe.
    """

    def __init__(self, path: Path, *, required: bool) -> None:
        """Read the file; one that does not exist has no indexes.

        Raises:
            ConfigFileError: the file cannot be read, or is not an index.yaml, or its folder does
                not exist.
        """
        self._path = path
        self._required = required
        self._text = ""
        self._indexes: list[Any] = []
        if not path.parent.is_dir():
            raise ConfigFileError(
                f'"{path}" cannot be used: create its folder, or name another file'
            )
        self._read()

    def check(self, query: Any) -> None:
        """Check that the file has the index that a `datastore_pb.Query` needs, if any, or add it.

        Raises:
            apiproxy_errors.ApplicationError: the index is required.
        """
        if query.kind.startswith("__"):  # of metadata
            return
        try:
            self._read()
        except ConfigFileError as error:
            _log.warning("%s: the indexes that were read before are used", error)
            if not self._required:
                return  # the file would be replaced
        needed = datastore_index.MinimalCompositeIndexForQuery(query, self._indexes)
        if needed is None:
            return
        _, kind, has_ancestor, properties = needed
        recommended = datastore_index.GetRecommendedIndexProperties(properties)
        entry = datastore_index.IndexYamlForQuery(kind, has_ancestor, recommended)
        if self._required:
            text = _NEED_INDEX.format(entry=entry)
            raise apiproxy_errors.ApplicationError(datastore_pb.Error.NEED_INDEX, text)
        self._add(entry)

    def _read(self) -> None:
        try:
            text = self._path.read_text("utf-8")
        except FileNotFoundError:
            text = ""
        except (OSError, UnicodeDecodeError) as error:
            reason = describe_os_error(error) if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigFileError(f'"{self._path}" cannot be read: {reason}') from error
        if text == self._text:
            return
        self._indexes = self._parse(text)
        self._text = text

    def _parse(self, text: str) -> list[Any]:
        try:
            parsed = datastore_index.ParseIndexDefinitions(text)
        except (yaml_errors.Error, validation.ValidationError) as error:
            problem = f'"{self._path}" is not a valid index.yaml: {" ".join(str(error).split())}'
            raise ConfigFileError(problem) from error
        return list((parsed and parsed.indexes) or [])

    def _add(self, entry: str) -> None:
        """Add an index to the end of the file, which is not changed where that is not its place."""
        found = _ENTRY.search(self._text)
        indent = found[1] if found else ""
        head = "" if re.search(r"^indexes:", self._text, re.MULTILINE) else "indexes:\n"
        start = self._text if not self._text or self._text.endswith("\n") else f"{self._text}\n"
        lines = "".join(f"{indent}{line}\n" for line in entry.splitlines())
        text = f"{start}{head}{lines}"
        try:
            indexes = self._parse(text)
            replace_project_file(self._path, text.encode())
        except ConfigFileError as error:
            problem = '"%s" lacks an index, and was not changed (%s): add it\n%s'
            _log.warning(problem, self._path, error, entry)
            return
        self._text, self._indexes = text, indexes
