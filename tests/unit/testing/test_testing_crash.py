"""Killing a worker at each of its calls."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from functools import partial
from queue import Queue as Orders

import pytest
from functions import Run, Work, in_turn, working
from places import place

from pullqueue import DeadlineExceededError, Emulator, Queue, Task
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.testing import Crash, CrashTestError


class App:
    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.saved: dict[bytes, int] = {}

    def start(self) -> None:
        self.saved = {}
        self.queue.add("1", name="one")
        self.queue.add("2", name="two")

    def work(self) -> None:
        for task in self.queue.lease_tasks(60, 1):
            self.saved[task.payload] = 1
            self.queue.delete_tasks(task)

    def work_in_the_wrong_order(self) -> None:
        """Delete first, then save: a crash between the two loses an order."""
        for task in self.queue.lease_tasks(60, 1):
            self.queue.delete_tasks(task)
            self.saved[task.payload] = 1

    def check(self) -> bool:
        return self.saved == {b"1": 1, b"2": 1}


@pytest.fixture
def app(queue: Queue) -> App:
    return App(queue)


def test_a_worker_that_survives_passes(crash: Run, emulator: Emulator, app: App) -> None:
    """Two orders make four calls, and each can be crashed at in three ways."""
    assert crash(app.work, setup=app.start, check=app.check) == 12
    assert not emulator.interceptors


def test_a_worker_that_loses_work_is_found(crash: Run, app: App) -> None:
    worker = app.work_in_the_wrong_order
    with pytest.raises(CrashTestError) as caught:
        crash(worker, setup=app.start, check=app.check)

    failures = caught.value.failures
    assert [(failure.crash, failure.call_number) for failure in failures] == [
        (Crash.AFTER, 2),
        (Crash.ANSWER_LOST, 2),
        (Crash.AFTER, 4),
        (Crash.ANSWER_LOST, 4),
    ]
    lease = f'lease_tasks(60, 1) on queue "work" {place(worker, "lease_tasks")}'
    delete = f'delete_tasks("one") on queue "work" {place(worker, "delete_tasks")}'
    assert failures[0].calls == (lease, delete)
    lines = str(caught.value).splitlines()
    assert lines[:10] == [
        "crash_test: 4 of 12 crashes lead to a wrong state",
        "",
        f"killed after call 2, {delete}:",
        "  calls until then:",
        f"    1. {lease}",
        f"    2. {delete}",
        "  AssertionError: check returned False",
        "  the same error after:",
        f"    answer lost of call 2, {delete}",
        "  the time is 2026-01-01T00:00:00+00:00",
    ]
    assert str(caught.value).count("calls until then") == 2
    assert re.search(r'"one" leased until .*\n +.*"one" deleted', str(caught.value))
    assert caught.value.__cause__ is failures[0].error


def test_crashes_whose_errors_differ_in_their_details_are_one_entry(crash: Run, app: App) -> None:
    """Below the first line pytest shows values, such as ids, which differ from run to run."""
    details = itertools.count()

    def check() -> None:
        if not app.check():
            raise AssertionError(f"an order is lost\nassert None is {next(details)}")

    with pytest.raises(CrashTestError) as caught:
        crash(app.work_in_the_wrong_order, setup=app.start, check=check)

    assert len(caught.value.failures) == 4
    assert str(caught.value).count("calls until then") == 2


def test_crashes_with_different_errors_are_reported_one_by_one(crash: Run, queue: Queue) -> None:
    done = list[str]()
    step = partial(done.append, "done")
    work = working(queue, step, queue.fetch_statistics, step)

    def check() -> None:
        assert len(done) == 2, f"{len(done)} steps"

    with pytest.raises(CrashTestError) as caught:
        crash(work, setup=in_turn(done.clear, queue.add), check=check)

    failures = caught.value.failures
    reports = str(caught.value).split("\n\n")[1:]
    assert len(reports) < len(failures)
    assert sum(report.count("call ") for report in reports) == len(failures)
    for failure in failures:
        error = str(failure.error).splitlines()[0]
        assert any(failure.title in report and error in report for report in reports)


def test_what_a_dead_worker_raises_is_ignored(crash: Run, app: App) -> None:
    """Its machine has crashed, so nobody has seen it."""

    def work() -> None:
        try:
            app.work()
        except DeadlineExceededError:
            raise
        except BaseException:  # noqa: BLE001 - as code that cleans up does
            raise OSError("cannot close") from None

    assert crash(work, setup=app.start, check=app.check) == 12


def test_a_worker_that_retries_a_lost_answer_is_not_taken_for_dead(crash: Run, app: App) -> None:
    lives = []

    def work() -> None:
        lives.append("begun")
        for task in app.queue.lease_tasks(60, 1):
            app.saved[task.payload] = 1
            try:
                app.queue.delete_tasks(task)
            except DeadlineExceededError:
                app.queue.delete_tasks(task)
        lives.append("ended")

    assert crash(work, setup=app.start, check=app.check) == 12
    assert lives.count("ended") > 12


def test_a_dead_worker_changes_nothing(crash: Run, app: App) -> None:
    """What a killed worker does while it goes down has no effect on the queues.

    A worker that gets an error instead of an answer is alive, though, and its deletes count.
    """

    def work() -> None:
        for task in app.queue.lease_tasks(60, 1):
            try:
                app.queue.get_task(task.name)
                app.saved[task.payload] = 1
            finally:
                app.queue.delete_tasks(task)

    with pytest.raises(CrashTestError) as caught:
        crash(work, setup=app.start, check=app.check)

    assert {failure.crash for failure in caught.value.failures} == {Crash.ANSWER_LOST}


def test_a_worker_that_loops_forever_is_crashed_and_stopped(crash: Run, app: App) -> None:
    def work() -> None:
        while True:
            app.work()

    assert crash(work, setup=app.start, check=app.check) == 21


def test_an_error_of_the_worker_that_takes_over_is_found(crash: Run, app: App) -> None:
    def work() -> None:
        for task in app.queue.lease_tasks(60, 1):
            if task.retry_count > 1:
                raise RuntimeError("cannot happen")
            app.saved[task.payload] = 1
            app.queue.delete_tasks(task)

    with pytest.raises(CrashTestError, match=r"\n  RuntimeError: cannot happen\n"):
        crash(work, setup=app.start, check=app.check)


def test_what_is_wrong_without_a_crash_is_not_a_failed_crash(crash: Run, app: App) -> None:
    queue = app.queue
    long = type("Long", (tuple,), {"__repr__": lambda _: "x" * 5000})
    results: list[object] = [False, 0, "", [], Decimal(0)]
    for false in results:
        with pytest.raises(AssertionError, match=rf"^check returned {re.escape(repr(false))}$"):
            crash(app.work, setup=app.start, check=lambda: false)  # noqa: B023
    with pytest.raises(AssertionError, match=r"^check returned x{50,500}\W"):
        crash(app.work, setup=app.start, check=long)
    with pytest.raises(AssertionError, match=r"^crash_test: setup left no task in a pull"):
        crash(app.work, setup=queue.purge)
    with pytest.raises(AssertionError, match=r"^crash_test: the worker makes no call to a queue$"):
        crash(bypass_interceptors()(queue.purge), setup=app.start)


def test_each_run_begins_the_same_way(
    crash: Run, emulator: Emulator, work: Work, queue: Queue
) -> None:
    names = []
    source = emulator.names

    def start() -> None:
        names.append(queue.add().name)

    crash(work, setup=start, check=lambda: None)

    assert len(names) > 2
    assert len(set(names)) == 1
    assert emulator.names is source


@pytest.mark.parametrize("waits", [True, False])
def test_a_worker_with_threads_of_its_own_is_killed_in_the_one_that_calls(
    crash: Run, app: App, *, waits: bool
) -> None:
    def work() -> None:
        with ThreadPoolExecutor(2) as threads:
            begun = [threads.submit(app.work) for _ in range(3)]
        for future in begun if waits else []:
            future.result()

    assert crash(work, setup=app.start, check=app.check) >= 12


def by_event() -> tuple[Callable[[], object], Callable[[], object]]:
    event = threading.Event()
    return event.wait, event.set


def by_queue() -> tuple[Callable[[], object], Callable[[], object]]:
    orders: Orders[int] = Orders()
    return orders.get, partial(orders.put, 1)


def by_barrier() -> tuple[Callable[[], object], Callable[[], object]]:
    barrier = threading.Barrier(2)
    return barrier.wait, barrier.wait


@pytest.mark.parametrize("make", [by_event, by_queue, by_barrier])
def test_a_worker_that_waits_for_a_thread_dies_with_it(
    crash: Run, queue: Queue, make: Callable[[], tuple[Callable[[], object], Callable[[], object]]]
) -> None:
    """Nobody else could end its wait."""

    def work() -> None:
        for task in queue.lease_tasks(60, 1):
            wait, go_on = make()
            threading.Thread(target=delete, args=(task, go_on)).start()
            wait()

    def delete(task: Task, go_on: Callable[[], object]) -> None:
        with suppress(DeadlineExceededError):
            queue.delete_tasks(task)
        go_on()

    assert crash(work, setup=queue.add) == 6


def test_a_worker_that_waits_already_dies_with_its_thread(crash: Run, queue: Queue) -> None:
    def work() -> None:
        deleted = threading.Condition()
        for task in queue.lease_tasks(60, 1):
            with deleted:
                threading.Thread(target=delete, args=(task, deleted)).start()
                deleted.wait()

    def delete(task: Task, deleted: threading.Condition) -> None:
        with deleted:  # as soon as the worker waits
            with suppress(DeadlineExceededError):
                queue.delete_tasks(task)
            deleted.notify()

    assert crash(work, setup=queue.add) == 6


def test_a_worker_that_never_deletes_is_reported(crash: Run, queue: Queue) -> None:
    with pytest.raises(
        AssertionError, match=r"^crash_test: the worker was called 3 times, and the "
    ):
        crash(lambda: queue.lease_tasks(60, 1), setup=queue.add, max_calls=3)
