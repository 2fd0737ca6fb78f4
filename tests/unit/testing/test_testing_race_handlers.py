"""Handlers of push tasks run against each other, in every order of their calls."""

from __future__ import annotations

import sqlite3
import traceback
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from flask import Flask
from places import without_places

from pullqueue import Emulator, ManualClock, Queue
from pullqueue.push.request import PushRequest
from pullqueue.tasks import HttpRequest, NameInUseError
from pullqueue.testing import RaceResult, RaceTestError, assert_empty, race_test

pytestmark = pytest.mark.slow


def test_a_handler_that_has_leased_in_vain_goes_on(
    emulator: Emulator, queue: Queue, pushed: Queue
) -> None:
    seen: list[int] = []

    def send(request: PushRequest) -> int:
        seen.append(request.attempt)
        assert not queue.lease_tasks(60, 1)
        assert not queue.lease_tasks_by_tag(60, 1, tag="other")
        queue.fetch_statistics()
        return 200

    def setup() -> None:
        seen.clear()
        pushed.add(name="one")
        pushed.add(name="two")

    race_test(emulator, setup=setup, check=lambda: seen == [1, 1], send=send, clock=False)


def test_a_failure_without_a_race_is_said_to_be_none(emulator: Emulator, pushed: Queue) -> None:
    """Each attempt ends before the next begins; the first line says so, the traceback why."""

    def send(_: PushRequest) -> int:
        raise LookupError("no such\norder")

    def setup() -> None:
        for name in ("one", "two"):
            pushed.add(name=name)

    with pytest.raises(RaceTestError) as caught:
        race_test(emulator, setup=setup, check=lambda: not pushed.exhausted, send=send, clock=False)

    first, second, *_ = str(caught.value).splitlines()
    assert first.endswith("with the actors one after the other, so their calls do not race")
    shown = r"responds: status 500 (LookupError: no such\norder), will retry"
    assert second == f'  1. task "one": POST /_ah/queue/pushed: {shown}'
    cause = caught.value.error.__cause__
    assert isinstance(cause, LookupError)
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "send"


@pytest.mark.parametrize(
    ("failures", "limit", "schedules"),
    [(29, None, 1), (30, None, None), (1000, None, None), (1000, 31, 1)],
)
def test_a_task_that_fails_forever_ends_the_schedule(
    failures: int, limit: int | None, schedules: int | None
) -> None:
    """Unless its retries have a limit: then they end by themselves."""
    retry = "" if limit is None else f", retry_parameters: {{task_retry_limit: {limit}}}"
    emulator = Emulator.from_text(f"queue: [{{name: free, rate: 5/s{retry}}}]", clock=ManualClock())
    queue = emulator.queue("free")

    def send(request: PushRequest) -> int:
        queue.fetch_statistics()
        return 500 if request.attempt <= failures else 200

    def setup() -> None:
        for name in ("one", "two"):
            queue.add(name=name)

    def run() -> int:
        return race_test(
            emulator, setup=setup, check=lambda: True, send=send, clock=False, schedules=1
        )

    if schedules is not None:
        assert run() == schedules
        return
    with pytest.raises(RaceTestError, match="has failed 30 times and is retried forever, since"):
        run()


