"""What a test asks of its emulator: by marker, by ini option, or by an overridden fixture."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from pytest_pullqueue.options import INI_OPTIONS, MARKER

if TYPE_CHECKING:
    from pullqueue.config.model import QueueConfig

ConfigSource: TypeAlias = "Path | str | QueueConfig"
"""A path, the text of a queue.yaml (a str of more than one line), or a configuration."""

_TRUTH = {"true": True, "yes": True, "on": True, "1": True}
_FALSEHOOD = {"false": False, "no": False, "off": False, "0": False}
_PROFILES = ("gcloud", "sdk")


class SettingsError(Exception):
    """a setting of the plugin is not valid"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings of one test; the texts are those of the reference of the marker."""

    config: ConfigSource | None = None
    """A path relative to the test's file, the text of a queue.yaml, or a `QueueConfig`."""
    config_base: Path = field(default_factory=Path)
    """What a relative path in `config` is relative to."""
    queues: Sequence[str | Mapping[str, object]] | None = None
    """Instead of `config`: names of pull queues, or entries as in queue.yaml."""
    total_storage_limit: str | None = None
    """As in queue.yaml, such as `"1M"`."""
    profile: str = "gcloud"
    """How strictly queue.yaml is read: `"gcloud"`, or `"sdk"` as Google's library does."""
    project: str | None = None
    """The application id that callers of the REST API must name; any, if not given."""
    lease_rate_limit: bool = False
    """Whether more than 10 leases a second give no tasks, as in production."""
    acl: bool = False
    """Whether callers over REST need a token, and the acl of each queue decides."""
    store: str = "memory"
    """Where tasks are kept, as the URL of a store."""
    start: datetime | None = None
    """Where `pullqueue_clock` starts: `"2026-01-01T00:00Z"` or an aware datetime."""


_MEANT = {"auth": "to have callers checked say acl=True, else "}
"""For a name that a user of `pullqueue serve` would guess: what is meant."""

_MARKER_ARGUMENTS = frozenset(f.name for f in fields(Settings)) - {"config_base"}


def settings_of(item: pytest.Item, overridden: ConfigSource | None) -> Settings:
    """Give a test's settings: its markers', else the overridden fixture's, else the ini file's.

    Raises:
        SettingsError: a marker or an ini option is not valid.
    """
    values: dict[str, object] = dict(_ini_values(item.config))
    if overridden is not None:
        config = _checked("the fixture pullqueue_config", "config", overridden)
        values |= {"config": config, "config_base": item.config.rootpath}
    for node, marker in reversed(list(item.iter_markers_with_node(MARKER))):
        arguments = _marker_arguments(marker)
        if arguments.keys() & {"config", "queues"}:
            values = {k: v for k, v in values.items() if k not in ("config", "queues")}
            values["config_base"] = Path(node.path).parent if node.path.is_file() else node.path
        values |= arguments
    return Settings(**values)  # type: ignore[arg-type] # each value has been checked


def check_ini(config: pytest.Config, names: Sequence[str]) -> None:
    """Refuse ini options of this plugin that do not exist or have an unusable value.

    Raises:
        SettingsError: there is one.
    """
    for name in names:
        if name not in INI_OPTIONS:
            raise SettingsError(
                f"{_ini_file(config)}: unknown ini option {name!r}: use one of "
                f"{', '.join(sorted(INI_OPTIONS))}"
            )
    _ini_values(config)


def _ini_values(config: pytest.Config) -> dict[str, object]:
    values: dict[str, object] = {}
    for option in INI_OPTIONS:
        value = config.getini(option)
        if value is not None:
            name = option.removeprefix("pullqueue_")
            values[name] = _checked(f"{_ini_file(config)}: ini option {option}", name, value)
    values["config_base"] = config.inipath.parent if config.inipath else config.rootpath
    return values


def _ini_file(config: pytest.Config) -> str:
    return config.inipath.name if config.inipath else "command line"


def _marker_arguments(marker: pytest.Mark) -> dict[str, object]:
    where = f"@pytest.mark.{MARKER}"
    if marker.args:
        raise SettingsError(f"{where} takes no positional arguments, but got {marker.args[0]!r}")
    for name in marker.kwargs:
        if name not in _MARKER_ARGUMENTS:
            hint = _MEANT.get(name, "")
            raise SettingsError(
                f"{where} has no argument {name!r}: {hint}use one of "
                f"{', '.join(sorted(_MARKER_ARGUMENTS))}"
            )
    if {"config", "queues"} <= marker.kwargs.keys():
        raise SettingsError(f"{where} has both config and queues: give one of them")
    return {n: _checked(f"{where}: argument {n}", n, v) for n, v in marker.kwargs.items()}


def _checked(where: str, name: str, value: object) -> object:
    """Give a setting in the type it has in `Settings`."""
    if name in ("lease_rate_limit", "acl"):
        return _truth(where, value)
    if name == "start":
        return _moment(where, value)
    if name == "config" and not _is_config_source(value):
        raise SettingsError(
            f"{where} is {value!r}: give a path, the text of a queue.yaml, or a QueueConfig"
        )
    if name == "profile" and value not in _PROFILES:
        raise SettingsError(f"{where} is {value!r}: use one of {', '.join(_PROFILES)}")
    if name in ("project", "store", "total_storage_limit") and not isinstance(value, str):
        raise SettingsError(f"{where} is {value!r}: give a text")
    if name == "queues" and (isinstance(value, str) or not isinstance(value, Sequence)):
        raise SettingsError(f"{where} is {value!r}: give a list of queue names or entries")
    return value


def _is_config_source(value: object) -> bool:
    if isinstance(value, str | os.PathLike):
        return True
    from pullqueue.config.model import QueueConfig  # noqa: PLC0415 - only where one is likely

    return isinstance(value, QueueConfig)


def _truth(where: str, value: object) -> bool:
    known = _TRUTH | _FALSEHOOD
    text = str(value).lower()
    if text not in known:
        raise SettingsError(f"{where} is {value!r}: use true or false")
    return known[text]


def _moment(where: str, value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise SettingsError(
            f"{where} is {value!r}: give a moment with its time zone, such as 2026-01-01T00:00Z"
        )
    return moment
