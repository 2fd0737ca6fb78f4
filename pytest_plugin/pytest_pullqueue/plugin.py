"""Hooks and fixtures of the plugin.

Every pytest run of an environment loads this module, so it imports nothing but pytest: what a
fixture needs is imported when the fixture is first used (hence each `noqa: PLC0415`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_pullqueue.settings import INI_OPTIONS, MARKER_USAGE, SettingsError, check_ini

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pullqueue import Emulator
    from pytest_pullqueue.clock import FixtureClock
    from pytest_pullqueue.settings import ConfigSource


def pytest_addoption(parser: pytest.Parser) -> None:
    """Announce the ini options."""
    for name, text in INI_OPTIONS.items():
        parser.addini(name, text, type="string", default=None)


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker and refuse bad ini options."""
    config.addinivalue_line("markers", MARKER_USAGE)
    try:
        check_ini(config)
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session")
def pullqueue_config() -> ConfigSource | None:
    """The queue.yaml of the session's tests; override it to choose another.

    Return a path (relative to the root directory), the text of a queue.yaml, or a `QueueConfig`.
    None leaves the choice to the ini option `pullqueue_config`, or else to the nearest queue.yaml
    in the folder of the test or above it. A marker on a test goes before all of these.
    """
    return None


@pytest.fixture
def pullqueue_clock(
    request: pytest.FixtureRequest, pullqueue_config: ConfigSource | None
) -> Iterator[FixtureClock]:
    """The clock of the test: the whole process's time, frozen, until the test moves it.

    It begins at 2026-01-01T00:00Z, or where the marker or the ini file says. A test that brings a
    freezer (`@freeze_time`, `freezer`, time-machine) keeps it, and the clock reads and moves that.
    """
    from pytest_pullqueue.clock import clock_of_test  # noqa: PLC0415

    with clock_of_test(request, pullqueue_config) as clock:
        yield clock


@pytest.fixture
def pullqueue_emulator(
    request: pytest.FixtureRequest, pullqueue_config: ConfigSource | None
) -> Iterator[Emulator]:
    """The test's own `pullqueue.Emulator`: the queues of queue.yaml, empty.

    Its time is the process's: frozen where the test has `pullqueue_clock` or another freezer. When
    the test fails, its report tells the state of the queues and what happened last.
    """
    from pytest_pullqueue.emulator import emulator_of_test  # noqa: PLC0415

    with emulator_of_test(request, pullqueue_config) as emulator:
        yield emulator