def test_due_push_tasks_are_actors(emulator: Emulator, pushed: Queue) -> None:
    shared: dict[str, int] = {}
    app = Flask("counter")

    @app.post("/count")
    def count() -> str:
        value = shared.get("value", 0)
        pushed.fetch_statistics()
        shared["value"] = value + 1
        return ""

    def setup() -> None:
        shared.clear()
        for name in ("one", "two"):
            pushed.add(name=name, request=HttpRequest("/count"))

    def run(**options: Any) -> int:
        return race_test(
            emulator,
            setup=setup,
            check=lambda: shared["value"] == 2,
            app=app,
            clock=False,
            **options,
        )

    with pytest.raises(RaceTestError) as caught:
        run()
    assert without_places(caught.value.schedule) == (
        'task "two": POST /count: fetch_statistics() on queue "pushed"   <- preempts task "one"',
        'task "two": responds: status 200, succeeded',
        'task "one": POST /count: fetch_statistics() on queue "pushed"',
        'task "one": responds: status 200, succeeded',
    )
    assert run(preemptions=0) == 2


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_handlers_of_fastapi_are_called_by_its_client(
    emulator: Emulator, pushed: Queue, kind: str
) -> None:
    shared: dict[str, int] = {}
    app = FastAPI()

    def count() -> None:
        value = shared.get("value", 0)
        pushed.fetch_statistics()
        shared["value"] = value + 1

    async def count_async() -> None:
        count()

    app.post("/count")(count_async if kind == "coroutine" else count)
    client = TestClient(app)

    def setup() -> None:
        shared.clear()
        for name in ("one", "two"):
            pushed.add(name=name, request=HttpRequest("/count"))

    with pytest.raises(RaceTestError) as caught:
        race_test(
            emulator,
            setup=setup,
            check=lambda: shared["value"] == 2,
            send=lambda r: client.request(r.method, r.url, content=r.body),
            clock=False,
        )
    assert sum("preempts" in step for step in caught.value.schedule) == 1


def test_tasks_that_handlers_add_and_retries_are_actors(
    emulator: Emulator, pushed: Queue, queue: Queue
) -> None:
    seen: list[str] = []

    def send(request: PushRequest) -> int:
        seen.append(f"{request.url} {request.attempt}")
        if request.url == "/first":
            with suppress(NameInUseError):
                pushed.add(name="second", request=HttpRequest("/second"))
            return 200
        if request.attempt == 1:
            raise OSError("try again")
        return 200

    def setup() -> None:
        seen.clear()
        pushed.add(name="first", request=HttpRequest("/first"))

    def check() -> None:
        assert {"/first 1", "/second 1", "/second 2"} <= set(seen)
        assert_empty(pushed)

    def look() -> None:
        queue.fetch_statistics()

    assert race_test(emulator, look, setup=setup, check=check, send=send) > 40


def test_tasks_are_retried_without_time_as_an_actor(
    emulator: Emulator, queue: Queue, pushed: Queue
) -> None:
    """Time moves to them when nobody else can go on; no lease and no deadline expires."""
    seen: list[int] = []

    def send(request: PushRequest) -> int:
        seen.append(request.attempt)
        queue.fetch_statistics()
        return 200 if request.attempt == 2 else 503

    def lease() -> None:
        queue.lease_tasks(60, 1)

    def setup() -> None:
        seen.clear()
        queue.add()
        pushed.add()

    def check() -> None:
        assert seen == [1, 2]
        assert queue.fetch_statistics().leased == 1

    assert race_test(emulator, lease, setup=setup, check=check, send=send, clock=False) > 4


def test_a_handler_can_miss_its_deadline(emulator: Emulator, pushed: Queue) -> None:
    seen: list[int] = []

    def send(request: PushRequest) -> int:
        seen.append(request.attempt)
        pushed.fetch_statistics()
        return 200

    def setup() -> None:
        seen.clear()
        pushed.add(name="one")

    def run(**options: Any) -> int:
        return race_test(emulator, setup=setup, check=lambda: seen == [1], send=send, **options)

    with pytest.raises(RaceTestError) as caught:
        run()
    text = "\n".join(caught.value.schedule)
    assert 'time: ends task "one": no response within 600 s, will retry' in text
    assert 'task "one": responds after its deadline' in text
    assert str(caught.value).endswith("clock=False leaves out that a handler passes its deadline")
    with pytest.raises(AssertionError, match="there is only one actor"):
        run(clock=False)


