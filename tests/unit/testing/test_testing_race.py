"""Workers and handlers run against each other, in every order of their calls."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest
import requests
from fastapi import FastAPI
from flask import Flask
from places import place, without_places
from programs import completed

from pullqueue import Emulator, ManualClock, NewTask, Queue
from pullqueue.errors import PullQueueError
from pullqueue.push.request import PushRequest
from pullqueue.server.lifecycle import Server
from pullqueue.tasks import HttpRequest, NameInUseError
from pullqueue.testing import (
    CrashTestError,
    Faults,
    RaceTestError,
    assert_empty,
    crash_test,
    race_test,
    run_tasks,
)
from pullqueue.testing.live_server import live_server

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette's, of the library on which its client is built
    from fastapi.testclient import TestClient


class Ledger:
    """A worker that books each task, in the wrong order or the right one."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.booked: list[str] = []

    def setup(self) -> None:
        self.booked.clear()
        self.queue.add(name="one")

    def book_first(self) -> None:
        for task in self.queue.lease_tasks(60, 1):
            self.queue.fetch_statistics()
            self.booked.append(task.name)
            with suppress(PullQueueError):
                self.queue.delete_tasks(task)

    def check(self) -> bool:
        return self.booked == ["one"]


@pytest.fixture
def ledger(queue: Queue) -> Ledger:
    """The ledger."""
    return Ledger(queue)


def test_a_lease_that_expires_under_a_slow_worker(emulator: Emulator, ledger: Ledger) -> None:
    """Two workers book the same task; no turn has to be taken from anyone for that."""
    run = partial_race(emulator, ledger)

    with pytest.raises(RaceTestError) as caught:
        run()

    error = caught.value
    leases = place(ledger.book_first, "lease_tasks")
    looks = place(ledger.book_first, "fetch_statistics")
    deletes = place(ledger.book_first, "delete_tasks")
    assert error.schedule == (
        "book_first 1: begins",
        f'book_first 1: lease_tasks(60, 1) on queue "work" {leases} -> "one"',
        f'book_first 1: fetch_statistics() on queue "work" {looks}',
        error.schedule[3],
        "book_first 2: begins",
        f'book_first 2: lease_tasks(60, 1) on queue "work" {leases} -> "one"',
        f'book_first 2: fetch_statistics() on queue "work" {looks}',
        f'book_first 2: delete_tasks("one") on queue "work" {deletes} -> deleted',
        f'book_first 1: delete_tasks("one") on queue "work" {deletes} -> tombstoned',
    )
    assert error.schedule[3].startswith("time: moves 0:01:00 to 2026-01-01T00:")
    assert str(error.error) == "check returned False"
    lines = str(error).splitlines()
    assert lines[0].startswith("race_test: schedule ")
    assert lines[1] == f"  1. {error.schedule[0]}"
    assert f'repeat this schedule with race_test(..., replay="{error.replay}")' == lines[-1]
    assert any('"one" lease expired' in line for line in lines)


def partial_race(emulator: Emulator, ledger: Ledger, **options: Any) -> Callable[..., int]:
    """Return a function that runs two of the ledger's workers."""

    def run(**more: Any) -> int:
        return race_test(
            emulator,
            ledger.book_first,
            setup=ledger.setup,
            check=ledger.check,
            copies=2,
            **(options | more),
        )

    return run


def test_replay_repeats_exactly_the_schedule(emulator: Emulator, ledger: Ledger) -> None:
    run = partial_race(emulator, ledger)
    with pytest.raises(RaceTestError) as caught:
        run()
    first = caught.value

    with pytest.raises(RaceTestError) as caught:
        run(replay=first.replay)

    assert (caught.value.replay, len(caught.value.schedule)) == (first.replay, len(first.schedule))
    without_times = [step for step in first.schedule if not step.startswith("time")]
    repeated = [step for step in caught.value.schedule if not step.startswith("time")]
    assert repeated == without_times


def test_time_is_left_out_on_request(emulator: Emulator, ledger: Ledger) -> None:
    assert partial_race(emulator, ledger)(clock=False) > 10


def counting(emulator: Emulator, count: int, calls: int, **options: Any) -> tuple[int, set[str]]:
    """Return the number of schedules of actors that make some calls, and the orders."""
    orders: set[str] = set()
    order: list[str] = []
    queue = emulator.queue("work")

    def actor(letter: str) -> Callable[[], None]:
        def act() -> None:
            for _ in range(calls):
                queue.get_task("one")
                order.append(letter)

        return act

    def setup() -> None:
        order.clear()
        queue.add(name="one")

    actors = [actor("abc"[number]) for number in range(count)]
    check = lambda: orders.add("".join(order))  # noqa: E731
    number = race_test(emulator, *actors, setup=setup, check=check, **options)
    return number, orders


