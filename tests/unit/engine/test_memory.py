"""pullqueue.engine.memory: its indexes of tasks and names, rates; and random names."""

from __future__ import annotations

import random
import re
import sys
from itertools import islice

import pytest
from tables import each_row

from pullqueue import Emulator, Task
from pullqueue.engine.memory import index
from pullqueue.engine.memory.index import OrderedIndex
from pullqueue.engine.memory.name_index import NameIndex
from pullqueue.engine.memory.rates import LeaseCounter, RateLimiter
from pullqueue.engine.store import random_names
from pullqueue.limits import MIB

SECOND = 1_000_000


def a_task(name: str, payload: bytes = b"") -> Task:
    return Task(0, 1, 1, name, "q", payload, None, 0, len(payload) + len(name))


class TestNameIndex:
    def test_restored_tombstones_expire_in_their_own_order(self) -> None:
        """Whatever their order in the snapshot, and whatever is deleted after it."""
        names = NameIndex(10)
        names.restore({"late": 1000, "soon": 12})
        names.tombstone(("a",), 5)

        names.expire(12)
        assert names.tombstones() == {"late": 1000, "a": 15}
        names.expire(15)
        assert names.tombstones() == {"late": 1000}

    def test_the_latest_ten_thousand_generated_names_are_known(self) -> None:
        """Those that were given, also by a snapshot, are reserved until they expire."""
        names = NameIndex(10)
        names.put([a_task("given")], ["given"])
        names.restore({"restored": 15})
        names.tombstone(("first", "given"), 1)
        names.tombstone([f"a{number}" for number in range(9_999)], 2)
        assert len(names.tombstones()) == 10_002
        names.tombstone(("last",), 3)
        assert names.get("first") is None
        assert len(names.tombstones()) == 10_002
        names.tombstone(("later",), 3)
        assert names.tombstones() == {"given": 11, "restored": 15, "last": 13, "later": 13}

        names.expire(13)
        assert names.tombstones() == {"restored": 15}

    def test_a_generated_name_that_is_given_later_is_reserved(self) -> None:
        names = NameIndex(10)
        names.tombstone(("a",), 1)
        names.free(["a"])
        names.put([a_task("a")], ["a"])
        names.tombstone(("a",), 2)
        names.tombstone([f"b{number}" for number in range(10_000)], 3)

        assert names.get("a") == 12

    @pytest.mark.parametrize("is_freed", [False, True])
    def test_a_name_that_was_given_is_not_reserved_when_it_is_generated_later(
        self, *, is_freed: bool
    ) -> None:
        names = NameIndex(10)
        names.put([a_task("a")], ["a"])
        names.tombstone(("a",), 1)
        names.free(["a"]) if is_freed else names.expire(11)
        names.put([a_task("a")])
        names.tombstone(("a",), 12)
        names.tombstone([f"b{number}" for number in range(10_000)], 13)

        assert names.get("a") is None

    def test_a_tombstone_keeps_no_payload(self) -> None:
        names = NameIndex(10)
        payload = b"x" * MIB
        unused = sys.getrefcount(payload)
        names.put([a_task("a", payload)])

        names.tombstone(("a",), 0)

        assert sys.getrefcount(payload) == unused


class TestLeaseCounter:
    def test_the_tasks_of_a_second_are_counted_together(self) -> None:
        counter = LeaseCounter()
        for usec in (0, SECOND - 1, SECOND):
            counter.add(usec, 2)

        assert counter.seconds() == [(0, 4), (1, 2)]

    def test_no_more_than_an_hour_of_seconds_is_kept(self) -> None:
        counter = LeaseCounter()
        for second in range(10_000):
            counter.add(second * SECOND, 1)

        assert counter.count(9_999 * SECOND, 3600) == 3600
        assert len(counter.seconds()) == 3600


class TestRateLimiter:
    def test_a_clock_that_is_set_back(self) -> None:
        """Calls of a time that has not come yet count for nothing."""
        rate = RateLimiter()
        for _ in range(2):
            rate.permit(3600 * SECOND, 2)

        assert rate.permit(0, 2)


