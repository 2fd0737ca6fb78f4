"""What calls to services read and write is known: orders that are left out change nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kept import Program, check_reduction
from sdk_calls import memcache, ndb, sdk_testbed

from pullqueue.sdk.imports import taskqueue
from pullqueue.testing import RaceResult

pytestmark = pytest.mark.slow

YAML = "queue:\n- name: mails\n  rate: 5/s\n"


class RacedValue(ndb.Model):  # type: ignore[misc]  # the SDK is not typed
    """A number; those of `a` and `b` are in one group, that of `c` is not."""

    value = ndb.IntegerProperty(default=1)


def key(name: str) -> Any:
    return ndb.Key(RacedValue, name) if name == "c" else ndb.Key("Group", 1, RacedValue, name)


def value(name: str) -> int:
    found = key(name).get(use_cache=False, use_memcache=False)
    return found.value if found else 0


def store(name: str, number: int) -> None:
    RacedValue(key=key(name), value=number).put(use_cache=False, use_memcache=False)


def transact(names: str, *, with_task: bool = False) -> str:
    """Add one to some, in a transaction, and return whether that was possible."""

    def change() -> None:
        for name in names:
            store(name, value(name) + 1)
        if with_task:
            taskqueue.add(queue_name="mails", transactional=True)

    try:
        ndb.transaction(change, retries=0, xg=True)
    except Exception as error:  # noqa: BLE001 - which is part of what is seen
        return type(error).__name__
    return "committed"


def count() -> int:
    return int(ndb.Query(kind="RacedValue").count())


CALLS: dict[str, Callable[[], object]] = {
    "get a": lambda: value("a"),
    "get b": lambda: value("b"),
    "double a": lambda: store("a", 2 * value("a")),
    "set c": lambda: store("c", 7),
    "delete b": lambda: key("b").delete(use_cache=False, use_memcache=False),
    "query": count,
    "a in transaction": lambda: transact("a"),
    "b and c in transaction": lambda: transact("bc"),
    "c in transaction, with a task": lambda: transact("c", with_task=True),
    "cached": lambda: memcache.get("a"),
    "cache": lambda: memcache.set("a", 1),
    "increment": lambda: memcache.incr("a", initial_value=5),
    "other cache": lambda: memcache.set("b", 1),
}
programs = st.lists(
    st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=2), min_size=2, max_size=2
)


class SdkProgram(Program):
    yaml = YAML
    options: ClassVar[dict[str, Any]] = {"clock": False}

    def setup(self) -> None:
        for name in "ab":
            store(name, 1)
        key("c").delete()

    def act(self, number: int, who: str) -> None:
        for name in self.actors[number]:
            self.seen(who).append(CALLS[name]())

    def state(self) -> tuple[object, ...]:
        tasks = self.emulator.queue("mails").fetch_statistics().tasks
        return *map(value, "abc"), memcache.get("a"), memcache.get("b"), tasks

    def race(self, **options: Any) -> tuple[RaceResult, set[object]]:
        with sdk_testbed(self.emulator):
            return super().race(**options)


LONG = bool(os.environ.get("PULLQUEUE_TEST_LONG"))


@given(programs, st.integers(1, 2))
@settings(max_examples=1 if not LONG else 200)
@example([["a in transaction"], ["b and c in transaction"]], 1)
@example([["get b"], ["delete b"]], 1)
@example([["query"], ["set c"]], 1)
def test_calls_to_services_lead_to_the_same_states(
    program: list[list[str]], preemptions: int
) -> None:
    check_reduction(lambda: SdkProgram(program), preemptions=preemptions)
