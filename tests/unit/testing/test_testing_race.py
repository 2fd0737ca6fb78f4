"""Workers run against each other, in every order of their calls."""

from __future__ import annotations

import itertools
import logging
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import requests
from functions import Run, Work, adding, in_turn, working
from ledgers import Ledger
from places import place, without_places

from pullqueue import Emulator, NewTask, Queue, TransientError
from pullqueue.faults.fault import find_faults
from pullqueue.server.lifecycle import Server
from pullqueue.tasks import NameInUseError
from pullqueue.testing import (
    CrashTestError,
    Faults,
    RaceTestError,
    drain,
    exhaust,
)
from pullqueue.testing.live_server import live_server

pytestmark = pytest.mark.slow

AddHandler = Callable[[logging.Handler], None]
PATH = "/taskqueue/v1beta2/projects/p/taskqueues/work/tasks"


@pytest.fixture
def race_ledger(race: Run, ledger: Ledger) -> Run:
    """A race of two workers, which have to book a task once."""
    return partial(race, setup=ledger.setup, check=ledger.check, copies=2)


def test_a_lease_expires_under_a_slow_worker(race_ledger: Run, ledger: Ledger) -> None:
    """Two workers book the same task; no turn has to be taken from anyone for that."""
    with pytest.raises(RaceTestError) as caught:
        race_ledger(ledger.book_first)

    error = caught.value
    leases, looks = (place(ledger.book_first, call) for call in ("lease_tasks", "fetch_statistics"))
    deletes = place(ledger.book, "delete_tasks")
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

    with pytest.raises(RaceTestError) as caught:
        race_ledger(ledger.book_first, replay=error.replay)
    again = caught.value
    assert again.replay == error.replay
    assert [*again.schedule[:2], *again.schedule[3:]] == [*error.schedule[:2], *error.schedule[3:]]


@pytest.mark.parametrize("leases", [1, 2, 3])
@pytest.mark.parametrize(
    ("kind", "where"),
    [("crash", "crash_test, without a crash"), ("race", "race_test, in the first order")],
)
def test_a_task_that_is_exhausted_in_the_first_run_is_reported(
    request: pytest.FixtureRequest, limited: Queue, kind: str, where: str, leases: int
) -> None:
    """The queue permits two leases; in later runs crashes and slow workers use them up."""
    count = [0]
    checks, exhausted = itertools.count(), set[int]()

    def setup() -> None:
        count[0] = 0
        exhaust(limited, limited.add())
        limited.add(name="one")

    def work() -> None:
        for _ in range(leases):
            for task in limited.lease_tasks(60, 1):
                count[0] += 1
                if count[0] == leases:
                    limited.delete_tasks(task)
            time.sleep(60)  # noqa: TID251 - moves the clock

    def check() -> None:
        exhausted.add(len(limited.exhausted))
        if next(checks):  # so that each later run leaves one more
            exhaust(limited, limited.add())

    options = {"copies": 2, "schedules": 1000 if leases == 1 else 1} if kind == "race" else {}
    run = partial(request.getfixturevalue(kind), work, setup=setup, **options)
    with warnings.catch_warnings(action="always", record=True) as warned:
        run(check=check)
    if leases <= 2:
        assert not warned
        assert exhausted == ({1} if (kind, leases) == ("race", 2) else {1, 2})
        return
    message = (
        f'{where}: 1 task of queue "limited" was leased as often as is permitted, never deleted, '
        'and exhausted; pass undeleted="ignore" if the test expects that'
    )
    assert [(str(each.message), each.filename) for each in warned] == [(message, __file__)]
    run(undeleted="ignore")
    with pytest.raises(AssertionError, match=rf'^{message}(.|\n)*exhausted "one"'):
        run(undeleted="error")


