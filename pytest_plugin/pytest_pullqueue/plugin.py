"""Hooks and fixtures of the plugin.

Every pytest run of an environment loads this module, so it imports nothing but pytest: what a
fixture needs is imported when the fixture is first used (hence each `noqa: PLC0415`).
"""

from __future__ import annotations

import sys
import warnings
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_pullqueue.settings import (
    FLAGS,
    INI_OPTIONS,
    MARKER_USAGE,
    SettingsError,
    check_ini,
    read_settings,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pullqueue import Emulator
    from pullqueue.sdk.stub import EmulatorStub
    from pullqueue.testing import Faults, FixtureClock, LiveServer
    from pullqueue.testing.emulating import ConfigSource
    from pytest_pullqueue.intercepting import InterceptedRequests
    from pytest_pullqueue.settings import Settings


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the ini options."""
    for name, text in INI_OPTIONS.items():
        if name.removeprefix("pullqueue_") in FLAGS:
            parser.addini(name, text, type="bool", default=None)
        else:
            parser.addini(name, text, type="string", default=None)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and refuse invalid ini options."""
    config.addinivalue_line("markers", MARKER_USAGE)
    # An actor of `crash_test` that was killed cannot close it; Python 3.13 would warn.
    config.addinivalue_line("filterwarnings", r"ignore:unclosed database in <pullqueue\.testing")
    try:
        check_ini(config)
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the test's queues to the report of its failure."""
    report = yield
    if report.failed or "pullqueue.testing" in sys.modules:
        from pytest_pullqueue.reports import complete  # noqa: PLC0415

        complete(item, call, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Mark the handler that `caplog` reads: what `race_test` runs is logged there at once."""
    value = yield
    if isinstance(value, pytest.LogCaptureFixture):
        value.handler.name = "caplog"
        request.addfinalizer(partial(value.handler.set_name, ""))
    return value


@pytest.fixture(scope="session")
def pullqueue_config(request: pytest.FixtureRequest) -> ConfigSource | None:
    """The queue.yaml of the session's tests; override it to choose another.

    Return a path (relative to the root directory), the text of a queue.yaml, or a `QueueConfig`.
    None leaves the choice to the ini option `pullqueue_config`, or else to the nearest queue.yaml
    in the folder of the test or above it. A marker on a test has precedence over all of these.
    """
    try:
        # A plugin given by `-p` is registered before this one, so that this fixture overrides its.
        source: ConfigSource | None = request.getfixturevalue("pullqueue_config")
    except pytest.FixtureLookupError as error:
        if error.argname != "pullqueue_config":
            raise
        return None
    return source


@pytest.fixture
def _pullqueue_settings(
    request: pytest.FixtureRequest, pullqueue_config: ConfigSource | None
) -> Settings:
    try:
        return read_settings(request.node, pullqueue_config)
    except SettingsError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture(scope="session")
def _pullqueue_loaded(pytestconfig: pytest.Config) -> None:
    """Load the emulator before a test freezes time: a database's driver must not see it frozen."""
    from pytest_pullqueue.emulator import load_store  # noqa: PLC0415

    load_store(pytestconfig.getini("pullqueue_store") or "memory")


@pytest.fixture
def pullqueue_clock(
    request: pytest.FixtureRequest, _pullqueue_loaded: None, _pullqueue_settings: Settings
) -> Iterator[FixtureClock]:
    """The clock of the test: the whole process's time, frozen, until the test moves it.

    It starts at 2026-01-01T00:00Z, or at the `start` of the marker or the ini file. time-machine
    freezes it where it is installed, else freezegun, or the `freezer` that they name. If a test has
    another freezer (`@freeze_time`, `freezer`, time-machine), the clock reads and moves that one.
    A `time.sleep` that the test calls itself, or a worker outside of `drain`, waits in real time.
    These keep the real time: `time.perf_counter`, event loops, timeouts of threads and
    subprocesses, deadlines of gRPC and of Hypothesis.
    """
    from pullqueue.testing import FixtureClock, ProcessClock  # noqa: PLC0415
    from pytest_pullqueue.clock import frozen  # noqa: PLC0415
    from pytest_pullqueue.emulator import load_store  # noqa: PLC0415

    load_store(_pullqueue_settings.store)
    with frozen(request, _pullqueue_settings.start, _pullqueue_settings.freezer):
        yield FixtureClock(ProcessClock(), lambda: request.getfixturevalue("pullqueue_emulator"))


@pytest.fixture
def pullqueue_emulator(
    request: pytest.FixtureRequest, _pullqueue_loaded: None, _pullqueue_settings: Settings
) -> Iterator[Emulator]:
    """The test's own `pullqueue.Emulator`: the queues of queue.yaml, empty.

    Its time is that of the process: frozen if the test uses `pullqueue_clock` or another
    freezer. When the test fails, its report shows the state of the queues, their last events, and
    the faults.
    """
    from pullqueue.testing import ProcessClock  # noqa: PLC0415
    from pytest_pullqueue.emulator import emulator_of_test  # noqa: PLC0415

    if _pullqueue_settings.start is not None or "pullqueue_clock" in request.fixturenames:
        request.getfixturevalue("pullqueue_clock")
    from pytest_pullqueue.reports import check_left  # noqa: PLC0415

    with emulator_of_test(request.node, _pullqueue_settings, ProcessClock()) as emulator:
        yield emulator
        if _pullqueue_settings.left_tasks == "fail":
            check_left(request.node, emulator, _pullqueue_settings.left_tasks_ignore)


@pytest.fixture
def pullqueue_faults(
    request: pytest.FixtureRequest, _pullqueue_settings: Settings, pullqueue_emulator: Emulator
) -> Iterator[Faults]:
    """Faults in the calls to the test's emulator, through any interface.

    With `strict_faults`, a test that passes fails at teardown if a fault that is still set never
    triggered.
    """
    from pullqueue.testing import Faults  # noqa: PLC0415
    from pytest_pullqueue.reports import check_triggered  # noqa: PLC0415

    with Faults(pullqueue_emulator) as faults:
        yield faults
        if _pullqueue_settings.strict_faults:
            check_triggered(request.node, faults)


@pytest.fixture(scope="session")
def _pullqueue_sdk_loaded() -> None:
    from pullqueue.errors import PullQueueError  # noqa: PLC0415

    try:
        from pullqueue.sdk import installation  # noqa: F401, PLC0415
    except PullQueueError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def pullqueue_sdk(
    request: pytest.FixtureRequest,
    _pullqueue_sdk_loaded: None,
    _pullqueue_settings: Settings,
    pullqueue_emulator: Emulator,
) -> Iterator[EmulatorStub]:
    """App Engine's SDK on the test's emulator: `google.appengine.api.taskqueue` uses its queues.

    With `pullqueue_services = datastore_v3 memcache` in the ini file, or `services` of the marker,
    these have Google's stubs, each of them empty. With `strict`, a query fails if index.yaml lacks
    the composite index that it needs. Returns the stub of the queues, for suites that inspect it.
    What was installed before is restored. Warnings of the SDK's own modules are ignored during the
    test.
    """
    from pullqueue import sdk  # noqa: PLC0415
    from pullqueue.errors import ConfigFileError  # noqa: PLC0415

    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        try:
            services = _pullqueue_settings.services
            stub = stack.enter_context(sdk.install(pullqueue_emulator, services=services))
            if _pullqueue_settings.strict:
                from pullqueue.services.indexes import indexes_required  # noqa: PLC0415
                from pytest_pullqueue.emulator import index_yaml_of  # noqa: PLC0415

                index_yaml = index_yaml_of(request.node, _pullqueue_settings)
                stack.enter_context(indexes_required(index_yaml))
        except (ConfigFileError, sdk.SdkInUseError, ValueError) as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        warnings.filterwarnings("ignore", module=r"google\.appengine\.")
        yield stub


@pytest.fixture(scope="session")
def _pullqueue_server_loaded() -> None:
    import pullqueue.server.lifecycle  # noqa: F401, PLC0415


@pytest.fixture
def pullqueue_server(
    _pullqueue_server_loaded: None, _pullqueue_settings: Settings, pullqueue_emulator: Emulator
) -> Iterator[LiveServer]:
    """A live server of the REST API, in threads of this process, that serves the test's emulator.

    It listens on a free port of this machine until the end of the test, so that a client that
    outlives the test does not reach the next one. An error inside the server fails the test.
    """
    from pullqueue.testing.live_server import live_server  # noqa: PLC0415

    with live_server(pullqueue_emulator, acl=_pullqueue_settings.acl) as server:
        yield server


@pytest.fixture(scope="session")
def _pullqueue_responses_loaded() -> None:
    try:
        import pytest_pullqueue.intercepting  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        if error.name not in ("responses", "requests"):
            raise
        message = "pullqueue_responses needs responses: pip install responses"
        raise pytest.fail.Exception(message, pytrace=False) from None


@pytest.fixture
def pullqueue_responses(
    _pullqueue_responses_loaded: None, _pullqueue_settings: Settings, pullqueue_emulator: Emulator
) -> Iterator[InterceptedRequests]:
    """Calls with `requests` to Google's addresses of the API, answered by the test's emulator.

    They are answered in process, by the library `responses`. Requests to this machine (127.0.0.0/8,
    ::1, localhost) pass through; any other address is refused, unless the test adds it to `.mock`.
    """
    from pytest_pullqueue.intercepting import requests_of_test  # noqa: PLC0415

    with requests_of_test(pullqueue_emulator, acl=_pullqueue_settings.acl) as answered:
        yield answered
