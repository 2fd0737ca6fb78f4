"""The clock beside freezers that a test brings along."""

from __future__ import annotations

from collections.abc import Callable

import pytest

QUEUE_YAML = "queue:\n- name: pull-queue\n  mode: pull\n"

Run = Callable[[str], pytest.RunResult]


def test_decorator_of_freezegun(run: Run) -> None:
    """@freeze_time decides the time from when the test is called, and the clock moves it."""
    result = run("""
        import time
        import pytest
        from datetime import datetime, timezone
        from freezegun import freeze_time

        @freeze_time("2012-01-14")
        def test_own(pullqueue_emulator, pullqueue_clock):
            assert pullqueue_clock.now() == datetime(2012, 1, 14, tzinfo=timezone.utc)
            queue = pullqueue_emulator.queue("pull-queue")
            queue.add()
            assert len(queue.lease_tasks(60, 10)) == 1
            pullqueue_clock.advance(60)
            assert time.time() == 1326499260
            assert len(queue.lease_tasks(60, 10)) == 1

        @freeze_time("2012-01-14", auto_tick_seconds=10)
        def test_ticking(pullqueue_emulator, pullqueue_clock):
            queue = pullqueue_emulator.queue("pull-queue")
            queue.add()
            [first] = queue.lease_tasks(5, 1)
            [again] = queue.lease_tasks(5, 1)
            assert again.eta > first.eta

        @pytest.fixture
        def frozen():
            with freeze_time("2013-01-14") as frozen:
                yield frozen

        def test_fixture_of_the_suite(frozen, pullqueue_emulator, pullqueue_clock):
            assert pullqueue_emulator.clock.now().year == 2013
            frozen.move_to("2014-01-01")
            assert pullqueue_clock.now().year == 2014

        def test_within(pullqueue_emulator, pullqueue_clock):
            with freeze_time("2030-01-01") as frozen:
                pullqueue_clock.advance(1)
                assert frozen().second == pullqueue_emulator.clock.now().second == 1
            assert pullqueue_clock.now().year == 2026

        def test_restored():
            assert time.time() > 1.7e9
    """)

    result.assert_outcomes(passed=5)


def test_freezer_of_pytest_freezer(run: Run) -> None:
    """The fixture `freezer` and the marker `freeze_time` are kept, in any order of arguments."""
    result = run("""
        import pytest
        from datetime import datetime, timedelta

        def test_first(freezer, pullqueue_clock, pullqueue_emulator):
            before = pullqueue_clock.now()
            freezer.tick(timedelta(hours=1))
            assert pullqueue_emulator.clock.now() == before + timedelta(hours=1)
            pullqueue_clock.advance(0.000001)
            assert freezer().microsecond == pullqueue_clock.now().microsecond

        def test_last(pullqueue_clock, pullqueue_emulator, freezer):
            freezer.move_to("2031-01-01")
            assert pullqueue_clock.now().year == pullqueue_emulator.clock.now().year == 2031

        @pytest.mark.freeze_time("2017-05-21")
        def test_marker(pullqueue_clock):
            assert pullqueue_clock.now().isoformat() == "2017-05-21T00:00:00+00:00"
    """)

    result.assert_outcomes(passed=3)


def test_time_machine(run: Run) -> None:
    """time-machine as fixture, marker or block, ticking or not, is kept and moved."""
    result = run("""
        import time
        import pytest
        from datetime import datetime, timedelta, timezone
        import time_machine as tm

        def test_fixture(pullqueue_clock, time_machine):
            time_machine.move_to(datetime(2040, 1, 1, tzinfo=timezone.utc))
            assert pullqueue_clock.now().year == 2040
            pullqueue_clock.move_to(datetime(2041, 1, 1, tzinfo=timezone.utc))
            assert datetime.now().year == 2041

        @pytest.mark.time_machine("2017-05-21T00:00+00:00", tick=False)
        def test_marker(pullqueue_clock, pullqueue_emulator):
            assert pullqueue_clock.now() == datetime(2017, 5, 21, tzinfo=timezone.utc)
            queue = pullqueue_emulator.queue("pull-queue")
            queue.add()
            queue.lease_tasks(60, 1)
            assert pullqueue_clock.next_event() == pullqueue_clock.now()
            assert time.time() == 1495324860
            assert len(queue.lease_tasks(60, 1)) == 1

        @pytest.fixture
        def travelling():
            with tm.travel("2012-01-14T00:00:00+00:00") as traveller:
                yield traveller

        def test_fixture_of_the_suite(travelling, pullqueue_emulator, pullqueue_clock):
            assert pullqueue_emulator.clock.now().year == 2012

        def test_without_the_clock_fixture(pullqueue_emulator):
            with tm.travel("2012-01-14T00:00:00+00:00", tick=False):
                pullqueue_emulator.clock.advance(1)
                assert time.time() == 1326412801 + 86400
    """)

    result.assert_outcomes(passed=4)


