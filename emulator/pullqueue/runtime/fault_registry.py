"""The faults that are set on a server, each with a number."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import UNSET

from pullqueue.api.errors import ApiError
from pullqueue.clock import MovableClock
from pullqueue.engine.emulator import Emulator
from pullqueue.errors import ClockError, PullQueueError
from pullqueue.faults.declaration import KINDS, OPTIONS, WHEN, Faults, Kind, options_text
from pullqueue.faults.fault import Fault
from pullqueue.structs import Count, Maybe, Model, list_choices
from pullqueue.text import quoted

if TYPE_CHECKING:

    class _Options(Model):
        kind: str

else:
    _Options = msgspec.defstruct(
        "_Options",
        [
            ("kind", Literal[tuple(KINDS)]),
            *((name, Maybe[kind], UNSET) for name, kind in OPTIONS.items()),
        ],
        bases=(Model,),
    )

MANUAL_CLOCK: Final = (
    "start the server by `pullqueue serve --clock manual` (`pullqueue exec --url` runs an app with "
    'it), or make a project by POST /_emulator/projects with {"clock": "manual"}'
)
"""What to do where the clock cannot be moved."""


class NewFault(_Options, omit_defaults=True):
    """A fault to set."""


class FaultResource(NewFault, kw_only=True):
    """A fault, and what it has done so far."""

    number: Count
    calls: Count
    hits: Count

    def __str__(self) -> str:
        """Return what it does, such as `fail attempt, queues=mails, status=503`."""
        fields = msgspec.to_builtins(self)
        what = f"{self.kind} {fields.get('call', 'every lease')}"
        return ", ".join(filter(None, (what, options_text(fields))))


class FaultRegistry:
    """The faults that were set on a server, each to be removed by its number."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._faults: dict[int, tuple[str, Fault]] = {}
        self._lock = threading.Lock()

    def set(self, new: NewFault) -> FaultResource:
        """Set a fault and return it.

        Raises:
            ApiError: it is not valid.
            UnknownQueueError: it names a queue that does not exist.
            ClockError: it moves the clock, which cannot be moved, or whose time is not frozen.
        """
        options = msgspec.to_builtins(new)
        kind = KINDS[options.pop("kind")]
        _check(kind, options)
        if kind.moves_clock and not isinstance(self._emulator.clock, MovableClock):
            raise ClockError(
                f"{kind.name} moves the clock, and this one is the system's: {MANUAL_CLOCK}"
            )
        try:
            fault = kind.set_in(Faults(self._emulator), **options)
        except ValueError as error:  # of options that do not go together
            if isinstance(error, PullQueueError):
                raise
            raise ApiError(str(error)) from None
        with self._lock:
            self._faults[fault.number] = kind.name, fault
        return _resource(fault.number, kind.name, fault)

    def list(self, *, active: bool = False) -> list[FaultResource]:
        """Return all faults, or those that can still trigger, the oldest first."""
        with self._lock:
            return [
                _resource(number, kind, fault)
                for number, (kind, fault) in self._faults.items()
                if not (active and fault.is_spent)
            ]

    def remove(self, number: int) -> bool:
        """Remove one fault; return True if it was set."""
        with self._lock:
            kind_and_fault = self._faults.pop(number, None)
        if kind_and_fault is not None:
            kind_and_fault[1].remove()
        return kind_and_fault is not None

    def clear(self) -> int:
        """Remove all faults; return how many were set."""
        with self._lock:
            numbers = list(self._faults)
        return sum(self.remove(number) for number in numbers)


def _check(kind: Kind, options: dict[str, object]) -> None:
    """Raise an ApiError if a fault of this kind has no such option, or needs another."""
    for name in options:
        if name not in kind.options and name not in WHEN:
            raise ApiError(f"a fault of kind {kind.name} has no {quoted(name)}: leave it out")
    for name in kind.required:
        if name not in options:
            choices = list_choices(OPTIONS[name])
            advice = f"use one of {', '.join(choices)}" if choices else "set it"
            raise ApiError(f"{name} is missing: {advice}")


def _resource(number: int, kind: str, fault: Fault) -> FaultResource:
    options = {
        name: value.__name__ if isinstance(value, type) else value
        for name, value in fault.options.items()
    }
    counts = {"number": number, "calls": fault.calls, "hits": fault.hits}
    return msgspec.convert({"kind": kind, **options, **counts}, FaultResource)