@pytest.mark.parametrize(
    ("preemptions", "expected"),
    [
        (0, {"aabb", "bbaa"}),
        (1, {"aabb", "bbaa", "abba", "baab"}),
        (2, {"aabb", "bbaa", "abba", "baab", "abab", "baba"}),
    ],
)
def test_all_orders_up_to_a_number_of_preemptions(
    emulator: Emulator, preemptions: int, expected: set[str]
) -> None:
    assert counting(emulator, 2, 2, preemptions=preemptions)[1] == expected


def test_no_order_comes_twice(emulator: Emulator) -> None:
    """Six points of each actor, the beginning included: as many schedules as merges of both."""
    assert counting(emulator, 2, 5, preemptions=12)[0] == 924


def test_more_schedules_than_permitted_are_a_sample(emulator: Emulator) -> None:
    number, orders = counting(emulator, 3, 3, schedules=50, seed=1)
    assert (number, counting(emulator, 3, 3, schedules=50, seed=1)) == (50, (50, orders))
    assert counting(emulator, 3, 3, schedules=50, seed=2)[1] != orders


def test_the_first_failure_has_the_fewest_preemptions(emulator: Emulator, queue: Queue) -> None:
    """A read and a write of something shared: one preemption is enough to lose an update."""
    shared = {"value": 0}

    def count() -> None:
        value = shared["value"]
        queue.fetch_statistics()
        shared["value"] = value + 1
        queue.fetch_statistics()

    def setup() -> None:
        shared["value"] = 0

    def run(preemptions: int) -> int:
        return race_test(
            emulator,
            count,
            setup=setup,
            check=lambda: shared["value"] == 2,
            copies=2,
            preemptions=preemptions,
        )

    assert run(0) == 2
    with pytest.raises(RaceTestError) as caught:
        run(3)
    assert str(caught.value).partition("\n")[0].endswith(" leads to a wrong state")
    marked = [step for step in caught.value.schedule if "preempts" in step]
    assert marked == ["count 2: begins   <- preempts count 1"]


def test_an_actor_that_raises(emulator: Emulator, queue: Queue) -> None:
    """Others are stopped then, and none of their threads is left."""

    def fail() -> None:
        queue.fetch_statistics()
        raise OSError("cannot save")

    def wait() -> None:
        queue.fetch_statistics()

    with pytest.raises(RaceTestError, match="OSError: cannot save") as caught:
        race_test(emulator, fail, wait, setup=queue.add, check=lambda: True)

    assert isinstance(caught.value.error, OSError)
    assert caught.value.__cause__ is caught.value.error
    assert not {"fail", "wait"} & {thread.name for thread in threading.enumerate()}


def test_a_thread_of_an_actor_changes_nothing_after_the_test(
    emulator: Emulator, queue: Queue
) -> None:
    tested = threading.Event()
    threads: list[threading.Thread] = []

    def add_later() -> None:
        tested.wait(60)
        queue.add()

    def work() -> None:
        threads.append(threading.Thread(target=add_later))
        threads[-1].start()
        queue.fetch_statistics()

    race_test(emulator, work, setup=lambda: None, check=lambda: True, schedules=1, copies=2)
    tested.set()
    for thread in threads:
        thread.join()

    assert not queue.list_tasks(1)
    assert not len(emulator.interceptors)


def test_actors_that_are_blocked_by_each_other(emulator: Emulator, queue: Queue) -> None:
    """A deadlock is reported with the stack of each thread."""
    locks = [threading.Lock(), threading.Lock()]

    def setup() -> None:
        locks[:] = [threading.Lock(), threading.Lock()]

    def lock(first: int, second: int) -> None:
        with suppress(RuntimeError), locks[first]:  # which the test releases at the end
            queue.fetch_statistics()
            with locks[second]:
                pass

    def forwards() -> None:
        lock(0, 1)

    def backwards() -> None:
        lock(1, 0)

    with pytest.raises(RaceTestError, match="all actors are blocked:") as caught:
        race_test(emulator, forwards, backwards, setup=setup, check=lambda: True)

    text = str(caught.value)
    assert "forwards is blocked:" in text
    assert "backwards is blocked:" in text
    assert "with locks[second]:" in text
    locks[0].release()  # so that both threads end


