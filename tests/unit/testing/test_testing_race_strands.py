"""Parallel threads of one actor, of which not all orders are tried."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import pytest
from functions import Run, adding, in_turn

from pullqueue import Queue
from pullqueue.testing import CrashResult
from pullqueue.testing.exploration import blocking, schedule

pytestmark = pytest.mark.slow

Call = Callable[[], object]


def in_threads(*calls: Call) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_threads_one_by_one(*calls: Call) -> None:
    for call in calls:
        in_threads(call)


def beside_its_thread(first: Call, second: Call) -> None:
    thread = threading.Thread(target=first)
    thread.start()
    second()
    thread.join()


def in_a_pool(*calls: Call) -> None:
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda call: call(), calls))


def before_its_thread(first: Call, second: Call) -> None:
    """As it happens: how an event orders threads is not known."""
    happened = threading.Event()

    def wait_and_call() -> None:
        happened.wait()
        first()

    thread = threading.Thread(target=wait_and_call)
    thread.start()
    second()
    happened.set()
    thread.join()


def in_threads_one_by_one_while_another_waits(*calls: Call) -> None:
    is_over = threading.Event()
    thread = threading.Thread(target=is_over.wait)
    thread.start()
    in_threads_one_by_one(*calls)
    is_over.set()
    thread.join()


def beside_its_pool(first: Call, second: Call) -> None:
    """Another pool waits for its own calls only."""
    with ThreadPoolExecutor() as pool:
        wait([pool.submit(first)])
        with ThreadPoolExecutor():
            pass
        second()


def in_a_pool_one_by_one(*calls: Call) -> None:
    with ThreadPoolExecutor() as pool:
        for call in calls:
            pool.submit(call).result()


def in_pools_one_by_one(*calls: Call) -> None:
    for call in calls:
        with ThreadPoolExecutor() as pool:
            pool.submit(call)


def in_tasks(*calls: Call) -> None:
    async def work() -> None:
        await asyncio.gather(*map(asyncio.to_thread, calls))

    asyncio.run(work())


def in_tasks_one_by_one(*calls: Call) -> None:
    async def work() -> None:
        for call in calls:
            await asyncio.to_thread(call)

    asyncio.run(work())


def in_a_thread_of_a_thread(first: Call, second: Call) -> None:
    def call_both() -> None:
        first()
        in_threads(second)

    in_threads(call_both)


@pytest.mark.parametrize(
    ("how", "is_complete"),
    [
        (in_threads, False),
        (in_a_pool, False),
        (in_tasks, False),
        (beside_its_thread, False),
        (before_its_thread, False),
        (beside_its_pool, False),
        (in_threads_one_by_one, True),
        (in_threads_one_by_one_while_another_waits, True),
        (in_a_pool_one_by_one, True),
        (in_pools_one_by_one, True),
        (in_tasks_one_by_one, True),
        (in_a_thread_of_a_thread, True),
    ],
)
def test_threads_whose_order_can_matter_are_named(
    race: Run,
    queue: Queue,
    monkeypatch: pytest.MonkeyPatch,
    how: Callable[..., None],
    *,
    is_complete: bool,
) -> None:
    """Each run has one of their orders, as they come: a worker that loses an update was green.

    In none an actor is blocked, which would be seen only after some time.
    """
    blocked: list[object] = []

    def wait_for_end(ended: threading.Event, progress: Any, go_on: Any) -> None:
        def go_on_without(*args: object) -> None:
            blocked.append(args)
            go_on(*args)

        blocking.wait_for_end(ended, progress, go_on_without)

    monkeypatch.setattr(schedule, "wait_for_end", wait_for_end)

    def count() -> None:
        queue.fetch_statistics()
        queue.add()

    result = race(lambda: how(count, count), lambda: None)

    assert not blocked
    assert result.is_complete is is_complete
    assert ("threads of one actor (" in str(result)) is not is_complete


def test_threads_whose_order_cannot_matter_are_complete(race: Run, queue: Queue) -> None:

    def work() -> None:
        in_threads(partial(queue.delete_tasks, "one"), partial(queue.delete_tasks, "two"))

    assert race(work, lambda: None, setup=adding(queue, "one", "two")).is_complete


@pytest.mark.parametrize(("how", "is_named"), [(in_tasks, True), (in_tasks_one_by_one, False)])
def test_a_crash_has_one_order_of_two_writes(
    crash: Callable[..., CrashResult], queue: Queue, how: Callable[..., None], *, is_named: bool
) -> None:
    """A handler that marks what it has done, and does it, in parallel was green by chance."""

    def work() -> None:
        how(*(partial(queue.delete_tasks, task) for task in queue.lease_tasks(60, 2)))

    result = crash(work, setup=in_turn(queue.add, queue.add))

    assert ("threads of one actor (" in str(result)) is is_named
