"""A fault that is set in an emulator: which calls it selects, and the order of several."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self

from pullqueue.engine.interceptors import LEASE_VERBS, Interceptors, QueueCall

if TYPE_CHECKING:
    from pullqueue.engine.emulator import Emulator
    from pullqueue.faults.declaration import When

__tracebackhide__ = True  # a failed test is shown at its own line

CallNext = Callable[[], object]
Effect = Callable[[QueueCall, CallNext], object]
"""What a fault does to a call on which it triggers; it may carry the call out, or not."""

_SETTING = threading.Lock()


class Fault:
    """One fault of an emulator; as a context manager it is removed at the end of the block."""

    def __init__(
        self, title: str, arguments: Mapping[str, object], when: When, effect: Effect
    ) -> None:
        self.calls = 0
        """Number of calls on which it could have triggered."""
        self.hits = 0
        """Number of times it has triggered."""
        self.options: Mapping[str, object] = {**arguments, **when}
        """What was passed when it was set, and the defaults of its arguments."""
        self.effect = effect
        """What happens to a call on which it triggers."""
        self.before_call: Callable[[], None] | None = None
        """Called before each call of the app, whether or not the fault triggers on it."""
        self._title = title
        verb = str(arguments.get("call", "lease_tasks"))
        self._verbs = LEASE_VERBS if verb == "lease_tasks" else frozenset({verb})
        self._queues = when.get("queues")
        self._times = when.get("times")
        self._after = when.get("after", 0)
        self._every = when.get("every", 1)
        self._probability = when.get("probability", 1)
        self._random = random.Random(when.get("seed", 0))  # noqa: S311 - repeatable, not secret
        self._lock = threading.Lock()
        self._chain: _FaultChain | None = None

    def __repr__(self) -> str:
        return f"<Fault {self}>"

    def __str__(self) -> str:
        return f"{self._title}: triggered on {self.hits} of {self.calls} calls"

    @property
    def is_set(self) -> bool:
        """True until it is removed."""
        return self._chain is not None

    @property
    def is_spent(self) -> bool:
        """True if it has triggered as often as it may."""
        return self.hits == self._times

    def set_in(self, emulator: Emulator) -> Self:
        """Set it, after all faults that the emulator has."""
        with _SETTING:
            self._chain = _chain_of(emulator) or _FaultChain(emulator.interceptors)
            self._chain.add(self)
        return self

    def remove(self) -> None:
        """Remove it; nothing happens if it was removed before."""
        with _SETTING:
            chain, self._chain = self._chain, None
            if chain is not None:
                chain.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def triggers_on(self, call: QueueCall) -> bool:
        """Count a call, and return True if the fault triggers on it."""
        if call.verb not in self._verbs:
            return False
        if self._queues is not None and call.queue.name not in self._queues:
            return False
        with self._lock:
            self.calls += 1
            triggers = self._selects(self.calls - self._after)
            self.hits += triggers
        return triggers

    def _selects(self, number: int) -> bool:
        if number < 1 or number % self._every:
            return False
        if self.is_spent:
            return False
        return self._random.random() < self._probability


class _FaultChain:
    """The interceptor that has all faults of an emulator, in the order in which they were set."""

    def __init__(self, interceptors: Interceptors) -> None:
        self._interceptors = interceptors
        self.faults: tuple[Fault, ...] = ()

    def add(self, fault: Fault) -> None:
        if not self.faults:
            self._interceptors.add(self)
        self.faults = (*self.faults, fault)

    def remove(self, fault: Fault) -> None:
        self.faults = tuple(other for other in self.faults if other is not fault)
        if not self.faults:
            self._interceptors.remove(self)

    def __call__(self, call: QueueCall, call_next: CallNext) -> object:
        faults = self.faults
        for fault in faults:
            if fault.before_call is not None:
                fault.before_call()
        first = next((fault for fault in faults if fault.triggers_on(call)), None)
        return call_next() if first is None else first.effect(call, call_next)


def _chain_of(emulator: Emulator) -> _FaultChain | None:
    found = (chain for chain in emulator.interceptors if isinstance(chain, _FaultChain))
    return next(found, None)


def faults_of(emulator: Emulator) -> list[Fault]:
    """Return the faults that are set in an emulator, in the order in which they were set."""
    chain = _chain_of(emulator)
    return [] if chain is None else list(chain.faults)
