"""Threads that actors of `race_test` start, such as those that renew leases."""

from __future__ import annotations

import asyncio
import queue as queues
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from functools import partial

import pytest
from functions import Load, Run, adding, in_turn
from ledgers import Ledger

from pullqueue import PullQueueError, Queue, Task
from pullqueue.testing import RaceTestError

pytestmark = pytest.mark.slow


class Renewer(Ledger):
    """A worker that works for 90 seconds on a lease of 60, which a thread renews."""

    def __init__(self, queue: Queue, how: str, every: float) -> None:
        super().__init__(queue)
        self.how = how
        self.every = every

    def work(self) -> None:
        for task in self.queue.lease_tasks(60, 1):
            stop = threading.Event()
            renew: Callable[[], object] = partial(self.renew, task, stop)
            if self.how == "context":  # as libraries that trace requests do
                renew = partial(copy_context().run, renew)
            thread = threading.Thread(target=renew, daemon=True, name="thread renew")
            thread.start()
            time.sleep(90)  # noqa: TID251 - moves the clock
            self.book(task)
            if self.how != "endless":
                stop.set()
            if self.how == "joined":
                thread.join()

    def renew(self, task: Task, stop: threading.Event) -> None:
        while not self.is_over(stop):
            try:
                task = self.queue.modify_task_lease(task, 60)
            except PullQueueError:
                if self.how != "endless":
                    return

    def is_over(self, stop: threading.Event) -> bool:
        if self.how == "event":
            return stop.wait(self.every)
        time.sleep(self.every)  # noqa: TID251 - moves the clock
        return stop.is_set()


@pytest.mark.parametrize(
    ("how", "every"),
    [
        *((how, every) for how in ("event", "stopped") for every in (59, 60)),
        ("joined", 59),
        ("endless", 59),
        ("context", 59),
    ],
)
def test_a_thread_renews_a_lease(race: Run, queue: Queue, how: str, every: float) -> None:
    """Its sleeps are those of the clock, so that a lease expires only where it is late."""
    app = Renewer(queue, how, every)
    run = partial(race, app.work, setup=app.setup, check=app.check, copies=2)

    if every < 60:
        assert run(preemptions=2 if how == "event" else 1).is_complete
        return
    with pytest.raises(RaceTestError) as caught:
        run()
    assert any("thread renew: modify_task_lease" in step for step in caught.value.schedule)
    with pytest.raises(RaceTestError) as again:
        run(replay=caught.value.replay)
    assert len(again.value.schedule) == len(caught.value.schedule)


class AsyncRenewer(Ledger):
    """A worker under asyncio that works for `seconds`, while another task of its loop runs."""

    def __init__(self, queue: Queue, beside: str, every: float, seconds: float) -> None:
        super().__init__(queue)
        self.beside = beside
        self.every = every
        self.seconds = seconds

    async def work(self) -> None:
        await asyncio.sleep(1)
        for task in self.queue.lease_tasks(60, 1):
            beside = asyncio.create_task(getattr(self, self.beside)(task))
            await asyncio.sleep(self.seconds)
            if self.beside != "handle":
                await self.handle(task)
            beside.cancel()

    async def renew(self, task: Task) -> None:
        while True:
            await asyncio.sleep(self.every)
            task = self.queue.modify_task_lease(task, 60)

    async def beat(self, _: Task) -> None:
        while True:
            await asyncio.sleep(self.every)

    async def handle(self, task: Task) -> None:
        self.book(task)


@pytest.mark.parametrize(
    ("beside", "every", "seconds", "is_right"),
    [
        ("renew", 59, 90, True),
        ("renew", 60, 90, False),
        ("beat", 200, 30, False),
        ("handle", 0, 30, False),
    ],
)
def test_a_task_of_asyncio_renews_a_lease(
    race: Run, queue: Queue, beside: str, every: float, seconds: float, *, is_right: bool
) -> None:
    """As a thread does; time passes the main task, and one that does not sleep."""
    app = AsyncRenewer(queue, beside, every, seconds)
    run = partial(race, app.work, setup=app.setup, check=app.check, copies=2)

    if is_right:
        assert run(preemptions=1).is_complete
        return
    with pytest.raises(RaceTestError) as caught:
        run()
    with pytest.raises(RaceTestError) as again:
        run(replay=caught.value.replay)
    assert len(again.value.schedule) == len(caught.value.schedule)


