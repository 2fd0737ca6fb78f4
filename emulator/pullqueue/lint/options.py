"""What a run looks for: the options of the command, and settings in pyproject.toml."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from click import ClickException, UsageError

from pullqueue.config.files import read_project_file
from pullqueue.config.findings import Severity
from pullqueue.config.rules import Rule, all_rules, no_such_rule, rules_named
from pullqueue.config.settings import PROFILES, Settings
from pullqueue.config.text import escaped
from pullqueue.error_codes import EXIT_USAGE
from pullqueue.lint.search import Patterns

NEVER = "never"
OFF = "off"
_FAIL_ON = (*(severity.value for severity in Severity), NEVER)
_LEVELS = (*(severity.value for severity in Severity), OFF)
_NAME = b"pullqueue"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class InvalidSettingsError(ClickException):
    """a file has settings that are not valid"""

    exit_code = EXIT_USAGE


class Arguments(NamedTuple):
    """The options of the command, as they were given."""

    paths: tuple[str, ...] = ()
    profile: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: tuple[str, ...] = ()
    fail_on: str | None = None
    output_format: str | None = None
    colour: str = "auto"
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    against: str | None = None
    strict: bool | None = None
    exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    config: str | None = None
    baseline: str | None = None
    write_baseline: str | None = None
    watch: bool = False
    stdin_filename: str = "<stdin>"


class Project(NamedTuple):
    """The table `[tool.pullqueue.lint]` of one pyproject.toml."""

    folder: Path = Path()
    """What patterns and paths are relative to."""
    profile: str = PROFILES[0]
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, str] = _NOTHING
    per_file_ignores: Mapping[Patterns, list[str]] = MappingProxyType({})
    strict: bool = False
    fail_on: str = Severity.ERROR.value
    exclude: Patterns = Patterns(Path(), ())
    baseline: str | None = None


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_table(value: object, is_value: Callable[[object], bool]) -> bool:
    return isinstance(value, dict) and all(map(is_value, value.values()))


_STRINGS = ("a list of strings", _is_strings)
_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "profile": (f"one of {', '.join(PROFILES)}", PROFILES.__contains__),
    "select": _STRINGS,
    "ignore": _STRINGS,
    "severity": (
        f"a table of rules and severities ({', '.join(_LEVELS)})",
        lambda value: _is_table(value, _LEVELS.__contains__),
    ),
    "per_file_ignores": (
        "a table of patterns and lists of rules",
        lambda value: _is_table(value, _is_strings),
    ),
    "strict": ("true or false", lambda value: isinstance(value, bool)),
    "fail_on": (f"one of {', '.join(_FAIL_ON)}", _FAIL_ON.__contains__),
    "exclude": _STRINGS,
    "baseline": ("a string", lambda value: isinstance(value, str)),
}
"""What each setting must be, and a test of its value."""


def project_of(folder: Path) -> Project:
    """Read the settings of the nearest pyproject.toml that has some, upward from a folder.

    Raises:
        InvalidSettingsError: the file has some that are not valid.
        ConfigFileError: it cannot be read.
    """
    path = folder / "pyproject.toml"
    if path.is_file() and (project := read_project(path, required=False)):
        return project
    return project_of(folder.parent) if folder.parent != folder else Project()


def read_project(path: Path, *, required: bool = True) -> Project | None:
    """Read the settings in a TOML file; None where it has none and none are required.

    Raises:
        InvalidSettingsError: the file has some that are not valid.
        ConfigFileError: it cannot be read.
    """
    data = read_project_file(path)
    table = _table(path, data) if _NAME in data else None  # most files have no settings
    if table is None and required:
        raise _refusal(path, "the table [tool.pullqueue.lint] is missing")
    return None if table is None else _project(path, table)


def _table(path: Path, data: bytes) -> dict[str, Any] | None:
    import tomllib  # noqa: PLC0415 - most runs need none

    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(path, str(error)) from None
    table: Any = document
    for key in ("tool", "pullqueue", "lint"):
        table = table.get(key) if isinstance(table, dict) else None
    if table is not None and not isinstance(table, dict):
        raise _refusal(path, "tool.pullqueue.lint must be a table")
    return table


def _refusal(path: Path, message: str) -> InvalidSettingsError:
    return InvalidSettingsError(escaped(f"{path}: {message}"))


def _project(path: Path, table: dict[str, Any]) -> Project:
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in _KINDS:
            known = ", ".join(sorted(known.replace("_", "-") for known in _KINDS))
            raise _refusal(path, f'unknown setting "{key}" in tool.pullqueue.lint: use {known}')
        wanted, is_valid = _KINDS[name]
        if not is_valid(value):
            shown = f' "{value}"' if isinstance(value, str) else ""
            raise _refusal(path, f"invalid {key}{shown}: it must be {wanted}")
        values[name] = tuple(value) if isinstance(value, list) else value
    folder = path.parent.resolve()
    ignores = values.get("per_file_ignores", {})
    try:
        _selected([*values.get("select", ()), *values.get("ignore", ())])
        _selected([*values.get("severity", ()), *chain.from_iterable(ignores.values())])
        values["per_file_ignores"] = {
            Patterns(folder, [pattern], strict=True): names for pattern, names in ignores.items()
        }
        values["exclude"] = Patterns(folder, values.get("exclude", ()), strict=True)
    except UsageError as error:
        raise _refusal(path, error.message) from None
    return Project(folder=folder, **values)


def select(name: str) -> tuple[Rule, ...]:
    """Return the rules that a name, a code, the beginning of codes (`QY3`) or `all` selects.

    Raises:
        click.UsageError: there is no such rule.
    """
    rules = rules_named(name)
    if not rules:
        raise UsageError(no_such_rule(name))
    return rules


def _selected(names: Iterable[str]) -> dict[str, Rule]:
    return {rule.name: rule for name in names for rule in select(name)}


def levels(
    *,
    profile: str,
    selected: Iterable[str] = (),
    ignored: Iterable[str] = (),
    severities: Mapping[str, str] = _NOTHING,
) -> dict[str, Severity | None]:
    """Return the severity of every rule whose severity is not that of the profile.

    A selection turns all other rules off, and a severity turns a rule on that is off.

    Raises:
        click.UsageError: there is no such rule, or no such severity.
    """
    result: dict[str, Severity | None] = {}
    if wanted := _selected(selected):
        result = {
            rule.name: (rule.level(profile) or rule.severity) if rule.name in wanted else None
            for rule in all_rules()
        }
    for name, level in severities.items():
        if level not in _LEVELS:
            raise UsageError(f'invalid severity "{level}": use {", ".join(_LEVELS)}')
        result |= dict.fromkeys(_selected([name]), None if level == OFF else Severity(level))
    return result | dict.fromkeys(_selected(ignored), None)


class Selection:
    """Which settings apply to each file."""

    def __init__(self, arguments: Arguments) -> None:
        """Read the settings of the whole run, which are those of the working directory.

        Raises:
            click.UsageError: an option is invalid.
            InvalidSettingsError: a setting is.
            ConfigFileError: a file with settings cannot be read.
        """
        folder = Path.cwd()
        self._arguments = arguments
        self._config = read_project(Path(arguments.config)) if arguments.config else None
        self._project_of = cache(project_of)
        self.project = self._config or self._project_of(folder)
        """The settings of the whole run."""
        self.exclude = (
            self.project.exclude,
            Patterns(folder, arguments.exclude, strict=True),
        )
        """What is not checked."""
        self.settings(folder / "queue.yaml")

    @property
    def baseline(self) -> Path | None:
        """The file of findings that are not reported."""
        if self._arguments.baseline is not None:
            return Path(self._arguments.baseline)
        return self.project.folder / self.project.baseline if self.project.baseline else None

    @property
    def threshold(self) -> Severity | None:
        """The least severity that makes a run fail; None: it does not."""
        fail_on = self._arguments.fail_on or self.project.fail_on
        return None if fail_on == NEVER else Severity(fail_on)

    def settings(self, path: Path) -> Settings:
        """Return what is looked for in a file, given by its absolute path.

        Raises:
            click.UsageError: an option is invalid.
            InvalidSettingsError: a setting is.
            ConfigFileError: a file with settings cannot be read.
        """
        project = self._config or self._project_of(path.parent)
        ignores = [
            name
            for pattern, names in project.per_file_ignores.items()
            if pattern.match(path)
            for name in names
        ]
        arguments = self._arguments
        profile = arguments.profile or project.profile
        return Settings(
            profile=profile,
            levels=levels(
                profile=profile,
                selected=_names(arguments.select) or project.select,
                ignored=(*project.ignore, *ignores, *_names(arguments.ignore)),
                severities={**project.severity} | _severities(arguments.severity),
            ),
            strict=project.strict if arguments.strict is None else arguments.strict,
        )


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.strip() for part in given for name in part.split(",") if name.strip())


def _severities(given: Iterable[str]) -> dict[str, str]:
    pairs = [name.partition("=") for name in _names(given)]
    for name, equals, _ in pairs:
        if not equals:
            raise UsageError(f'invalid --severity "{name}": use RULE=LEVEL')
    return {name: level for name, _, level in pairs}
