"""pullqueue.engine.memory.name_index, .exhaustion and .rates, and engine.name_source."""

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
    return Task(0, 1, name, "q", payload, None, 1, 0, len(payload) + len(name))


class TestNameIndex:
    def test_a_name_is_reserved_for_its_time(self) -> None:
        """It is in use until the tombstone expires, and free at that very microsecond."""
        names = NameIndex(10)
        names.tombstone(("a", "b"), 5)

        names.expire(14)
        assert names.tombstones() == {"a": 15, "b": 15}
        names.expire(15)
        assert [names.get("a"), names.get("b")] == [None, None]

    def test_a_name_used_again(self) -> None:
        """The expiry of an older tombstone does not free a name that was used again."""
        names = NameIndex(10)
        names.tombstone(("a",), 0)
        names.tombstone(("a",), 5)

        names.expire(10)
        assert names.tombstones() == {"a": 15}
        names.expire(15)
        assert "a" not in names

    def test_the_expiry_of_a_tombstone_leaves_a_new_task(self) -> None:
        """If a name was freed early and given to a task, the task stays."""
        names = NameIndex(10)
        names.tombstone(("a",), 0)
        names.free(["a"])
        names.put([a_task("a")])

        names.expire(10)
        assert names.get("a") == a_task("a")

    def test_only_tombstones_are_freed(self) -> None:
        """A task keeps its name, whether its name is given or all are."""
        names = NameIndex(10)
        names.put([a_task("here")])
        names.tombstone(("gone",), 0)

        names.free(["here", "unknown"])
        assert (names.get("here"), names.get("gone")) == (a_task("here"), 10)
        names.free(None)
        assert (names.get("here"), names.get("gone")) == (a_task("here"), None)

    def test_restored_tombstones_expire_in_their_own_order(self) -> None:
        """Whatever their order in the snapshot, and whatever is deleted after it."""
        names = NameIndex(10)
        names.restore({"late": 1000, "soon": 12})
        names.tombstone(("a",), 5)

        names.expire(12)
        assert names.tombstones() == {"late": 1000, "a": 15}
        names.expire(15)
        assert names.tombstones() == {"late": 1000}

    def test_a_tombstone_keeps_no_payload(self) -> None:
        """A tombstone does not keep its task in memory."""
        names = NameIndex(10)
        payload = b"x" * MIB
        unused = sys.getrefcount(payload)
        names.put([a_task("a", payload)])

        names.tombstone(("a",), 0)

        assert sys.getrefcount(payload) == unused


class TestLeaseCounter:
    def test_minute_and_hour(self) -> None:
        """Leases count for a minute in one number and for an hour in the other."""
        counter = LeaseCounter()
        counter.add(0, 2)
        counter.add(SECOND // 2, 3)
        counter.add(30 * SECOND, 5)

        assert (counter.count(59 * SECOND, 60), counter.count(59 * SECOND, 3600)) == (10, 10)
        assert (counter.count(60 * SECOND, 60), counter.count(60 * SECOND, 3600)) == (5, 10)
        assert counter.count(90 * SECOND, 60) == 0
        assert counter.count(3599 * SECOND, 3600) == 10
        assert counter.count(3600 * SECOND, 3600) == 5
        assert counter.count(3630 * SECOND, 3600) == 0

    def test_memory_is_bounded(self) -> None:
        """No more than an hour of seconds is remembered."""
        counter = LeaseCounter()
        for second in range(10_000):
            counter.add(second * SECOND, 1)

        assert counter.count(9_999 * SECOND, 3600) == 3600
        assert len(counter.seconds()) == 3600


class TestRateLimiter:
    def test_a_sliding_second(self) -> None:
        """In any one second no more than the number given are admitted."""
        rate = RateLimiter()

        admitted = [usec for usec in range(0, 3 * SECOND, SECOND // 4) if rate.permit(usec, 2)]

        assert admitted == [0, 250_000, 1_000_000, 1_250_000, 2_000_000, 2_250_000]

    def test_a_clock_that_is_set_back(self) -> None:
        """Calls of a time that has not come yet count for nothing."""
        rate = RateLimiter()
        for _ in range(2):
            rate.permit(3600 * SECOND, 2)

        assert rate.permit(0, 2)

    def test_none_means_unlimited(self) -> None:
        """Without a limit every call is admitted, and none is remembered."""
        rate = RateLimiter()

        assert all(rate.permit(0, None) for _ in range(100))
        assert rate.permit(0, 1)


class TestNames:
    def test_random_names_look_like_production_s(self) -> None:
        """16 lower-case hex digits."""
        names = random_names()

        assert all(re.fullmatch("[0-9a-f]{16}", names()) for _ in range(100))

    def test_a_seed_repeats_them(self) -> None:
        """Names depend on the seed alone."""
        first, same, other = random_names(1), random_names(1), random_names(2)

        assert first() == same() != other()