def test_a_timer_renews_a_lease(race: Run, ledger: Ledger) -> None:
    def work() -> None:
        for task in ledger.queue.lease_tasks(60, 1):
            timer = threading.Timer(30, ledger.queue.modify_task_lease, (task, 600))
            timer.start()
            time.sleep(90)  # noqa: TID251 - moves the clock
            ledger.book(task)

    assert race(work, setup=ledger.setup, check=ledger.check, copies=2).is_complete


def test_the_lease_of_one_worker_is_renewed_and_that_of_another_is_not(
    race: Run, queue: Queue
) -> None:
    """So the two that have a thread do not hide the one that needs one."""
    app = Renewer(queue, "event", 20)

    def careless() -> None:
        for task in queue.lease_tasks(60, 1):
            time.sleep(90)  # noqa: TID251 - moves the clock
            app.book(task)

    with pytest.raises(RaceTestError):
        race(app.work, careless, setup=app.setup, check=app.check)


def test_a_thread_waits_for_a_lock_of_its_actor(race: Run, queue: Queue, load: Load) -> None:
    """The app's lock is one of each actor; who has it is stopped at a call, and goes on then."""
    app = load("""
import threading, time

LOCK = threading.Lock()

def work(queue, late):
    for task in queue.lease_tasks(60, 1):
        done = threading.Event()

        def renew(task=task):
            while not done.wait(30):
                with LOCK:
                    if done.is_set():
                        late.append(task.name)
                    else:
                        task = queue.modify_task_lease(task, 60)

        thread = threading.Thread(target=renew)
        thread.start()
        time.sleep(90)
        with LOCK:
            queue.delete_tasks(task)
            done.set()
        thread.join()
""")
    late: list[str] = []
    setup = in_turn(late.clear, queue.add)

    with pytest.raises(RaceTestError) as caught:
        race(lambda: app.work(queue, late), setup=setup, check=lambda: not late, copies=2)

    assert any("thread renew: waits for a lock" in step for step in caught.value.schedule)


def test_threads_that_wait_for_work_sleep_at_it(race: Run, ledger: Ledger) -> None:
    """Nobody waits for them for real: neither their actor, at the end, nor the test."""
    setup = in_turn(ledger.setup, adding(ledger.queue, "two"))

    def work() -> None:
        todo: queues.Queue[Task | None] = queues.Queue()

        def consume() -> None:
            while (task := todo.get()) is not None:
                time.sleep(3600)  # noqa: TID251 - moves the clock
                ledger.book(task)

        threads = [threading.Thread(target=consume) for _ in range(2)]
        for thread in threads:
            thread.start()
        for task in ledger.queue.lease_tasks(7200, 10):
            todo.put(task)
        for _ in threads:
            todo.put(None)
        for thread in threads:
            thread.join()

    check = lambda: sorted(ledger.booked) == ["one", "two"]  # noqa: E731
    race(work, setup=setup, check=check, copies=2, schedules=5)


def test_a_thread_is_joined_for_a_time(race: Run, queue: Queue) -> None:
    alive: list[bool] = []

    def work() -> None:
        thread = threading.Thread(target=time.sleep, args=(60,), name="sleeper")  # noqa: TID251
        thread.start()
        for seconds in (30, 40):
            thread.join(seconds)
            alive.append(thread.is_alive())
        queue.fetch_statistics()

    race(work, setup=alive.clear, check=lambda: alive.count(True) == 2, copies=2, schedules=3)


def test_a_thread_that_is_left_at_the_end_of_the_program_is_silent() -> None:
    code = """
import threading
from pullqueue import Emulator, ManualClock
from pullqueue.testing import crash_test, race_test

emulator = Emulator.from_text("queue: [{name: work, mode: pull}]", clock=ManualClock())
queue = emulator.queue("work")

def work():
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    for task in queue.lease_tasks(60, 1):
        queue.delete_tasks(task)

crash_test(emulator, work, setup=queue.add, check=lambda: True)
left = threading.active_count()
race_test(emulator, work, copies=2, setup=queue.add, check=lambda: True)
print(1 < left < threading.active_count(), end="")
"""

    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    assert (shown.stdout, shown.stderr) == (b"True", b"")
