"""What the helpers refuse: wrong arguments, functions that do no work, clocks that cannot move."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from wsgiref.simple_server import demo_app

import pytest
from flask import Flask
from functions import Run, handling
from tables import each_row

from pullqueue import ClockError, Emulator, InvalidQueueModeError, Queue, UnknownQueueError
from pullqueue.testing import (
    Faults,
    RaceTestError,
    crash_test,
    drain,
    exhaust,
    race_test,
    run_tasks,
)

Call = Callable[[Any], object]
ok = handling()
ONE_ACTOR = (
    "^race_test: there is only one actor, and one schedule, so nothing was raced: pass two actors, "
    "or copies=2, or add two push tasks in setup"
)
NO_CALL = (
    "^race_test: no actor makes a call to a queue or a service, so none was stopped: call "
    r"pullqueue\.testing\.point\(\) before each use of a database of your own"
)


def drained(emulator: Emulator, **arguments: Any) -> None:
    drain(emulator, lambda: 1 / 0, **arguments)


async def coroutine() -> None:
    raise AssertionError("never awaited")


def generator() -> Iterator[None]:
    yield


async def async_generator() -> AsyncIterator[None]:
    yield


def crashed(emulator: Emulator, **functions: Any) -> None:
    queue = emulator.queue("work")
    passing = {"worker": queue.purge, "setup": queue.add, "check": lambda: None}
    crash_test(emulator, **{**passing, **functions})


@each_row(
    ("helper", "arguments", "error", "message"),
    [
        (drained, {"queues": "work"}, TypeError, r'^queues is "work": .*, queues=\["work"\]$'),
        (
            drained,
            {"queues": Emulator.from_text("queue: []").queue("default")},
            TypeError,
            r"pass a list, queues=\[Queue\('default'\)\]$",
        ),
        (drained, {"queues": []}, ValueError, "^queues is empty: pass at least one queue"),
        (drained, {"queues": ["wrok"]}, UnknownQueueError, 'did you mean "work"'),
        (drained, {"queues": ["pushed"]}, InvalidQueueModeError, '^queue "pushed" .*: no worker'),
        (drained, {"max_calls": 0}, ValueError, "^max_calls is 0: use a whole number, 1 or more$"),
        (drained, {"max_calls": True}, ValueError, "^max_calls is True: use"),
        (drained, {"max_calls": "3"}, ValueError, '^max_calls is "3": use'),
        (run_tasks, {}, TypeError, "app is missing"),
        (run_tasks, {"deferred": 1}, TypeError, "deferred is 1: use True or False"),
        (run_tasks, {"app": ok, "send": ok}, TypeError, "both app and send are set"),
        (run_tasks, {"send": 200}, TypeError, "send is 200: pass a function"),
        (run_tasks, {"app": "main:app"}, TypeError, "is not a WSGI app"),
        (run_tasks, {"send": ok, "rates": "yes"}, TypeError, 'rates is "yes": use True or False'),
        (
            run_tasks,
            {"send": ok, "errors": "ignore"},
            ValueError,
            'use "raise", "strict" or "retry"',
        ),
        (run_tasks, {"send": ok, "max_attempts": 0}, ValueError, "max_attempts is 0: use a whole"),
        (run_tasks, {"send": ok, "queues": ["work"]}, InvalidQueueModeError, "pass push queues"),
        (run_tasks, {"send": ok, "until": "later"}, ValueError, 'use "now", "empty", a timedelta'),
        (run_tasks, {"send": ok, "until": 60}, ValueError, "until is 60: use"),
        (run_tasks, {"send": ok, "until": timedelta(-1)}, ClockError, "a clock never goes back"),
        (run_tasks, {"send": ok, "until": datetime(2027, 1, 1)}, ClockError, "no time zone"),  # noqa: DTZ001
    ],
)
def test_invalid_arguments_are_refused_before_anything_runs(
    emulator: Emulator,
    helper: Callable[..., object],
    arguments: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    emulator.queue("work").add()
    emulator.queue("pushed").add()
    before = emulator.export()

    with pytest.raises(error, match=message):
        helper(emulator, **arguments)

    assert emulator.export() == before


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: crash_test(queue, queue.purge, setup=queue.add, check=queue.purge),
        lambda queue: drain(queue, queue.purge),
        lambda queue: run_tasks(queue, send=ok),
    ],
)
def test_a_queue_instead_of_an_emulator_is_refused(emulator: Emulator, call: Call) -> None:
    with pytest.raises(TypeError, match=r"Queue.* is not an Emulator: pass the emulator, then the"):
        call(emulator.queue("work"))


@each_row("helper", [drain, crash_test, race_test])
@each_row("app", [demo_app, {"worker": demo_app}])
def test_an_app_instead_of_a_worker_is_refused(
    emulator: Emulator, helper: Callable[..., object], app: object
) -> None:
    functions = {} if helper is drain else {"setup": list, "check": list}

    with pytest.raises(TypeError, match=r" cannot be called without arguments: .* as app=$"):
        helper(emulator, app, **functions)


@each_row(
    ("call", "advice"),
    [
        (lambda e: drain(e, coroutine), "the worker .* was not awaited: use `await drain_async"),
        (lambda e: drain(e, generator), r"was not iterated: iterate it, as with lambda: list"),
        (lambda e: drain(e, async_generator), "was not iterated: "),
        (lambda e: crashed(e, worker=generator), "was not iterated: "),
        (lambda e: crashed(e, setup=coroutine), "the setup returned .* pass lambda: asyncio.run"),
        (lambda e: crashed(e, check=coroutine), "the check returned .* pass lambda: asyncio.run"),
    ],
)
def test_functions_that_only_promise_to_work_are_refused(
    emulator: Emulator, call: Call, advice: str
) -> None:
    """What would have to be awaited or iterated is refused: a check like that would never fail."""
    emulator.queue("work").add()

    with pytest.raises(TypeError, match=advice):
        call(emulator)


@each_row(
    "call",
    [
        drained,
        crashed,
        lambda e: run_tasks(e, send=ok, until="empty"),
        lambda e: run_tasks(e, send=ok, until=timedelta(seconds=1)),
        lambda e: exhaust(e.queue("limited"), "one"),
        lambda e: Faults(e).latency("add", 1),
        lambda e: Faults(e).expire_leases(),
    ],
)
def test_a_clock_that_cannot_be_moved_is_refused_first(emulator: Emulator, call: Call) -> None:
    emulator = Emulator(emulator.config)
    emulator.queue("limited").add(name="one")
    emulator.queue("pushed").add()

    with pytest.raises(ClockError, match=r"^cannot move the time of .* is a SystemClock: "):
        call(emulator)

    assert not emulator.interceptors
    assert len(run_tasks(emulator, send=ok)) == 1


@each_row(
    ("options", "error", "message"),
    [
        ({"actors": ()}, TypeError, "^there is no actor: pass functions without arguments"),
        (
            {"actors": (), "send": ok},
            AssertionError,
            "^race_test: setup left no push task, so there is nothing",
        ),
        ({"actors": ("work",)}, TypeError, '^"work" cannot be called without arguments: pass a'),
        ({"actors": (generator,)}, RaceTestError, "the generator returned .* was not iterated"),
        ({"setup": coroutine}, TypeError, "^the setup returned .* was not awaited"),
        ({"copies": 0}, ValueError, "^copies is 0: use a whole number, 1 or more"),
        ({"schedules": True}, ValueError, "^schedules is True: use a whole number, 1 or more"),
        ({"preemptions": -1}, ValueError, "^preemptions is -1: use a whole number, 0 or more"),
        ({"clock": 1}, TypeError, "^clock is 1: use True or False"),
        ({"services": None}, TypeError, "^services is None: use True or False"),
        ({"seconds": 0}, ValueError, "^seconds is 0: use a number above 0"),
        ({"seconds": float("nan")}, ValueError, "^seconds is nan: use a number above 0"),
        ({"reduce": 1}, TypeError, "^reduce is 1: use True or False"),
        ({"instances": None}, TypeError, "^instances is None: use True or False"),
        ({"errors": "strict"}, ValueError, '^errors is "strict": use "raise" or "retry"'),
        ({"seed": "x"}, ValueError, '^seed is "x": use a whole number, 0 or more'),
        ({"queues": ["pushed"]}, TypeError, "^queues are those whose push tasks are sent"),
        ({"replay": 5}, TypeError, "^replay is 5: pass the text that a RaceTestError shows"),
        ({"replay": "1x2 b"}, ValueError, '^replay is "1x2 b": pass the text that a RaceTest'),
        ({"replay": "1x9999999"}, ValueError, '^replay is "1x9999999": pass the text that'),
        ({"replay": "7"}, ValueError, "^replay does not fit: its choice 1 is 7, but only 1 can go"),
        (  # which would always pass
            {"clock": False},
            AssertionError,
            ONE_ACTOR,
        ),
        (  # what it does to a database of its own is not seen
            {"actors": (list,), "copies": 2},
            AssertionError,
            NO_CALL,
        ),
    ],
)
def test_arguments_that_make_no_race_are_refused(
    race: Run, queue: Queue, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    actors = options.pop("actors", (queue.purge,))
    with pytest.raises(error, match=message):
        race(*actors, **options)


def test_an_actor_that_calls_run_tasks_is_refused(
    race: Run, emulator: Emulator, pushed: Queue
) -> None:
    def run() -> None:
        run_tasks(emulator, send=ok)

    with pytest.raises(TypeError, match=r"run calls run_tasks, .* pass the app to race_test"):
        race(run, setup=pushed.add)


def test_a_task_without_an_app_is_refused(race: Run, pushed: Queue) -> None:
    with pytest.raises(ValueError, match=r"there is no app for tasks without a target"):
        race(setup=pushed.add, app={"other": Flask("x")})
