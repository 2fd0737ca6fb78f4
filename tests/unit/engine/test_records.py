"""pullqueue.engine.taken_names, .rates and .names."""

from __future__ import annotations

import re
import sys

from pullqueue.engine.fields import Fields
from pullqueue.engine.names import random_names
from pullqueue.engine.rates import CallRate, LeaseCounter
from pullqueue.engine.taken_names import TakenNames
from pullqueue.limits import MIB

SECOND = 1_000_000


def a_task(name: str) -> Fields:
    """Make a task."""
    return (0, 1, name, "q", b"", None, 0, 0, 1)


class TestTakenNames:
    def test_a_name_is_taken_for_its_time(self) -> None:
        """It is taken until its lifetime has passed, and free at that very microsecond."""
        names = TakenNames(10)
        names.bury(("a", "b"), 5, 1)

        names.expire(14)
        assert names.tombstones() == {"a": 15, "b": 15}
        names.expire(15)
        assert names.held(["a", "b"]) == {"a": None, "b": None}

    def test_a_name_taken_again(self) -> None:
        """The end of an older tombstone does not free a name that was taken anew."""
        names = TakenNames(10)
        names.bury(("a",), 0, 1)
        names.bury(("a",), 5, 1)

        names.expire(10)
        assert names.tombstones() == {"a": 15}
        names.expire(15)
        assert "a" not in names

    def test_the_end_of_a_tombstone_leaves_a_new_task(self) -> None:
        """Where a name was freed early and given to a task, the task stays."""
        names = TakenNames(10)
        names.bury(("a",), 0, 1)
        names.free(["a"])
        names.put([a_task("a")])

        names.expire(10)
        assert names.held(["a"]) == {"a": a_task("a")}

    def test_only_tombstones_are_freed(self) -> None:
        """A task keeps its name, whether its name is given or all are."""
        names = TakenNames(10)
        names.put([a_task("here")])
        names.bury(("gone",), 0, 1)

        names.free(["here", "unknown"])
        assert names.held(["here", "gone"]) == {"here": a_task("here"), "gone": 10}
        names.free(None)
        assert names.held(["here", "gone"]) == {"here": a_task("here"), "gone": None}

    def test_restored_names_are_free_in_their_own_order(self) -> None:
        """Whatever their order in the snapshot, the first to be free is free first."""
        names = TakenNames(10)
        names.restore({"late": 1000, "soon": 12})

        names.expire(12)

        assert names.held(["late", "soon"]) == {"late": 1000, "soon": None}

    def test_restored_names_do_not_hold_up_others(self) -> None:
        """A name that was brought back and is free late does not keep an earlier one taken."""
        names = TakenNames(10)
        names.restore({"late": 1000, "soon": 12})
        names.bury(("a",), 5, 1)

        names.expire(15)

        assert names.held(["late", "soon", "a"]) == {"late": 1000, "soon": None, "a": None}

    def test_what_changed_of_late_is_known_with_the_rest(self) -> None:
        """Each name stands for what it was last given, however many changed since, and when."""
        names = TakenNames(10)
        tasks = [a_task(f"n{number}") for number in range(5_000)]
        names.put(tasks)
        leased = [(1, *task[1:]) for task in tasks]
        for start in range(0, 5_000, 500):
            names.replace(leased[start : start + 500])
        names.bury(("n1", "n4999"), 5, 1)

        assert names.held(["n0", "n4999"]) == {"n0": leased[0], "n4999": 15}
        assert names.held(["n1", "other"]) == {"n1": 15, "other": None}
        assert names.taken(["n1", None, "other", "n3"]) == {"n1": 15, "n3": leased[3]}
        assert names.tombstones() == {"n1": 15, "n4999": 15}

    def test_what_is_gone_is_let_go_of(self) -> None:
        """A tombstone holds little of the memory of its task, however long nothing else happens."""
        names = TakenNames(10)
        payload = b"x" * MIB
        unheld = sys.getrefcount(payload)
        names.put([(0, 1, "a", "q", payload, None, 0, 0, MIB + 1)])

        names.bury(("a",), 0, MIB + 1)

        assert sys.getrefcount(payload) == unheld
        assert names.held(["a"]) == {"a": 10}


class TestLeaseCounter:
    def test_minute_and_hour(self) -> None:
        """Leases count for a minute in one number and for an hour in the other."""
        counter = LeaseCounter()
        counter.add(0, 2)
        counter.add(SECOND // 2, 3)
        counter.add(30 * SECOND, 5)

        assert (counter.last_minute(59 * SECOND), counter.last_hour(59 * SECOND)) == (10, 10)
        assert (counter.last_minute(60 * SECOND), counter.last_hour(60 * SECOND)) == (5, 10)
        assert counter.last_minute(90 * SECOND) == 0
        assert counter.last_hour(3599 * SECOND) == 10
        assert counter.last_hour(3600 * SECOND) == 5
        assert counter.last_hour(3630 * SECOND) == 0

    def test_memory_is_bounded(self) -> None:
        """No more than an hour of seconds is remembered."""
        counter = LeaseCounter()
        for second in range(10_000):
            counter.add(second * SECOND, 1)

        assert counter.last_hour(9_999 * SECOND) == 3600
        assert len(counter._seconds) == 3600


class TestCallRate:
    def test_a_sliding_second(self) -> None:
        """In any one second no more than the number given are admitted."""
        rate = CallRate()

        admitted = [moment for moment in range(0, 3 * SECOND, SECOND // 4) if rate.admit(moment, 2)]

        assert admitted == [0, 250_000, 1_000_000, 1_250_000, 2_000_000, 2_250_000]

    def test_a_clock_that_is_set_back(self) -> None:
        """Calls of a time that has not come yet count for nothing."""
        rate = CallRate()
        for _ in range(2):
            rate.admit(3600 * SECOND, 2)

        assert rate.admit(0, 2)

    def test_none_is_no_limit(self) -> None:
        """Without a limit every call is admitted, and none is remembered."""
        rate = CallRate()

        assert all(rate.admit(0, None) for _ in range(100))
        assert rate.admit(0, 1)


class TestNames:
    def test_random_names_look_like_production_s(self) -> None:
        """16 lower-case hex digits."""
        names = random_names()

        assert all(re.fullmatch("[0-9a-f]{16}", names()) for _ in range(100))

    def test_a_seed_repeats_them(self) -> None:
        """The same seed gives the same names, another one others."""
        first, same, other = random_names(1), random_names(1), random_names(2)

        assert first() == same() != other()
