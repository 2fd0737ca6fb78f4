"""What calls read and write, and which of them cannot influence each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from pullqueue import Emulator, NewTask, Queue
from pullqueue.engine.interceptors import QueueCall
from pullqueue.testing.points.footprint import (
    EVERYTHING,
    NOTHING,
    Footprint,
    footprint_of_queue_call,
)

paths = st.lists(st.sampled_from("ab"), max_size=3).map(tuple)
footprints = st.builds(
    Footprint, st.frozensets(paths, max_size=2), st.frozensets(paths, max_size=2)
)


def uses(footprint: Footprint, path: tuple[str, ...]) -> tuple[bool, bool]:
    reads, writes = (
        any(path[: len(each)] == each for each in part)
        for part in (footprint.reads, footprint.writes)
    )
    return reads, writes


PLACES = [(a, b, c) for a in "ab" for b in "ab" for c in "ab"]


@given(footprints, footprints)
def test_a_conflict_is_a_place_that_one_writes_and_the_other_uses(
    one: Footprint, other: Footprint
) -> None:
    expected = False
    for place in PLACES:
        (reads, writes), (other_reads, other_writes) = uses(one, place), uses(other, place)
        expected |= (writes and (other_reads or other_writes)) or (reads and other_writes)
    assert one.conflicts_with(other) == expected
    assert other.conflicts_with(one) == expected


@given(footprints)
def test_a_call_of_which_nothing_is_known_conflicts_with_all_that_use_anything(
    footprint: Footprint,
) -> None:
    assert EVERYTHING.conflicts_with(footprint) == (footprint != NOTHING)


CALLS: dict[str, Callable[[Queue], object]] = {
    "add a": lambda q: q.add(name="a"),
    "add b": lambda q: q.add(name="b"),
    "add": lambda q: q.add(),
    "add many": lambda q: q.add_many([NewTask(name="a"), NewTask(name="b")]),
    "get a": lambda q: q.get_task("a"),
    "delete a": lambda q: q.delete_tasks("a"),
    "delete b": lambda q: q.delete_tasks(["b"]),
    "delete some": lambda q: q.delete_tasks(iter(["b"])),
    "look": lambda q: q.fetch_statistics(),
    "list": lambda q: q.list_tasks(1),
    "purge": lambda q: q.purge(),
    "lease": lambda q: q.lease_tasks(60, 1),
}


@pytest.fixture
def footprint(emulator: Emulator) -> Iterator[Callable[[str, str], Footprint]]:
    found: list[Footprint] = []

    def intercept(call: QueueCall, _: Callable[[], object]) -> object:
        found.append(footprint_of_queue_call(call))
        raise LookupError

    def of(name: str, queue: str) -> Footprint:
        with pytest.raises(LookupError):
            CALLS[name](emulator.queue(queue))
        return found.pop()

    with emulator.interceptors.installed(intercept):
        yield of


@each_row(
    ("queue", "name", "other", "conflict"),
    [
        ("pushed", "add a", "add b", False),
        ("pushed", "add a", "add a", True),
        ("pushed", "add", "add", True),
        ("pushed", "add", "add a", False),
        ("pushed", "add", "look", True),
        ("pushed", "add", "purge", True),
        ("work", "add a", "add b", True),
        ("work", "add many", "delete b", True),
        ("work", "delete a", "delete b", False),
        ("work", "delete a", "delete some", True),
        ("work", "delete a", "lease", True),
        ("work", "delete a", "get a", True),
        ("work", "delete b", "get a", False),
        ("work", "look", "list", False),
        ("work", "look", "get a", False),
        ("work", "look", "lease", True),
        ("work", "lease", "lease", True),
        ("work", "purge", "get a", True),
    ],
)
def test_which_calls_to_one_queue_can_influence_each_other(
    footprint: Callable[[str, str], Footprint], queue: str, name: str, other: str, *, conflict: bool
) -> None:
    one, two = footprint(name, queue), footprint(other, queue)
    assert one.conflicts_with(two) == two.conflicts_with(one) == conflict


@each_row("name", CALLS)
def test_calls_to_two_queues_influence_each_other_only_by_generated_names(
    footprint: Callable[[str, str], Footprint], name: str
) -> None:
    with_name = name if name != "lease" else "look"
    one, two = footprint(name, "work"), footprint(with_name, "pushed")
    assert one.conflicts_with(two) == (name == "add")