def test_a_blocked_actor_goes_on_after_the_one_that_blocks_it(
    emulator: Emulator, queue: Queue
) -> None:
    lock = threading.Lock()
    done: list[int] = []

    def work() -> None:
        with lock:
            queue.fetch_statistics()
            done.append(1)

    # The first reaches its call with the lock; then the turn is taken from it.
    with suppress(RaceTestError):
        number = race_test(
            emulator,
            work,
            setup=done.clear,
            check=lambda: len(done) == 2,
            copies=2,
            replay="1 2 1 2",
        )
    assert number == 1


def test_an_actor_that_is_busy_is_not_stuck(emulator: Emulator, queue: Queue) -> None:
    """It computes for longer than others wait for it, and nobody else is there."""

    def compute() -> None:
        end = time.thread_time() + 2.5
        while time.thread_time() < end:
            pass
        queue.fetch_statistics()

    with pytest.raises(AssertionError, match="there is only one actor"):
        race_test(emulator, compute, setup=lambda: None, check=lambda: True, clock=False)


def test_a_worker_that_loops_forever_is_stopped(emulator: Emulator, ledger: Ledger) -> None:
    def forever() -> None:
        while True:
            ledger.book_first()

    def polling() -> None:
        while True:
            ledger.book_first()
            time.sleep(10)  # noqa: TID251 - moves the clock

    def reading() -> None:
        while True:
            ledger.book_first()
            ledger.queue.fetch_statistics()

    for worker in (forever, polling, reading):
        number = race_test(
            emulator,
            worker,
            worker,
            setup=ledger.setup,
            check=lambda: bool(ledger.booked),
            schedules=30,
        )
        assert number == 30


def test_a_handler_that_has_leased_in_vain_goes_on(
    emulator: Emulator, queue: Queue, pushed: Queue
) -> None:
    """It does not lease again, so it need not wait until others add something, or for time."""
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


def test_an_actor_has_no_context_of_another(emulator: Emulator, queue: Queue) -> None:
    """It sees what the test has set, and not what libraries keep of the request of the other."""
    current: ContextVar[str] = ContextVar("current", default="nothing")
    current.set("the test")

    def handle() -> None:
        assert current.get() == "the test"
        current.set("a request")
        queue.fetch_statistics()

    assert race_test(emulator, handle, setup=lambda: None, check=lambda: True, copies=2) > 2


def test_a_failure_without_a_race_is_said_to_be_none(emulator: Emulator, pushed: Queue) -> None:
    """Each attempt ends before the next begins; the first line says so, the traceback why."""

    def send(_: PushRequest) -> int:
        raise LookupError("no such\norder")

    def setup() -> None:
        for name in ("one", "two"):
            pushed.add(name=name)

    with pytest.raises(RaceTestError) as caught:
        race_test(emulator, setup=setup, check=lambda: not pushed.exhausted, send=send)

    first, second, *_ = str(caught.value).splitlines()
    assert first.endswith("with the actors one after the other, so their calls do not race")
    assert second == '  1. task "one": begins: POST /_ah/queue/pushed'
    shown = r'task "one": responds: status 500 (LookupError: no such\norder), will retry'
    assert shown in caught.value.schedule
    cause = caught.value.error.__cause__
    assert isinstance(cause, LookupError)
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "send"


def test_a_step_shows_which_names_were_in_use(emulator: Emulator, queue: Queue) -> None:
    def claim() -> None:
        with suppress(NameInUseError):
            queue.add_many([NewTask(name="lock"), NewTask(name="key")])
        queue.purge()

    with pytest.raises(RaceTestError) as caught:
        race_test(emulator, claim, setup=lambda: None, check=lambda: False, copies=2)

    steps = without_places(caught.value.schedule)
    added = [step.partition("work")[2] for step in steps if "add" in step]
    assert added == [
        '" -> "lock", "key"',
        '" -> "lock" TombstonedTaskError, "key" TombstonedTaskError',
    ]


def test_an_endless_actor_is_an_error(emulator: Emulator, queue: Queue) -> None:
    def add() -> None:
        while True:
            queue.add()

    with pytest.raises(RaceTestError, match=r"add has made 20 calls; .* pass a higher max_calls"):
        race_test(emulator, add, setup=lambda: None, check=lambda: True, max_calls=20)


