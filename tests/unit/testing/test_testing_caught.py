"""Workers and handlers that catch their end, also that of a process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from functions import KINDS, Load, sending_to

from pullqueue import Emulator, NewTask, Queue
from pullqueue.tasks import HttpRequest
from pullqueue.testing import crash_test, drain, drain_async, interrupt, race_test

pytestmark = pytest.mark.slow
Helper = Callable[..., object]

SOURCE = """
import asyncio, logging, threading, time

ENDS = False
LOCK = threading.Lock()

def step(queue):
    tasks = queue.lease_tasks(60, 1)
    for task in tasks:
        queue.delete_tasks(task)
    time.sleep(5)
    return not tasks and ENDS

def loop(queue):
    while True:
        try:
            if step(queue):
                return
        except BaseException:  # of loop
            pass

def bare(queue):
    while True:
        try:
            with LOCK:
                if step(queue):
                    return
        except:  # of bare
            logging.exception("failed")

def reraised(queue):
    while True:
        try:
            try:
                if step(queue):
                    return
            except BaseException:
                print("again")
                raise
        except BaseException as error:  # of reraised
            continue

def step_safely(queue):
    try:
        return step(queue)
    except BaseException:  # of step_safely
        return None

def called(queue):
    while True:
        if step_safely(queue):
            return

def in_tasks(queue):
    async def tasks():
        while True:
            try:
                if step(queue):
                    return
            except BaseException:  # of tasks
                await asyncio.sleep(0)
    async def main():
        await asyncio.gather(tasks())
    asyncio.run(main())
"""
HELPERS: dict[str, tuple[Helper, Callable[[Queue], dict[str, Any]]]] = {
    "drain": (drain, lambda _: {}),
    "crash_test": (crash_test, lambda queue: {"setup": queue.add, "check": lambda: True}),
    "race_test": (
        race_test,
        lambda queue: {"setup": queue.add, "check": lambda: True, "copies": 2, "clock": False},
    ),
}
CALLED_BY = {"step_safely": "called", "tasks": "in_tasks"}


def message(who: str, name: str) -> str:
    lines = SOURCE[: SOURCE.index(f"# of {name}")].count("\n") + 1
    place = f"an_app.py:{lines} in {name}"
    return f"^{who}: .*{place} catches BaseException, so it cannot be stopped: catch Exception$"


@contextmanager
def traced_by(trace: Any) -> Iterator[None]:
    """Trace as a debugger does, or a program that measures coverage."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("name", ["loop", "bare", "reraised", "step_safely", "tasks"])
@pytest.mark.parametrize("who", ["drain", "crash_test", "race_test"])
def test_a_worker_that_catches_its_end_is_named(
    request: pytest.FixtureRequest, queue: Queue, load: Load, who: str, name: str
) -> None:
    app = load(SOURCE)
    work = getattr(app, CALLED_BY.get(name, name))
    app.ENDS = who == "crash_test"  # or else it is ended without a crash, too
    helper, options = HELPERS[who]
    queue.add()

    with traced_by(lambda *_: None), pytest.raises(AssertionError, match=message(who, name)):
        helper(request.getfixturevalue("emulator"), lambda: work(queue), **options(queue))
    assert not app.LOCK.locked()


def test_a_worker_that_fails_after_it_was_stopped_leaves_no_trace(
    emulator: Emulator, queue: Queue, load: Load
) -> None:
    app = load(f"{SOURCE}\ndef fail(queue):\n    try: loop(queue)\n    finally: 1 / 0\n")
    queue.add()

    with traced_by(lambda *_: None), pytest.raises(ZeroDivisionError):
        drain(emulator, lambda: app.fail(queue))


def test_an_asynchronous_worker_that_catches_its_end_is_named(
    emulator: Emulator, queue: Queue, load: Load
) -> None:
    app = load("""
async def work(queue):
    while True:
        try:
            queue.lease_tasks(60, 1)
        except BaseException:
            pass
""")
    queue.add()

    async def work() -> None:
        queue.purge()
        await app.work(queue)

    with pytest.raises(AssertionError, match=r"^drain_async: .*:6 in work catches BaseException"):
        asyncio.run(drain_async(emulator, work))


@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_that_catches_its_end_is_named(
    crash: Helper, pushed: Queue, load: Load, kind: str
) -> None:
    app = load("""
def handle(queue):
    while True:
        try:
            queue.fetch_statistics()
            return ""
        except BaseException:
            pass
""")
    message = r"^crash_test: .*:7 in handle catches BaseException"
    sending = sending_to(kind, lambda _: app.handle(pushed))
    with sending as where, pytest.raises(AssertionError, match=message):
        crash(setup=lambda: pushed.add(request=HttpRequest("/a")), **where)


@pytest.mark.parametrize("how", ["in_threads", "in_coroutines"])
def test_a_worker_that_is_ended_in_many_places_does_not_catch_it(
    crash: Helper, queue: Queue, load: Load, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """What ends does more calls, in `except` and `finally`, and then others begin."""
    monkeypatch.setattr(interrupt, "_MOST_CAUGHT", 3)
    work = """def one(queue, task):
    try:
        queue.delete_tasks(task)
    except BaseException:
        queue.fetch_statistics()
        raise
    finally:
        queue.fetch_statistics()
"""
    app = load(
        """
import asyncio
from concurrent.futures import ThreadPoolExecutor

WORK
one_in_thread = one

async WORK
def in_threads(queue, tasks):
    with ThreadPoolExecutor(1) as pool:
        list(pool.map(lambda task: one_in_thread(queue, task), tasks))

def in_coroutines(queue, tasks):
    async def main():
        await asyncio.gather(*(one(queue, task) for task in tasks))
    asyncio.run(main())
""".replace("WORK", work)
    )

    crash(
        lambda: getattr(app, how)(queue, queue.lease_tasks(60, 1000)),
        setup=lambda: queue.add_many([NewTask() for _ in range(8)]),
        check=lambda: queue.fetch_statistics().tasks == 0,
    )
