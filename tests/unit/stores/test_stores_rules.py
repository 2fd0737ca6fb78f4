"""The rules of the store seam that contract suite and model do not look at, in each store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Thread

import pytest
from store_rules import LIMITS, Start, config_of, together

from pullqueue import (
    DeleteResult,
    Emulator,
    EventKind,
    InvalidTaskError,
    Limits,
    ManualClock,
    NewTask,
    Queue,
    QueueStatistics,
    Task,
    TaskAlreadyExistsError,
    TaskState,
    TombstonedTaskError,
    UnknownTaskError,
)
from pullqueue.clock import to_usec
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.engine import verbs
from pullqueue.engine.events import MINUTE_USEC, ClientLeases, Interface, Origin
from pullqueue.engine.interceptors import Caller, called_by
from pullqueue.stores import sql


def steps(queue: Queue, name: str) -> list[str]:
    return [event.kind.value for event in queue.history(name)]


def test_the_history_has_every_step_of_a_task(queue: Queue, clock: ManualClock) -> None:
    queue.add_many([NewTask(name="one"), NewTask(name="other")])
    queue.lease_tasks(10, 1)
    clock.advance(10)
    queue.lease_tasks(10, 2)
    verbs.modify_lease(queue, "one", 20)
    verbs.modify_lease(queue, "one", 0)
    queue.delete_tasks("one")
    queue.purge()

    assert steps(queue, "one") == [
        "added", "leased", "lease expired", "leased", "extended", "released", "deleted",
    ]  # fmt: skip
    assert steps(queue, "other")[-1] == "purged"
    history = queue.history("one")
    assert [event.retry_count for event in history] == [0, 1, 1, 2, 2, 2, 2]
    assert (history[-2].until, queue.history("unknown")) == (None, [])


def test_the_latest_events_are_kept_in_whole_operations(queue: Queue) -> None:
    for number in range(12):
        queue.add_many([NewTask(name=f"{number}-{place}") for place in range(100)])
    for place in range(70):
        queue.add(name=f"last-{place}")

    events = queue.events()

    assert len(events) == LIMITS.events_kept
    assert events[-1].task_name == "last-69"
    assert {event.kind for event in events} == {EventKind.ADDED}


def test_the_latest_operation_is_kept_even_with_no_record(start: Start) -> None:
    queue = start(limits=Limits(events_kept=0)).queue("pull")
    queue.add(name="one")
    queue.delete_tasks("one")
    queue.add(name="two")

    assert [event.task_name for event in queue.events()] == ["two"]


def test_the_latest_exhausted_tasks_are_kept(emulator: Emulator, clock: ManualClock) -> None:
    queue = emulator.queue("limited")
    clock.advance(1)
    for number in range(5):
        queue.add(b"work", name=f"n{number}", tag="red")
    for _ in range(2):
        queue.lease_tasks(10, 5)
        clock.advance(10)
    before = queue.fetch_statistics().tasks
    clock.advance(300)

    assert before == 5
    assert [task.name for task in queue.exhausted] == ["n2", "n3", "n4"]
    counts = [each.fetch_statistics().exhausted for each in emulator.queues]
    assert counts == [0, 3, 0]
    assert {(t.payload, t.tag, t.retry_count) for t in queue.exhausted} == {(b"work", "red", 2)}
    assert steps(queue, "n0")[-1] == "exhausted"
    assert queue.delete_tasks(["n0", "none"]) == [DeleteResult.TOMBSTONED, DeleteResult.UNKNOWN]


def test_a_task_is_exhausted_when_both_limits_have_passed(
    emulator: Emulator, clock: ManualClock
) -> None:
    queue = emulator.queue("limited")
    queue.add(name="one")
    for _ in range(2):
        queue.lease_tasks(10, 1)
        clock.advance(10)
    change = queue.next_change_usec()
    clock.advance(270)
    (again,) = queue.lease_tasks(20, 1)
    clock.advance(19)
    before = queue.fetch_statistics().tasks
    clock.advance(1)

    assert change == to_usec(ManualClock.DEFAULT_START + timedelta(seconds=300))
    assert (again.retry_count, before, queue.fetch_statistics().tasks) == (3, 1, 0)


def test_tasks_are_exhausted_in_the_order_of_their_ends(
    emulator: Emulator, clock: ManualClock
) -> None:
    """Each at its own time, even if the queue was not read in between."""
    queue = emulator.queue("limited")
    queue.add_many([NewTask(name="long"), NewTask(name="short")])
    queue.lease_tasks(0, 2)
    for seconds in (900, 800):
        queue.lease_tasks(seconds, 1)
    clock.advance(2000)

    assert [task.name for task in queue.exhausted] == ["short", "long"]
    ends = [event.time for event in queue.events() if event.kind is EventKind.EXHAUSTED]
    assert ends == [ManualClock.DEFAULT_START + timedelta(seconds=s) for s in (800, 900)]


def test_a_task_that_may_not_be_leased_stays_until_that_is_attempted(
    start: Start, clock: ManualClock
) -> None:
    queue = start(config_of(0)).queue("limited")
    for name, seconds in (("one", 20), ("two", 10), ("three", 30)):
        queue.add(name=name, eta=clock.now() + timedelta(seconds=seconds))
    clock.advance(3600)
    before = queue.fetch_statistics().tasks

    assert (before, queue.lease_tasks(60, 2)) == (3, [])
    assert [task.name for task in queue.exhausted] == ["one", "two"]


def exhaust(queue: Queue, clock: ManualClock, **payloads: bytes) -> None:
    """Exhaust tasks, one after the other."""
    for name, payload in payloads.items():
        queue.add(payload, name=name, tag="red")
        for _ in range(2):
            queue.lease_tasks(300, 1)
            clock.advance(300)
    assert queue.fetch_statistics().bytes_stored == 0


def test_payloads_of_the_exhausted_are_bounded(emulator: Emulator, clock: ManualClock) -> None:
    """The oldest are dropped when the payloads that are kept are too large together."""
    queue = emulator.queue("limited")

    exhaust(queue, clock, first=b"x" * 60, second=b"x" * 40)
    assert [task.name for task in queue.exhausted] == ["first", "second"]

    exhaust(queue, clock, third=b"x")
    assert [task.name for task in queue.exhausted] == ["second", "third"]

    exhaust(queue, clock, fourth=b"x" * 59)
    assert [task.name for task in queue.exhausted] == ["second", "third", "fourth"]

    assert queue.remove_exhausted(["second", "fourth"]) == 2
    exhaust(queue, clock, fifth=b"x" * 99)
    assert [task.name for task in queue.exhausted] == ["third", "fifth"]


def test_a_requeue_of_a_name_in_use_leaves_the_task_exhausted(
    emulator: Emulator, clock: ManualClock
) -> None:
    queue = emulator.queue("limited")
    exhaust(queue, clock, again=b"old")
    queue.free_names()
    queue.add(b"new", name="again")

    added, refused = queue.requeue(["again"])

    assert (added, refused) == ([], {"again": TaskAlreadyExistsError})
    assert [task.payload for task in queue.exhausted] == [b"old"]


def test_tasks_with_and_without_a_chosen_name_are_deleted_at_one_time(emulator: Emulator) -> None:
    """As they are wherever the clock stands still, in whatever order, also after a snapshot."""
    queue = emulator.queue("pull")
    for names in ([None], [None, "b"], ["a", None], ["c"]):
        queue.add_many([NewTask(name=name) for name in names])
        queue.purge()

    emulator.restore(emulator.export())
    queue.add_many([NewTask(name="d"), NewTask()])
    assert queue.purge() == 2
    for name in "abcd":
        with pytest.raises(TombstonedTaskError):
            queue.add(name=name)


def test_a_purged_payload_is_not_requeued(emulator: Emulator, clock: ManualClock) -> None:
    """A task that has lost its payload is refused, and with it the others; an empty one is not."""
    queue = emulator.queue("limited")
    exhaust(queue, clock, lost=b"x" * 100, empty=b"")
    assert queue.purge() == 0
    exhaust(queue, clock, later=b"y" * 100)

    with pytest.raises(InvalidTaskError) as excinfo:
        queue.requeue(["later", "lost", "empty"])

    assert str(excinfo.value) == (
        'task "lost" of queue "limited" cannot be added again, since its payload was deleted when '
        "the queue was purged: add a new task"
    )
    sizes = {task.name: len(task.payload) for task in queue.exhausted}
    assert (queue.list_tasks(), sizes) == ([], {"lost": 0, "empty": 0, "later": 100})
    added = queue.requeue(["later", "empty"]).added
    assert {(task.name, len(task.payload)) for task in added} == {("later", 100), ("empty", 0)}


def test_events_have_the_origin_of_their_call(queue: Queue, clock: ManualClock) -> None:
    """Interface, client and request of the caller are stored; time passes without a caller."""
    origin = Origin(Interface.REST, 'wörker "1"', 7, "server")
    with called_by(Caller(origin)):
        for name in ("one", "two", "three"):
            queue.add(name=name)
        queue.lease_tasks(60, 3)
        verbs.modify_lease(queue, "one", 30)
        verbs.modify_lease(queue, "two", 0)
        queue.delete_tasks("two")
        verbs.acknowledge(queue, "three", expected_eta_usec=queue.get_task("three").eta_usec)
    clock.advance(30)
    queue.purge()

    events = [(event.kind.value, event.origin) for event in queue.events()]
    assert events[:8] == [
        *[("added", origin)] * 3,
        *[("leased", origin)] * 3,
        ("extended", origin),
        ("released", origin),
    ]
    assert events[8:] == [
        *[("deleted", origin)] * 2,
        ("lease expired", None),
        ("purged", Origin()),
    ]


def test_the_last_lease_of_each_task_is_found(queue: Queue, clock: ManualClock) -> None:
    """Or its renewal, by name; tasks that were never leased, or are not asked for, have none."""
    queue.add_many([NewTask(name=name) for name in "abc"])
    queue.lease_tasks(10, 2)
    clock.advance(20)
    with called_by(Caller(Origin(Interface.SDK, "second"))):
        queue.lease_tasks(60, 1)
        verbs.modify_lease(queue, queue.lease_tasks(10, 1)[0].name, 30)
    verbs.modify_lease(queue, "c", 0)

    found = queue.last_leases(["a", "b", "c"])

    origins = {name: each.origin.client if each.origin else None for name, each in found.items()}
    assert origins == {"a": "second", "b": "", "c": "second"}
    assert found["a"].until == clock.now() + timedelta(seconds=30)
    assert found["c"].until == clock.now() + timedelta(seconds=60)
    assert set(queue.last_leases(["b", "nothing"])) == {"b"}


def test_leases_are_counted_by_client(queue: Queue, clock: ManualClock) -> None:
    """Those that are current and those that expired; none that was released. A lease that was
    renewed is that of who renewed it.
    """
    start_usec = queue.now_usec()
    queue.add_many([NewTask(name=name) for name in "abcdefgh"])
    with called_by(Caller(Origin(Interface.SDK, "first"))):
        queue.lease_tasks(10, 6)
    verbs.modify_lease(queue, "c", 0)
    with called_by(Caller(Origin(Interface.REST, "third"))):
        verbs.modify_lease(queue, "d", 100)
    queue.delete_tasks("e")
    clock.advance(10)
    with called_by(Caller(Origin(Interface.SDK, "second"))):
        queue.lease_tasks(60, 2)  # c and g
    queue.lease_tasks(60, 1)

    later = ClientLeases(1, 0, start_usec + 10_000_000, start_usec + 70_000_000)
    assert queue.count_leases() == {
        "first": ClientLeases(leased=0, expired=3, expired_usec=start_usec + 10_000_000),
        "third": ClientLeases(1, 0, start_usec, start_usec + 100_000_000),
        "second": later._replace(leased=2),
        "": later,
    }


def test_a_name_that_is_used_again_has_the_last_lease_only(queue: Queue) -> None:
    for client in ("first", "second"):
        queue.add(name="again")
        with called_by(Caller(Origin(Interface.SDK, client))):
            queue.lease_tasks(60, 1)
        if client == "first":
            queue.delete_tasks("again")
            queue.free_names(["again"])

    assert {name: each.leased for name, each in queue.count_leases().items()} == {"second": 1}


def test_events_are_counted_by_minute(queue: Queue, clock: ManualClock) -> None:
    """From the minute of a time on; minutes without events are left out."""
    queue.add_many([NewTask()] * 2)
    clock.advance(59.9)
    queue.add()
    queue.lease_tasks(60, 2)
    clock.advance(120.1)
    queue.purge()

    start_usec = to_usec(ManualClock.DEFAULT_START)
    third = start_usec + 3 * MINUTE_USEC
    flow = {
        start_usec: {EventKind.ADDED: 3, EventKind.LEASED: 2},
        third: {EventKind.PURGED: 3},
    }
    assert queue.flow(since_usec=0) == queue.flow(since_usec=start_usec + 1) == flow
    assert queue.flow(since_usec=third + 1) == {third: flow[third]}
    assert queue.flow(since_usec=-(2**70)) == flow


def test_a_time_span_may_have_any_length_and_a_page_any_position(start: Start) -> None:
    clock = ManualClock(datetime.min.replace(tzinfo=UTC))
    queue = start(clock=clock).queue("pull")
    queue.add(name="one")
    clock.advance(timedelta(days=365 * 9990))

    assert queue.count_events(last=timedelta.max) == {EventKind.ADDED: 1}
    assert queue.count_failures(last=timedelta.max) == {}
    for far in (2**63, 2**70):
        assert queue.list_tasks(after=(far, far)) == []
        assert [task.name for task in queue.list_tasks(after=(-far, -far))] == ["one"]


def test_events_are_counted_by_kind(emulator: Emulator, clock: ManualClock) -> None:
    """Those of one queue within a time span; one that is as old as the span is not counted."""
    queue = emulator.queue("limited")
    exhaust(queue, clock, first=b"one")
    clock.advance(60)
    queue.add_many([NewTask(name=name) for name in "abcd"])
    queue.lease_tasks(5, 3)
    queue.delete_tasks(["a", "b", "none"])
    queue.purge()

    minute, day = timedelta(minutes=1), timedelta(days=1)

    recent = {EventKind.ADDED: 4, EventKind.LEASED: 3, EventKind.DELETED: 2, EventKind.PURGED: 2}
    assert queue.count_events(last=minute) == recent
    assert queue.count_events(last=minute + timedelta(microseconds=1)) == {
        **recent,
        EventKind.EXHAUSTED: 1,
    }
    assert queue.count_events(last=day)[EventKind.ADDED] == 5
    assert emulator.queue("pull").count_events(last=day) == {}
    clock.advance(minute)
    assert queue.count_events(last=minute) == {}


def test_requeue_adds_exhausted_tasks_as_they_were(emulator: Emulator, clock: ManualClock) -> None:
    queue = emulator.queue("limited")
    exhaust(queue, clock, first=b"one", second=b"two", third=b"three")

    added, refused = queue.requeue(["second", "first", "none"])

    assert refused == {}
    assert {(task.name, task.payload, task.tag) for task in added} == {
        *(("first", b"one", "red"), ("second", b"two", "red")),
    }
    assert [task.name for task in queue.exhausted] == ["third"]
    assert queue.remove_exhausted(["third", "none"]) == 1
    assert (queue.exhausted, queue.fetch_statistics().exhausted) == ([], 0)
    with pytest.raises(TombstonedTaskError):
        queue.add(name="third")
    assert [task.name for task in queue.lease_tasks(300, 10)] == [task.name for task in added]


def test_tasks_are_listed_by_state_and_tag_page_by_page(queue: Queue, clock: ManualClock) -> None:
    queue.add_many([NewTask(name=f"n{n}", tag="red" if n % 2 else None) for n in range(6)])
    queue.lease_tasks(10, 2)
    queue.add(name="later", eta=clock.now() + timedelta(seconds=5))

    def names(*limit: int, **options: object) -> list[str]:
        return [task.name for task in queue.list_tasks(*limit, **options)]  # type: ignore[arg-type]

    available, leased, scheduled = TaskState.AVAILABLE, TaskState.LEASED, TaskState.SCHEDULED
    assert names(state=available) == ["n2", "n3", "n4", "n5"]
    assert names(state=leased) == ["n0", "n1"]
    assert names(state=scheduled) == ["later"]
    assert names(tag="red") == ["n3", "n5", "n1"]
    assert names(tag="blue") == []
    page = queue.list_tasks(4)
    assert names(2, after=page[-1]) == ["later", "n0"]
    after_later = queue.get_task("later")
    assert names(after=after_later, state=leased) == names(after=after_later) == ["n0", "n1"]
    assert names(after=after_later, state=scheduled) == []
    clock.advance(10)
    assert names(state=available)[-3:] == ["later", "n0", "n1"]


def test_the_last_lease_end_skips_waiting_tasks_and_the_next_change_does_not(
    queue: Queue, clock: ManualClock
) -> None:
    start = clock.now()
    assert queue.next_change_usec() is queue.last_lease_end_usec() is None
    for seconds in (10, 20):
        queue.add()
        queue.lease_tasks(seconds, 1)
    for seconds in (5, 90):
        queue.add(eta=start + timedelta(seconds=seconds))

    assert queue.next_change_usec() == to_usec(start + timedelta(seconds=5))
    assert queue.last_lease_end_usec() == to_usec(start + timedelta(seconds=20))
    clock.advance(5)
    assert queue.next_change_usec() == to_usec(start + timedelta(seconds=10))
    clock.advance(15)
    assert queue.next_change_usec() == to_usec(start + timedelta(seconds=90))
    assert queue.last_lease_end_usec() is None


def test_statistics_are_those_of_one_time(queue: Queue, clock: ManualClock) -> None:
    start = clock.now()
    queue.add(b"12345", name="a")
    queue.add(name="b", eta=start + timedelta(hours=1))
    queue.add(name="c")
    queue.lease_tasks(60, 1)
    clock.advance(59)

    numbers = QueueStatistics(
        tasks=3, available=1, leased=1, scheduled=1, running=0, retrying=0, exhausted=0,
        oldest_eta_usec=to_usec(start), leased_last_minute=1, leased_last_hour=1, bytes_stored=8,
    )  # fmt: skip
    assert queue.fetch_statistics() == numbers
    clock.advance(1)
    minute_later = numbers._replace(available=2, leased=0, leased_last_minute=0)
    assert queue.fetch_statistics() == minute_later
    clock.advance(3540)
    hour_later = minute_later._replace(available=3, scheduled=0, leased_last_hour=0)
    assert queue.fetch_statistics() == hour_later


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_statistics_are_of_one_time(
    emulator: Emulator, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While they are read, tasks can be leased; they are of the time when they were asked for."""
    queue.add_many([NewTask(), NewTask()])
    leased: list[object] = []
    totals = emulator.store._totals  # type: ignore[attr-defined]

    def lease_meanwhile(*arguments: object) -> object:
        found = totals(*arguments)
        thread = Thread(target=lambda: leased.append(queue.lease_tasks(60, 1)))
        thread.start()
        thread.join(timeout=60)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(emulator.store, "_totals", lease_meanwhile)
        numbers = queue.fetch_statistics()

    assert len(leased) == 1
    assert (numbers.tasks, numbers.available, numbers.leased) == (2, 2, 0)
    assert queue.fetch_statistics().leased == 1