def test_a_task_that_is_never_deleted_is_reported(race: Run, queue: Queue, limited: Queue) -> None:
    """No time passes in the first order, so its lease has not ended; that of `setup` is not one."""
    setup = in_turn(
        lambda: queue.add_many([NewTask(), NewTask(), NewTask()]), lambda: queue.lease_tasks(600, 1)
    )

    def work() -> None:
        for task in queue.lease_tasks(60, 1):
            limited.delete_tasks(task.name)

    message = (
        'race_test, in the first order: 2 tasks of queue "work" were leased, and not deleted when '
        'all actors had ended; pass undeleted="ignore" if the test expects that'
    )
    with pytest.warns(UserWarning, match=f"^{message}$"):
        race(work, setup=setup, copies=2, schedules=2)


@pytest.mark.parametrize("error", [OSError("cannot save"), SystemExit("no settings")])
def test_an_actor_that_raises_fails_the_test(race: Run, queue: Queue, error: BaseException) -> None:
    """Others are stopped then, and none of their threads is left."""

    def fail() -> None:
        queue.fetch_statistics()
        raise error

    def wait() -> None:
        queue.fetch_statistics()

    with pytest.raises(RaceTestError, match=f"{type(error).__name__}: {error}") as caught:
        race(fail, wait, setup=queue.add)

    assert caught.value.__cause__ is caught.value.error is error
    assert not {"fail", "wait"} & {thread.name for thread in threading.enumerate()}


def test_a_worker_that_raises_is_started_again(race: Run, ledger: Ledger) -> None:
    """Its lease ends first, so that it can lease the task again, unless the other one has."""
    runs: list[str] = []
    setup = in_turn(runs.clear, ledger.setup)

    def fail_once() -> None:
        runs.append("run")
        for task in ledger.queue.lease_tasks(60, 1):
            if runs == ["run"]:
                raise OSError("in conflict with another worker")
            ledger.queue.delete_tasks(task)

    run = partial(race, fail_once, setup=setup, check=lambda: not ledger.queue.list_tasks(1))
    with pytest.raises(RaceTestError, match="OSError: in conflict"):
        run(copies=2)
    assert run(copies=2, errors="retry", preemptions=1) > 2
    with pytest.raises(AssertionError, match="there is only one actor"):
        run(errors="retry", clock=False)


def test_a_worker_that_always_raises_or_never_ends_is_an_error(race: Run, queue: Queue) -> None:
    def fail() -> None:
        raise OSError("no")

    def add() -> None:
        while True:
            queue.add()

    message = "has made 20 calls; if this is not an endless loop, pass a higher max_calls"
    with pytest.raises(RaceTestError, match=f"fail {message}"):
        race(fail, queue.purge, setup=queue.add, errors="retry", max_calls=20)
    with pytest.raises(RaceTestError, match=f"add {message}"):
        race(add, max_calls=20)


def test_a_thread_of_an_actor_changes_nothing_after_the_test(
    race: Run, emulator: Emulator, queue: Queue
) -> None:
    tested = threading.Event()
    threads: list[threading.Thread] = []

    def add_later() -> None:
        tested.wait()  # in real time, unlike one with a timeout
        queue.add()

    def work() -> None:
        threads.append(threading.Thread(target=add_later))
        threads[-1].start()
        queue.fetch_statistics()

    race(work, schedules=1, copies=2)
    tested.set()
    for thread in threads:
        thread.join()

    assert not queue.list_tasks(1)
    assert not len(emulator.interceptors)


def test_a_worker_that_loops_forever_is_stopped(race_ledger: Run, ledger: Ledger) -> None:
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
        assert race_ledger(worker, check=lambda: bool(ledger.booked), schedules=10) == 10


def test_a_loop_goes_on_while_others_add_tasks(race: Run, ledger: Ledger) -> None:
    """Only one that leases in vain again after that is stopped."""

    def loop() -> None:
        while True:
            for task in ledger.queue.lease_tasks(60, 1):
                ledger.book(task)
            time.sleep(5)  # noqa: TID251 - moves the clock

    add = adding(ledger.queue, "one", "two")
    check = lambda: {*ledger.booked} == {"one", "two"}  # noqa: E731
    assert race(loop, add, setup=ledger.booked.clear, check=check).is_complete


