"""The settings of a test's queues: from its markers, an overridden fixture, or the ini file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pullqueue.testing.emulating import ConfigSource, QueueEntries
    from pullqueue.testing.freezing import FreezerChoice

MARKER = "pullqueue"
INI_OPTIONS = {
    "pullqueue_config": "queue.yaml of the tests, relative to this file",
    "pullqueue_project": "application id that callers of the REST API must name",
    "pullqueue_location": "location that callers of Cloud Tasks must name, such as us-central1",
    "pullqueue_service_accounts": "e-mail addresses that tasks can name for tokens",
    "pullqueue_profile": "how strictly queue.yaml is read: gcloud (the default) or sdk",
    "pullqueue_strict": "true: production's checks that need no facts of the app are on",
    "pullqueue_lease_rate_limit": "true: limit tests to production's 10 lease calls a second",
    "pullqueue_acl": "true: pullqueue_server and pullqueue_responses check tokens and acl",
    "pullqueue_store": "where tasks are stored: memory, sqlite:///FILE or postgresql://...",
    "pullqueue_start": "time at which pullqueue_clock starts, such as 2026-01-01T00:00Z",
    "pullqueue_freezer": "what freezes time: freezegun, time-machine, or auto (the default)",
    "pullqueue_strict_faults": "true: fail tests that pass although a fault never triggered",
    "pullqueue_lose_first_response": "true: the first response of each push task is lost",
    "pullqueue_left_tasks": "fail: fail tests that pass and leave due tasks; ignore (the default)",
    "pullqueue_left_tasks_ignore": "queues whose tasks tests may leave, such as: default mails",
    "pullqueue_services": "services with Google's stubs in pullqueue_sdk, such as: datastore_v3",
}
_CHOICES = {
    "profile": ("gcloud", "sdk"),
    "freezer": ("auto", "freezegun", "time-machine"),
    "left_tasks": ("ignore", "fail"),
}
_NAMES = ("left_tasks_ignore", "service_accounts", "services")
_WHERE = f"@pytest.mark.{MARKER}"


class SettingsError(Exception):
    """a setting of the plugin is not valid"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings of one test; the texts are those of the reference of the marker."""

    config: ConfigSource | None = None
    """A path relative to the test's file, the text of a queue.yaml, or a `QueueConfig`."""
    config_base: Path = field(default_factory=Path)
    """What a relative path in `config` is relative to."""
    queues: QueueEntries | None = None
    """Instead of `config`: exactly these, as names of pull queues or entries of queue.yaml."""
    total_storage_limit: str | None = None
    """As in queue.yaml, such as `"1M"`."""
    profile: str = "gcloud"
    """How strictly queue.yaml is read: `"gcloud"`, or `"sdk"` as Google's library does."""
    project: str | None = None
    """The application id that callers of the REST API must name; any by default."""
    location: str | None = None
    """The location that callers of Cloud Tasks must name; any region by default."""
    service_accounts: tuple[str, ...] = ()
    """The e-mail addresses that tasks and queues can name for tokens; any by default."""
    strict: bool = False
    """Whether the checks of production that need no facts of the app are on: `lease_rate_limit`,
    and that of the composite indexes of an index.yaml, with `pullqueue_sdk`.
    """
    lease_rate_limit: bool = False
    """Whether more than 10 lease calls a second return no tasks, as in production."""
    acl: bool = False
    """Whether callers over REST need a token, and the acl of each queue is checked."""
    store: str = "memory"
    """Where tasks are stored, as the URL of a store."""
    start: datetime | None = None
    """When `pullqueue_clock` starts: `"2026-01-01T00:00Z"` or an aware datetime."""
    freezer: FreezerChoice = "auto"
    """The library by which `pullqueue_clock` freezes time: `"freezegun"`, `"time-machine"` or
    `"auto"`, time-machine where it is installed, else freezegun.
    """
    strict_faults: bool = False
    """Whether a test that passes fails at teardown if a fault that is still set never triggered."""
    lose_first_response: bool = False
    """Whether the first response of each push task is lost, so that `run_tasks` runs it twice."""
    left_tasks: str = "ignore"
    """Whether a test that passes fails at teardown if it leaves due tasks: `"fail"` if so."""
    left_tasks_ignore: tuple[str, ...] = ()
    """The names of queues whose tasks it may leave, as a list, or in one string."""
    services: tuple[str, ...] = ()
    """The services of App Engine's SDK that have Google's stubs in `pullqueue_sdk`, each of them
    empty: `"datastore_v3 memcache"`, or a list.
    """


_DEFAULTS = {f.name: f.default for f in fields(Settings) if f.name != "config_base"}
FLAGS = tuple(name for name, default in _DEFAULTS.items() if default is False)
"""The settings that are true or false."""
MARKER_USAGE = (
    f"{MARKER}({', '.join(f'{name}={default!r}' for name, default in _DEFAULTS.items())}): "
    "settings of a test's queues"
)
_INI_VALUES = pytest.StashKey[Mapping[str, object]]()


