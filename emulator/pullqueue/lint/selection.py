"""Which rules apply to a file: settings in pyproject.toml, and the options of the command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from pullqueue.config.files import read_project_file
from pullqueue.config.findings import Severity
from pullqueue.config.project import real_path
from pullqueue.config.settings import PROFILES, Settings
from pullqueue.lint.errors import InvalidOptionError, InvalidSettingsError
from pullqueue.lint.options import Arguments, FileOptions, Options, leaves
from pullqueue.lint.rules import Rule, all_rules, no_such_rule, rules_named
from pullqueue.lint.search import Patterns
from pullqueue.text import escaped, quoted

Levels = dict[str, Severity | None]
"""Severities by name of rule, if they are not those of the profile; None: off."""

_NAME = b"pullqueue"
_ALLOWED: dict[object, str] = {
    Mapping: "a table",
    tuple: "a list of strings",
    bool: "true or false",
    str: "a string",
}
"""What to write in the file for each type."""


class Project:
    """The settings of one file."""

    def __init__(self, options: FileOptions, folder: Path) -> None:
        """Take the settings, and the folder that their patterns and paths are relative to."""
        self.options = options
        self.folder = folder
        self.exclude = Patterns(folder, options.exclude, strict=True)
        ignores = options.per_file_ignores
        _selected([*options.select, *options.ignore, *options.severity])
        _selected(chain.from_iterable(ignores.values()))
        self._per_file_ignores = [
            (Patterns(folder, [pattern], strict=True), names) for pattern, names in ignores.items()
        ]

    def ignored(self, path: Path) -> Iterator[str]:
        """Yield names of rules that are ignored in a file, given by its absolute path."""
        for pattern, names in self._per_file_ignores:
            if pattern.match(path):
                yield from names


def find_project(folder: Path) -> Project:
    """Read the settings of the nearest pyproject.toml that has some, upward from a folder."""
    path = folder / "pyproject.toml"
    if path.is_file() and (project := read_project(path, required=False)):
        return project
    if folder.parent == folder:
        return Project(FileOptions(), folder)
    return find_project(folder.parent)


def read_project(path: Path, *, required: bool = True) -> Project | None:
    """Read the settings in a TOML file; return None if it has none and none are `required`.

    Raises:
        InvalidSettingsError: the file has some that are not valid.
        ConfigFileError: it cannot be read.
    """
    data = read_project_file(path)
    try:
        table = _table(data) if _NAME in data else None  # most files have no settings
        if table is None and not required:
            return None
        if table is None:
            raise InvalidSettingsError("the table [tool.pullqueue.lint] is missing")
        return Project(_options(table), path.parent.resolve())
    except (InvalidSettingsError, InvalidOptionError) as error:
        raise InvalidSettingsError(escaped(f"{path}: {error}")) from None


def _table(data: bytes) -> dict[str, Any] | None:
    import tomllib  # noqa: PLC0415 - most runs need none

    try:
        table: Any = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSettingsError(f"not valid TOML: {error}") from None
    for key in ("tool", "pullqueue", "lint"):
        if isinstance(table, dict) and key == "lint" and (unknown := table.keys() - {key}):
            name = min(unknown)
            message = f"unknown table [tool.pullqueue.{name}]: use [tool.pullqueue.lint]"
            raise InvalidSettingsError(message)
        table = table.get(key) if isinstance(table, dict) else None
    if table is not None and not isinstance(table, dict):
        raise InvalidSettingsError("tool.pullqueue.lint must be a table")
    return table


def _options(table: dict[str, Any]) -> FileOptions:
    kinds = {name.replace("_", "-"): kind for name, kind in get_type_hints(FileOptions).items()}
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name not in kinds:
            known = ", ".join(sorted(kinds))
            message = f'unknown setting "{key}" in tool.pullqueue.lint: use {known}'
            raise InvalidSettingsError(message)
        values[name.replace("-", "_")] = _convert(value, kinds[name], key)
    return FileOptions(**values)


def _convert(value: object, kind: Any, name: str) -> object:  # noqa: ANN401 - a type
    """Return a value of TOML as a field has it; an error names the entry of a table."""
    import msgspec  # noqa: PLC0415 - most runs need none

    origin = get_origin(kind)
    if origin is Mapping and isinstance(value, dict):
        each_kind = get_args(kind)[1]
        return {key: _convert(each, each_kind, f"{name}.{key}") for key, each in value.items()}
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        parts = [*leaves(kind)]
        words = ", ".join(part for part in parts if isinstance(part, str))
        allowed = _ALLOWED.get(origin) or words or _ALLOWED[parts[0]]
        raise InvalidSettingsError(f"{name} is {quoted(value)}: use {allowed}") from None


def _selected(names: Iterable[str]) -> dict[str, Rule]:
    """Return the rules of names, codes, beginnings of codes (`QY3`) and `all`."""
    rules: dict[str, Rule] = {}
    for name in names:
        found = rules_named(name)
        if not found:
            raise InvalidOptionError(no_such_rule(name))
        rules |= {rule.name: rule for rule in found}
    return rules


def _levels(
    levels: Levels, options: Options, *, profile: str, ignored: Iterable[str] = ()
) -> Levels:
    """Return the severities after options are applied, which win over earlier ones.

    A selection turns all other rules off, and a severity turns a rule on that is off.
    """
    if wanted := _selected(options.select):
        levels = {
            rule.name: levels.get(rule.name) or rule.level(profile) or rule.severity
            if rule.name in wanted
            else None
            for rule in all_rules()
        }
    for name, level in options.severity.items():
        severity = None if level == "off" else Severity(level)
        levels = levels | dict.fromkeys(_selected([name]), severity)
    return levels | dict.fromkeys(_selected([*options.ignore, *ignored]), None)


class Selection:
    """Which settings apply to each file."""

    def __init__(self, arguments: Arguments) -> None:
        """Read the settings of the whole run, which are those of the working directory."""
        folder = real_path(Path())
        self._arguments = arguments
        self._config = read_project(Path(arguments.config)) if arguments.config else None
        self._find_project = cache(find_project)
        self.project = self._config or self._find_project(folder)
        """The settings of the whole run."""
        self.exclude = (self.project.exclude, Patterns(folder, arguments.exclude, strict=True))
        """The patterns of files that are not checked."""
        self.settings(folder / "queue.yaml")

    @property
    def baseline(self) -> Path | None:
        """The file of findings that are not reported."""
        if self._arguments.baseline is not None:
            return Path(self._arguments.baseline)
        baseline = self.project.options.baseline
        return self.project.folder / baseline if baseline else None

    @property
    def threshold(self) -> Severity | None:
        """The least severity that makes a run fail; None: it does not."""
        fail_on = self._arguments.fail_on or self.project.options.fail_on or "error"
        return None if fail_on == "never" else Severity(fail_on)

    def settings(self, path: Path) -> Settings:
        """Return the settings for a file, given by its absolute path."""
        project = self._config or self._find_project(path.parent)
        arguments, options = self._arguments, project.options
        profile = arguments.profile or options.profile or PROFILES[0]
        levels = _levels({}, options, profile=profile, ignored=project.ignored(path))
        strict = options.strict if arguments.strict is None else arguments.strict
        return Settings(
            profile=profile, levels=_levels(levels, arguments, profile=profile), strict=bool(strict)
        )