@pytest.mark.parametrize("how", [sys.exit, partial(sys.exit, 0)])
def test_a_worker_can_end_as_a_program_does(
    race: Run, crash: Run, emulator: Emulator, queue: Queue, how: Callable[[], object]
) -> None:
    work = in_turn(working(queue), how)
    assert race(work, copies=2, setup=queue.add, clock=False).is_complete
    assert crash(work, setup=queue.add).is_complete
    queue.add()
    assert drain(emulator, work) == 1


def test_each_schedule_begins_with_the_same_faults(
    race: Run, emulator: Emulator, queue: Queue
) -> None:
    """The second add fails, in each order; it is hidden where another was faster."""
    added: list[str] = []

    def add() -> None:
        before = len(added)
        queue.fetch_statistics()
        try:
            queue.add()
        except TransientError:
            if len(added) > before:
                return
            queue.add()
        added.append("one")

    def set_fault() -> None:
        added.clear()
        faults.fail("add", times=1, after=1)

    with Faults(emulator) as faults:
        options: dict[str, Any] = {"copies": 2, "check": lambda: len(added) == 2, "clock": False}
        in_setup = pytest.raises(RaceTestError, match=r"1\.(.*\n)*.* raises TransientError\n")
        with in_setup as caught:
            race(add, setup=set_fault, **options)
        assert not caught.value.failures[0].is_sequential
        assert len(find_faults(emulator)) == 1
        faults.clear()
        faults.fail("add", times=1, after=1)
        with pytest.raises(RaceTestError) as caught:
            race(add, setup=added.clear, **options)
        assert not caught.value.failures[0].is_sequential


@pytest.mark.parametrize("resets", [True, False])
def test_a_setup_that_does_not_reset_everything_is_reported(
    race: Run,
    queue: Queue,
    resets: bool,  # noqa: FBT001 - of a table
) -> None:
    """A race that only the first schedule could have had was not tried in other orders."""
    booked: set[str] = set()

    def book() -> None:
        if not booked:
            queue.add()
            booked.add("one")

    result = race(book, copies=2, setup=booked.clear if resets else lambda: None)

    assert result.is_complete is resets
    at = f"only the first with calls at {place(book, 'queue.add')[1:-1]}: setup may not reset"
    assert (at in str(result)) is not resets
    again = pickle.loads(pickle.dumps(result))  # noqa: S301 - our own
    assert (again, str(again), vars(again)) == (result, str(result), vars(result))


def test_an_actor_has_no_context_of_another(race: Run, queue: Queue) -> None:
    current: ContextVar[str] = ContextVar("current", default="nothing")
    current.set("the test")

    def handle() -> None:
        assert current.get() == "the test"
        current.set("a request")
        queue.fetch_statistics()

    assert race(handle, copies=2, reduce=False) > 2


def test_a_step_shows_which_names_were_in_use(race: Run, queue: Queue) -> None:
    def claim() -> None:
        with suppress(NameInUseError):
            queue.add_many([NewTask(name="lock"), NewTask(name="key")])
        queue.purge()

    with pytest.raises(RaceTestError) as caught:
        race(claim, check=lambda: False, copies=2)

    steps = without_places(caught.value.schedule)
    added = [step.partition("work")[2] for step in steps if "add" in step]
    assert added == [
        '" -> "lock", "key"',
        '" -> "lock" TombstonedTaskError, "key" TombstonedTaskError',
    ]


def test_check_can_fail_as_a_test_of_pytest_does(race: Run, crash: Run, queue: Queue) -> None:
    """`pytest.fail` raises what is not an `Exception`."""
    done: list[int] = []
    work = in_turn(working(queue), lambda: done.append(1))

    def check() -> None:
        if len(done) != 1:
            pytest.fail(f"done {len(done)} times")

    setup = in_turn(done.clear, queue.add)

    with pytest.raises(RaceTestError, match="Failed: done 2 times"):
        race(work, setup=setup, check=check, copies=2)
    with pytest.raises(CrashTestError, match="Failed: done 0 times"):
        crash(work, setup=setup, check=check)


