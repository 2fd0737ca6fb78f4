"""The faults of a server: calls of the app that are to fail, to wait or to come back empty."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from pullqueue import errors
from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.control.fault_schema import FIELDS, WHEN
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.faults import Fault, Faults
from pullqueue.engine.interceptors import VERBS
from pullqueue.errors import PullQueueError

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

_USUAL: Mapping[str, Json] = {
    "fail": {"error": "TransientError"},
    "lose_answer": {"error": "DeadlineExceededError"},
    "latency": {"seconds": 1},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Set:
    order: Json
    faults: Faults
    fault: Fault


class FaultBoard:
    """The faults that were set on a server, each to be taken away by its number."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._numbers = count(1)
        self._set: dict[int, _Set] = {}
        self._lock = threading.Lock()

    def set(self, order: Json) -> Json:
        """Set a fault and give it; the order is as the schema wants it.

        Raises:
            ApiError: the order makes no sense, or wants to move the system's clock.
            UnknownQueueError: it names a queue that is not there.
            ClockError: the time that latency would move is not frozen.
        """
        _check_fields(order)
        faults = Faults(self._emulator)
        order = {**_USUAL.get(order["kind"], {}), **order}
        if order["kind"] == "latency":
            self._check_clock()
        fault = _MAKERS[order["kind"]](faults, order)
        with self._lock:
            number = next(self._numbers)
            held = self._set[number] = _Set(order=order, faults=faults, fault=fault)
        return _shown(number, held)

    def _check_clock(self) -> None:
        if not hasattr(self._emulator.clock, "move_to"):
            raise ApiError(
                "latency moves the clock, and this one is the system's: start the server with "
                "--clock manual"
            )

    def shown(self) -> list[Json]:
        """Give all faults, the oldest first."""
        with self._lock:
            known = list(self._set.items())
        return [_shown(number, held) for number, held in known]

    def remove(self, number: int) -> bool:
        """Take one fault away and tell whether it was there."""
        with self._lock:
            found = self._set.pop(number, None)
        if found is not None:
            found.faults.clear()
        return found is not None

    def clear(self) -> int:
        """Take all faults away and tell how many there were."""
        with self._lock:
            numbers = list(self._set)
        return sum(self.remove(number) for number in numbers)


def _shown(number: int, held: _Set) -> Json:
    return {
        **held.order,
        "number": number,
        "calls": held.fault.calls,
        "hits": held.fault.hits,
    }


def _fail(faults: Faults, order: Json) -> Fault:
    return faults.fail(_verb(order), _error(order), **_when(order))


def _lose_answer(faults: Faults, order: Json) -> Fault:
    return faults.lose_answer(_verb(order), _error(order), **_when(order))


def _latency(faults: Faults, order: Json) -> Fault:
    return faults.latency(_verb(order), order["seconds"], **_when(order))


def _empty_leases(faults: Faults, order: Json) -> Fault:
    return faults.empty_leases(**_when(order))


_MAKERS: Mapping[str, Callable[[Faults, Json], Fault]] = {
    "fail": _fail,
    "lose_answer": _lose_answer,
    "latency": _latency,
    "empty_leases": _empty_leases,
}


def _check_fields(order: Json) -> None:
    kind = order["kind"]
    for field in order:
        if field not in ("kind", *FIELDS[kind], *WHEN):
            raise ApiError(f"a fault of kind {kind!r} has no {field!r}: leave it out")


def _verb(order: Json) -> str:
    if "call" not in order:
        raise ApiError(f"the fault names no call: give one of {', '.join(VERBS)}")
    return str(order["call"])


def _error(order: Json) -> type[PullQueueError]:
    return ERRORS[order["error"]]


def _when(order: Json) -> Json:
    return {name: order[name] for name in WHEN if name in order}
