"""Using up the leases of a task."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pullqueue import (
    Emulator,
    EventKind,
    InvalidQueueModeError,
    Limits,
    ManualClock,
    Queue,
    UnknownTaskError,
)
from pullqueue.testing import exhaust


def test_exhaust(limited: Queue, clock: ManualClock) -> None:
    """The task is leased as many times as permitted, as its history shows."""
    start = clock.now()
    task = limited.add(name="one", eta=start + timedelta(minutes=1))

    end = exhaust(limited, "one")

    assert (end.name, end.retry_count) == ("one", 2)
    assert [event.kind for event in limited.history(task)] == [
        EventKind.ADDED,
        EventKind.LEASED,
        EventKind.LEASE_EXPIRED,
        EventKind.LEASED,
        EventKind.LEASE_EXPIRED,
        EventKind.EXHAUSTED,
    ]
    assert clock.now() == start + timedelta(minutes=3)


def test_exhaust_a_leased_task(limited: Queue) -> None:
    """A current lease expires first."""
    limited.add(name="one")
    limited.lease_tasks(3600, 1)

    assert exhaust(limited, "one").retry_count == 2


def test_exhaust_where_leases_are_rare(clock: ManualClock) -> None:
    """A limited lease rate only takes more time."""
    emulator = Emulator.from_text(
        "queue:\n- name: q\n  mode: pull\n  retry_parameters:\n    task_retry_limit: 3\n",
        clock=clock,
        limits=Limits(leases_per_second=1),
    )
    queue = emulator.queue("q")
    queue.add(name="one")
    queue.lease_tasks(0, 1)

    assert exhaust(queue, "one").retry_count == 3


def test_exhaust_without_a_limit(queue: Queue) -> None:
    """A queue without a retry limit keeps its tasks forever, so it is refused."""
    queue.add(name="one")

    with pytest.raises(ValueError, match=r'^tasks of queue "work" are never exhausted: set a'):
        exhaust(queue, "one")


def test_exhaust_in_what_is_not_a_pull_queue(emulator: Emulator) -> None:
    """A name and a push queue are refused as in assertions."""
    with pytest.raises(TypeError, match="is not a Queue"):
        exhaust("limited", "one")  # type: ignore[arg-type] # what is proved
    with pytest.raises(InvalidQueueModeError):
        exhaust(emulator.queue("default"), "one")


def test_exhaust_an_unknown_task(limited: Queue) -> None:
    """A task that is not there cannot be exhausted."""
    with pytest.raises(UnknownTaskError):
        exhaust(limited, "one")
