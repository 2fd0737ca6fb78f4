"""What `race_test` refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from pullqueue import Emulator, Queue
from pullqueue.testing import RaceTestError, race_test, run_tasks


def test_nothing_to_run_is_an_error(emulator: Emulator) -> None:
    with pytest.raises(AssertionError) as caught:
        race_test(emulator, send=lambda _: 200, setup=lambda: None, check=lambda: True)

    assert str(caught.value).startswith("race_test: setup left no push task, so there is nothing")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"actors": ()}, TypeError, "there is no actor: pass functions without arguments"),
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
    ],
)
def test_arguments_that_are_refused(
    emulator: Emulator, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    actors = options.pop("actors", (emulator.queue("work").purge,))
    with pytest.raises(error) as caught:
        race_test(emulator, *actors, setup=lambda: None, check=lambda: True, **options)
    assert str(caught.value).startswith(message)


def test_a_race_of_one_is_refused(emulator: Emulator, queue: Queue) -> None:
    """There is one schedule only, so that it would always pass."""

    def race(*actors: Callable[[], object], **options: Any) -> int:
        return race_test(
            emulator, *actors, setup=lambda: None, check=lambda: True, clock=False, **options
        )

    with pytest.raises(AssertionError, match=r"only one actor, .*: pass two actors, or copies=2"):
        race(queue.purge)
    assert race(queue.purge, copies=2) > 1


def test_a_race_in_which_nobody_can_be_stopped_is_refused(emulator: Emulator) -> None:
    """What two functions do to a database of their own is not seen; a sleep is."""

    def race(actor: Callable[[], object]) -> int:
        return race_test(emulator, actor, copies=2, setup=lambda: None, check=lambda: True)

    with pytest.raises(AssertionError, match=r"^race_test: no actor makes a call .*\.point\(\)"):
        race(lambda: None)
    assert race(lambda: time.sleep(1)) > 2  # noqa: TID251 - moves the clock


def test_an_actor_that_calls_run_tasks_is_refused(emulator: Emulator, pushed: Queue) -> None:
    def run() -> None:
        run_tasks(emulator, send=lambda _: 200)

    with pytest.raises(TypeError, match=r"run calls run_tasks, .* pass the app to race_test"):
        race_test(emulator, run, setup=pushed.add, check=lambda: True)


def test_a_task_without_an_app_is_refused(emulator: Emulator, pushed: Queue) -> None:
    with pytest.raises(ValueError, match=r"there is no app for tasks without a target"):
        race_test(emulator, setup=pushed.add, check=lambda: True, app={"other": Flask("x")})


def test_functions_that_do_nothing_when_they_are_called(emulator: Emulator) -> None:
    def lazy() -> Iterator[int]:
        yield 1

    async def wait() -> None:
        """Do nothing."""

    with pytest.raises(TypeError, match=r"the setup returned .* was not awaited"):
        race_test(emulator, lambda: None, setup=wait, check=lambda: True)
    with pytest.raises(RaceTestError, match=r"the lazy returned .* was not iterated"):
        race_test(emulator, lazy, setup=lambda: None, check=lambda: True)
