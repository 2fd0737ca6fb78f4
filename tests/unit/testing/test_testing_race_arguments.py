"""What `race_test` refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from pullqueue import Emulator, Queue
from pullqueue.testing import RaceResult, RaceTestError, run_tasks

Run = Callable[..., RaceResult]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"actors": ()}, TypeError, "there is no actor: pass functions without arguments"),
        (
            {"actors": (), "send": lambda _: 200},
            AssertionError,
            "race_test: setup left no push task, so there is nothing",
        ),
        ({"actors": ("work",)}, TypeError, '"work" cannot be called without arguments: pass a'),
        ({"copies": 0}, ValueError, "copies is 0: use a whole number, 1 or more"),
        ({"schedules": True}, ValueError, "schedules is True: use a whole number, 1 or more"),
        ({"preemptions": -1}, ValueError, "preemptions is -1: use a whole number, 0 or more"),
        ({"clock": 1}, TypeError, "clock is 1: use True or False"),
        ({"services": None}, TypeError, "services is None: use True or False"),
        ({"seconds": 0}, ValueError, "seconds is 0: use a number above 0"),
        ({"seconds": float("nan")}, ValueError, "seconds is nan: use a number above 0"),
        ({"reduce": 1}, TypeError, "reduce is 1: use True or False"),
        ({"instances": None}, TypeError, "instances is None: use True or False"),
        ({"errors": "strict"}, ValueError, 'errors is "strict": use "raise" or "retry"'),
        ({"seed": "x"}, ValueError, 'seed is "x": use a whole number, 0 or more'),
        ({"queues": ["pushed"]}, TypeError, "queues are those whose push tasks are sent"),
        ({"replay": 5}, TypeError, "replay is 5: pass the text that a RaceTestError shows"),
        ({"replay": "1x2 b"}, ValueError, 'replay is "1x2 b": pass the text that a RaceTest'),
        ({"replay": "1x9999999"}, ValueError, 'replay is "1x9999999": pass the text that'),
        ({"replay": "7"}, ValueError, "replay does not fit: its choice 1 is 7, but only 1 can go"),
        (  # which would always pass
            {"clock": False},
            AssertionError,
            "race_test: there is only one actor, and one schedule, so nothing was raced: pass two",
        ),
        (  # what it does to a database of its own is not seen
            {"actors": (list,), "copies": 2},
            AssertionError,
            "race_test: no actor makes a call to a queue or a service, so none was stopped: call",
        ),
    ],
)
def test_arguments_that_make_no_race_are_refused(
    race: Run, queue: Queue, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    actors = options.pop("actors", (queue.purge,))
    with pytest.raises(error) as caught:
        race(*actors, **options)
    assert str(caught.value).startswith(message)


def test_a_sleep_is_seen(race: Run) -> None:
    assert race(lambda: time.sleep(1), copies=2) > 2  # noqa: TID251 - moves the clock


def test_an_actor_that_calls_run_tasks_is_refused(
    race: Run, emulator: Emulator, pushed: Queue
) -> None:
    def run() -> None:
        run_tasks(emulator, send=lambda _: 200)

    with pytest.raises(TypeError, match=r"run calls run_tasks, .* pass the app to race_test"):
        race(run, setup=pushed.add)


def test_a_task_without_an_app_is_refused(race: Run, pushed: Queue) -> None:
    with pytest.raises(ValueError, match=r"there is no app for tasks without a target"):
        race(setup=pushed.add, app={"other": Flask("x")})


def test_functions_that_do_nothing_when_they_are_called_are_refused(race: Run) -> None:
    def lazy() -> Iterator[int]:
        yield 1

    async def wait() -> None:
        """Do nothing."""

    with pytest.raises(TypeError, match=r"the setup returned .* was not awaited"):
        race(lambda: None, setup=wait)
    with pytest.raises(RaceTestError, match=r"the lazy returned .* was not iterated"):
        race(lazy)
