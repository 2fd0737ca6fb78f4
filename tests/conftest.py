"""What all tests share."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

os.environ["HYPOTHESIS_NO_PLUGINS"] = "1"  # that of trio imports trio in each process
from hypothesis import HealthCheck, settings

from pullqueue import Emulator, ManualClock

if TYPE_CHECKING:
    from push_app import PushApp

    from pullqueue.server.lifecycle import Server

# A background job of a shell (`cmd &`, nohup) ignores SIGINT, and programs started by tests would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Some containers set this, and each of the many programs would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# No package index has Google's gcloud, so that the gate cannot install it.
collect_ignore = [] if shutil.which("gcloud") else ["release/clients/test_convert_gcloud.py"]

SLOW = {"acceptance", "contract", "resources", "server", "stores", "testing"}
SLOW |= {
    f"test_{name}.py" for name in ("benchmarks", "console_browser", "docs", "docs_guides", "site")
}
"""Folders and files whose tests take longest, or wait longest."""

# Every run tries other examples, so a few each time are many over a week.
LONG = bool(os.environ.get("PULLQUEUE_TEST_LONG"))
settings.register_profile(
    "pullqueue",
    max_examples=1000 if LONG else 25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("pullqueue")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are processors: many tests wait for programs they drive."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Start the process that forks programs for all workers of xdist, if they run such tests."""
    inside = {Path(__file__).parent / name for name in ("contract", "unit")}
    named = [Path(argument.partition("::")[0]).resolve() for argument in node.config.args]
    if any(inside.isdisjoint((path, *path.parents)) for path in named):
        from forking import start  # noqa: PLC0415 - for these tests only

        node.workerinput["forks"] = str(start())


def pytest_configure(config: pytest.Config) -> None:
    """Use that process in a worker."""
    if forks := getattr(config, "workerinput", {}).get("forks"):
        from forking import shared  # noqa: PLC0415 - for these tests only

        shared.append(forks)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Have garbage looked for only in what the tests make, not among thousands of tests."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put slow tests first, which pytest-randomly has shuffled; set no time limit for long ones."""
    # So that several workers end together.
    items.sort(key=lambda item: SLOW.isdisjoint(item.path.parts))
    for item in items if LONG else ():
        item.add_marker(pytest.mark.timeout(0))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Undo the level of the log that a command, run in this process, has set."""
    logging.getLogger("pullqueue").setLevel(logging.NOTSET)


@pytest.fixture(autouse=True, scope="session")
def _time_zone() -> Iterator[None]:
    """Pin a time zone that is not UTC, so that a naive datetime shows as a failure."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "America/New_York"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that is at 2026-01-01."""
    return ManualClock()


@pytest.fixture
def queue_yaml(tmp_path: Path, config_text: str) -> Path:
    """Return a queue.yaml with the text of the module's fixture `config_text`."""
    path = tmp_path / "queue.yaml"
    path.write_text(config_text)
    return path


@pytest.fixture
def emulator(queue_yaml: Path, clock: ManualClock) -> Emulator:
    """Return an emulator of that file."""
    return Emulator.from_file(queue_yaml, clock=clock)


@pytest.fixture
def server(emulator: Emulator, queue_yaml: Path) -> Iterator[Server]:
    """Yield a running server of that emulator."""
    from pullqueue.runtime.config_file import ConfigFile  # noqa: PLC0415 - for these tests only
    from pullqueue.server.lifecycle import Server  # noqa: PLC0415 - slow to import

    with Server(emulator, config_file=ConfigFile(queue_yaml)) as server:
        yield server


@pytest.fixture
def app() -> Iterator[PushApp]:
    """Yield an app that push tasks are sent to."""
    from push_app import push_app  # noqa: PLC0415 - for these tests only

    with push_app() as app:
        yield app


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Let nothing be skipped unnoticed in CI: what is missing there is a failure."""
    outcome = yield
    _refuse_skip(outcome)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, None]:
    """See to the same where a whole module would be skipped."""
    outcome = yield
    _refuse_skip(outcome)


def _refuse_skip(outcome: Any) -> None:
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
