"""Which orders of calls `race_test` tries, in which order, and how one is repeated."""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from functions import Run, Work, adding, in_turn
from places import without_places
from programs import completed

from pullqueue import Queue
from pullqueue.testing import RaceTestError
from pullqueue.testing.exploration import search as search_module
from pullqueue.testing.exploration.progress import Stopwatch, written_by
from pullqueue.testing.exploration.search import Outcome, Search
from pullqueue.testing.exploration.steps import SETS_DIFFER, Choice

pytestmark = pytest.mark.slow


@pytest.fixture
def count(race: Run, queue: Queue) -> Callable[..., tuple[int, set[str]]]:
    """Return the number of schedules of actors that make some calls, and the orders of calls."""

    def count(names: str, calls: int, **options: Any) -> tuple[int, set[str]]:
        orders: set[str] = set()
        order: list[str] = []

        def actor(letter: str) -> Work:
            def act() -> None:
                for _ in range(calls):
                    queue.get_task("one")
                    order.append(letter)

            return act

        setup = in_turn(order.clear, adding(queue, "one"))

        check = lambda: orders.add("".join(order))  # noqa: E731
        number = race(*map(actor, names), setup=setup, check=check, seconds=math.inf, **options)
        return number, orders

    return count


def test_all_orders_are_run_up_to_a_number_of_preemptions(count: Any) -> None:
    """No order comes twice: each actor has a turn at its beginning, and one for each call."""
    expected = {"aabb", "bbaa"}
    for preemptions, more in enumerate((set(), {"abba", "baab"}, {"abab", "baba"})):
        expected |= more
        assert count("ab", 2, preemptions=preemptions)[1] == expected
    number, orders = count("ab", 3, preemptions=10, reduce=False)
    assert (number, len(orders)) == (70, 20)


def test_more_schedules_than_permitted_are_a_sample(count: Any) -> None:
    number, orders = count("abc", 3, schedules=20, seed=1)
    assert (number, count("abc", 3, schedules=20, seed=1)) == (20, (20, orders))
    assert count("abc", 3, schedules=20, seed=2)[1] != orders


def test_the_first_failure_has_the_fewest_preemptions(race: Run, queue: Queue) -> None:
    """A read and a write of something shared: one preemption is enough to lose an update."""
    shared = {"value": 0}

    def count() -> None:
        value = shared["value"]
        queue.fetch_statistics()
        shared["value"] = value + 1
        queue.fetch_statistics()

    def setup() -> None:
        shared["value"] = 0

    run = partial(race, count, setup=setup, check=lambda: shared["value"] == 2, copies=2)
    assert run(preemptions=0) == 2
    with pytest.raises(RaceTestError) as caught:
        run(preemptions=3)
    assert str(caught.value).partition("\n")[0].endswith(" leads to a wrong state")
    marked = [step for step in caught.value.schedule if "preempts" in step]
    assert without_places(marked) == (
        'count 2: fetch_statistics() on queue "work"   <- preempts count 1',
    )


def test_a_replay_that_ends_before_the_schedule_is_refused(race: Run, queue: Queue) -> None:
    """The first run has more calls, since what they keep is not there yet."""
    look = in_turn(*[queue.fetch_statistics] * 3)
    with pytest.raises(ValueError, match=r"^replay does not fit: it has 6 choices, and the sched"):
        race(look, copies=2, replay="1x3 2x3")


