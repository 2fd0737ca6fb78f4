"""The faults of a server: calls of the app that fail, take time or lease nothing."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import count
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta

from pullqueue import errors
from pullqueue.api.errors import ApiError
from pullqueue.config.text import quoted
from pullqueue.control.fault_schema import FIELDS, KINDS, WHEN
from pullqueue.control.models import Count, Maybe, Model, Positive
from pullqueue.engine import faults as engine
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import VERBS
from pullqueue.errors import ClockError, PullQueueError

ERRORS: Final[Mapping[str, type[PullQueueError]]] = {
    kind.__name__: kind
    for kind in (
        errors.TransientError,
        errors.InternalError,
        errors.DeadlineExceededError,
        errors.RateLimitExceededError,
        errors.OverQuotaError,
        errors.TaskLeaseExpiredError,
        errors.QueueDisabledError,
    )
}
"""What calls can fail with."""

_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "fail": {"error": "TransientError"},
    "lose_response": {"error": "DeadlineExceededError"},
    "latency": {"seconds": 1},
}


class NewFault(Model, omit_defaults=True):
    """A fault to set."""

    kind: Annotated[str, Meta(extra_json_schema={"enum": list(KINDS)})]
    call: Annotated[Maybe[str], Meta(extra_json_schema={"enum": list(VERBS)})] = UNSET
    error: Annotated[Maybe[str], Meta(extra_json_schema={"enum": list(ERRORS)})] = UNSET
    seconds: Annotated[
        Maybe[Annotated[float, Meta(ge=0)]],
        Meta(description="Duration of a latency, by the manual clock."),
    ] = UNSET
    queue: Annotated[
        Maybe[str], Meta(description="Only calls on this queue are counted and affected.")
    ] = UNSET
    times: Annotated[
        Maybe[Positive], Meta(description="Maximum number of times the fault triggers.")
    ] = UNSET
    after: Annotated[Maybe[Count], Meta(description="Number of calls that succeed first.")] = UNSET
    every: Annotated[
        Maybe[Positive], Meta(description="Trigger at every second, third... call only.")
    ] = UNSET
    probability: Maybe[Annotated[float, Meta(gt=0, le=1)]] = UNSET
    seed: Annotated[Maybe[int], Meta(description="Seed of the probability.")] = UNSET


class Fault(NewFault, kw_only=True):
    """A fault, and what it has done so far."""

    number: Count
    calls: Count
    hits: Count


class FaultRegistry:
    """The faults that were set on a server, each to be removed by its number."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._numbers = count(1)
        self._faults: dict[int, tuple[NewFault, engine.Fault]] = {}
        self._lock = threading.Lock()

    def set(self, new: NewFault) -> Fault:
        """Set a fault and return it.

        Raises:
            ApiError: it is not valid.
            UnknownQueueError: it names a queue that does not exist.
            ClockError: it moves the clock, which cannot be moved, or whose time is not frozen.
        """
        options = self._options(new)
        when = {name: options[name] for name in WHEN if name in options}
        faults = engine.Faults(self._emulator)
        set_fault: Any = getattr(faults, new.kind)
        arguments = [options[name] for name in FIELDS[new.kind]]
        if "error" in options:
            arguments[1] = ERRORS[str(options["error"])]
        fault = set_fault(*arguments, **when)
        new = msgspec.convert(options, NewFault)
        with self._lock:
            number = next(self._numbers)
            self._faults[number] = new, fault
        return _shown(number, new, fault)

    def _options(self, new: NewFault) -> dict[str, object]:
        """Return the fields of a fault, with its defaults."""
        if new.kind not in KINDS:
            raise ApiError(f"kind is {quoted(new.kind)}: use one of {', '.join(KINDS)}")
        given: dict[str, object] = msgspec.to_builtins(new)
        for name in given:
            if name not in ("kind", *FIELDS[new.kind], *WHEN):
                raise ApiError(f"a fault of kind {new.kind} has no {quoted(name)}: leave it out")
        options = {**_DEFAULTS.get(new.kind, {}), **given}
        for name, allowed in (("call", VERBS), ("error", tuple(ERRORS))):
            if name in FIELDS[new.kind] and options.get(name) not in allowed:
                value = quoted(options[name]) if name in options else "missing"
                raise ApiError(f"{name} is {value}: use one of {', '.join(allowed)}")
        if new.kind == "latency" and not hasattr(self._emulator.clock, "move_to"):
            raise ClockError(
                "latency moves the clock, and this one is the system's: start the server with "
                "--clock manual"
            )
        return options

    def list(self) -> list[Fault]:
        """Return all faults, the oldest first."""
        with self._lock:
            return [_shown(number, *each) for number, each in self._faults.items()]

    def remove(self, number: int) -> bool:
        """Remove one fault; return whether it was set."""
        with self._lock:
            new_and_fault = self._faults.pop(number, None)
        if new_and_fault is not None:
            new_and_fault[1].remove()
        return new_and_fault is not None

    def clear(self) -> int:
        """Remove all faults; return how many were set."""
        with self._lock:
            numbers = list(self._faults)
        return sum(self.remove(number) for number in numbers)


def _shown(number: int, new: NewFault, fault: engine.Fault) -> Fault:
    counts = {"number": number, "calls": fault.calls, "hits": fault.hits}
    return msgspec.convert({**msgspec.to_builtins(new), **counts}, Fault)
