"""The fixture `pullqueue_emulator`: configuration found, engine made, failures explained."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pullqueue import config as queue_yaml
from pullqueue.clock import Clock
from pullqueue.config.model import QueueConfig
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.names import random_names
from pullqueue.errors import ConfigFileError, InvalidQueueConfigError, StoreError
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND, Limits
from pullqueue.testing.process_time import ProcessClock
from pullqueue.testing.recording import remember_added
from pytest_pullqueue.reporting import explain_failures
from pytest_pullqueue.settings import ConfigSource, Settings, SettingsError, settings_of
from pytest_pullqueue.stores import store_of_worker

_MARKER_FILE = "@pytest.mark.pullqueue"
_NAME_SEED = 0

_Key = tuple[object, ...]
_LOADED = pytest.StashKey[dict[_Key, QueueConfig | str]]()
"""Configurations by where they come from; for a bad one, what is wrong with it."""
_REPORTED = pytest.StashKey[dict[_Key, str]]()
"""The test that told of a bad configuration."""


@contextmanager
def emulator_of_test(
    request: pytest.FixtureRequest, overridden: ConfigSource | None
) -> Iterator[Emulator]:
    """Make the emulator of a test; a configuration that is not valid fails the test."""
    try:
        settings = settings_of(request.node, overridden)
        config = _configuration(request.node, settings)
    except SettingsError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    limits = Limits(
        leases_per_second=PRODUCTION_LEASES_PER_SECOND if settings.lease_rate_limit else None
    )
    try:
        emulator = Emulator(
            config,
            clock=_clock(request, settings),
            limits=limits,
            project=settings.project,
            store=store_of_worker(settings.store, request.config.rootpath),
            names=random_names(_NAME_SEED),
        )
    except StoreError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    with closing(emulator):
        emulator.reset()
        with explain_failures(request.node, emulator), remember_added(emulator):
            yield emulator


def _clock(request: pytest.FixtureRequest, settings: Settings) -> Clock:
    if settings.start is not None or "pullqueue_clock" in request.fixturenames:
        clock: Clock = request.getfixturevalue("pullqueue_clock")
        return clock
    return ProcessClock()


def _configuration(item: pytest.Item, settings: Settings) -> QueueConfig:
    config = _base_configuration(item, settings)
    if settings.total_storage_limit is None:
        return config
    limit = _from_text(item, settings, {"total_storage_limit": settings.total_storage_limit})
    return replace(config, total_storage_limit_bytes=limit.total_storage_limit_bytes)


def _base_configuration(item: pytest.Item, settings: Settings) -> QueueConfig:
    source = settings.config
    if settings.queues is not None:
        return _from_text(item, settings, {"queue": [_entry(q) for q in settings.queues]})
    if isinstance(source, QueueConfig):
        return source
    if isinstance(source, str) and "\n" in source:
        return _loaded(item, settings, source)
    if source is None:
        return _loaded(item, settings, _nearest(item))
    return _loaded(item, settings, settings.config_base / source)


def _entry(queue: str | Mapping[str, object]) -> Mapping[str, object]:
    return {"mode": "pull"} | ({"name": queue} if isinstance(queue, str) else dict(queue))


def _from_text(item: pytest.Item, settings: Settings, tree: Mapping[str, object]) -> QueueConfig:
    try:
        text = json.dumps(tree)  # which is YAML, too
    except TypeError as error:
        raise SettingsError(f"{_MARKER_FILE}: {error}") from None
    return _loaded(item, settings, text)


def _nearest(item: pytest.Item) -> Path:
    root = item.config.rootpath
    folders = [item.path.parent, *item.path.parent.parents]
    if root in folders:
        folders = folders[: folders.index(root) + 1]
    for folder in folders:
        path = folder / "queue.yaml"
        if path.is_file():
            return path
    raise SettingsError(
        f"no queue.yaml in {item.path.parent} or above it, up to {folders[-1]}: name one in the "
        f"ini option pullqueue_config, or say {_MARKER_FILE}(config=...) or (queues=[...])"
    )


def _loaded(item: pytest.Item, settings: Settings, source: Path | str) -> QueueConfig:
    """Read a configuration, each once in a session; tell once what is wrong with a bad one."""
    key = _key(source, settings.profile)
    loaded = item.config.stash.setdefault(_LOADED, {})
    if key not in loaded:
        loaded[key] = _read(source, settings.profile)
    found = loaded[key]
    if isinstance(found, QueueConfig):
        return found
    reported = item.config.stash.setdefault(_REPORTED, {})
    first = reported.setdefault(key, item.nodeid)
    if first == item.nodeid:
        raise SettingsError(found)
    where = source if isinstance(source, Path) else _MARKER_FILE
    raise SettingsError(f"{where} is not valid: the report of {first} tells why")


def _key(source: Path | str, profile: str) -> _Key:
    if isinstance(source, str):
        return (source, profile)
    try:
        status = source.stat()
    except OSError:
        return (source, profile)
    return (source, profile, status.st_mtime_ns, status.st_size)


def _read(source: Path | str, profile: str) -> QueueConfig | str:
    try:
        if isinstance(source, Path):
            return queue_yaml.load(source, profile=profile)
        return queue_yaml.loads(source, file=_MARKER_FILE, profile=profile)
    except (ConfigFileError, InvalidQueueConfigError) as error:
        return str(error)