def read_settings(item: pytest.Item, overridden: ConfigSource | None) -> Settings:
    """Return a test's settings: of its markers, else the overridden fixture, else the ini file."""
    values = dict(_ini_values(item.config))
    if overridden is not None:
        config = _checked("the fixture pullqueue_config", "config", overridden)
        values |= {"config": config, "config_base": item.config.rootpath}
    for node, marker in reversed(list(item.iter_markers_with_node(MARKER))):
        arguments = _marker_arguments(marker)
        if arguments.keys() & {"config", "queues"}:
            values = {k: v for k, v in values.items() if k not in ("config", "queues")}
            values["config_base"] = Path(node.path).parent if node.path.is_file() else node.path
        values |= arguments
    given = {name: value for name, value in values.items() if value is not None}
    return Settings(**given)  # type: ignore[arg-type] # each value has been checked


def check_ini(config: pytest.Config) -> None:
    """Refuse ini options of this plugin that do not exist or have an invalid value."""
    with warnings.catch_warnings():
        # Deprecated since pytest 9, without a successor for names that nobody registered. Where it
        # is gone, pytest's own warning of such names remains.
        warnings.simplefilter("ignore")
        names = list(getattr(config, "inicfg", ()))
    for name in names:
        if name.startswith(f"{MARKER}_") and name not in INI_OPTIONS:
            raise SettingsError(
                f"{_ini_file(config)}: unknown ini option `{name}`: use one of "
                f"{', '.join(sorted(INI_OPTIONS))}"
            )
    _ini_values(config)


def _ini_values(config: pytest.Config) -> Mapping[str, object]:
    values = config.stash.get(_INI_VALUES, None)
    if values is None:
        found: dict[str, object] = {
            "config_base": config.inipath.parent if config.inipath else config.rootpath
        }
        for option in INI_OPTIONS:
            name = option.removeprefix(f"{MARKER}_")
            where = f"{_ini_file(config)}: ini option {option}"
            try:
                value = config.getini(option)
            except (ValueError, pytest.UsageError) as error:  # the first before pytest 9
                if name not in FLAGS:
                    raise
                raise SettingsError(f"{where}: {error}: use true or false") from None
            if value is not None:
                found[name] = _checked(where, name, value)
        values = config.stash[_INI_VALUES] = found
    return values


def _ini_file(config: pytest.Config) -> str:
    return config.inipath.name if config.inipath else "command line"


def _marker_arguments(marker: pytest.Mark) -> dict[str, object]:
    if marker.args:
        shown = _quoted(marker.args[0])
        raise SettingsError(f"{_WHERE} takes no positional arguments, but got {shown}")
    for name in marker.kwargs:
        if name not in _DEFAULTS:
            hint = "to check callers set acl=True, otherwise " if name == "auth" else ""
            raise SettingsError(
                f"{_WHERE} has no argument `{name}`: {hint}use one of "
                f"{', '.join(sorted(_DEFAULTS))}"
            )
    if None not in (marker.kwargs.get("config"), marker.kwargs.get("queues")):
        raise SettingsError(f"{_WHERE} has both config and queues: use one of them")
    return {
        name: None if value is None else _checked(f"{_WHERE}: argument {name}", name, value)
        for name, value in marker.kwargs.items()
    }


def _checked(where: str, name: str, value: object) -> object:
    """Return a setting in the type that it has in `Settings`."""
    wrong = f"{where} is {_quoted(value)}: "
    if name in FLAGS and not isinstance(value, bool):
        raise SettingsError(f"{wrong}use True or False")
    if name == "start":
        return _time(where, value)
    if name in _NAMES:
        return _names(wrong, value)
    if name == "config" and not _is_config_source(value):
        raise SettingsError(f"{wrong}pass a path, the text of a queue.yaml, or a QueueConfig")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise SettingsError(f"{wrong}use one of {', '.join(_CHOICES[name])}")
    if name in ("project", "location", "store", "total_storage_limit") and not isinstance(
        value, str
    ):
        raise SettingsError(f"{wrong}use a string")
    return value


def _names(wrong: str, value: object) -> tuple[str, ...]:
    """Return names that are listed, or written in one string, with spaces or commas in between."""
    names = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise SettingsError(f"{wrong}use a list of names, or a string")
    return tuple(names)


def _quoted(value: object) -> str:
    from pullqueue.text import quoted  # noqa: PLC0415 - the plugin imports only pytest at first

    return quoted(value)


def _is_config_source(value: object) -> bool:
    if isinstance(value, str | os.PathLike):
        return True
    from pullqueue.config.model import QueueConfig  # noqa: PLC0415 - only where one is likely

    return isinstance(value, QueueConfig)


def _time(where: str, value: object) -> datetime:
    from pullqueue.clock import parse_time  # noqa: PLC0415 - only for a start
    from pullqueue.errors import ClockError  # noqa: PLC0415 - only for a start

    try:
        return parse_time(value, where, ClockError)
    except ClockError as error:
        raise SettingsError(str(error)) from None
