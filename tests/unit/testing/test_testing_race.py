"""Workers run against each other, in every order of their calls."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest
import requests
from ledgers import Ledger
from places import place, without_places

from pullqueue import Emulator, NewTask, Queue
from pullqueue.server.lifecycle import Server
from pullqueue.tasks import NameInUseError
from pullqueue.testing import CrashTestError, Faults, RaceTestError, crash_test, race_test
from pullqueue.testing.live_server import live_server

pytestmark = pytest.mark.slow


def test_a_lease_expires_under_a_slow_worker(emulator: Emulator, ledger: Ledger) -> None:
    """Two workers book the same task; no turn has to be taken from anyone for that."""
    run = partial_race(emulator, ledger)

    with pytest.raises(RaceTestError) as caught:
        run()

    error = caught.value
    leases = place(ledger.book_first, "lease_tasks")
    looks = place(ledger.book_first, "fetch_statistics")
    deletes = place(ledger.book_first, "delete_tasks")
    assert error.schedule == (
        f'book_first 1: lease_tasks(60, 1) on queue "work" {leases} -> "one"',
        f'book_first 1: fetch_statistics() on queue "work" {looks}',
        error.schedule[2],
        f'book_first 2: lease_tasks(60, 1) on queue "work" {leases} -> "one"',
        f'book_first 2: fetch_statistics() on queue "work" {looks}',
        f'book_first 2: delete_tasks("one") on queue "work" {deletes} -> deleted',
        f'book_first 1: delete_tasks("one") on queue "work" {deletes} -> tombstoned',
    )
    assert error.schedule[2].startswith("time: moves 0:01:00 to 2026-01-01T00:")
    assert str(error.error) == "check returned False"
    lines = str(error).splitlines()
    assert lines[0].startswith("race_test: schedule ")
    assert lines[1] == f"  1. {error.schedule[0]}"
    assert f'repeat this schedule with race_test(..., replay="{error.replay}")' == lines[-1]
    assert any('"one" lease expired' in line for line in lines)


def partial_race(emulator: Emulator, ledger: Ledger, **options: Any) -> Callable[..., int]:
    def run(**more: Any) -> int:
        return race_test(
            emulator,
            ledger.book_first,
            setup=ledger.setup,
            check=ledger.check,
            copies=2,
            **(options | more),
        )

    return run


def test_replay_repeats_exactly_the_schedule(emulator: Emulator, ledger: Ledger) -> None:
    run = partial_race(emulator, ledger)
    with pytest.raises(RaceTestError) as caught:
        run()
    first = caught.value

    with pytest.raises(RaceTestError) as caught:
        run(replay=first.replay)

    assert (caught.value.replay, len(caught.value.schedule)) == (first.replay, len(first.schedule))
    without_times = [step for step in first.schedule if not step.startswith("time")]
    repeated = [step for step in caught.value.schedule if not step.startswith("time")]
    assert repeated == without_times


def test_time_is_left_out_on_request(emulator: Emulator, ledger: Ledger) -> None:
    assert partial_race(emulator, ledger)(clock=False) > 10


def test_an_actor_that_raises_fails_the_test(emulator: Emulator, queue: Queue) -> None:
    def fail() -> None:
        queue.fetch_statistics()
        raise OSError("cannot save")

    def wait() -> None:
        queue.fetch_statistics()

    with pytest.raises(RaceTestError, match="OSError: cannot save") as caught:
        race_test(emulator, fail, wait, setup=queue.add, check=lambda: True)

    assert isinstance(caught.value.error, OSError)
    assert caught.value.__cause__ is caught.value.error
    assert not {"fail", "wait"} & {thread.name for thread in threading.enumerate()}


def test_a_worker_that_raises_is_started_again(emulator: Emulator, ledger: Ledger) -> None:
    """Its lease ends first, so that it can lease the task again, unless the other one has."""
    runs: list[str] = []

    def setup() -> None:
        runs.clear()
        ledger.setup()

    def fail_once() -> None:
        runs.append("run")
        for task in ledger.queue.lease_tasks(60, 1):
            if runs == ["run"]:
                raise OSError("in conflict with another worker")
            ledger.queue.delete_tasks(task)

    def run(**options: Any) -> int:
        return race_test(
            emulator,
            fail_once,
            setup=setup,
            check=lambda: not ledger.queue.list_tasks(1),
            **options,
        )

    with pytest.raises(RaceTestError, match="OSError: in conflict"):
        run(copies=2)
    assert run(copies=2, errors="retry") > 2
    with pytest.raises(AssertionError, match="there is only one actor"):
        run(errors="retry", clock=False)


def test_a_worker_that_always_raises_is_an_error(emulator: Emulator, queue: Queue) -> None:
    def fail() -> None:
        raise OSError("no")

    with pytest.raises(RaceTestError, match="fail has made 20 calls; if this is not an endless"):
        race_test(
            emulator,
            fail,
            queue.purge,
            setup=queue.add,
            check=lambda: True,
            errors="retry",
            max_calls=20,
        )


def test_a_thread_of_an_actor_changes_nothing_after_the_test(
    emulator: Emulator, queue: Queue
) -> None:
    tested = threading.Event()
    threads: list[threading.Thread] = []

    def add_later() -> None:
        tested.wait(60)
        queue.add()

    def work() -> None:
        threads.append(threading.Thread(target=add_later))
        threads[-1].start()
        queue.fetch_statistics()

    race_test(emulator, work, setup=lambda: None, check=lambda: True, schedules=1, copies=2)
    tested.set()
    for thread in threads:
        thread.join()

    assert not queue.list_tasks(1)
    assert not len(emulator.interceptors)


def test_a_worker_that_loops_forever_is_stopped(emulator: Emulator, ledger: Ledger) -> None:
    def forever() -> None:
        while True:
            ledger.book_first()

    def polling() -> None:
        while True:
            ledger.book_first()
            time.sleep(10)  # noqa: TID251 - moves the clock

    def reading() -> None:
        while True:
            ledger.book_first()
            ledger.queue.fetch_statistics()

    for worker in (forever, polling, reading):
        number = race_test(
            emulator,
            worker,
            worker,
            setup=ledger.setup,
            check=lambda: bool(ledger.booked),
            schedules=10,
        )
        assert number == 10


def test_an_actor_has_no_context_of_another(emulator: Emulator, queue: Queue) -> None:
    current: ContextVar[str] = ContextVar("current", default="nothing")
    current.set("the test")

    def handle() -> None:
        assert current.get() == "the test"
        current.set("a request")
        queue.fetch_statistics()

    options: Any = {"setup": lambda: None, "check": lambda: True}
    assert race_test(emulator, handle, **options, copies=2, reduce=False) > 2


def test_a_step_shows_which_names_were_in_use(emulator: Emulator, queue: Queue) -> None:
    def claim() -> None:
        with suppress(NameInUseError):
            queue.add_many([NewTask(name="lock"), NewTask(name="key")])
        queue.purge()

    with pytest.raises(RaceTestError) as caught:
        race_test(emulator, claim, setup=lambda: None, check=lambda: False, copies=2)

    steps = without_places(caught.value.schedule)
    added = [step.partition("work")[2] for step in steps if "add" in step]
    assert added == [
        '" -> "lock", "key"',
        '" -> "lock" TombstonedTaskError, "key" TombstonedTaskError',
    ]


def test_an_endless_actor_is_an_error(emulator: Emulator, queue: Queue) -> None:
    def add() -> None:
        while True:
            queue.add()

    with pytest.raises(RaceTestError, match=r"add has made 20 calls; .* pass a higher max_calls"):
        race_test(emulator, add, setup=lambda: None, check=lambda: True, max_calls=20)


def test_coroutine_functions_are_actors(emulator: Emulator, ledger: Ledger) -> None:
    async def work() -> None:
        await asyncio.to_thread(ledger.book_first)

    with pytest.raises(RaceTestError, match="time: moves 0:01:00"):
        race_test(emulator, work, setup=ledger.setup, check=ledger.check, copies=2)


def test_threads_of_an_actor_make_its_calls(emulator: Emulator, ledger: Ledger) -> None:
    def work() -> None:
        thread = threading.Thread(target=ledger.book_first)
        thread.start()
        thread.join()

    with pytest.raises(RaceTestError) as caught:
        race_test(emulator, work, setup=ledger.setup, check=ledger.check, copies=2)

    assert {step.partition(":")[0] for step in caught.value.schedule} == {
        "work 1",
        "work 2",
        "time",
    }


def test_check_can_fail_as_a_test_of_pytest_does(emulator: Emulator, queue: Queue) -> None:
    """`pytest.fail` raises what is not an `Exception`."""
    done: list[int] = []

    def work() -> None:
        queue.delete_tasks(queue.lease_tasks(60, 1))
        done.append(1)

    def check() -> None:
        if len(done) != 1:
            pytest.fail(f"done {len(done)} times")

    def setup() -> None:
        done.clear()
        queue.add()

    with pytest.raises(RaceTestError, match="Failed: done 2 times"):
        race_test(emulator, work, setup=setup, check=check, copies=2)
    with pytest.raises(CrashTestError, match="Failed: done 0 times"):
        crash_test(emulator, work, setup=setup, check=check)


def test_faults_apply(emulator: Emulator, queue: Queue) -> None:
    def add() -> None:
        queue.add()

    with Faults(emulator) as faults:
        faults.fail("add", times=1)
        with pytest.raises(RaceTestError):
            race_test(emulator, add, setup=lambda: None, check=lambda: True)


def test_a_client_of_a_server_is_stopped_at_its_calls(emulator: Emulator, ledger: Ledger) -> None:
    path = "/taskqueue/v1beta2/projects/p/taskqueues/work/tasks"
    with Server(emulator) as server:

        def work() -> None:
            with requests.Session() as session:
                url = server.url + path
                lease = session.post(f"{url}/lease?leaseSecs=60&numTasks=1", timeout=30).json()
                for task in lease.get("items", ()):
                    ledger.booked.append(task["id"])
                    session.delete(f"{url}/{task['id']}", timeout=30)

        with pytest.raises(RaceTestError) as caught:
            race_test(emulator, work, setup=ledger.setup, check=ledger.check, copies=2)

    steps = caught.value.schedule
    assert {step.partition(":")[0] for step in steps} == {"work 1", "work 2", "time"}
    lease = f'lease_tasks(60, 1) on queue "work" {place(work, "session.post")}'
    assert any(lease in step for step in steps)


def test_four_clients_of_the_fixtures_server_can_be_stopped_at_once(emulator: Emulator) -> None:
    """Each holds a thread of the server while it waits for its turn."""
    path = "/taskqueue/v1beta2/projects/p/taskqueues/work/tasks"
    with live_server(emulator) as server:

        def look() -> None:
            requests.get(server.url + path, timeout=30)

        race_test(
            emulator,
            look,
            setup=lambda: None,
            check=lambda: True,
            copies=4,
            replay="1 2 3 4 4 3 2 1",
        )


def test_what_actors_log_is_shown_where_a_schedule_fails(
    emulator: Emulator, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    def actor(name: str) -> Callable[[], None]:
        def act() -> None:
            queue.purge()
            done.append(name)
            logging.getLogger("shop").warning(name)

        return act

    def race(wrong: list[str], replay: str | None = None) -> None:
        actors = actor("one"), actor("other")
        check = lambda: done != wrong  # noqa: E731
        race_test(emulator, *actors, setup=done.clear, check=check, replay=replay)

    race([])
    assert not caplog.messages
    with pytest.raises(RaceTestError) as caught:
        race(["other", "one"])
    assert caplog.messages == ["other", "one"]
    with pytest.raises(RaceTestError):
        race(["other", "one"], replay=caught.value.replay)
    assert caplog.messages == ["other", "one"] * 2
