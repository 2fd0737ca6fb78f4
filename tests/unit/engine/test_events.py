"""pullqueue.engine.events."""

from __future__ import annotations

from collections import Counter

from pullqueue import EventKind, Task
from pullqueue.engine.events import (
    MINUTE_USEC,
    ClientLeases,
    EventLog,
    Interface,
    LeaseStep,
    Operation,
    Origin,
    collect_events,
    count_leases,
)
from pullqueue.tasks import AttemptResult


def task(name: str, retry_count: int = 0) -> Task:
    return Task(0, 1, retry_count, name, "pull", b"", None, 0, 0)


def kinds(log: EventLog, now_usec: int) -> list[tuple[int, str]]:
    """Return when and what happened until now."""
    return [(event.usec, event.kind.value) for event in collect_events(log.operations, now_usec)]


def test_the_flow_outlives_the_record() -> None:
    """Operations that are no longer recorded are still counted, in a day's number of minutes."""
    log = EventLog(1)
    for minute in range(24 * 60 + 3):
        log.record(EventKind.ADDED, minute * MINUTE_USEC + 5, [task("one")])

    flow = log.count_flow(0)
    assert len(flow) == 24 * 60
    assert (min(flow), max(flow)) == (3 * MINUTE_USEC, (24 * 60 + 2) * MINUTE_USEC)
    assert set(map(tuple, (counts.items() for counts in flow.values()))) == {
        ((EventKind.ADDED, 1),)
    }


def test_failures_at_one_time_are_counted_by_their_results() -> None:
    """Also by those that cannot be ordered, in the minute of their time."""
    log = EventLog(1)
    results = [AttemptResult(500, "busy", fault) for fault in (None, 7)]
    for result in results:
        log.count_failed(Counter({MINUTE_USEC + 5: 2}), result)

    assert log.count_failures(0) == dict.fromkeys(results, 2)
    kinds = (EventKind.ATTEMPT_STARTED, EventKind.ATTEMPT_FAILED)
    assert log.count_flow(0) == {MINUTE_USEC: dict.fromkeys(kinds, 4)}


def test_all_that_is_recorded_is_in_the_flow_for_any_time() -> None:
    log = EventLog(2000)
    for minute in range(3000):
        log.record(EventKind.ADDED, minute * MINUTE_USEC, [task("one")])

    assert list(log.count_flow(0)) == [minute * MINUTE_USEC for minute in range(1000, 3000)]


def test_of_more_than_ten_thousand_events_those_of_a_minute_are_kept() -> None:
    """Those at the beginning of the minute, too, and no more than the limit."""
    first, end = 60 * MINUTE_USEC, 61 * MINUTE_USEC
    log = EventLog(10_005)
    log.record(EventKind.ADDED, first - 1, [task("old")] * 4)
    log.record(EventKind.ADDED, first, [task("b")] * 4)
    log.record(EventKind.ADDED, end, [task("c")] * 9_992)
    assert len(collect_events(log.operations, end)) == 10_000
    log.record(EventKind.ADDED, end, [task("d")])
    assert len(collect_events(log.operations, end)) == 9_997
    assert collect_events(log.operations, end)[0].usec == first

    log.record(EventKind.ADDED, end, [task("e")] * 8)
    assert len(collect_events(log.operations, end)) == 10_005
    log.record(EventKind.ADDED, end, [task("f")])
    assert len(collect_events(log.operations, end)) == 10_002


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

    events = collect_events(log.operations, 5)
    assert [event[2:4] for event in events] == [("a", 0)] * 5
    assert events[0].attempts == 1  # whatever is no longer recorded
    assert kinds(log, 5) == [
        (1, "attempt started"),
        (2, "attempt interrupted"),
        (2, "attempt started"),
        (3, "attempt failed"),
        (4, "attempt started"),
    ]
    # The start of one may be recorded no longer.
    ended = Operation(1, EventKind.ATTEMPT_FAILED, ("a",), (3,))
    assert [event.attempts for event in collect_events([ended], 5)] == [1]


def test_a_lease_expires_at_its_end_if_nothing_ends_it_before() -> None:
    """Also by the time that is asked for, where nothing has happened since."""
    leased = Operation(1, EventKind.LEASED, ("a", "b"), (1, 4), until_usec=10)
    deleted = Operation(9, EventKind.DELETED, ("a",), (1,))

    for now_usec, expired in ((9, []), (10, [("b", 10, 4)])):
        events = collect_events([leased, deleted], now_usec)
        found = [
            (event.task_name, event.usec, event.retry_count)
            for event in events
            if event.kind is EventKind.LEASE_EXPIRED
        ]
        assert found == expired
        assert len(events) == 3 + len(expired)


def test_each_client_has_the_leases_that_it_began_or_renewed_last() -> None:
    """One that is not known, too; a task that was released, or has another lease, is nobody's."""
    one, two = (Origin(Interface.SDK, name) for name in ("one", "two"))
    latest_first: list[LeaseStep] = [
        (90, EventKind.LEASED, ("a", "gone"), one),
        (80, EventKind.EXTENDED, ("b",), one),
        (70, EventKind.RELEASED, ("c",), two),
        (60, EventKind.LEASED, ("a", "c"), two),
        (50, EventKind.LEASED, ("d",), None),
        (40, EventKind.LEASED, ("e",), None),
    ]
    etas = {"a": 150, "b": 140, "c": 70, "d": 100, "e": 95, "never": 10}

    assert count_leases(latest_first, etas, 100) == {
        "one": ClientLeases(leased=2, first_usec=80, until_usec=150),
        "": ClientLeases(expired=2, expired_usec=100),
    }
    assert etas == {"never": 10}
    before_1970 = count_leases([(-90, EventKind.LEASED, "ab", None)], {"a": -60, "b": -80}, -70)
    assert before_1970[""][3:] == (-60, -80)
