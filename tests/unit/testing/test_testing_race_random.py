"""Actors that draw random numbers: other numbers are tried, and each order can be repeated."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import randrange
from typing import Any

import pytest
from functions import Run, working
from tables import each_row

from pullqueue import Queue
from pullqueue.testing import RaceResult, RaceTestError
from pullqueue.testing.exploration import search
from pullqueue.testing.exploration.search import Plan
from pullqueue.testing.exploration.steps import Choice, Pending
from pullqueue.testing.patching import DRAWING
from pullqueue.testing.points.footprint import NOTHING

pytestmark = pytest.mark.slow
SHARDS = 5


def test_what_an_actor_draws_depends_on_nobody_else(race: Run, queue: Queue) -> None:
    """Nor on what a library draws, or on the order; copies draw other numbers."""
    drawn: list[list[float]] = []

    def draw() -> None:
        mine = [random.random()]
        drawn.append(mine)
        uuid.uuid1(node=1)
        queue.fetch_statistics()
        mine.append(random.random())

    orders = race(draw, copies=2, reduce=False, preemptions=1)

    seen = {tuple(mine) for mine in drawn}
    assert len(drawn) >= 2 * orders > 80
    assert len(seen) == 40  # of two actors, in 20 sequences


@pytest.fixture
def race_shards(race: Run, queue: Queue) -> Run:
    """A race of two actors that each count in a shard that they choose."""

    def run(choose: Callable[[], int], **options: Any) -> RaceResult:
        shards = [0] * SHARDS

        def setup() -> None:
            shards[:] = [0] * SHARDS

        def visit() -> None:
            shard = choose()
            before = shards[shard]
            queue.fetch_statistics()
            shards[shard] = before + 1

        options = {"copies": 2, "instances": False, **options}
        result: RaceResult = race(visit, setup=setup, check=lambda: sum(shards) == 2, **options)
        return result

    return run


@pytest.mark.parametrize(
    ("choose", "seed"),
    [
        pytest.param(lambda: randrange(SHARDS), 0, id="function"),
        pytest.param(lambda: random.sample(range(SHARDS), k=1)[0], 10**9, id="module, and a seed"),
    ],
)
def test_actors_that_choose_the_same_are_found_and_repeated(
    race_shards: Run, choose: Callable[[], int], seed: int
) -> None:
    random.seed("the test's own")
    state = random.getstate()
    with pytest.raises(RaceTestError, match="check returned False") as caught:
        race_shards(choose, seed=seed)

    sequence = int(caught.value.replay.split()[0].removeprefix("r"))
    assert sequence // search.SEQUENCES == seed
    for _ in range(3):
        random.seed()
        with pytest.raises(RaceTestError, match="schedule 1 leads") as again:
            race_shards(choose, replay=caught.value.replay)
        assert again.value.schedule == caught.value.schedule
    random.setstate(state)
    with pytest.raises(RaceTestError):
        race_shards(choose)
    assert random.getstate() == state


def test_the_result_names_the_numbers_that_were_tried(
    race: Run, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orders with two preemptions are run with the first of them only."""
    monkeypatch.setattr(search, "SEQUENCES", sequences := 4)

    def wait() -> None:
        queue.get_task("one")
        draw()
        queue.get_task("one")

    counts: list[int] = []
    draws: list[Callable[[], float]] = [lambda: 0.0, lambda: random.random()]  # noqa: PLW0108
    for draw in draws:
        for preemptions in (0, 1, 2):
            result = race(
                wait,
                setup=lambda: queue.add(name="one"),
                copies=2,
                preemptions=preemptions,
                reduce=False,
                seed=1,
            )
            counts.append(int(result))
            assert result.is_complete
            most = "1 preemption" if preemptions else "0 preemptions"
            text = f"with 19 other sequences of random numbers at most {most}"
            assert (text in str(result)) is (draw() != 0)
    none, one, two, *drawn = counts
    assert drawn == [sequences * none, sequences * one, two + (sequences - 1) * one]