def test_names_of_deleted_tasks_can_be_freed(queue: Queue, clock: ManualClock) -> None:
    queue.add(name="stays")
    for name in ("a", "b", "c"):
        queue.add(name=name)
    queue.delete_tasks(["a", "b", "c"])
    queue.free_names(["a", "unknown", "stays"])

    queue.add(name="a")
    with pytest.raises(TombstonedTaskError):
        queue.add(name="b")
    clock.advance(50)
    queue.free_names()
    queue.add(name="b")
    queue.delete_tasks("b")
    clock.advance(LIMITS.tombstone_seconds - 0.000001)
    with pytest.raises(TombstonedTaskError):
        queue.get_task("b")
    clock.advance(0.000001)
    with pytest.raises(UnknownTaskError):
        queue.get_task("b")
    assert queue.add(name="b").retry_count == 0
    assert {task.name for task in queue.list_tasks()} == {"stays", "a", "b"}


def test_a_task_with_an_age_that_none_reaches_is_never_exhausted(
    start: Start, clock: ManualClock
) -> None:
    """queue.yaml permits any; such a task is leased like others, and never exhausted."""
    retry = RetryParameters(task_retry_limit=1, task_age_limit_seconds=10**20)
    settings = QueueSettings(name="pull", mode=QueueMode.PULL, retry_parameters=retry)
    queue = start(QueueConfig(queues=(settings,))).queue("pull")
    queue.add(name="one")

    for _ in range(2):
        assert [task.name for task in queue.lease_tasks(10, 1)] == ["one"]
        clock.advance(10)

    assert (queue.exhausted, queue.next_change_usec()) == ([], None)


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_old_events_tombstones_and_counts_are_trimmed(
    emulator: Emulator, queue: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_TRIM_AFTER", 1)
    for number in range(9):
        queue.add_many([NewTask(name=f"n{number}-{place}") for place in range(10)])
        queue.delete_tasks(queue.lease_tasks(60, 10))
        clock.advance(1)
    clock.advance(3600)
    before = queue.events()

    queue.add(name="last")

    counts = "SELECT (SELECT count(*) FROM tasks), (SELECT count(*) FROM leased)"
    with emulator.store._reading() as session:  # type: ignore[attr-defined]
        (rows,) = session._connection.execute(counts)
        ((events,),) = session.rows("recorded_events", queue="pull")
    assert (rows, events) == ((1, 0), 41)
    assert queue.events()[:-1] == before[-40:]


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_a_store_applies_the_limit_that_it_is_opened_with(start: Start, clock: ManualClock) -> None:
    first = start(config_of(None))
    first.queue("limited").add(name="one")
    first.queue("limited").lease_tasks(10, 1)
    first.close()

    second = start(config_of(1))
    clock.advance(300)
    assert [task.name for task in second.queue("limited").exhausted] == ["one"]


def test_free_tasks_that_are_restored_to_an_earlier_time_are_scheduled(
    emulator: Emulator, start: Start
) -> None:
    queue = emulator.queue("pull")
    queue.add_many([NewTask(name="leased"), NewTask(name="free")])
    queue.lease_tasks(0, 1)
    contents = emulator.export()
    emulator.close()
    clock = ManualClock(ManualClock.DEFAULT_START - timedelta(hours=1))
    earlier = start(clock=clock)

    earlier.restore(contents)

    numbers = earlier.queue("pull").fetch_statistics()
    assert (numbers.available, numbers.leased, numbers.scheduled) == (0, 1, 1)
    listed = earlier.queue("pull").list_tasks(state=TaskState.SCHEDULED)
    assert [task.name for task in listed] == ["free"]
    clock.advance(3600)
    assert earlier.queue("pull").fetch_statistics().available == 2


def test_any_store_restores_what_another_exported(emulator: Emulator, clock: ManualClock) -> None:
    queue, limited = emulator.queue("pull"), emulator.queue("limited")
    exhaust(limited, clock, gone=b"work")
    clock.advance(1000)
    queue.add_many([NewTask(payload=b"\x00\xff", name=f"n{n}", tag="red") for n in range(5)])
    queue.delete_tasks("n0")
    limited.add(name="held")
    limited.lease_tasks(10, 1)
    queue.lease_tasks(20, 2)
    contents = emulator.export()
    target = Emulator(config_of(2), clock=clock, limits=LIMITS)
    target.queue("pull").add(name="is-replaced")

    target.restore(contents)
    emulator.restore(target.export())

    assert emulator.export() == contents == target.export()
    assert queue.fetch_statistics() == target.queue("pull").fetch_statistics()
    assert queue.fetch_statistics().leased_last_minute == 2
    added = queue.add()
    assert added.sequence > max(task.sequence for task in contents["pull"].tasks)
    assert added.queue_name == "pull"
    assert [(task.name, task.payload) for task in limited.exhausted] == [("gone", b"work")]
    with pytest.raises(TombstonedTaskError):
        queue.add(name="n0")
    clock.advance(10)
    assert [task.retry_count for task in limited.lease_tasks(10, 1)] == [2]
    emulator.restore(emulator.export())
    clock.advance(300)
    assert [task.name for task in limited.exhausted] == ["gone", "held"]


@pytest.mark.parametrize("group_by_tag", [False, True], ids=["first", "oldest tag"])
def test_no_task_is_leased_twice(servers: tuple[Queue, Queue], *, group_by_tag: bool) -> None:
    """Threads, of two servers if they share the store, empty a queue; each task goes to one."""
    for start in (0, 100, 200):
        servers[0].add_many([NewTask(name=f"t{start + n}", tag=str(n % 7)) for n in range(100)])
    leased: list[Task] = []

    def empty(queue: Queue) -> None:
        while found := verbs.lease(queue, 60, 3, group_by_tag=group_by_tag).tasks:
            leased.extend(found)

    together(*(partial(empty, queue) for queue in servers))

    assert len(leased) == 300 == len({task.name for task in leased})
    assert {task.retry_count for task in leased} == {1}
    assert servers[0].fetch_statistics().leased_last_minute == 300


def test_a_lease_beyond_the_rate_returns_nothing(start: Start, clock: ManualClock) -> None:
    queue = start(limits=Limits(leases_per_second=2)).queue("pull")
    queue.add_many([NewTask()] * 9)
    leases = []
    for _ in range(10):
        leases.append(verbs.lease(queue, 60, 1))
        clock.advance(0.25)

    permitted = [1, 1, 0, 0, 1, 1, 0, 0, 1, 1]
    assert [(len(lease.tasks), not lease.rate_limited) for lease in leases] == [
        (number, bool(number)) for number in permitted
    ]
    assert queue.fetch_statistics().leased == sum(permitted)


def test_checks_leave_no_trace(emulator: Emulator, queue: Queue) -> None:
    """What a check stores appears in no queue, and in no total."""
    queue.add(name="one")
    before = emulator.export()
    for _ in range(3):
        emulator.check()

    assert (emulator.export(), emulator.bytes_stored) == (before, len("one"))
