"""Moving an emulator's clock to where something happens."""

from __future__ import annotations

from datetime import datetime

from pullqueue.engine.emulator import Emulator
from pullqueue.engine.faults import movable_clock, queue_of
from pullqueue.engine.queue import Queue


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
