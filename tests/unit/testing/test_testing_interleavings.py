"""The verbs of the fixtures in random order, against a naive model of clock and faults."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from stores import LONG

from pullqueue import Task, TransientError
from pullqueue.faults.fault import faults_of
from pullqueue.testing import (
    Emulation,
    Fault,
    assert_leased,
    emulation,
)

VERBS = ("add", "lease_tasks", "lease_tasks_by_tag")
LIMITED = {"name": "limited", "retry_parameters": {"task_retry_limit": 2}}
QUEUES = st.sampled_from(["free", "limited"])


@dataclass
class Expected:
    """A fault as the model has it."""

    fault: Fault
    kind: str
    verb: str
    times: int | None
    hits: int = 0

    def triggers(self, verb: str) -> bool:
        """Count a call, and return whether the fault triggers on it."""
        means = {self.verb} | ({"lease_tasks_by_tag"} if self.verb == "lease_tasks" else set())
        if verb not in means or self.hits == self.times:
            return False
        self.hits += 1
        return True


class Verbs(RuleBasedStateMachine):
    """One emulation, and what its clock and its faults should be."""

    @initialize()
    def start(self) -> None:
        """Begin with empty queues."""
        self.stack = ExitStack()
        self.real_sleeps = (time.sleep, asyncio.sleep)  # noqa: TID251 - compared
        self.it: Emulation = self.stack.enter_context(emulation(queues=["free", LIMITED]))
        self.now = self.it.clock.now()
        self.faults: list[Expected] = []
        self.number = 0

    def teardown(self) -> None:
        """End the block: nothing is left."""
        if hasattr(self, "it"):
            self.stack.close()
            assert not self.it.emulator.interceptors
            assert (time.sleep, asyncio.sleep) == self.real_sleeps  # noqa: TID251

    @rule(
        kind=st.sampled_from(["fail", "lose_response", "latency", "empty_leases"]),
        verb=st.sampled_from(VERBS),
        times=st.none() | st.integers(1, 3),
    )
    def set_fault(self, kind: str, verb: str, times: int | None) -> None:
        """Set a fault."""
        self.number += 1
        when = {} if times is None else {"times": times}
        error = TransientError(f"fault {self.number}")
        faults = self.it.faults
        if kind == "empty_leases":
            verb, fault = "lease_tasks", faults.empty_leases(**when)  # type: ignore[arg-type]
        elif kind == "latency":
            fault = faults.latency(verb, 7, **when)  # type: ignore[arg-type]
        else:
            fault = getattr(faults, kind)(verb, error, **when)
        self.faults.append(Expected(fault, f"{kind} {error}", verb, times))

    @precondition(lambda self: self.faults)
    @rule(data=st.data())
    def remove_fault(self, data: st.DataObject) -> None:
        """Remove one."""
        expected = data.draw(st.sampled_from(self.faults))
        with expected.fault:
            pass
        self.faults.remove(expected)

    @rule(verbs=st.lists(st.sampled_from(VERBS), min_size=1, max_size=5), queue_name=QUEUES)
    def call(self, verbs: list[str], queue_name: str) -> None:
        """Call a queue as an app does, some times."""
        for verb in verbs:
            self._call(verb, queue_name)

    def _call(self, verb: str, queue_name: str) -> None:
        queue = self.it.emulator.queue(queue_name)
        message, empty = self._outcome(verb)
        tasks: list[Task] = []
        leasable = queue.fetch_statistics().available if verb.startswith("lease") else 0
        try:
            if verb == "add":
                queue.add("work", tag="t")
            else:
                tasks = getattr(queue, verb)(30, 1)
        except TransientError as error:
            assert str(error) == message
        else:
            assert message is None
            if verb.startswith("lease"):
                assert len(tasks) == (0 if empty else min(leasable, 1))

    def _outcome(self, verb: str) -> tuple[str | None, bool]:
        """Return the error that a call should raise, and whether a lease should be empty."""
        first = next((expected for expected in self.faults if expected.triggers(verb)), None)
        kind, _, error = ("", "", "") if first is None else first.kind.partition(" ")
        if kind == "latency":
            self.now += timedelta(seconds=7)
        return error if kind in ("fail", "lose_response") else None, kind == "empty_leases"

    @rule(seconds=st.integers(0, 100), way=st.sampled_from(["advance", "sleep", "asyncio"]))
    def pass_time(self, seconds: int, way: str) -> None:
        """Move the clock, directly or by a sleep."""
        if way == "advance":
            self.it.clock.advance(seconds)
        else:
            with self.it.clock.auto_advance():
                if way == "sleep":
                    time.sleep(seconds)  # noqa: TID251 - what is tested
                else:
                    asyncio.run(asyncio.sleep(seconds))
        self.now += timedelta(seconds=seconds)

    @rule()
    def next_event(self) -> None:
        """Go to the next event, which is not in the past."""
        found = self.it.clock.next_event()
        assert found is None or found >= self.now
        self.now = found or self.now

    @rule(queue_name=QUEUES)
    def expire_leases(self, queue_name: str) -> None:
        """Move the clock past the leases of a queue."""
        found = self.it.clock.expire_leases(queue_name)
        assert_leased(self.it.emulator.queue(queue_name), 0)
        self.now = max(self.now, found or self.now)

    @invariant()
    def clock_and_faults_are_those_of_the_model(self) -> None:
        """The clock has moved as far, and each fault has triggered as many times."""
        assert self.it.clock.now() == self.now
        assert [(e.fault, e.fault.hits) for e in self.faults] == [
            (e.fault, e.hits) for e in self.faults
        ]
        assert (
            faults_of(self.it.emulator) == self.it.faults.active == [e.fault for e in self.faults]
        )


TestVerbs = Verbs.TestCase
TestVerbs.settings = settings(max_examples=1000 if LONG else 3, stateful_step_count=20)
