"""pullqueue.engine.events."""

from __future__ import annotations

from datetime import UTC, datetime

from pullqueue import EventKind, Task
from pullqueue.engine.events import MINUTE_USEC, EventLog


def task(name: str, retry_count: int = 0) -> Task:
    """Return a task of a name."""
    return Task(0, 1, name, "pull", b"", None, retry_count, 0, 0)


def kinds(log: EventLog, now_usec: int) -> list[tuple[int, str]]:
    """Return when and what happened until now."""
    return [(event.usec, event.kind.value) for event in log.read(now_usec)]


def test_a_lease_that_expires_is_an_event_when_the_log_is_read() -> None:
    """It appears at the end of the lease, once that has passed."""
    log = EventLog(10)
    log.record(EventKind.LEASED, 1, [task("a", 1)], until_usec=5)

    assert kinds(log, 4) == [(1, "leased")]
    assert kinds(log, 5) == [(1, "leased"), (5, "lease expired")]


def test_a_lease_that_was_changed_does_not_run_out() -> None:
    """Only the last end of a lease counts, and none of one that was released or deleted."""
    log = EventLog(10)
    log.record(EventKind.LEASED, 1, [task("a", 1), task("b", 1), task("c", 1)], until_usec=5)
    log.record(EventKind.EXTENDED, 2, [task("a", 1)], until_usec=9)
    log.record(EventKind.RELEASED, 3, [task("b", 1)])
    log.record(EventKind.DELETED, 4, [task("c", 1)])

    expired = [event for event in log.read(100) if event.kind is EventKind.LEASE_EXPIRED]

    assert [(event.task_name, event.usec, event.retry_count) for event in expired] == [("a", 9, 1)]


def test_times_are_aware_datetimes() -> None:
    """What happened when, and until when a lease is to last."""
    log = EventLog(2)
    log.record(EventKind.LEASED, 0, [task("a")], until_usec=1_000_000)
    log.record(EventKind.DELETED, 0, [task("a")])

    leased, deleted = log.read(9)

    assert leased.time == datetime(1970, 1, 1, tzinfo=UTC)
    assert leased.until == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert deleted.until is None


def test_the_flow_outlives_the_record() -> None:
    """Operations that are no longer recorded are still counted, in a day's number of minutes."""
    log = EventLog(1)
    for minute in range(24 * 60 + 3):
        log.record(EventKind.ADDED, minute * MINUTE_USEC + 5, [task("one")])

    flow = log.flow(0)
    assert len(flow) == 24 * 60
    assert (min(flow), max(flow)) == (3 * MINUTE_USEC, (24 * 60 + 2) * MINUTE_USEC)
    assert set(map(tuple, (counts.items() for counts in flow.values()))) == {
        ((EventKind.ADDED, 1),)
    }


def test_an_attempt_that_was_interrupted_is_an_event_when_the_next_one_starts() -> None:
    """An attempt without an end is not left open in the history."""
    log = EventLog(kept=10)
    for usec, kind in (
        (1, EventKind.ATTEMPT_STARTED),
        (2, EventKind.ATTEMPT_STARTED),
        (3, EventKind.ATTEMPT_FAILED),
        (4, EventKind.ATTEMPT_STARTED),
    ):
        log.record(kind, usec, [task("a")])

    assert kinds(log, 5) == [
        (1, "attempt started"),
        (2, "attempt interrupted"),
        (2, "attempt started"),
        (3, "attempt failed"),
        (4, "attempt started"),
    ]
