"""pullqueue.engine.memory.name_index and .rates, and engine.name_source."""

from __future__ import annotations

import re
import sys

from pullqueue import Task
from pullqueue.engine.memory.name_index import NameIndex
from pullqueue.engine.memory.rates import LeaseCounter, RateLimiter
from pullqueue.engine.name_source import random_names
from pullqueue.limits import MIB

SECOND = 1_000_000


def a_task(name: str, payload: bytes = b"") -> Task:
    """Make a task."""
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

    def test_a_tombstone_keeps_no_payload(self) -> None:
        names = NameIndex(10)
        payload = b"x" * MIB
        unused = sys.getrefcount(payload)
        names.put([a_task("a", payload)])

        names.tombstone(("a",), 0)

        assert sys.getrefcount(payload) == unused


class TestLeaseCounter:
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
    def test_random_names_look_like_production_s(self) -> None:
        """16 lower-case hex digits."""
        names = random_names()

        assert all(re.fullmatch("[0-9a-f]{16}", names()) for _ in range(100))

    def test_names_depend_on_the_seed_alone(self) -> None:
        first, same, other = random_names(1), random_names(1), random_names(2)

        assert first() == same() != other()
