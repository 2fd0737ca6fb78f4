"""The plugin's emulator and clock, as a test suite of a user sees them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests
from freezegun import freeze_time

import pytest_pullqueue
from pullqueue import Emulator
from pullqueue.sdk.imports import taskqueue
from pullqueue.testing import describe
from pytest_pullqueue import LiveServer

QUEUE_YAML = """\
queue:
- name: pull-queue
  mode: pull
"""

START = datetime(2026, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.pullqueue(config=QUEUE_YAML)

Run = Callable[..., pytest.RunResult]


def test_the_plugin_and_its_fixtures_import_what_they_need(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others import what they like
    pytester.makepyfile("""
        import sys

        HEAVY = {
            "flask", "werkzeug", "waitress", "yaml", "jsonschema", "freezegun", "responses",
            "requests", "google.appengine", "click", "sortedcontainers", "pullqueue",
        }

        def test_modules():
            assert "pytest_pullqueue.plugin" in sys.modules
            assert not HEAVY & set(sys.modules)

        def test_modules_of_the_sdk(pullqueue_sdk):
            assert "google.appengine.api.taskqueue" in sys.modules
            assert "google.appengine.ext.testbed" not in sys.modules  # has stubs of all services
    """)

    result = pytester.runpytest_subprocess("-p", "pytest_pullqueue.plugin")

    result.assert_outcomes(passed=2)


def test_a_run_without_plugins_of_pytest_passes_with_warnings_as_errors(
    pytester: pytest.Pytester,
) -> None:
    """Workers of xdist: test_stores_plugin.py."""
    pytester.makepyfile("""
        import pytest
        import requests

        @pytest.mark.pullqueue(queues=["jobs"])
        def test_flow(pullqueue_emulator, pullqueue_clock, pullqueue_server):
            queue = pullqueue_emulator.queue("jobs")
            queue.add()
            queue.lease_tasks(60, 1)
            pullqueue_clock.expire_leases()
            assert queue.lease_tasks(60, 1)[0].retry_count == 2
            path = "/taskqueue/v1beta2/projects/s~app/taskqueues/jobs/tasks"
            assert requests.get(pullqueue_server.url + path).status_code == 200
    """)
    without = [f"-pno:{name}" for name in ("cacheprovider", "capture", "logging", "terminal")]
    options = ("--import-mode=importlib", "--strict-markers", "--strict-config", "-prandomly")

    assert pytester.runpytest("-Werror", *options, *without).ret == pytest.ExitCode.OK


def test_emulator_alone_leaves_time_running(pullqueue_emulator: Emulator) -> None:
    before = time.time()  # noqa: TID251

    assert before > 1.7e9
    assert pullqueue_emulator.queue("pull-queue").add().enqueued_usec >= before * 1e6 - 1


def test_time_is_restored_after_a_test(run: Run) -> None:
    result = run("""
        import time
        import pytest
        from freezegun import freeze_time

        pytestmark = pytest.mark.pullqueue(freezer="freezegun")

        def test_moves(pullqueue_clock):
            pullqueue_clock.advance(365 * 86400)

        def test_fails(pullqueue_clock):
            freeze_time("2012-01-14").start()
            assert time.time() == 1326499200
            raise RuntimeError

        def test_restored():
            assert time.time() > 1.7e9
            from freezegun.api import freeze_factories
            assert not freeze_factories
    """)

    result.assert_outcomes(passed=2, failed=1)
    [seconds] = re.findall(r"passed in ([\d.]+)s", result.stdout.str())
    assert 0 <= float(seconds) < 86400


def test_each_lease_of_a_report_names_its_client(
    pullqueue_emulator: Emulator,
    pullqueue_sdk: object,
    pullqueue_server: LiveServer,
    pullqueue_responses: object,
) -> None:
    queue = pullqueue_emulator.queue("pull-queue")
    for name in ("sdk", "mocked", "live"):
        queue.add(name=name)
    lease = (
        "/taskqueue/v1beta2/projects/p/taskqueues/pull-queue/tasks/lease?leaseSecs=60&numTasks=1"
    )

    def poll() -> None:
        taskqueue.Queue("pull-queue").lease_tasks(60, 1)
        for root in ("https://www.googleapis.com", pullqueue_server.url):
            requests.post(root + lease, headers={"User-Agent": "my-worker/7"}, timeout=60)

    poller = threading.Thread(target=poll, name="poller")
    poller.start()
    poller.join()

    shown = describe(pullqueue_emulator)
    for name, client in (
        ("sdk", "SDK in thread poller"),
        ("mocked", "my-worker/7 in thread poller"),
        ("live", "my-worker/7 from port "),
    ):
        assert re.search(rf'  leased    "{name}" .*, by {client}', shown)
        assert re.search(rf'"{name}" leased until .*, by {client}', shown)


def test_failure_shows_the_queues(run: Run) -> None:
    result = run("""
        import unittest
        import pytest
        from pullqueue import TransientError
        from pullqueue.testing import emulation

        @pytest.fixture(scope="module")
        def of_module():
            with emulation(queues=["of-module"]) as emulated:
                yield emulated

        class TestIt(unittest.TestCase):
            def test_case(self):
                emulated = self.enterContext(emulation(queues=["of-case"]))
                emulated.emulator.queue("of-case").add(name="one")
                emulated.faults.fail("lease_tasks", TransientError, after=1)
                emulated.emulator.queue("of-case").lease_tasks(60, 1)
                assert 0

        def test_fixture(of_module):
            with emulation(queues=["of-block"]):
                assert 0

        def test_sdk(pullqueue_sdk):
            with emulation(queues=["inner"]):
                assert 0

        def test_passes():
            with emulation(queues=["elsewhere"]):
                pass

        def test_other():
            assert 0
    """)

    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(
        [
            "*- pullqueue -*",
            "the time is 2026-01-01T00:00:00+00:00",
            'queue "of-case": 1 leased',
            '  leased    "one" *leased once until 2026-01-01T00:01:00+00:00 * by Python in *',
            "  events:",
            '    2026-01-01T00:00:00+00:00 "one" added',
            '*"one" leased until 2026-01-01T00:01:00+00:00, by Python in thread MainThread',
            'fault fail("lease_tasks", TransientError, after=1): triggered on 0 of 1 calls',
            "*_ test_fixture _*",
            "*- pullqueue: emulation 1 -*",
            'queue "of-module": empty',
            "*- pullqueue: emulation 2 -*",
            'queue "of-block": empty',
            "*_ test_sdk _*",
            "*- pullqueue: pullqueue_emulator -*",
            "*- pullqueue: emulation * -*",
            "App Engine's SDK uses another emulator: Emulator(file='*/queue.yaml', *",
            'queue "inner": empty',
        ]
    )
    assert result.stdout.str().count('queue "of-') == 5
    result.stdout.no_fnmatch_line("*elsewhere*")


def test_a_clock_that_went_back(pullqueue_emulator: Emulator) -> None:
    queue = pullqueue_emulator.queue("pull-queue")
    queue.add(name="one")
    with freeze_time("2012-01-14"):
        assert queue.lease_tasks(60, 1) == []

    shown = describe(pullqueue_emulator)
    assert "  leased in vain at 2012-01-14T00:00:00+00:00, before tasks were added at " in shown


def test_errors_are_shown_where_the_test_asked(run: Run) -> None:
    result = run("""
        from google.appengine.api import taskqueue
        from pullqueue.testing import assert_added, crash_test

        def test_python(pullqueue_emulator):
            pullqueue_emulator.queue("pull-queue").add("x", name="a b")

        def test_sdk(pullqueue_sdk):
            taskqueue.Queue("pull-queue").modify_task_lease(taskqueue.Task(name="x"), 60)

        def test_assertion(pullqueue_emulator):
            assert_added(pullqueue_emulator.queue("pull-queue"), tag="y")

        def test_crashes(pullqueue_emulator, pullqueue_clock):
            queue, saved = pullqueue_emulator.queue("pull-queue"), set()

            def work():
                tasks = queue.lease_tasks(60, 1)
                queue.delete_tasks(tasks)
                saved.update(task.name for task in tasks)

            def setup():
                saved.clear()
                queue.add(name="one")

            crash_test(pullqueue_emulator, work, setup=setup, check=lambda: saved == {"one"})
    """)

    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        [
            ">*add(*name=*a b*",
            'E *task name is "a b": use letters *',
            ">*modify_task_lease(*",
            'E *taskqueue.Error: queue "pull-queue" has no task "x"',
            '>*assert_added(*, tag="y")',
            'E *expected at least one task with tag="y" added to queue "pull-queue", but found 0',
            ">*crash_test(*",
            "E *crash_test: 2 of 6 crashes lead to a wrong state",
        ]
    )
    for hidden in ("engine*queue", "engine*interceptors", "assertions", "crash"):
        result.stdout.no_fnmatch_line(f"*/pullqueue/*{hidden}.py:*")
    result.stdout.no_fnmatch_line("*pullqueue.errors.UnknownTaskError*")


def test_the_log_of_a_failed_race_is_that_of_its_order(run: Run) -> None:
    """Its check reads `caplog`, which has all of it at once, as a file has."""
    source = """
        import logging
        from pullqueue.testing import race_test

        def test_race(pullqueue_emulator, pullqueue_clock, caplog):
            queue = pullqueue_emulator.queue("pull-queue")

            def one():
                queue.purge()
                logging.warning("one")

            def other():
                queue.purge()
                logging.warning("other")

            def check():
                assert caplog.messages != ["other", "one"]

            race_test(pullqueue_emulator, one, other, setup=caplog.clear, check=check)
    """
    result = run(source, "--log-file=log.txt", "--log-file-format=%(message)s")

    result.assert_outcomes(failed=1)
    assert Path("log.txt").read_text().split()[:3] == ["one", "other", "other"]
    log = result.stdout.str().partition("Captured log call")[2]
    assert [line.split()[2] for line in log.splitlines() if "WARNING" in line] == ["other", "one"]


def test_a_failed_assertion_shows_the_state_once(run: Run) -> None:
    """The report's section has what the message does not show; there is none if it shows all."""
    result = run(
        """
        import pytest
        from pullqueue.testing import assert_empty, drain

        @pytest.mark.pullqueue(queues=["shown", "other"])
        def test_assertion(pullqueue_emulator):
            pullqueue_emulator.queue("shown").add()
            pullqueue_emulator.queue("other").add()
            assert_empty(pullqueue_emulator.queue("shown"))

        def test_drain(pullqueue_emulator, pullqueue_clock):
            pullqueue_emulator.queue("pull-queue").add()
            drain(pullqueue_emulator, lambda: None, max_calls=3)
        """,
        "-rN",  # pytest's own summary repeats whole messages under CI
    )

    result.assert_outcomes(failed=2)
    for name in ("shown", "other", "pull-queue"):
        assert sum(f'queue "{name}": 1 available' in line for line in result.stdout.lines) == 1
    assert sum("- pullqueue -" in line for line in result.stdout.lines) == 1


def test_each_name_for_annotations_leads_to_its_class() -> None:
    for name in pytest_pullqueue.__all__:
        assert getattr(pytest_pullqueue, name).__name__ == name
    with pytest.raises(AttributeError, match=r'^module "pytest_pullqueue" has no attribute "x"$'):
        pytest_pullqueue.x  # noqa: B018


def test_lines_are_shown_while_a_test_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pullqueue.testing.exploration.progress import Stopwatch

        def test_long(pullqueue_emulator):
            times = iter([0.0, 30.0])
            Stopwatch(lambda: next(times)).report(lambda: "half done")
        """
    )
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(["*half done (30 s)"])
    result.assert_outcomes(passed=1)
