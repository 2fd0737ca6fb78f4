"""Handlers of push tasks run against each other, in every order of their calls."""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from functions import KINDS, Run, Work, adding, handling, in_turn, sending_to
from places import without_places

from pullqueue import Emulator, ManualClock, Queue
from pullqueue.push.request import PushRequest
from pullqueue.tasks import HttpRequest, NameInUseError
from pullqueue.testing import RaceTestError, assert_empty, race_test

pytestmark = pytest.mark.slow


@pytest.fixture
def race(race: Run) -> Run:
    return partial(race, clock=False)


@pytest.fixture
def add_two(pushed: Queue) -> Work:
    return adding(pushed, "one", "two", request=HttpRequest("/a"))


def test_a_handler_that_has_leased_in_vain_goes_on(race: Run, queue: Queue, add_two: Work) -> None:
    done: list[int] = []

    def send(request: PushRequest) -> int:
        assert not queue.lease_tasks(60, 1)
        assert not queue.lease_tasks_by_tag(60, 1, tag="other")
        queue.fetch_statistics()
        done.append(request.attempt)
        return 200

    race(setup=in_turn(done.clear, add_two), check=lambda: done == [1, 1], send=send)


def test_a_failure_without_a_race_is_said_to_be_none(
    race: Run, pushed: Queue, add_two: Work
) -> None:
    """Each attempt ends before the next begins; the first line says so, the traceback why."""

    def send(_: PushRequest) -> int:
        raise LookupError("no such\norder")

    with pytest.raises(RaceTestError) as caught:
        race(setup=add_two, check=lambda: not pushed.exhausted, send=send)

    first, second, *_ = str(caught.value).splitlines()
    assert first.endswith("with the actors one after the other, so their calls do not race")
    shown = r"responds: status 500 (LookupError: no such\norder), will retry"
    assert second == f'  1. task "one": POST /a: {shown}'
    cause = caught.value.error.__cause__
    assert isinstance(cause, LookupError)
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "send"


@pytest.mark.parametrize(
    ("failures", "limit", "is_endless"),
    [(29, None, False), (30, None, True), (1000, None, True), (1000, 31, False)],
)
def test_a_task_that_fails_forever_ends_the_schedule(
    failures: int, limit: int | None, *, is_endless: bool
) -> None:
    """Unless its retries have a limit: then they end by themselves."""
    retry = "" if limit is None else f", retry_parameters: {{task_retry_limit: {limit}}}"
    emulator = Emulator.from_text(f"queue: [{{name: free, rate: 5/s{retry}}}]", clock=ManualClock())
    queue = emulator.queue("free")

    def send(request: PushRequest) -> int:
        queue.fetch_statistics()
        return 500 if request.attempt <= failures else 200

    setup = adding(queue, "one", "two")

    options: Any = {"setup": setup, "check": lambda: True, "clock": False, "schedules": 1}
    message = "has failed 30 times and is retried forever, since"
    with pytest.raises(RaceTestError, match=message) if is_endless else nullcontext():
        assert race_test(emulator, send=send, **options) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_due_push_tasks_are_actors(race: Run, pushed: Queue, add_two: Work, kind: str) -> None:
    """Two handlers at the same time lose an update; one after the other they do not."""
    shared: dict[str, int] = {}

    def count() -> None:
        value = shared.get("value", 0)
        pushed.fetch_statistics()
        shared["value"] = value + 1

    setup = in_turn(shared.clear, add_two)
    with sending_to(kind, lambda _: count()) as where:
        run = partial(race, setup=setup, check=lambda: shared["value"] == 2, **where)
        assert run(preemptions=0) == 2
        with pytest.raises(RaceTestError) as caught:
            run()
    assert without_places(caught.value.schedule) == (
        'task "two": POST /a: fetch_statistics() on queue "pushed"   <- preempts task "one"',
        'task "two": responds: status 200, succeeded',
        'task "one": POST /a: fetch_statistics() on queue "pushed"',
        'task "one": responds: status 200, succeeded',
    )


def test_tasks_that_handlers_add_and_retries_are_actors(
    race: Run, pushed: Queue, queue: Queue
) -> None:
    seen: list[str] = []

    def send(request: PushRequest) -> int:
        seen.append(f"{request.url} {request.attempt}")
        if request.url == "/first":
            with suppress(NameInUseError):
                pushed.add(name="second", request=HttpRequest("/second"))
        elif request.attempt == 1:
            raise OSError("try again")
        return 200

    setup = in_turn(seen.clear, adding(pushed, "first", request=HttpRequest("/first")))

    def check() -> None:
        assert {"/first 1", "/second 1", "/second 2"} <= set(seen)
        assert_empty(pushed)

    assert race(queue.fetch_statistics, setup=setup, check=check, send=send, clock=True) > 40


def test_tasks_are_retried_without_time_as_an_actor(race: Run, queue: Queue, pushed: Queue) -> None:
    """Time moves to them when nobody else can go on; no lease and no deadline expires."""
    seen: list[int] = []

    def send(request: PushRequest) -> int:
        seen.append(request.attempt)
        queue.fetch_statistics()
        return 200 if request.attempt == 2 else 503

    lease = partial(queue.lease_tasks, 60, 1)
    setup = in_turn(seen.clear, queue.add, pushed.add)

    def check() -> None:
        assert seen == [1, 2]
        assert queue.fetch_statistics().leased == 1

    assert race(lease, setup=setup, check=check, send=send, undeleted="ignore") > 4


