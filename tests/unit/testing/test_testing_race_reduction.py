"""Orders that are left out by `race_test` lead to the same states as those that are run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kept import Program, check_reduction
from sdk_calls import memcache, ndb, sdk_testbed

from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.errors import PullQueueError
from pullqueue.push.request import PushRequest
from pullqueue.sdk.imports import taskqueue
from pullqueue.testing import RaceResult

pytestmark = pytest.mark.slow

YAML = """\
queue:
- name: work
  mode: pull
- name: pushed
  rate: 5/s
  retry_parameters:
    task_retry_limit: 1
- name: other
  rate: 5/s
"""


class Operation(NamedTuple):
    """What an actor does at one time; the call is a point, and memory is not."""

    call: str
    name: str
    memory: str

    def __repr__(self) -> str:
        return f"Operation({self.call!r}, {self.name!r}, {self.memory!r})"


operations = st.builds(
    Operation,
    st.sampled_from(["add", "add", "get", "delete", "look", "pull", "lease", "change", "none"]),
    st.sampled_from("abc"),
    st.sampled_from(["", "", "", "", "write", "read"]),
)


def has_calls(program: list[list[Operation]]) -> bool:
    return any(operation.call != "none" for actor in program for operation in actor)


programs = st.lists(st.lists(operations, min_size=1, max_size=3), min_size=2, max_size=3).filter(
    has_calls
)


class QueueProgram(Program):
    """Actors that are functions, or handlers of tasks."""

    yaml = YAML
    options: ClassVar[dict[str, Any]] = {"undeleted": "ignore"}

    def __init__(self, actors: list[list[Operation]], *, handlers: bool = False) -> None:
        super().__init__(actors)
        self.handlers = handlers
        self.memory: list[str] = []

    def setup(self) -> None:
        self.memory.clear()
        for queue in self.emulator.queues:
            if queue.name != "default":
                queue.add(name="a")
        if self.handlers:
            for number in range(len(self.actors)):
                self.emulator.queue("pushed").add(name=f"handler{number}")

    def act(self, number: int, who: str) -> None:
        seen = self.seen(who)
        for operation in self.actors[number]:
            with suppress(PullQueueError):
                seen.append(self.call(operation))
            if operation.memory == "write":
                self.memory.append(who)
            elif operation.memory == "read":
                seen.append(tuple(self.memory))

    def call(self, operation: Operation) -> object:
        pushed, pull = self.emulator.queue("other"), self.emulator.queue("work")
        calls: dict[str, Callable[[], object]] = {
            "add": lambda: pushed.add(name=operation.name).name,
            "get": lambda: pushed.get_task(operation.name).name,
            "delete": lambda: tuple(pushed.delete_tasks(operation.name)),
            "look": lambda: pushed.fetch_statistics().tasks,
            "pull": lambda: pull.add(name=operation.name).name,
            "lease": lambda: tuple(task.name for task in pull.lease_tasks(60, 1)),
            "change": lambda: pull.delete_tasks(operation.name)[0].value,
            "none": lambda: None,
        }
        return calls[operation.call]()

    @bypass_interceptors()
    def state(self) -> tuple[object, ...]:
        """Return the tasks; push tasks are sent in any order, whenever they were added."""
        tasks = []
        for queue in self.emulator.queues:
            names = [(task.name, task.retry_count) for task in queue.list_tasks(100)]
            tasks.append((queue.name, tuple(sorted(names) if queue.is_push else names)))
        return tuple(tasks), tuple(self.memory)

    def send(self, request: PushRequest) -> int:
        number = int(request.task_name.removeprefix("handler") or 0)
        self.act(number, f"{request.task_name} {request.attempt}")
        return 200

    def race(self, **options: Any) -> tuple[RaceResult, set[object]]:
        if self.handlers:
            options |= {"send": self.send, "queues": ["pushed"]}
        return super().race(**options)


def compare(program: list[list[Operation]], *, handlers: bool = False, **options: Any) -> None:
    check_reduction(lambda: QueueProgram(program, handlers=handlers), **options)


LONG = bool(os.environ.get("PULLQUEUE_TEST_LONG"))
SIZE = 9 if LONG else 4
"""Of all actors together; one call more can double the number of orders."""
LOST_UPDATE = [[Operation("look", "a", "read"), Operation("none", "a", "write")]] * 2
READS = [[Operation("look", "a", ""), Operation("add", "b", "")], [Operation("look", "a", "")] * 2]


@given(programs.filter(lambda program: sum(map(len, program)) <= SIZE), st.integers(0, 2))
@settings(max_examples=2 if not LONG else 500)
@example(LOST_UPDATE, 2)
@example(READS, 1)
def test_functions_lead_to_the_same_states(
    program: list[list[Operation]], preemptions: int
) -> None:
    compare(program, preemptions=preemptions, clock=False)


@given(programs.filter(lambda program: sum(map(len, program)) <= min(SIZE, 5)), st.integers(0, 2))
@settings(max_examples=2 if not LONG else 200)
def test_functions_and_time_lead_to_the_same_states(
    program: list[list[Operation]], preemptions: int
) -> None:
    compare(program, preemptions=preemptions)


HANDLER = [[Operation("look", "a", "read"), Operation("add", "b", "write")]]
ADD = [[Operation("add", "b", "read")]]


@given(
    st.lists(st.lists(operations, min_size=1, max_size=2), min_size=1, max_size=2).filter(
        lambda program: has_calls(program) and (LONG or sum(map(len, program)) <= 3)
    ),
    st.integers(0, 2 if LONG else 1),
)
@settings(max_examples=1 if not LONG else 100)
@example(HANDLER, 2)
@example(ADD, 3)
def test_handlers_and_time_lead_to_the_same_states(
    program: list[list[Operation]], preemptions: int
) -> None:
    """Below 2 preemptions no deadline passes a handler, and with 3 there is one beside that."""
    compare(program, preemptions=preemptions, handlers=True)


@given(programs.filter(lambda program: sum(map(len, program)) <= 4), st.integers(0, 1))
@settings(max_examples=1 if not LONG else 100)
def test_handlers_lead_to_the_same_states(program: list[list[Operation]], preemptions: int) -> None:
    compare(program, preemptions=preemptions, handlers=True, clock=False)


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
sdk_programs = st.lists(
    st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=2), min_size=2, max_size=2
)


class SdkProgram(Program):
    yaml = "queue: [{name: mails, rate: 5/s}]"
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


@given(sdk_programs, st.integers(1, 2))
@settings(max_examples=1 if not LONG else 200)
@example([["a in transaction"], ["b and c in transaction"]], 1)
@example([["get b"], ["delete b"]], 1)
@example([["query"], ["set c"]], 1)
def test_calls_to_services_lead_to_the_same_states(
    program: list[list[str]], preemptions: int
) -> None:
    check_reduction(lambda: SdkProgram(program), preemptions=preemptions)
