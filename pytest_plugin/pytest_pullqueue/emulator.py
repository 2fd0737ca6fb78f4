"""The fixture `pullqueue_emulator`: its configuration and its store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import pytest

from pullqueue.checks import (
    ACCOUNTS,
    FILE,
    INDEXES,
    LEASES,
    LOCATION,
    PERMISSIONS,
    PROJECT,
    describe_off,
)
from pullqueue.clock import Clock
from pullqueue.config.findings import InvalidQueueConfigError
from pullqueue.config.model import QueueConfig
from pullqueue.engine.emulator import Emulator
from pullqueue.errors import ConfigFileError, StoreError
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND, Limits
from pullqueue.stores import open_store
from pullqueue.testing.emulating import emulated, queue_config, read_config
from pullqueue.testing.exploration.progress import written_by
from pullqueue.testing.running import first_responses_lost
from pytest_pullqueue.reports import CHECKS_OFF, EMULATOR, WHY_NO_QUEUES
from pytest_pullqueue.settings import MARKER, Settings

_FILE = "sqlite:///"
_SERVER = "postgresql://"
_MARK = f"@pytest.mark.{MARKER}"
_SERVED = {"pullqueue_server", "pullqueue_responses"}
"""The fixtures whose callers name projects and locations, and have tokens."""
_FAILED = pytest.StashKey[dict[tuple[object, str], str]]()
"""For each configuration that is not valid, the test whose report shows the reason."""


@contextmanager
def emulator_of_test(item: pytest.Item, settings: Settings, clock: Clock) -> Iterator[Emulator]:
    """Run the emulator of a test; a configuration that is not valid fails the test."""
    limited = settings.lease_rate_limit or settings.strict
    rate = PRODUCTION_LEASES_PER_SECOND if limited else None
    with ExitStack() as stack:
        try:
            emulator = stack.enter_context(
                emulated(
                    _configuration(item, settings),
                    clock=clock,
                    limits=Limits(leases_per_second=rate),
                    project=settings.project,
                    location=settings.location,
                    store=open_store(store_of_worker(settings.store, item.config.rootpath)),
                )
            )
        except StoreError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        emulator.service_accounts = frozenset(settings.service_accounts)
        if settings.lose_first_response:
            stack.enter_context(first_responses_lost(emulator))
        stack.enter_context(written_by(partial(_write_line, item.config)))
        item.stash[EMULATOR] = emulator
        stack.callback(item.stash.__delitem__, EMULATOR)
        on = {FILE: settings.profile == "gcloud", LEASES: limited}
        fixtures = {*getattr(item, "fixturenames", ())}
        if "pullqueue_sdk" in fixtures:
            on[INDEXES] = settings.strict
        if _SERVED & fixtures:
            on |= {
                PROJECT: settings.project is not None,
                LOCATION: settings.location is not None,
                ACCOUNTS: bool(settings.service_accounts),
                PERMISSIONS: settings.acl,
            }
        item.stash[CHECKS_OFF] = describe_off(on, in_tests=True)
        yield emulator


def _write_line(config: pytest.Config, line: str) -> None:
    """Write a line of a test that takes long, though what tests write is captured."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if terminal is None:  # a worker of pytest-xdist
        return
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        terminal.ensure_newline()
        terminal.write_line(line)


def _configuration(item: pytest.Item, settings: Settings) -> QueueConfig:
    limit = settings.total_storage_limit
    try:
        if settings.queues is None:
            config = _read(item, settings)
        else:
            config = queue_config(settings.queues, profile=settings.profile)
        if limit is not None:
            parsed = queue_config([], total_storage_limit=limit)
            config = replace(config, total_storage_limit_bytes=parsed.total_storage_limit_bytes)
    except (InvalidQueueConfigError, TypeError) as error:
        lines = [f"{_MARK}: {line}" for line in str(error).splitlines()]
        raise pytest.fail.Exception("\n".join(lines), pytrace=False) from None
    return config


def _read(item: pytest.Item, settings: Settings) -> QueueConfig:
    """Read a configuration; of one that is not valid only the first report shows the reason."""
    source, name = _config_file(settings) or settings.config, "pullqueue_config"
    if any("config" in marker.kwargs for marker in item.iter_markers(MARKER)):
        name = f"{_MARK}(config=...)"
    if source is None and (source := _nearest_file(item, "queue.yaml")) is None:
        item.stash[WHY_NO_QUEUES] = (
            f"there is no queue.yaml in {item.path.parent} or above it, up to {_folders(item)[-1]}"
        )
        return read_config("queue: []\n", profile=settings.profile)  # has the queue `default`
    failed = item.config.stash.setdefault(_FAILED, {})
    first = failed.get((source, settings.profile), item.nodeid)
    if first != item.nodeid:
        where = source if isinstance(source, Path) else name
        pytest.fail(f"{where} is not valid: the report of {first} shows why", pytrace=False)
    try:
        config = read_config(source, name=name, profile=settings.profile)
    except (ConfigFileError, InvalidQueueConfigError) as error:
        failed[source, settings.profile] = item.nodeid
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    if not config.queues and isinstance(source, Path):
        item.stash[WHY_NO_QUEUES] = f"{source} has no queues"
    return config


def index_yaml_of(item: pytest.Item, settings: Settings) -> Path:
    """Return the index.yaml of a test: beside the queue.yaml that is set, or else the nearest."""
    name = "index.yaml"
    if file := _config_file(settings):
        return file.with_name(name)
    return _nearest_file(item, name) or item.path.with_name(name)


def _config_file(settings: Settings) -> Path | None:
    """Return the file that the setting names; None: it is not set, a text or a configuration."""
    source = settings.config
    if source is None or isinstance(source, QueueConfig) or "\n" in str(source):
        return None
    return settings.config_base / source


def _nearest_file(item: pytest.Item, name: str) -> Path | None:
    found = (folder / name for folder in _folders(item))
    return next((path for path in found if path.is_file()), None)


def _folders(item: pytest.Item) -> list[Path]:
    """Return the folder of a test, and those above it, up to pytest's root directory."""
    root = item.config.rootpath
    folders = [item.path.parent, *item.path.parent.parents]
    return folders[: folders.index(root) + 1] if root in folders else folders


def store_of_worker(url: str, root: Path) -> str:
    """Return the URL of the store that only this process of pytest uses.

    The name of the worker (`main` without workers) is added to the file or the schema, so that
    tests, which empty their store, never delete tasks that someone works with. A relative file is
    relative to pytest's root directory; its folder is made, as a new checkout has none.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    if url.startswith(_FILE):
        place, mark, options = url.removeprefix(_FILE).partition("?")
        path = root / place
        with suppress(OSError):  # opening the store reports what is wrong
            path.parent.mkdir(parents=True, exist_ok=True)
        return f"{_FILE}{path.with_name(f'{path.stem}-{worker}{path.suffix}')}{mark}{options}"
    if url.startswith(_SERVER):
        parts = urlsplit(url)
        parameters = dict(parse_qsl(parts.query))
        parameters["schema"] = f"{parameters.get('schema', 'pullqueue')}_{worker}"
        return urlunsplit(parts._replace(query=urlencode(parameters)))
    return url


def load_store(url: str) -> None:
    """Import what a store needs: the driver of a database must not be loaded in frozen time.

    Opening the store reports what is wrong with a URL.
    """
    with suppress(StoreError):
        open_store(url)