class TestNames:
    def test_names_are_16_hex_digits_and_depend_on_the_seed_alone(self) -> None:
        first, same, other = random_names(1), random_names(1), random_names(2)

        assert first() == same() != other()
        assert all(re.fullmatch("[0-9a-f]{16}", names()) for names in [random_names()] * 100)


Entry = tuple[int, int]


@pytest.mark.parametrize(("chunk", "longest"), [(3, 1), (4, 4), (3, 90), (512, 90)])
def test_it_does_what_a_sorted_list_does(
    monkeypatch: pytest.MonkeyPatch, chunk: int, longest: int
) -> None:
    """Whatever runs are added and removed, with chunks that split and empty all the time or not."""
    monkeypatch.setattr(index, "_CHUNK", chunk)
    chance = random.Random(chunk * longest)  # noqa: S311 - the same at each run
    made: OrderedIndex[Entry] = OrderedIndex()
    model: list[Entry] = []
    compare(made, model, chance)
    for step in range(60):
        run = sorted((usec, step) for usec in chance.sample(range(100), chance.randint(1, longest)))
        made.add(run)
        model = sorted([*model, *run])
        if step % 3 == 0:
            gone = sorted(chance.sample(model, chance.randint(1, min(longest, len(model)))))
            made.remove(gone)
            model = sorted({*model} - {*gone})
        if step % 5 == 0:
            start = chance.randrange(len(model) + 1)
            made.remove(model[start : start + longest])
            del model[start : start + longest]
        compare(made, model, chance)
        assert max(map(len, made._chunks), default=0) <= 2 * chunk


def compare(made: OrderedIndex[Entry], model: list[Entry], chance: random.Random) -> None:
    """Ask both the same."""
    usec, sequence = chance.randrange(-1, 101), chance.randrange(-1, 121)
    due = [entry for entry in model if entry[0] <= usec]
    assert list(made) == model
    assert list(reversed(made)) == model[::-1]
    assert (len(made), bool(made)) == (len(model), bool(model))
    assert made.first() == (model[0] if model else None)
    for count in (1, 3, len(model)):
        assert made.due(usec, count) == due[:count]
    assert list(made.after(usec)) == model[len(due) :]
    assert made.count_after(usec) == len(model) - len(due)
    behind = [entry for entry in model if entry > (usec, sequence)]
    assert list(made.after(usec, sequence)) == behind
    assert list(islice(made.after(usec, sequence), 3)) == behind[:3]


def test_chunks_are_split_into_halves() -> None:
    made: OrderedIndex[Entry] = OrderedIndex()
    counts = []
    for sequence in range(5000):
        made.add([(0, sequence)])
        counts.append(len(made._chunks))

    assert counts[1023:1025] == [1, 3]
    assert len(made._chunks) <= 10
    assert [len(chunk) for chunk in made._chunks[:-1]] == [512] * (len(made._chunks) - 1)


@each_row("is_restored", [False, True])
def test_the_names_of_added_and_restored_tasks_were_given(*, is_restored: bool) -> None:
    emulator = Emulator.from_text("queue:\n- name: q\n  mode: pull\n")
    emulator.queue("q").add(name="one")
    if is_restored:
        emulator.restore(emulator.export())

    names = emulator.store._queues["q"].names  # type: ignore[attr-defined]
    names.tombstone(("one",), 1)
    names.tombstone([f"a{number}" for number in range(10_000)], 2)
    assert names.get("one") is not None


def test_nothing_is_left_of_a_task() -> None:
    """A task that was leased and deleted is in none of the indexes."""
    queue = Emulator.from_text("queue:\n- name: q\n  mode: pull\n").queue("q")
    queue.add(name="one", tag="red")
    queue.delete_tasks(queue.lease_tasks(60, 1))

    tasks = queue.store._queues["q"].tasks  # type: ignore[attr-defined]
    assert (len(tasks), len(tasks._scheduled), tasks._by_tag) == (0, 0, {})