def test_a_client_of_a_server_is_stopped_at_its_calls(
    race_ledger: Run, emulator: Emulator, ledger: Ledger
) -> None:
    with Server(emulator) as server:

        def work() -> None:
            with requests.Session() as session:
                url = server.url + PATH
                lease = session.post(f"{url}/lease?leaseSecs=60&numTasks=1", timeout=30).json()
                for task in lease.get("items", ()):
                    ledger.booked.append(task["id"])
                    session.delete(f"{url}/{task['id']}", timeout=30)

        with pytest.raises(RaceTestError) as caught:
            race_ledger(work)

    steps = caught.value.schedule
    assert {step.partition(":")[0] for step in steps} == {"work 1", "work 2", "time"}
    lease = f'lease_tasks(60, 1) on queue "work" {place(work, "session.post")}'
    assert any(lease in step for step in steps)


def test_four_clients_of_the_fixtures_server_can_be_stopped_at_once(
    race: Run, emulator: Emulator
) -> None:
    """Each holds a thread of the server while it waits for its turn."""
    with live_server(emulator) as server:

        def look() -> None:
            requests.get(server.url + PATH, timeout=30)

        race(look, copies=4, replay="1 2 3 4 4 3 2 1")


def test_what_actors_log_is_shown_where_a_schedule_fails(
    race: Run, queue: Queue, add_handler: AddHandler, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a replay all of it."""
    add_handler(logging.StreamHandler(sys.stderr))
    done: list[str] = []

    def actor(name: str) -> Work:
        def act() -> None:
            queue.purge()
            done.append(name)
            logging.getLogger("shop").warning(name)

        return act

    wrong: list[str] = []
    options: Any = {"setup": done.clear, "check": lambda: done != wrong}
    actors = actor("one"), actor("other")
    race(*actors, **options)
    assert not capsys.readouterr().err
    wrong[:] = ["other", "one"]
    with pytest.raises(RaceTestError) as caught:
        race(*actors, **options)
    assert capsys.readouterr().err.split() == wrong
    with pytest.raises(RaceTestError):
        race(*actors, **options, replay=caught.value.replay)
    assert capsys.readouterr().err.split() == wrong


def test_check_reads_what_actors_log(
    race: Run,
    queue: Queue,
    add_handler: AddHandler,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """Whichever handler of the test has it: only what is printed is shown later."""
    path, text = tmp_path / "log", StringIO()
    for handler in (logging.FileHandler(path), logging.StreamHandler(text)):
        add_handler(handler)
    setup = in_turn(caplog.clear, lambda: path.write_text(""), lambda: text.seek(text.truncate(0)))

    def act() -> None:
        queue.purge()
        try:
            raise LookupError("no such order")
        except LookupError:
            logging.getLogger("shop").exception("sent")

    def check() -> None:
        for log in (caplog.text, path.read_text(), text.getvalue()):
            assert log.count("sent") == log.count("LookupError: no such order") == 2
        assert all(record.exc_info for record in caplog.records)

    assert race(act, copies=2, setup=setup, check=check) > 1


@pytest.mark.parametrize(
    ("tasks", "leased", "is_shown"), [(2, 1, False), (3, 1, True), (1, 0, False)]
)
def test_workers_that_end_and_leave_tasks_should_loop(
    race: Run, queue: Queue, tasks: int, leased: int, *, is_shown: bool
) -> None:
    """Unless tasks are left that no worker leases, such as those that handlers add."""

    def work() -> None:
        queue.fetch_statistics()
        for task in queue.lease_tasks(60, 1) if leased else ():
            queue.delete_tasks(task)

    with pytest.raises(RaceTestError) as caught:
        race(
            work,
            setup=lambda: queue.add_many([NewTask()] * tasks),
            check=lambda: False,
            copies=2,
            schedules=1,
            clock=False,
        )

    hint = '\nall workers have ended, and tasks are left in queue "work": pass a loop'
    assert (hint in str(caught.value)) is is_shown