def test_a_sleep_lets_others_go_on(emulator: Emulator, queue: Queue, clock: ManualClock) -> None:
    order: list[str] = []

    def slow() -> None:
        time.sleep(30)  # noqa: TID251 - moves the clock
        order.append("slow")

    async def quick() -> None:
        await asyncio.sleep(10)
        order.append("quick")
        queue.fetch_statistics()

    def check() -> None:
        assert set(order) == {"quick", "slow"}

    def check_without_time() -> None:
        assert order == ["quick", "slow"]

    start = clock.now()
    actors = (slow, quick)
    race_test(
        emulator, *actors, setup=order.clear, check=check_without_time, replay="1 2 0 2x2 0 1"
    )
    assert clock.now() - start == timedelta(seconds=30)
    assert race_test(emulator, *actors, setup=order.clear, check=check) > 5
    # Without time as an actor it moves where all sleep, and not further than the first wakes.
    options: dict[str, Any] = {"clock": False, "preemptions": 0}
    race_test(emulator, *actors, setup=order.clear, check=check_without_time, **options)


def test_a_sleep_of_no_time_lets_others_go_on(emulator: Emulator, queue: Queue) -> None:
    ready = threading.Event()

    def wait() -> None:
        while not ready.is_set():
            time.sleep(0)  # noqa: TID251 - lets others go on

    def get_ready() -> None:
        queue.fetch_statistics()
        ready.set()

    race_test(emulator, wait, get_ready, setup=ready.clear, check=ready.is_set)


def test_all_actors_that_sleep_for_no_time_go_on_before_the_clock_moves(
    emulator: Emulator,
) -> None:
    count = [0]

    def increase() -> None:
        value = count[0]
        time.sleep(0)  # noqa: TID251 - lets others go on
        count[0] = value + 1

    with pytest.raises(RaceTestError) as caught:
        race_test(
            emulator,
            increase,
            setup=lambda: count.__setitem__(0, 0),
            check=lambda: count == [2],
            copies=2,
        )

    assert not any(step.startswith("time:") for step in caught.value.schedule)


def test_nothing_to_run_is_an_error(emulator: Emulator) -> None:
    with pytest.raises(AssertionError) as caught:
        race_test(emulator, send=lambda _: 200, setup=lambda: None, check=lambda: True)

    assert str(caught.value).startswith("race_test: setup left no push task, so there is nothing")


def test_coroutine_functions_are_actors(emulator: Emulator, ledger: Ledger) -> None:
    async def work() -> None:
        await asyncio.to_thread(ledger.book_first)

    with pytest.raises(RaceTestError, match="time: moves 0:01:00"):
        race_test(emulator, work, setup=ledger.setup, check=ledger.check, copies=2)


def test_threads_of_an_actor_make_its_calls(emulator: Emulator, ledger: Ledger) -> None:
    def work() -> None:
        thread = threading.Thread(target=ledger.book_first)
        thread.start()
        thread.join()

    with pytest.raises(RaceTestError) as caught:
        race_test(emulator, work, setup=ledger.setup, check=ledger.check, copies=2)

    assert {step.partition(":")[0] for step in caught.value.schedule} == {
        "work 1",
        "work 2",
        "time",
    }


def test_check_can_fail_as_a_test_of_pytest_does(emulator: Emulator, queue: Queue) -> None:
    """`pytest.fail` raises what is not an `Exception`."""
    done: list[int] = []

    def work() -> None:
        queue.delete_tasks(queue.lease_tasks(60, 1))
        done.append(1)

    def check() -> None:
        if len(done) != 1:
            pytest.fail(f"done {len(done)} times")

    def setup() -> None:
        done.clear()
        queue.add()

    with pytest.raises(RaceTestError, match="Failed: done 2 times"):
        race_test(emulator, work, setup=setup, check=check, copies=2)
    with pytest.raises(CrashTestError, match="Failed: done 0 times"):
        crash_test(emulator, work, setup=setup, check=check)


def test_faults_apply(emulator: Emulator, queue: Queue) -> None:
    def add() -> None:
        queue.add()

    with Faults(emulator) as faults:
        faults.fail("add", times=1)
        with pytest.raises(RaceTestError):
            race_test(emulator, add, setup=lambda: None, check=lambda: True)


# -- push tasks ------------------------------------------------------------------------------------