def test_a_handler_can_miss_its_deadline(race: Run, pushed: Queue) -> None:
    """Its task is retried while it still runs, as in production."""
    seen: list[int] = []

    def send(request: PushRequest) -> int:
        seen.append(request.attempt)
        pushed.fetch_statistics()
        return 200

    setup = in_turn(seen.clear, adding(pushed, "one"))

    run = partial(race, setup=setup, check=lambda: seen == [1], send=send)
    with pytest.raises(RaceTestError) as caught:
        run(clock=True)
    text = "\n".join(caught.value.schedule)
    assert 'time: ends task "one": no response within 600 s, will retry' in text
    assert 'task "one": responds after its deadline' in text
    assert str(caught.value).endswith("clock=False leaves out that a handler passes its deadline")
    with pytest.raises(AssertionError, match="there is only one actor"):
        run()


@pytest.fixture
def connect(tmp_path: Path) -> Callable[[], AbstractContextManager[sqlite3.Connection]]:
    """Connect to a database that has a number of visits and a table of prices."""
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE price (value); CREATE TABLE visit AS SELECT 0 count")
    return lambda: closing(sqlite3.connect(path))


def test_time_passes_a_handler_once_before_each_call_that_its_retry_can_change(
    race: Run, pushed: Queue, connect: Callable[[], AbstractContextManager[sqlite3.Connection]]
) -> None:
    def run(reads: int) -> Any:
        def handle() -> None:
            with connect() as connection:
                for number in range(reads):
                    connection.execute("SELECT * FROM price LIMIT ?", (number,)).fetchall()
                connection.execute("UPDATE visit SET count = count + 1")
                connection.commit()

        return race(setup=adding(pushed, "one"), send=handling(handle), clock=True)

    few, many = run(1), run(4)
    assert many - few == 3
    assert str(few) == (
        f"all {int(few)} orders that can differ of calls to sqlite3, "
        "with at most 2 preemptions (time that passes an actor is one, a deadline two)"
    )


def test_a_task_that_becomes_due_loses_the_update_of_a_slow_actor(
    race: Run,
    pushed: Queue,
    clock: ManualClock,
    connect: Callable[[], AbstractContextManager[sqlite3.Connection]],
) -> None:
    """Time passes the actor before a call that does not depend on it, but on the task."""
    start = clock.now()

    def count() -> None:
        with connect() as connection:
            (value,) = connection.execute("SELECT count FROM visit").fetchone()
            connection.execute("UPDATE visit SET count = ?", (value + 1,))
            connection.commit()

    def setup() -> None:
        with connect() as connection:
            connection.execute("UPDATE visit SET count = 0")
            connection.commit()
        pushed.add(name="later", eta=start + timedelta(seconds=60))

    def check() -> None:
        with connect() as connection:
            assert connection.execute("SELECT count FROM visit").fetchone() == (2,)

    with pytest.raises(RaceTestError, match=r"assert \(1,\) == \(2,\)") as caught:
        race(count, setup=setup, check=check, send=handling(count), preemptions=1, clock=True)
    assert "time: moves 0:01:00" in "\n".join(caught.value.schedule)


def test_another_task_that_begins_after_time_has_passed_a_handler_is_a_preemption(
    race: Run, queue: Queue, add_two: Work, clock: ManualClock
) -> None:
    running: set[str] = set()
    overlaps: set[str] = set()
    start = clock.now()

    def send(request: PushRequest) -> int:
        if clock.now() > start and request.attempt == 1:
            overlaps.update(running - {request.task_name})
        running.add(request.task_name)
        queue.purge()
        running.discard(request.task_name)
        return 200

    setup = in_turn(running.clear, add_two)

    options: Any = {"setup": setup, "send": send, "instances": False, "clock": True}
    assert race(**options, check=lambda: not overlaps, preemptions=2).is_complete
    with pytest.raises(RaceTestError):
        race(**options, check=lambda: not overlaps, preemptions=3)


def test_a_task_whose_attempts_never_end_is_an_error(race: Run, emulator: Emulator) -> None:
    """Its queue has no limit, and each attempt is an actor."""
    with pytest.raises(RaceTestError, match=r"31 actors have begun; .* pass a higher max_calls"):
        race(setup=emulator.queue("default").add, send=lambda _: 500, max_calls=30, clock=True)


def test_only_the_named_queues_are_run(race: Run, emulator: Emulator, pushed: Queue) -> None:
    seen: set[str] = set()

    def send(request: PushRequest) -> int:
        seen.add(request.queue_name)
        pushed.fetch_statistics()
        return 200

    setup = in_turn(pushed.add, lambda: emulator.queue("default").add())

    race(setup=setup, send=send, queues=["pushed"], schedules=10, clock=True)
    assert seen == {"pushed"}


def test_handlers_that_cannot_run_at_the_same_time_are_raced(clock: ManualClock) -> None:
    """One schedule is then all there is, and what the app relies on."""
    text = "queue: [{name: alone, rate: 5/s, max_concurrent_requests: 1}]"
    emulator = Emulator.from_text(text, clock=clock)
    queue = emulator.queue("alone")
    setup = adding(queue, "one", "two")
    send = handling(queue.fetch_statistics)

    assert race_test(emulator, setup=setup, check=lambda: True, send=send, clock=False) == 1