@pytest.mark.parametrize(("hash_seed", "is_set"), [("", False), ("random", False), ("0", True)])
def test_a_replay_that_does_not_fail_says_what_may_hide_the_failure(
    race: Run, queue: Queue, monkeypatch: pytest.MonkeyPatch, hash_seed: str, *, is_set: bool
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", hash_seed)

    result = race(queue.fetch_statistics, copies=2, replay="1x2 2x2")

    assert result.bound == ("" if is_set else SETS_DIFFER)
    assert not result.is_complete


def test_a_long_replay_is_shown_whole(race: Run, queue: Queue) -> None:
    look = in_turn(*[queue.fetch_statistics] * 60)
    replay = " ".join(["1", "2"] * 61)
    with pytest.raises(RaceTestError) as caught:
        race(look, check=lambda: False, copies=2, replay=replay)

    assert caught.value.replay == replay
    assert f'replay="{replay}"' in str(caught.value)
    assert "  ... 20 more steps" in str(caught.value).splitlines()


RACE = """\
from pullqueue import NewTask
from pullqueue.testing import emulation, race_test

with emulation(queues=["work", {"name": "pushed", "mode": "push", "rate": "5/s"}]) as emulated:
    queues = [emulated.emulator.queue(name) for name in ("work", "pushed")]

    def setup():
        for queue in queues:
            queue.add_many([NewTask(), NewTask()])

    def worker():
        for task in queues[0].lease_tasks(60, 1):
            queues[0].fetch_statistics()
            queues[0].delete_tasks(task)

    def send(request):
        queues[0].add(request.task_name.encode())
        return 200

    def check():
        print([str(event) for queue in queues for event in queue.events()])

    actors = {"copies": 2, "send": send}
    race_test(emulated.emulator, worker, **actors, setup=setup, check=check, schedules=20, seed=7)
"""


def test_the_schedules_are_the_same_in_each_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing depends on the order of a set, which differs here from run to run."""
    environ = {**os.environ, "PYTHONHASHSEED": "1"}
    first = completed([sys.executable, "-c", RACE], env=environ).stdout
    exec(RACE, {})  # noqa: S102

    assert first.count("\n") == 20
    assert first == capsys.readouterr().out


@pytest.mark.parametrize(
    ("right", "schedules", "tried"),
    [
        ((), 2, "2 of 2"),
        ((), 1000, "11 of 11"),
        ((2,), 1000, "10 of 11"),
        ((1,), 1000, "11 of 12"),
    ],
)
def test_what_fails_without_a_race_ends_soon(
    race: Run, queue: Queue, right: tuple[int, ...], schedules: int, tried: str
) -> None:
    """A check that is wrong fails in the first order already; here, however slow the machine."""
    look = in_turn(*[partial(queue.get_task, "one")] * 3)
    checks = itertools.count(1)
    fewer = patch.multiple(search_module, _UNTIL_RACE=10, _MORE_SECONDS=math.inf)
    with fewer, pytest.raises(RaceTestError) as caught:
        race(
            look,
            setup=adding(queue, "one"),
            check=lambda: next(checks) in right,
            copies=4,
            schedules=schedules,
            seconds=math.inf,
            reduce=False,
        )

    hint = f"\n{tried} orders that were tried fail: look at setup, at check, and at "
    assert hint in str(caught.value)


def test_progress_says_how_many_orders_have_failed() -> None:
    """Also where the first has, and one is looked for that races."""
    outcomes = iter([False, True, True, False])
    choice = Choice(
        options={n: str(n) for n in range(1, 5)},
        current=None,
        pending={},
        others=frozenset(),
        known=frozenset(),
        is_waiting=False,
        chosen=1,
    )
    search = Search(
        run=lambda _: Outcome((choice,), next(outcomes), is_new=True, is_race=False),
        stopwatch=Stopwatch(iter(range(0, 1000, 10)).__next__),
        preemptions=2,
        schedules=10,
        most_seconds=math.inf,
        seed=0,
        reduces=lambda: False,
        moves_time=False,
    )
    lines: list[str] = []
    with written_by(lines.append):
        search.explore()

    assert [line.partition(" orders, ")[2].partition(" (")[0] for line in lines] == [
        "none of which fails",
        "none of which fails",
        "1 of which failed",
        "2 of which failed",
    ]


def test_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([100.0, 109.9, 110.0, 119.9, 120.5])
    stopwatch = Stopwatch(lambda: next(times))
    lines: list[str] = []

    with written_by(lines.append):
        for number in range(4):
            stopwatch.report(lambda number=number: f"{number} done")  # type: ignore[misc] # a lambda

    assert lines == ["1 done (10 s)", "3 done (20 s)"]
    assert capsys.readouterr() == ("", "")


def test_without_pytest_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 11.2])
    Stopwatch(lambda: next(times)).report(lambda: "half done")
    assert capsys.readouterr().err == "half done (11 s)\n"
