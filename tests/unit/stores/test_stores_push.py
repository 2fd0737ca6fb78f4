"""Push tasks in every store: their requests, and what each attempt to send them changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from store_rules import LIMITS, Start
from stores import store_url

from pullqueue import (
    AttemptRecord,
    Emulator,
    EventKind,
    HttpRequest,
    ManualClock,
    NewTask,
    OverQuotaError,
    Queue,
    RequestToken,
    RetryParameters,
    Task,
    TaskLeaseExpiredError,
    TaskState,
    TombstonedTaskError,
    UnknownTaskError,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.engine import verbs
from pullqueue.engine.attempts import finish_attempt, renew_attempt, start_attempt
from pullqueue.engine.events import Interface, Origin
from pullqueue.engine.interceptors import Caller, called_by
from pullqueue.stores import open_store
from pullqueue.tasks import AttemptResult

CONFIG = QueueConfig(
    queues=(QueueSettings(name="web"), QueueSettings(name="pull", mode=QueueMode.PULL)),
    total_storage_limit_bytes=1_000,
)
REQUEST = HttpRequest(
    "/mail?to=ada",
    method="PUT",
    headers=(("X-Mine", "7"), ("X-Mine", "ü")),
    target="v1.worker",
    retry=RetryParameters(task_retry_limit=3, min_backoff_seconds=0.5),
    deadline_seconds=30.5,
)
SECOND = timedelta(seconds=1)


@pytest.fixture
def emulator(start: Start) -> Emulator:
    return start(CONFIG)


@pytest.fixture
def queue(emulator: Emulator) -> Queue:
    return emulator.queue("web")


def states(queue: Queue) -> dict[str, int]:
    """Return the numbers of tasks, and check that lists by state agree with them."""
    numbers = queue.fetch_statistics()
    found = {state.value: getattr(numbers, state.value) for state in TaskState}
    listed = {state.value: len(queue.list_tasks(state=state)) for state in TaskState}
    assert listed == found
    assert numbers.tasks == sum(found.values())
    return {state: count for state, count in found.items() if count}


def started(queue: Queue, *, lease_seconds: float = 10, **task: Any) -> Task:
    """Add a task and start its first attempt."""
    added = queue.add(**task)
    return start_attempt(queue, added, lease_seconds=lease_seconds, attempts=AttemptRecord())


def ended(
    queue: Queue, task: Task, *, status: int = 500, backoff_seconds: float | None = None
) -> Task:
    attempts = AttemptRecord(finished=1, status=status)
    return finish_attempt(queue, task, attempts=attempts, backoff_seconds=backoff_seconds)


def test_a_request_comes_back_as_it_was_and_its_bytes_count(
    emulator: Emulator, queue: Queue
) -> None:
    added = queue.add(b"body", name="one", request=REQUEST)

    assert (added.request, added.attempts) == (REQUEST, AttemptRecord())
    assert queue.get_task("one") == added
    assert queue.list_tasks() == [added]
    size = len("body" + "one" + "/mail?to=ada" + "X-Mine7" + "X-Mine") + len("ü".encode())
    assert added.stored_bytes == queue.fetch_statistics().bytes_stored == size
    with pytest.raises(OverQuotaError):
        queue.add(b"x" * 900, request=HttpRequest("/" + "u" * 70))
    assert emulator.bytes_stored == size


def test_an_http_task_keeps_its_url_and_token(queue: Queue) -> None:
    token = RequestToken("oidc_token", "worker@example.com", "audience")
    request = HttpRequest("https://api.example.com/work", token=token)
    [added] = verbs.insert(queue, [NewTask(name="one", request=request)], absolute_urls=True).added

    assert queue.get_task("one") == added
    assert added.request == request
    assert queue.add().request == HttpRequest("/_ah/queue/web")


def test_a_task_waits_runs_waits_for_its_retry_runs_and_is_deleted(
    queue: Queue, clock: ManualClock
) -> None:
    later = queue.add(name="one", eta=clock.now() + SECOND)
    assert states(queue) == {"scheduled": 1}
    clock.advance(1)
    assert states(queue) == {"available": 1}

    first = start_attempt(queue, later, lease_seconds=600, attempts=AttemptRecord(first_usec=1))
    assert (first.eta, first.retry_count) == (clock.now() + 600 * SECOND, 1)
    assert first.attempts == AttemptRecord(first_usec=1)
    assert states(queue) == {"running": 1}
    assert queue.last_lease_end_usec() == first.eta_usec
    clock.advance(2)
    renewed = renew_attempt(queue, first, lease_seconds=600)
    assert (renewed.eta, renewed.retry_count) == (clock.now() + 600 * SECOND, 1)

    failed = AttemptRecord(finished=1, responses=1, executions=1, status=503, reason="busy")
    retrying = finish_attempt(queue, renewed, attempts=failed, backoff_seconds=0.1)
    assert (retrying.eta, retrying.attempts) == (clock.now() + 0.1 * SECOND, failed)
    assert queue.get_task("one") == retrying
    assert states(queue) == {"retrying": 1}
    assert (queue.last_lease_end_usec(), queue.next_change_usec()) == (None, retrying.eta_usec)
    clock.advance(0.1)
    assert states(queue) == {"available": 1}

    second = start_attempt(queue, retrying, lease_seconds=600, attempts=failed)
    done = failed._replace(finished=2, status=204)
    deleted = finish_attempt(queue, second, attempts=done, backoff_seconds=None)
    assert (deleted.name, deleted.retry_count, deleted.attempts) == ("one", 2, done)
    assert states(queue) == {}
    with pytest.raises(TombstonedTaskError):
        queue.get_task("one")
    history = queue.history("one")
    assert [(each.kind.value, each.retry_count, each.status, each.until) for each in history] == [
        ("added", 0, None, None),
        ("attempt started", 1, None, first.eta),
        ("attempt failed", 1, 503, retrying.eta),
        ("attempt started", 2, None, second.eta),
        ("attempt succeeded", 2, 204, None),
    ]
    numbers = queue.fetch_statistics()
    assert (numbers.leased_last_minute, numbers.bytes_stored) == (2, 0)


@pytest.mark.parametrize("count", [1, 2, 200])
@pytest.mark.parametrize("pause", [30, None], ids=["retrying", "exhausted"])
def test_attempts_that_are_not_made_are_one_event_of_their_task(
    queue: Queue, count: int, pause: float | None
) -> None:
    added = queue.add(name="one")
    last = AttemptRecord(finished=count, status=0, reason="connection refused")

    task = start_attempt(queue, added, lease_seconds=0, attempts=AttemptRecord(), counted=count)
    ended = finish_attempt(queue, task, attempts=last, backoff_seconds=pause, counted=count)

    assert (ended.retry_count, ended.attempts) == (count, last)
    assert states(queue) == ({} if pause is None else {"retrying": 1})
    history = queue.history("one")
    assert [(each.kind.value, each.retry_count, each.attempts) for each in history] == [
        ("added", 0, 1),
        ("attempt started", count, count),
        ("attempt failed", count, count),
        *([("exhausted", count, 1)] if pause is None else []),
    ]
    expected = {EventKind.ADDED: 1} | ({EventKind.EXHAUSTED: 1} if pause is None else {})
    assert queue.count_failures(last=SECOND) == {}
    assert queue.count_events(last=SECOND) == expected
    assert [*queue.flow(since_usec=0).values()] == [expected]
    assert queue.fetch_statistics().leased_last_minute == 0


def test_attempts_that_are_not_made_are_counted_when_they_would_have_been(
    queue: Queue, clock: ManualClock
) -> None:
    """At their own times, in no history, also where other events were later."""
    start_usec = clock.now_usec()
    clock.advance(300)
    queue.add(name="one")
    result, minute = AttemptResult(0, "connection refused"), timedelta(minutes=1)
    now_usec = clock.now_usec()

    queue.store.count_failed("web", Counter({now_usec - 60_000_000: 7, now_usec: 2}), result)
    queue.store.count_failed("web", Counter({start_usec: 5, now_usec - 60_000_000: 1}), result)

    def failed(last: timedelta) -> tuple[int, int]:
        counts = queue.count_events(last=last)
        assert queue.count_failures(last=last) == {result: counts[EventKind.ATTEMPT_FAILED]}
        return counts[EventKind.ATTEMPT_STARTED], counts[EventKind.ATTEMPT_FAILED]

    assert [failed(last) for last in (minute, minute + SECOND, timedelta(hours=1))] == [
        (2, 2), (10, 10), (15, 15),
    ]  # fmt: skip
    assert queue.count_events(last=minute)[EventKind.ADDED] == 1
    flow = queue.flow(since_usec=0)
    found = [counts[EventKind.ATTEMPT_FAILED] for counts in flow.values()]
    assert (found, sorted(flow) == [*flow]) == ([5, 8, 2], True)
    assert [each.kind.value for each in queue.events()] == ["added"]
    assert queue.store.list_last_attempts("web", limit=9) == []


def test_attempts_that_are_only_counted_leave_other_events_recorded(start: Start) -> None:
    """They are as many as 5,000 operations, after which a database deletes the oldest events."""
    queue = start(replace(CONFIG, total_storage_limit_bytes=None)).queue("web")
    for tasks in [100] * 49 + [97]:
        queue.add_many([NewTask()] * tasks)
    task = start_attempt(
        queue, queue.add(name="one"), lease_seconds=0, attempts=AttemptRecord(), counted=200
    )
    failed = AttemptRecord(finished=200, status=0)
    finish_attempt(queue, task, attempts=failed, backoff_seconds=30, counted=200)

    assert [each.kind.value for each in queue.history("one")] == [
        "added", "attempt started", "attempt failed",
    ]  # fmt: skip


def test_a_task_without_retries_left_is_exhausted_and_can_be_requeued(
    queue: Queue, clock: ManualClock
) -> None:
    task = started(queue, payload=b"body", name="one", request=REQUEST)
    attempts = AttemptRecord(finished=1, status=0, reason="connection refused", ended_usec=2**53)
    exhausted = finish_attempt(queue, task, attempts=attempts, backoff_seconds=None)

    assert exhausted.attempts == attempts
    assert queue.exhausted == [exhausted]
    assert (queue.fetch_statistics().exhausted, queue.list_tasks()) == (1, [])
    steps = [(event.kind, event.status, event.until) for event in queue.history("one")][-2:]
    assert steps == [(EventKind.ATTEMPT_FAILED, 0, None), (EventKind.EXHAUSTED, None, None)]
    clock.advance(1)
    [again] = queue.requeue(["one"]).added
    assert (again.payload, again.request, again.attempts) == (b"body", REQUEST, AttemptRecord())
    assert (again.retry_count, queue.exhausted) == (0, [])


def test_failed_attempts_are_counted_by_result_within_a_time(
    queue: Queue, clock: ManualClock
) -> None:
    """Those that failed before it, at its beginning, or did not fail at all are not counted."""
    results = {
        AttemptResult(500, "CMYK"): 2,
        AttemptResult(503, "answered by fault 7", 7): 1,
        AttemptResult(0, "connection refused"): 1,
        AttemptResult(404): 1,
    }
    for result, count in results.items():
        for number in range(count):
            status, reason, fault = result
            record = AttemptRecord(1, status=status, reason=reason, fault=fault)
            pause = None if number else 30
            finish_attempt(queue, started(queue), attempts=record, backoff_seconds=pause)
    ended(queue, started(queue), status=200)

    assert queue.count_failures(last=SECOND) == results
    failed = {event.result for event in queue.events() if event.status not in (None, 200)}
    assert failed == {*results}
    clock.advance(1)
    assert not queue.count_failures(last=SECOND)
    assert queue.count_failures(last=1.000001 * SECOND) == results


@pytest.mark.parametrize("pause", [30, None], ids=["retrying", "exhausted"])
def test_the_response_to_the_last_attempt_belongs_to_the_task(
    queue: Queue, pause: float | None
) -> None:
    record = AttemptRecord(1, status=500, fault=2, response=bytes(range(256)) * 16)
    finish_attempt(queue, started(queue, name="one"), attempts=record, backoff_seconds=pause)

    [task] = queue.list_tasks() or queue.exhausted
    assert task.attempts == record


def test_a_task_whose_attempt_nobody_ends_is_due_at_its_end(
    queue: Queue, clock: ManualClock
) -> None:
    """And a late end is accepted."""
    task = started(queue, lease_seconds=10)
    clock.advance(10)
    assert states(queue) == {"available": 1}
    assert queue.last_lease_end_usec() is None
    assert [event.kind for event in queue.history(task)][-1] is EventKind.ATTEMPT_STARTED

    ended(queue, task, backoff_seconds=10**18)
    assert states(queue) == {"retrying": 1}
    assert queue.next_change_usec() is not None


def test_only_the_current_attempt_can_be_changed(queue: Queue, clock: ManualClock) -> None:
    """An eta that has changed, and a task that is gone, are refused, and nothing changes."""
    added = queue.add(name="one")
    started = start_attempt(queue, added, lease_seconds=10, attempts=AttemptRecord())
    clock.advance(1)
    done = AttemptRecord(finished=1, status=200)

    calls: list[Callable[[], Task]] = [
        lambda: start_attempt(queue, added, lease_seconds=10, attempts=AttemptRecord(finished=9)),
        lambda: renew_attempt(queue, added, lease_seconds=10),
        lambda: finish_attempt(queue, added, attempts=done, backoff_seconds=None),
    ]
    for call in calls:
        with pytest.raises(TaskLeaseExpiredError, match='task "one" of queue "web" has the eta'):
            call()
    assert queue.get_task("one") == started
    with pytest.raises(UnknownTaskError):
        renew_attempt(queue, started._replace(name="none\0"), lease_seconds=10)
    unstorable = started._replace(name="\ud800")
    with pytest.raises(UnknownTaskError):
        finish_attempt(queue, unstorable, attempts=done, backoff_seconds=None)
    queue.delete_tasks("one")
    with pytest.raises(TombstonedTaskError):
        finish_attempt(queue, started, attempts=done, backoff_seconds=None)
    kinds = [event.kind.value for event in queue.history("one")]
    assert kinds == ["added", "attempt started", "deleted"]


def test_a_purge_deletes_running_tasks_and_bodies_of_exhausted_ones(queue: Queue) -> None:
    started(queue)
    ended(queue, started(queue, payload=b"x", request=REQUEST))

    assert queue.purge() == 1
    assert states(queue) == {}
    assert [(task.payload, task.request) for task in queue.exhausted] == [(b"", REQUEST)]


def test_nothing_of_a_push_task_is_left_for_the_next_of_its_name(
    queue: Queue, clock: ManualClock
) -> None:
    ended(queue, started(queue, name="one"), status=200)
    clock.advance(LIMITS.tombstone_seconds)

    assert queue.add(name="one", request=REQUEST).attempts == AttemptRecord()
    assert queue.get_task("one").attempts == AttemptRecord()
    assert states(queue) == {"available": 1}


@pytest.mark.parametrize("to", ["memory", "sqlite"])
def test_push_tasks_are_the_same_in_another_store(
    queue: Queue, emulator: Emulator, to: str
) -> None:
    for pause in (None, 30):
        ended(queue, started(queue, request=REQUEST), backoff_seconds=pause)
    started(queue)
    emulator.queue("pull").add(name="pull")
    exported = emulator.export()

    with store_url(to) as url:
        other = Emulator(CONFIG, clock=emulator.clock, limits=LIMITS, store=open_store(url))
        other.restore(exported)
        assert other.export() == exported
        assert states(other.queue("web")) == {"running": 1, "retrying": 1}
        other.close()


def test_tasks_stay_what_they_are_when_a_queue_changes_its_mode(
    emulator: Emulator, clock: ManualClock
) -> None:
    """Listed, counted and deleted, whoever leases the others."""
    push = emulator.queue("web").add(b"push", name="push")
    swapped = tuple(
        QueueSettings(name=name, mode=mode)
        for name, mode in (("web", QueueMode.PULL), ("pull", QueueMode.PUSH))
    )
    emulator.queue("pull").add(name="pull", tag="red")
    emulator.reconfigure(QueueConfig(queues=swapped))
    web = emulator.queue("web")
    web.add(name="new")

    leased = web.lease_tasks(60, 10)

    assert [(task.name, task.payload) for task in leased] == [("push", b"push"), ("new", b"")]
    assert leased[0].request == push.request
    assert states(web) == {"leased": 1, "running": 1}
    assert web.modify_task_lease(leased[0], 90).eta == clock.now() + 90 * SECOND
    web.delete_tasks(leased)
    assert states(web) == {}
    assert states(emulator.queue("pull")) == {"available": 1}


@pytest.mark.parametrize(("status", "pause"), [(200, None), (500, 30), (500, None)])
def test_attempts_have_the_origin_of_who_sends(
    queue: Queue, status: int, pause: float | None
) -> None:
    """Start and end of an attempt are events with the caller's origin, however it ends."""
    origin = Origin(Interface.PUSH, "http://localhost:8080", 3, "server")
    with called_by(Caller(origin)):
        task = ended(queue, started(queue), status=status, backoff_seconds=pause)

    assert {event.origin for event in queue.history(task)} == {origin}
