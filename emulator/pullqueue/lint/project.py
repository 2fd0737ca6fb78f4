"""Settings in pyproject.toml: the table `[tool.pullqueue.lint]`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from click import UsageError

from pullqueue.config.findings import Severity
from pullqueue.config.profiles import PROFILES

NEVER = "never"
FAIL_ON = (*(severity.value for severity in Severity), NEVER)

_TABLE = b"tool.pullqueue"


class Project(NamedTuple):
    """What a project has settled; options of the command come before it."""

    profile: str = "gcloud"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, str] = MappingProxyType({})
    fail_on: str = Severity.ERROR.value
    exclude: tuple[str, ...] = ()
    strict: bool = False


def find_project(start: Path) -> Project:
    """Read the settings of the nearest pyproject.toml that has some, upward from a folder.

    Raises:
        click.UsageError: the file cannot be read, or holds other settings than there are.
    """
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file() and _TABLE in (data := path.read_bytes()):
            table = _table(path, data)
            if table is not None:
                return _project(path, table)
    return Project()


def _table(path: Path, data: bytes) -> dict[str, Any] | None:
    import tomllib  # noqa: PLC0415 - most runs need none

    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    table = document.get("tool", {}).get("pullqueue", {}).get("lint")
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path}: tool.pullqueue.lint is not a table")
    return table


def _project(path: Path, table: dict[str, Any]) -> Project:
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in _KINDS:
            known = ", ".join(sorted(kind.replace("_", "-") for kind in _KINDS))
            raise UsageError(f'{path}: there is no setting "{key}" in tool.pullqueue.lint: {known}')
        _check(path, key, value, _KINDS[name])
        values[name] = tuple(value) if isinstance(value, list) else value
    return Project(**values)


_STRINGS = "a list of strings"
_LEVELS = "a table of rules and severities"
_KINDS: dict[str, str | tuple[str, ...]] = {
    "profile": PROFILES,
    "select": _STRINGS,
    "ignore": _STRINGS,
    "severity": _LEVELS,
    "fail_on": FAIL_ON,
    "exclude": _STRINGS,
    "strict": "true or false",
}


def _check(path: Path, key: str, value: object, kind: str | tuple[str, ...]) -> None:
    if isinstance(kind, tuple):
        right = value in kind
    elif kind == _STRINGS:
        right = isinstance(value, list) and all(isinstance(item, str) for item in value)
    elif kind == _LEVELS:
        right = isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    else:
        right = isinstance(value, bool)
    if not right:
        wanted = kind if isinstance(kind, str) else "one of " + ", ".join(kind)
        raise UsageError(f"{path}: {key} must be {wanted}")