def test_time_passes_a_handler_once_before_each_call_that_its_retry_can_change(
    emulator: Emulator, pushed: Queue, tmp_path: Path
) -> None:
    path = tmp_path / "app.db"

    def run(reads: int) -> RaceResult:
        def send(_: PushRequest) -> int:
            with closing(sqlite3.connect(path)) as connection:
                for number in range(reads):
                    connection.execute("SELECT * FROM price LIMIT ?", (number,)).fetchall()
                connection.execute("UPDATE visit SET count = count + 1")
                connection.commit()
            return 200

        def setup() -> None:
            path.unlink(missing_ok=True)
            with closing(sqlite3.connect(path)) as connection:
                connection.executescript(
                    "CREATE TABLE price (value); CREATE TABLE visit (count INT)"
                )
            pushed.add(name="one")

        return race_test(emulator, setup=setup, check=lambda: True, send=send)

    few, many = run(1), run(4)
    assert many - few == 3
    assert str(few) == (
        f"all {int(few)} orders that can differ of calls to sqlite3, "
        "with at most 2 preemptions (time that passes an actor is one, a deadline two)"
    )


def test_a_task_that_becomes_due_loses_the_update_of_a_slow_actor(
    emulator: Emulator, pushed: Queue, clock: ManualClock, tmp_path: Path
) -> None:
    path = tmp_path / "app.db"

    def count(*_: object) -> int:
        with closing(sqlite3.connect(path)) as connection:
            (value,) = connection.execute("SELECT count FROM visit").fetchone()
            connection.execute("UPDATE visit SET count = ?", (value + 1,))
            connection.commit()
        return 200

    start = clock.now()

    def setup() -> None:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript("CREATE TABLE visit AS SELECT 0 AS count")
        pushed.add(name="later", eta=start + timedelta(seconds=60))

    def check() -> None:
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count FROM visit").fetchone() == (2,)

    def worker() -> None:
        count()

    with pytest.raises(RaceTestError, match=r"assert \(1,\) == \(2,\)") as caught:
        race_test(emulator, worker, setup=setup, check=check, send=count, preemptions=1)
    assert "time: moves 0:01:00" in "\n".join(caught.value.schedule)


@pytest.mark.parametrize("preemptions", [2, 3])
def test_another_task_that_begins_after_time_has_passed_a_handler_is_a_preemption(
    emulator: Emulator, pushed: Queue, queue: Queue, clock: ManualClock, preemptions: int
) -> None:
    running: set[str] = set()
    overlaps: set[str] = set()

    def send(request: PushRequest) -> int:
        if clock.now() > start and request.attempt == 1:
            overlaps.update(running - {request.task_name})
        running.add(request.task_name)
        queue.purge()
        running.discard(request.task_name)
        return 200

    def setup() -> None:
        running.clear()
        for name in ("one", "two"):
            pushed.add(name=name)

    start = clock.now()
    race_test(
        emulator,
        setup=setup,
        check=lambda: True,
        send=send,
        preemptions=preemptions,
        instances=False,
    )
    assert bool(overlaps) is (preemptions == 3)


def test_a_task_that_fails_forever_is_an_error(emulator: Emulator) -> None:
    """Its queue has no limit, and each attempt is an actor."""
    with pytest.raises(RaceTestError, match=r"31 actors have begun; .* pass a higher max_calls"):
        race_test(
            emulator,
            setup=emulator.queue("default").add,
            check=lambda: True,
            send=lambda _: 500,
            max_calls=30,
        )


def test_only_the_named_queues_are_run(emulator: Emulator, pushed: Queue) -> None:
    seen: list[str] = []

    def send(request: PushRequest) -> int:
        seen.append(request.queue_name)
        pushed.fetch_statistics()
        return 200

    def setup() -> None:
        seen.clear()
        pushed.add()
        emulator.queue("default").add()

    def check() -> None:
        assert {*seen} == {"pushed"}

    race_test(emulator, setup=setup, check=check, send=send, queues=["pushed"], schedules=10)


def test_handlers_that_cannot_run_at_the_same_time_are_raced(emulator: Emulator) -> None:
    """One schedule is then all there is, and what the app relies on."""
    alone = Emulator.from_text(
        "queue:\n- name: alone\n  rate: 5/s\n  max_concurrent_requests: 1\n", clock=emulator.clock
    )
    queue = alone.queue("alone")

    def setup() -> None:
        queue.add(name="one")
        queue.add(name="two")

    def send(_: PushRequest) -> int:
        queue.fetch_statistics()
        return 200

    assert race_test(alone, setup=setup, check=lambda: True, send=send, clock=False) == 1
