"""Hooks and fixtures of the plugin.

Every pytest run of an environment loads this module, so it imports nothing but pytest: what a
fixture needs is imported when the fixture is first used (hence each `noqa: PLC0415`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_pullqueue.options import INI_OPTIONS, MARKER_USAGE, own_ini_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pullqueue import Emulator
    from pullqueue.sdk.stub import PullQueueStub
    from pullqueue.server.lifecycle import Server
    from pullqueue.testing import Faults
    from pytest_pullqueue.clock import FixtureClock
    from pytest_pullqueue.intercepting import AnsweredRequests
    from pytest_pullqueue.server import LiveServer
    from pytest_pullqueue.settings import ConfigSource


def pytest_addoption(parser: pytest.Parser) -> None:
    """Announce the ini options."""
    for name, text in INI_OPTIONS.items():
        parser.addini(name, text, type="string", default=None)


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker and refuse bad ini options."""
    config.addinivalue_line("markers", MARKER_USAGE)
    names = own_ini_names(config)
    if not names:
        return
    from pytest_pullqueue.settings import SettingsError, check_ini  # noqa: PLC0415

    try:
        check_ini(config, names)
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


@pytest.fixture(scope="session")
def _pullqueue_loaded(pytestconfig: pytest.Config) -> None:
    """Load the emulator before a test freezes time: modules loaded then would keep fakes."""
    import pytest_pullqueue.clock  # noqa: PLC0415
    import pytest_pullqueue.emulator  # noqa: F401, PLC0415
    from pytest_pullqueue.stores import load_store  # noqa: PLC0415

    load_store(pytestconfig.getini("pullqueue_store") or "memory")


@pytest.fixture
def pullqueue_clock(
    request: pytest.FixtureRequest,
    _pullqueue_loaded: None,
    pullqueue_config: ConfigSource | None,
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
    request: pytest.FixtureRequest,
    _pullqueue_loaded: None,
    pullqueue_config: ConfigSource | None,
) -> Iterator[Emulator]:
    """The test's own `pullqueue.Emulator`: the queues of queue.yaml, empty.

    Its time is the process's: frozen where the test has `pullqueue_clock` or another freezer. When
    the test fails, its report tells the state of the queues, what happened last, and the faults.
    """
    from pytest_pullqueue.emulator import emulator_of_test  # noqa: PLC0415

    with emulator_of_test(request, pullqueue_config) as emulator:
        yield emulator


@pytest.fixture
def pullqueue_faults(pullqueue_emulator: Emulator) -> Iterator[Faults]:
    """Faults in the calls to the test's emulator, through whichever door they come."""
    from pullqueue.testing import Faults  # noqa: PLC0415

    with Faults(pullqueue_emulator) as faults:
        yield faults


@pytest.fixture(scope="session")
def _pullqueue_sdk_loaded() -> None:
    from pullqueue.errors import PullQueueError  # noqa: PLC0415

    try:
        from pullqueue.sdk import installation  # noqa: F401, PLC0415
    except PullQueueError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def pullqueue_sdk(
    _pullqueue_sdk_loaded: None, pullqueue_emulator: Emulator
) -> Iterator[PullQueueStub]:
    """App Engine's SDK on the test's emulator: `google.appengine.api.taskqueue` just works.

    Gives the stub, for suites that look into it. What was installed before is put back.
    """
    from pullqueue import sdk  # noqa: PLC0415

    with sdk.install(pullqueue_emulator) as stub:
        yield stub


@pytest.fixture(scope="session")
def _pullqueue_session_server() -> Iterator[Server]:
    from pytest_pullqueue.server import session_server  # noqa: PLC0415

    with session_server() as server:
        yield server


@pytest.fixture
def pullqueue_server(
    request: pytest.FixtureRequest,
    _pullqueue_session_server: Server,
    pullqueue_config: ConfigSource | None,
    pullqueue_emulator: Emulator,
) -> Iterator[LiveServer]:
    """A live server of the REST API, in a thread, that serves the test's emulator.

    It listens on a free port of this machine from the first test that asks for it to the end of
    the session. An error inside the server fails the test.
    """
    from pytest_pullqueue.server import server_of_test  # noqa: PLC0415
    from pytest_pullqueue.settings import settings_of  # noqa: PLC0415

    acl = settings_of(request.node, pullqueue_config).acl
    with server_of_test(_pullqueue_session_server, pullqueue_emulator, acl=acl) as server:
        yield server


@pytest.fixture(scope="session")
def _pullqueue_responses_loaded() -> None:
    try:
        import pytest_pullqueue.intercepting  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        if error.name not in ("responses", "requests"):
            raise
        message = "pullqueue_responses needs responses: pip install 'pullqueue[pytest]'"
        raise pytest.fail.Exception(message, pytrace=False) from None


@pytest.fixture
def pullqueue_responses(
    request: pytest.FixtureRequest,
    _pullqueue_responses_loaded: None,
    pullqueue_config: ConfigSource | None,
    pullqueue_emulator: Emulator,
) -> Iterator[AnsweredRequests]:
    """Calls with `requests` to Google's addresses of the API, answered by the test's emulator.

    They are answered in process, by the library `responses`; no socket is opened, and any other
    address is refused, unless the test adds it to `.mock`.
    """
    from pytest_pullqueue.intercepting import requests_of_test  # noqa: PLC0415
    from pytest_pullqueue.settings import settings_of  # noqa: PLC0415

    acl = settings_of(request.node, pullqueue_config).acl
    with requests_of_test(pullqueue_emulator, acl=acl) as answered:
        yield answered
