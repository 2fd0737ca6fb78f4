"""Driving workers until nothing is left."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pullqueue import Emulator, Limits, ManualClock, NewTask, Queue, Task
from pullqueue.testing import assert_available, assert_empty, drain, drain_async, exhaust
from pullqueue.testing.draining import AsyncWorker


def finish(queue: Queue, *, max_tasks: int = 1) -> int:
    tasks = queue.lease_tasks(60, max_tasks)
    queue.delete_tasks(tasks)
    return len(tasks)


def test_a_worker_is_called_until_the_queue_is_empty(
    emulator: Emulator, queue: Queue, clock: ManualClock
) -> None:
    """Time passes to what is scheduled, and where leases are asked for too often."""
    start = clock.now()
    for _ in range(5):
        queue.add()
    assert drain(emulator, lambda: finish(queue, max_tasks=2)) == 3
    assert_empty(queue)
    assert drain(emulator, lambda: finish(queue)) == 0

    queue.add(eta=start + timedelta(days=1))
    queue.add()
    queue.lease_tasks(3600, 1)
    assert drain(emulator, lambda: finish(queue)) == 2
    assert clock.now() == start + timedelta(days=1)

    limited = Emulator.from_text(
        "queue: [{name: q, mode: pull}]", clock=clock, limits=Limits(leases_per_second=2)
    )
    limited.queue("q").add_many([NewTask()] * 7)
    drain(limited, lambda: finish(limited.queue("q")))
    assert_empty(limited)


def poll(queue: Queue) -> None:
    finish(queue)


def poll_with_pauses(queue: Queue) -> None:
    finish(queue)
    time.sleep(25)  # noqa: TID251 - what workers do


def lease_if_there_are_tasks(queue: Queue) -> None:
    if queue.fetch_statistics().tasks:
        finish(queue)
    time.sleep(5)  # noqa: TID251


@pytest.mark.parametrize("once", [poll, poll_with_pauses, lease_if_there_are_tasks])
def test_an_endless_worker_is_stopped(
    emulator: Emulator, queue: Queue, clock: ManualClock, once: Callable[[Queue], None]
) -> None:
    """`while True` ends when nothing is left or scheduled, whether or not it sleeps."""
    start = clock.now()
    queue.add()
    queue.add(eta=start + timedelta(minutes=1))

    def work() -> None:
        while True:
            once(queue)

    assert drain(emulator, work) == 1
    assert_empty(queue)
    assert timedelta(minutes=1) <= clock.now() - start <= timedelta(minutes=3)


def test_an_empty_lease_of_one_queue_does_not_stop_a_worker_of_two(
    emulator: Emulator, queue: Queue, limited: Queue
) -> None:
    queue.add()
    ended = []

    def work() -> None:
        while finish(queue) + finish(limited):
            pass
        ended.append(True)

    assert drain(emulator, work) == 1
    assert ended == [True]


def test_pauses_move_the_clock_no_further_than_a_worker_with_leases_wants(
    emulator: Emulator, queue: Queue, clock: ManualClock
) -> None:
    """One that waits for more keeps what it has; one that has lost it polls until it is due."""
    start = clock.now()
    queue.add(name="one")
    queue.add(name="two", eta=start + timedelta(seconds=30))
    batches = []

    def wait_for_two() -> None:
        leased: list[Task] = []
        while len(leased) < 2:
            leased += queue.lease_tasks(600, 2)
            time.sleep(10)  # noqa: TID251
        batches.append([task.retry_count for task in leased])
        queue.delete_tasks(leased)

    drain(emulator, wait_for_two)
    assert batches == [[1, 1]]

    queue.add_many([NewTask()] * 2)
    start, failures = clock.now(), [1, 2, 3]

    def lose_three() -> None:
        while True:
            for task in queue.lease_tasks(3600, 1):
                if failures:
                    failures.pop()
                else:
                    queue.delete_tasks(task)
            time.sleep(1)  # noqa: TID251

    assert drain(emulator, lose_three, max_calls=100) == 1
    assert timedelta(hours=2) < clock.now() - start < timedelta(hours=3)


def test_a_worker_that_waits_for_a_program_moves_no_clock(
    emulator: Emulator, queue: Queue, clock: ManualClock
) -> None:
    start = clock.now()
    queue.add()
    program = [sys.executable, "-c", "import time; time.sleep(0.05)"]

    drain(emulator, lambda: (subprocess.run(program, check=True, timeout=60), finish(queue)))

    assert clock.now() == start


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda *_: None, "the worker was called 9 times"),
        (lambda q, _: q.lease_tasks(0, 1), "the worker was called 9 times"),
        (lambda q, _: [q.lease_tasks(0, 1) for _ in iter(int, 1)], "the worker has leased 9 times"),
        (lambda _, other: list(iter(lambda: finish(other), 1)), "the worker has leased 9 times"),
        (lambda *_: list(map(time.sleep, itertools.repeat(1))), "the worker has slept 9 times"),  # noqa: TID251
    ],
)
def test_a_worker_that_gets_nowhere_is_an_error(
    emulator: Emulator, queue: Queue, limited: Queue, work: Callable[..., object], message: str
) -> None:
    queue.add(name="stays")

    with pytest.raises(
        AssertionError,
        match=rf'(?s)^drain: {message}, and the queues are still not empty; if .*"stays"',
    ):
        drain(emulator, lambda: work(queue, limited), max_calls=9)
    assert not emulator.interceptors


def test_only_the_named_queues_are_emptied(
    emulator: Emulator, queue: Queue, limited: Queue
) -> None:
    queue.add()
    limited.add()
    limited.add(eta=limited.clock.now() + timedelta(days=1))

    def work() -> None:
        while True:
            finish(queue)

    assert drain(emulator, work, queues=["work"]) == 1
    assert drain(emulator, work, queues=(queue,)) == 0
    assert_available(limited, 1)
    assert drain(emulator, lambda: finish(limited), queues=(limited, "work")) == 2
    assert_empty(emulator)


def test_errors_in_threads_of_a_worker_are_reported(
    emulator: Emulator, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_type))
    queue.add()

    def fail() -> None:
        raise ZeroDivisionError

    def poll() -> None:
        while True:
            finish(queue)

    def work() -> None:
        for target in (fail, poll):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()

    drain(emulator, work)

    assert reported == [ZeroDivisionError]


class TestAsync:
    @staticmethod
    async def _finish(queue: Queue) -> int:
        await asyncio.sleep(0)
        return finish(queue)

    def run(self, emulator: Emulator, worker: AsyncWorker, **options: Any) -> int:
        async def test() -> int:
            async with asyncio.timeout(30):
                return await drain_async(emulator, worker, **options)

        return asyncio.run(test())

    def test_an_endless_worker_is_stopped_once_nothing_is_left(
        self, emulator: Emulator, queue: Queue, clock: ManualClock
    ) -> None:
        start = clock.now()
        queue.add(eta=start + timedelta(minutes=5))
        queue.add()
        ended = []

        async def work() -> None:
            try:
                while True:
                    await self._finish(queue)
                    await asyncio.sleep(10)
            finally:
                ended.append(True)

        assert self.run(emulator, work) == 1
        assert ended == [True]
        assert timedelta(minutes=5) <= clock.now() - start <= timedelta(minutes=6)

    @pytest.mark.parametrize("way", ["gather", "group"])
    def test_workers_side_by_side_are_stopped_with_all_that_they_started(
        self, emulator: Emulator, queue: Queue, way: str
    ) -> None:
        for _ in range(20):
            queue.add()
        left: list[object] = []

        async def one() -> None:
            while True:
                await self._finish(queue)
                await asyncio.sleep(1)

        async def work() -> None:
            if way == "gather":
                await asyncio.gather(one(), one(), one())
            else:
                async with asyncio.TaskGroup() as group:
                    for _ in range(3):
                        group.create_task(one())

        async def test() -> None:
            await drain_async(emulator, work)
            await asyncio.sleep(0)
            left.extend(asyncio.all_tasks() - {asyncio.current_task()})

        asyncio.run(test())

        assert_empty(queue)
        assert left == []

    def test_workers_that_end_by_themselves_or_lease_in_threads_are_not_stopped_early(
        self, emulator: Emulator, queue: Queue, limited: Queue
    ) -> None:
        limited.add()
        queue.add_many([NewTask()] * 3)
        assert self.run(emulator, lambda: self._finish(queue), queues=["work"]) == 3
        limited.purge()
        queue.add()
        ended = []

        async def one(number: int) -> None:
            while await self._finish(queue):
                pass
            ended.append(number)

        async def work() -> None:
            await asyncio.gather(*map(one, range(5)))

        async def lease_in_thread() -> None:
            while True:
                await asyncio.to_thread(finish, queue)

        assert self.run(emulator, work) == 1
        assert sorted(ended) == [0, 1, 2, 3, 4]
        queue.add()
        assert self.run(emulator, lease_in_thread) == 1
        assert_empty(queue)

    @pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
    def test_errors_of_the_worker_pass(
        self, emulator: Emulator, queue: Queue, error: type[BaseException]
    ) -> None:
        queue.add()

        async def fail() -> None:
            raise error

        with pytest.raises(error):
            self.run(emulator, fail)

    def test_a_timeout_around_it_ends_the_worker(self, emulator: Emulator, queue: Queue) -> None:
        """A timeout of the test ends a worker that waits for something else, in real time."""
        queue.add()
        ended = []

        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        async def test() -> None:
            async with asyncio.timeout(0.01):
                await drain_async(emulator, wait)

        with pytest.raises(TimeoutError):
            asyncio.run(test())
        assert ended == [True]
        assert not emulator.interceptors

    def test_a_worker_that_gets_nowhere_is_an_error(self, emulator: Emulator, queue: Queue) -> None:
        queue.add(name="stays")

        async def poll() -> None:
            while True:
                queue.lease_tasks(0, 1)
                await asyncio.sleep(1)

        with pytest.raises(
            AssertionError, match=r'(?s)^drain_async: the worker has \w+ 9 times, .*"stays"'
        ):
            self.run(emulator, poll, max_calls=9)

    def test_other_loops_and_workers_that_are_not_asynchronous_are_refused(
        self, emulator: Emulator, queue: Queue
    ) -> None:
        """Nothing could move the clock of trio."""
        import trio

        queue.add()

        async def test() -> None:
            await drain_async(emulator, lambda: self._finish(queue))

        with pytest.raises(
            TypeError, match=r"^drain_async: the worker returned 1, .* use drain\(\)"
        ):
            self.run(emulator, lambda: finish(queue))  # type: ignore[arg-type, return-value]
        queue.add()
        with pytest.raises(RuntimeError, match=r"^drain_async works under asyncio only, and no"):
            trio.run(test)


@pytest.mark.parametrize("errors", ["raise", "strict", "retry"])
def test_exhausted_tasks_are_a_warning_unless_the_test_expects_them(
    emulator: Emulator, limited: Queue, errors: Any
) -> None:
    """The worker leases a task again and again, and never deletes it: the work is lost."""
    limited.add(name="old")
    exhaust(limited, "old")
    limited.add_many([NewTask(name="one"), NewTask(name="two")])

    def careless() -> None:
        for task in limited.lease_tasks(60, 10):
            if task.name == "two":
                limited.delete_tasks(task)

    message = (
        'drain: 1 task of queue "limited" was leased as often as is permitted, never deleted, '
        'and exhausted; pass errors="retry" if the test expects that'
    )
    if errors == "raise":
        with pytest.warns(UserWarning, match=f"^{message}$") as warned:
            drain(emulator, careless)
        assert warned[0].filename == __file__
        assert [task.name for task in limited.exhausted] == ["old", "one"]
    elif errors == "strict":
        with pytest.raises(AssertionError, match=rf'^{message}(.|\n)*exhausted "one"'):
            drain(emulator, careless, errors="strict")
    else:
        assert drain(emulator, careless, errors=errors) == 2