@pytest.mark.parametrize("name", DRAWING)
def test_each_function_that_draws_is_known(race: Run, queue: Queue, name: str) -> None:
    arguments: dict[str, list[Any]] = {
        "choice": ["ab"],
        "choices": ["ab"],
        "sample": ["ab", 1],
        "shuffle": [[1, 2]],
    }
    arguments |= {"seed": [], "getstate": [], "setstate": [random.Random().getstate()]}
    two = ["betavariate", "gammavariate", "gauss", "lognormvariate", "normalvariate", "randint"]
    two += ["uniform", "vonmisesvariate", "weibullvariate"]
    given: list[Any] = arguments.get(name, [1, 2] if name in two else [1])
    given = [] if name in ("random", "triangular") else given

    def draw() -> None:
        queue.fetch_statistics()
        getattr(random, name)(*given)

    assert "random numbers" in str(race(draw, copies=2, preemptions=0, schedules=3))


def test_numbers_that_a_library_draws_do_not_count(race: Run, queue: Queue) -> None:
    """Such as those of its retries."""

    def draw_in_library() -> None:
        queue.fetch_statistics()
        uuid.uuid1(node=1)

    assert "random numbers" not in str(race(draw_in_library, copies=2, preemptions=0))


def test_calls_that_only_the_first_run_has_do_not_matter(
    race: Run, queue: Queue, tmp_path: Path
) -> None:
    """Such as the one that loads a script; of what is in memory, the first run is not looked at."""
    counts: list[int] = []
    for first in (False, True):
        loaded = tmp_path / str(first)
        loaded.mkdir(exist_ok=True)
        if first:
            loaded.rmdir()

        def call() -> None:
            if not loaded.exists():  # noqa: B023
                loaded.mkdir()  # noqa: B023
                queue.fetch_statistics()
            queue.fetch_statistics()
            queue.fetch_statistics()

        result = race(call, copies=2, reduce=False, instances=False, seed=1)
        counts.append(int(result))
        assert result.is_complete
        assert "differ from" not in str(result)
    assert counts[1] == 1 + 2 * counts[0]  # the first, and all others once more


@each_row(
    ("made", "length", "different"),
    [
        ("a1/ab a2/ab b3/ab", 3, None),
        ("a1/ab b9/b", 1, None),
        ("a1/ab b9/ab", 2, None),
        ("a1/ab b9/ab b3/ab", 3, 1),
        ("a1/a a2/ab", 2, 0),
        ("a1/ab a2/a", 2, 1),
        ("a1/ab a2/ab", 3, 2),
        ("a1/ab", 3, 1),
    ],
)
def test_a_run_follows_its_plan_until_the_choice_that_it_makes_otherwise(
    made: str, length: int, different: int | None
) -> None:
    """Each is who goes on, from which call, of whom; the last one only has to be of the same."""

    def choice(text: str) -> Choice:
        who, call, keys = text[0], text[1], text[3:]
        pending = Pending(who, call, NOTHING)
        options = {ord(key): key for key in keys}
        empty = frozenset[str]()
        return Choice(
            options, None, {ord(who): pending}, empty, empty, is_waiting=False, chosen=ord(who)
        )

    earlier = tuple(map(choice, ["a1/ab", "a2/ab", "b3/ab"]))
    found = search._find_difference(Plan(earlier, length, 0), tuple(map(choice, made.split())))

    assert found is (None if different is None else earlier[different])


def test_calls_that_differ_from_run_to_run_are_said(race: Run, queue: Queue) -> None:
    """As where numbers that the system draws decide on calls: nobody knows all orders."""
    numbers = count()

    def flip() -> None:
        for _ in range(1 + next(numbers) % 3):
            queue.fetch_statistics()

    result = race(flip, copies=2, reduce=False)

    assert not result.is_complete
    assert "whose calls differ from run to run" in str(result)


def test_each_run_of_a_crash_test_draws_the_same(crash: Run, queue: Queue) -> None:
    drawn: list[float] = []

    work = working(queue, lambda: drawn.append(random.random()))
    state = random.getstate()
    crashes = crash(work, setup=lambda: queue.add(b"tea"))

    assert random.getstate() == state
    assert len(drawn) > crashes
    assert len({*drawn}) == 2  # of the first attempt, and of that after a crash
