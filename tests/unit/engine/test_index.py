"""pullqueue.engine.memory.index: every question is answered as by a sorted list."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from pullqueue import Emulator
from pullqueue.engine.memory import index
from pullqueue.engine.memory.index import OrderedIndex

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
    for sequence in range(5000):
        made.add([(0, sequence)])

    assert len(made._chunks) <= 10
    assert [len(chunk) for chunk in made._chunks[:-1]] == [512] * (len(made._chunks) - 1)


def test_nothing_is_left_of_a_task() -> None:
    """A task that was leased and deleted is in none of the indexes."""
    queue = Emulator.from_text("queue:\n- name: q\n  mode: pull\n").queue("q")
    queue.add(name="one", tag="red")
    queue.delete_tasks(queue.lease_tasks(60, 1))

    tasks = queue.store._queues["q"].tasks  # type: ignore[attr-defined]
    assert (len(tasks), len(tasks._scheduled), tasks._by_tag) == (0, 0, {})