def test_decorator_of_time_machine(run: Run) -> None:
    """It cannot start once the fixture has frozen time; the report says what to use instead."""
    result = run("""
        import time_machine as tm

        @tm.travel("2012-01-14T00:00:00+00:00", tick=False)
        def test_decorator(pullqueue_clock):
            pass
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*: use the fixture `time_machine` or @pytest.mark.time_machine*"])


def test_start_beside_a_freezer_is_refused(run: Run) -> None:
    """Two things that set the time are a contradiction, and the report says so."""
    result = run("""
        import pytest
        from freezegun import freeze_time

        @pytest.fixture
        def frozen():
            with freeze_time("2012-01-14"):
                yield

        @pytest.mark.pullqueue(start="2026-01-01T00:00Z")
        def test_own(frozen, pullqueue_clock):
            pass
    """)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["the start of pullqueue_clock is set, but the test freezes time itself: remove one of*"]
    )


def test_missing_freezers(run: Run, pytester: pytest.Pytester) -> None:
    """The fixture names what to install and shows no traceback; a test's own freezer does."""
    pytester.makeconftest("import sys; sys.modules['freezegun'] = None")
    pytester.makeini("[pytest]\naddopts = -p no:freezer")

    result = run("""
        import sys
        import pytest

        def test_freezegun(pullqueue_clock): pass

        @pytest.mark.time_machine("2027-01-01", tick=False)
        def test_own_freezer(pullqueue_clock):
            assert pullqueue_clock.now().year == 2027

        @pytest.fixture
        def missing(monkeypatch):
            monkeypatch.setitem(sys.modules, "time_machine", None)

        @pytest.mark.pullqueue(freezer="time-machine")
        def test_time_machine(missing, pullqueue_clock): pass
    """)

    result.assert_outcomes(errors=2, passed=1)
    result.stdout.fnmatch_lines(
        [
            "pullqueue_clock needs freezegun: pip install freezegun",
            "pullqueue_clock needs time-machine: pip install time-machine",
        ]
    )


def test_time_machine_that_was_not_moved(run: Run) -> None:
    """The fixture is in charge, frozen at the start of the clock, until the test moves it."""
    result = run("""
        import time
        import pytest
        from datetime import datetime, timezone

        def test_fixture(pullqueue_clock, time_machine, pullqueue_emulator):
            assert time.time() == 1767225600 == pullqueue_clock.now().timestamp()
            queue = pullqueue_emulator.queue("pull-queue")
            queue.add()
            queue.lease_tasks(60, 1)
            assert pullqueue_clock.expire_leases() == pullqueue_clock.now()
            assert time.time() == 1767225660
            time_machine.shift(1)
            assert pullqueue_clock.now().timestamp() == 1767225661
            time_machine.move_to(datetime(2040, 1, 1, tzinfo=timezone.utc), tick=False)
            assert pullqueue_emulator.clock.now().year == 2040

        @pytest.mark.pullqueue(start="2030-01-01T00:00Z")
        def test_start(time_machine, pullqueue_clock):
            assert pullqueue_clock.now() == datetime(2030, 1, 1, tzinfo=timezone.utc)

        def test_restored():
            assert time.time() > 1767225600 + 86400
    """)

    result.assert_outcomes(passed=3)


def test_fixtures_of_the_same_names(run: Run) -> None:
    """A suite's own fixture `freezer` that freezes nothing does not keep time from being frozen."""
    result = run("""
        import time
        import pytest

        @pytest.fixture
        def freezer():
            return "keeps food"

        def test_frozen(freezer, pullqueue_clock):
            assert time.time() == 1767225600
    """)

    result.assert_outcomes(passed=1)


def test_hints(run: Run) -> None:
    """A report says what to do about FakeDatetime, and about gRPC's deadlines with time-machine."""
    result = run("""
        import pytest
        from datetime import datetime
        from google.api_core.exceptions import DeadlineExceeded

        def test_type(pullqueue_clock):
            raise ValueError(f"unsupported type {type(datetime.now())}")

        def test_assertion(pullqueue_clock):
            assert datetime.now() == 1      # shows a FakeDatetime, too

        @pytest.mark.pullqueue(freezer="time-machine")
        def test_deadline(pullqueue_clock):
            raise DeadlineExceeded("Deadline Exceeded")

        def test_deadline_with_freezegun(pullqueue_clock):
            raise DeadlineExceeded("Deadline Exceeded")
    """)

    result.assert_outcomes(failed=4)
    for hint in ("pullqueue_freezer = time-machine", "pass `timeout=None` to the call"):
        assert sum(hint in line for line in result.outlines) == 1
