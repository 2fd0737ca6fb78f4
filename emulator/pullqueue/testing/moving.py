"""Moving an emulator's clock to where something happens."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.errors import ClockError
from pullqueue.testing.process_time import MovableClock


def movable_clock(owner: Emulator | Queue) -> MovableClock:
    """Give the clock of an emulator or a queue, if it can be moved.

    Raises:
        ClockError: it cannot: it is the system's, or time is not frozen.
    """
    clock = owner.clock
    if not hasattr(clock, "move_to"):
        raise ClockError(
            f"cannot move the time of {owner!r}, which goes by a {type(clock).__name__}: make the "
            "emulator with clock=ManualClock(), or use the fixtures of the pytest plugin"
        )
    movable = cast("MovableClock", clock)
    movable.advance(0)
    return movable


def expire_leases(emulator: Emulator, queue: Queue | str | None = None) -> datetime | None:
    """Move the clock to the end of the last of the leases now held; all have run out then.

    `queue` narrows it to the leases of one queue. Gives that moment; None, and no move, where
    nothing is leased.
    """
    holder = emulator if queue is None else queue_of(emulator, queue)
    end = holder.last_lease_end()
    return None if end is None else movable_clock(emulator).move_to(end)


def next_event(emulator: Emulator) -> datetime | None:
    """Move the clock to the next end of a lease, eta or exhaustion and give that moment.

    None, and no move, where nothing is left that time alone would change.
    """
    moment = emulator.next_change()
    return None if moment is None else movable_clock(emulator).move_to(moment)


def queue_of(emulator: Emulator, queue: Queue | str) -> Queue:
    """Give a queue by its name, or the queue itself.

    Raises:
        UnknownQueueError: the emulator has no queue of this name.
    """
    return queue if isinstance(queue, Queue) else emulator.queue(queue)