def test_due_push_tasks_are_actors(emulator: Emulator, pushed: Queue) -> None:
    """Two handlers at the same time lose an update; one after the other they do not."""
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
        'task "one": begins: POST /count',
        'task "two": begins: POST /count   <- preempts task "one"',
        'task "two": fetch_statistics() on queue "pushed"',
        'task "two": responds: status 200, succeeded',
        'task "one": fetch_statistics() on queue "pushed"',
        'task "one": responds: status 200, succeeded',
    )
    assert run(preemptions=0) == 2


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_handlers_of_fastapi_are_called_by_its_client(
    emulator: Emulator, pushed: Queue, kind: str
) -> None:
    """Their calls come from event loops and threads of the client, in the context of the actor."""
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

    assert race_test(emulator, look, setup=setup, check=check, send=send, schedules=100) == 100


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

    assert race_test(emulator, lease, setup=setup, check=check, send=send, clock=False) > 5


def test_a_handler_can_miss_its_deadline(emulator: Emulator, pushed: Queue) -> None:
    """Its task is retried while it still runs, as in production."""
    seen: list[int] = []

    def send(request: PushRequest) -> int:
        seen.append(request.attempt)
        pushed.fetch_statistics()
        return 200

    def setup() -> None:
        seen.clear()
        pushed.add(name="one")

    def run(**options: Any) -> int:
        return race_test(
            emulator,
            setup=setup,
            check=lambda: seen == [1],
            send=send,
            **options,
        )

    with pytest.raises(RaceTestError) as caught:
        run()
    text = "\n".join(caught.value.schedule)
    assert 'time: ends task "one": no response within 600 s, will retry' in text
    assert 'task "one": responds after its deadline' in text
    assert str(caught.value).endswith("clock=False leaves out that a handler passes its deadline")
    with pytest.raises(AssertionError, match="there is only one actor"):
        run(clock=False)


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


# -- clients of a server ---------------------------------------------------------------------------


def test_a_client_of_a_server_is_stopped_at_its_calls(emulator: Emulator, ledger: Ledger) -> None:
    path = "/taskqueue/v1beta2/projects/p/taskqueues/work/tasks"
    with Server(emulator) as server:

        def work() -> None:
            with requests.Session() as session:
                url = server.url + path
                lease = session.post(f"{url}/lease?leaseSecs=60&numTasks=1", timeout=30).json()
                for task in lease.get("items", ()):
                    ledger.booked.append(task["id"])
                    session.delete(f"{url}/{task['id']}", timeout=30)

        with pytest.raises(RaceTestError) as caught:
            race_test(emulator, work, setup=ledger.setup, check=ledger.check, copies=2)

    steps = caught.value.schedule
    assert {step.partition(":")[0] for step in steps} == {"work 1", "work 2", "time"}
    lease = f'lease_tasks(60, 1) on queue "work" {place(work, "session.post")}'
    assert any(lease in step for step in steps)


def test_four_clients_of_the_fixtures_server_can_be_stopped_at_once(emulator: Emulator) -> None:
    """Each holds a thread of the server while it waits for its turn."""
    path = "/taskqueue/v1beta2/projects/p/taskqueues/work/tasks"
    with live_server(emulator) as server:

        def look() -> None:
            requests.get(server.url + path, timeout=30)

        def run() -> int:
            return race_test(
                emulator,
                look,
                setup=lambda: None,
                check=lambda: True,
                copies=4,
                preemptions=8,
                schedules=50,
            )

        assert run() == 50


def test_a_replay_that_ends_before_the_schedule_is_refused(
    emulator: Emulator, queue: Queue
) -> None:
    """The first run has more calls, since what they keep is not there yet."""

    def look() -> None:
        for _ in range(3):
            queue.fetch_statistics()

    with pytest.raises(ValueError, match=r"^replay does not fit: it has 6 choices, and the sched"):
        race_test(
            emulator, look, setup=lambda: None, check=lambda: True, copies=2, replay="1x3 2x3"
        )


def test_a_long_replay_is_shown_whole(emulator: Emulator, queue: Queue) -> None:
    def look() -> None:
        for _ in range(60):
            queue.fetch_statistics()

    replay = " ".join(["1", "2"] * 61)
    with pytest.raises(RaceTestError) as caught:
        race_test(emulator, look, setup=lambda: None, check=lambda: False, copies=2, replay=replay)

    assert caught.value.replay == replay
    assert f'replay="{replay}"' in str(caught.value)
    assert "  ... 22 more steps" in str(caught.value).splitlines()


RACE = """\
from pullqueue import NewTask
from pullqueue.testing import emulation, race_test

with emulation(queues=["work", {"name": "pushed", "mode": "push", "rate": "5/s"}]) as emulated:
    queues = [emulated.emulator.queue(name) for name in ("work", "pushed")]

    def setup():
        for queue in queues:
            queue.add_many([NewTask(), NewTask()])

    def worker():
        for task in queues[0].lease_tasks(60, 1):
            queues[0].fetch_statistics()
            queues[0].delete_tasks(task)

    def send(request):
        queues[0].add(request.task_name.encode())
        return 200

    def check():
        print([str(event) for queue in queues for event in queue.events()])

    actors = {"copies": 2, "send": send}
    race_test(emulated.emulator, worker, **actors, setup=setup, check=check, schedules=40, seed=7)
"""


def test_the_schedules_are_the_same_in_each_process() -> None:
    """Nothing depends on the order of a set."""
    first, second = (
        completed([sys.executable, "-c", RACE], env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    )

    assert first.count("\n") == 40
    assert first == second


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"actors": ()}, TypeError, "there is no actor: pass functions without arguments"),
        ({"actors": ("work",)}, TypeError, '"work" cannot be called without arguments: pass a'),
        ({"copies": 0}, ValueError, "copies is 0: use a whole number, 1 or more"),
        ({"schedules": True}, ValueError, "schedules is True: use a whole number, 1 or more"),
        ({"preemptions": -1}, ValueError, "preemptions is -1: use a whole number, 0 or more"),
        ({"clock": 1}, TypeError, "clock is 1: use True or False"),
        ({"services": None}, TypeError, "services is None: use True or False"),
        ({"seed": "x"}, ValueError, 'seed is "x": use a whole number, 0 or more'),
        (
            {"queues": ["pushed"]},
            TypeError,
            "queues are those whose push tasks are sent",
        ),
        ({"replay": 5}, TypeError, "replay is 5: pass the text that a RaceTestError shows"),
        ({"replay": "1x2 b"}, ValueError, 'replay is "1x2 b": pass the text that a RaceTest'),
        ({"replay": "1x9999999"}, ValueError, 'replay is "1x9999999": pass the text that'),
        ({"replay": "7"}, ValueError, "replay does not fit: its choice 1 is 7, but only 1 can go"),
    ],
)
def test_arguments_that_are_refused(
    emulator: Emulator, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    actors = options.pop("actors", (emulator.queue("work").purge,))
    with pytest.raises(error) as caught:
        race_test(emulator, *actors, setup=lambda: None, check=lambda: True, **options)
    assert str(caught.value).startswith(message)


def test_a_race_of_one_is_refused(emulator: Emulator, queue: Queue) -> None:
    """There is one schedule only, so that it would always pass."""

    def race(*actors: Callable[[], object], **options: Any) -> int:
        return race_test(
            emulator, *actors, setup=lambda: None, check=lambda: True, clock=False, **options
        )

    with pytest.raises(AssertionError, match=r"only one actor, .*: pass two actors, or copies=2"):
        race(queue.purge)
    assert race(queue.purge, copies=2) > 1


def test_a_race_in_which_nobody_can_be_stopped_is_refused(emulator: Emulator) -> None:
    """What two functions do to a database of their own is not seen; a sleep is."""

    def race(actor: Callable[[], object]) -> int:
        return race_test(emulator, actor, copies=2, setup=lambda: None, check=lambda: True)

    with pytest.raises(AssertionError, match=r"^race_test: no actor makes a call .*\.point\(\)"):
        race(lambda: None)
    assert race(lambda: time.sleep(1)) > 2  # noqa: TID251 - moves the clock


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


def test_an_actor_that_calls_run_tasks_is_refused(emulator: Emulator, pushed: Queue) -> None:
    def run() -> None:
        run_tasks(emulator, send=lambda _: 200)

    with pytest.raises(TypeError, match=r"run calls run_tasks, .* pass the app to race_test"):
        race_test(emulator, run, setup=pushed.add, check=lambda: True)


def test_a_task_without_an_app_is_refused(emulator: Emulator, pushed: Queue) -> None:
    with pytest.raises(ValueError, match=r"there is no app for tasks without a target"):
        race_test(emulator, setup=pushed.add, check=lambda: True, app={"other": Flask("x")})


def test_functions_that_do_nothing_when_they_are_called(emulator: Emulator) -> None:
    def lazy() -> Iterator[int]:
        yield 1

    async def wait() -> None:
        """Do nothing."""

    with pytest.raises(TypeError, match=r"the setup returned .* was not awaited"):
        race_test(emulator, lambda: None, setup=wait, check=lambda: True)
    with pytest.raises(RaceTestError, match=r"the lazy returned .* was not iterated"):
        race_test(emulator, lazy, setup=lambda: None, check=lambda: True)
