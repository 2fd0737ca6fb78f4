"""Handlers that use ndb, run against each other: updates that are lost, and kept."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from functions import Run, adding, handling, in_turn
from places import place, without_places
from sdk_calls import default_api_stub, deferred, memcache, ndb, sdk_testbed

from pullqueue import Emulator, Queue
from pullqueue.push.request import PushRequest
from pullqueue.sdk import install
from pullqueue.sdk.imports import apiproxy_stub_map, taskqueue
from pullqueue.tasks import HttpRequest
from pullqueue.testing import Faults, RaceResult, RaceTestError
from pullqueue.testing.exploration import search

pytestmark = pytest.mark.slow


class Counter(ndb.Model):  # type: ignore[misc] # the SDK is not typed
    visits = ndb.IntegerProperty(default=0)


@pytest.fixture
def pushed(emulator: Emulator) -> Iterator[Queue]:
    with sdk_testbed(emulator):
        yield emulator.queue("pushed")


def visit() -> None:
    counter = ndb.Key(Counter, "all").get()
    counter.visits += 1
    counter.put()


@ndb.tasklet  # type: ignore[untyped-decorator]
def visit_in_tasklet() -> Any:
    counter = yield ndb.Key(Counter, "all").get_async()
    counter.visits += 1
    yield counter.put_async()


def check_visits() -> None:
    assert ndb.Key(Counter, "all").get().visits == 2


@pytest.fixture
def race_two(race: Run, pushed: Queue) -> Run:
    """A race of two handlers that count."""
    setup = in_turn(lambda: Counter(id="all").put(), adding(pushed, "one", "two"))

    def run(count: Callable[[], object], **options: Any) -> RaceResult:
        options = {"clock": False, "seconds": math.inf, "preemptions": 1, **options}
        result: RaceResult = race(setup=setup, check=check_visits, send=handling(count), **options)
        return result

    return run


@pytest.mark.parametrize("count", [visit, lambda: visit_in_tasklet().get_result()])
def test_a_lost_update_is_found_with_one_preemption(
    race_two: Run, pushed: Queue, count: Callable[[], object]
) -> None:
    """Calls to memcache from one line are one line of the report, and steps with numbers."""
    assert race_two(count, preemptions=0) == 2
    with pytest.raises(RaceTestError, match="assert 1 == 2") as caught:
        race_two(count)

    steps = caught.value.schedule
    assert sum("preempts" in step for step in steps) == 1
    put = "datastore_v3.Put 1 entity of kind Counter"
    assert any(step.endswith(put) for step in without_places(steps))
    assert len(pushed.list_tasks(10)) == 0
    if count is visit:
        looks = place(visit, "get()")
        (line,) = (line for line in str(caught.value).splitlines() if "memcache: " in line)
        assert line == f'  2-3. task "one": memcache: Set, Get {looks}'
        assert steps[1] == f'task "one": memcache.Set 1 key {looks}'


def test_an_update_in_a_transaction_is_kept(race_two: Run) -> None:
    result = race_two(ndb.transactional(visit))

    assert result.is_complete
    assert result > 4


def test_all_orders_of_a_handler_are_run_with_the_defaults(race: Run, pushed: Queue) -> None:
    """A retry overlaps the first attempt wherever that matters, and nowhere else."""

    @ndb.transactional  # type: ignore[untyped-decorator]
    def charge() -> None:
        counter = ndb.Key(Counter, "all").get()
        if not counter.visits:
            counter.visits = 1
            counter.put()
            taskqueue.add(queue_name="pushed", url="/ship", transactional=True)

    def send(request: PushRequest) -> int:
        if request.url == "/charge":
            charge()
        return 200

    add = adding(pushed, "order", request=HttpRequest("/charge"))
    setup = in_turn(lambda: Counter(id="all").put(), add)
    check = lambda: ndb.Key(Counter, "all").get().visits == 1  # noqa: E731
    result = race(setup=setup, check=check, send=send)
    assert result.is_complete
    assert 10 < result < 30


def test_services_can_be_left_out(race_two: Run) -> None:
    with pytest.raises(AssertionError, match="no actor makes a call to a queue or a service"):
        race_two(visit, services=False)


@pytest.mark.usefixtures("pushed")
def test_a_worker_that_polls_and_calls_a_service_is_stopped(race: Run, queue: Queue) -> None:
    done: list[str] = []

    def worker() -> None:
        while True:
            for task in queue.lease_tasks(60, 1):
                queue.delete_tasks(task)
                done.append(task.name)
            ndb.Key(Counter, "all").get()

    setup = in_turn(done.clear, adding(queue, "one"))
    check = lambda: done == ["one"]  # noqa: E731
    race(worker, copies=2, setup=setup, check=check, clock=False, preemptions=0)


def test_a_replay_fits_where_setup_deletes_what_random_numbers_chose(
    race: Run, pushed: Queue
) -> None:
    """ndb leaves locks in memcache for entities that it deletes: other ones after other runs."""

    def delete_all() -> None:
        ndb.delete_multi(Counter.query().fetch(keys_only=True))

    def visit_a_shard() -> None:
        shard = str(random.randrange(3))  # noqa: S311 - chance of the app
        counter = Counter.get_by_id(shard) or Counter(id=shard)
        counter.visits += 1
        counter.put()

    def check() -> None:
        assert sum(counter.visits for counter in Counter.query()) == 2

    setup = in_turn(delete_all, adding(pushed, "one", "two"))
    run = partial(race, setup=setup, check=check, send=handling(visit_a_shard), clock=False)
    with pytest.raises(RaceTestError, match="assert 1 == 2") as found:
        run(seconds=math.inf, preemptions=1)
    for _ in range(3):
        with pytest.raises(RaceTestError, match="assert 1 == 2"):
            run(replay=found.value.replay)


@pytest.mark.parametrize("services", [True, False])
def test_memcache_is_empty_at_the_beginning_of_each_schedule(
    race: Run, pushed: Queue, *, services: bool
) -> None:
    send = handling(pushed.fetch_statistics, lambda: memcache.incr("visits", initial_value=0))
    options: Any = {"setup": adding(pushed, "one", "two"), "send": send, "services": services}
    memcache.set("visits", 7)
    check = lambda: memcache.get("visits") == 2  # noqa: E731
    assert race(**options, check=check, clock=False, schedules=5) > 1


def test_faults_do_not_trigger_where_memcache_is_emptied(
    race: Run, emulator: Emulator, pushed: Queue
) -> None:
    with Faults(emulator) as faults:
        unused = [faults.fail(f"memcache.{method}") for method in ("Delete", "FlushAll")]
        options: Any = {"setup": lambda: memcache.set("a", 1), "check": lambda: None}
        race(lambda: memcache.get("a"), pushed.fetch_statistics, **options)

    assert [fault.calls for fault in unused] == [0, 0]


def test_memcache_without_a_stub_is_left_alone(
    race: Run, emulator: Emulator, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a test has no testbed: the SDK then asks App Engine's own services."""
    stubs = apiproxy_stub_map.APIProxyStubMap(default_api_stub.DefaultApiStub())
    monkeypatch.setattr(apiproxy_stub_map, "apiproxy", stubs)
    with install(emulator):
        assert race(queue.purge, copies=2, setup=queue.add) > 1


@pytest.mark.usefixtures("pushed")
def test_a_step_shows_which_error_a_service_has_returned(race: Run) -> None:
    runs: list[None] = []
    setup = in_turn(runs.clear, lambda: Counter(id="all").put())

    @ndb.transactional  # type: ignore[untyped-decorator]
    def count() -> None:
        runs.append(None)
        visit()

    options: Any = {"copies": 2, "clock": False, "preemptions": 1}
    with pytest.raises(RaceTestError) as caught:
        race(count, setup=setup, check=lambda: len(runs) == 2, **options)

    failed = [step for step in caught.value.schedule if "raises" in step]
    assert failed == ["count 1: datastore_v3.Commit raises ApplicationError"]


def look() -> None:
    taskqueue.Queue("work").fetch_statistics()


def test_deferred_functions_that_do_not_conflict_need_one_order(race: Run, pushed: Queue) -> None:
    """Also with the environment variables that each of them gets."""

    def setup() -> None:
        for _ in range(2):
            deferred.defer(look, _queue=pushed.name)

    assert str(race(setup=setup, deferred=True, clock=False)).startswith("all 1 order that")


def test_deferred_functions_are_actors(race: Run, pushed: Queue) -> None:
    def setup() -> None:
        Counter(id="all").put()
        for _ in range(2):
            deferred.defer(visit, _queue=pushed.name)

    options: Any = {"clock": False, "preemptions": 1}
    with pytest.raises(RaceTestError, match="assert 1 == 2"):
        race(setup=setup, check=check_visits, deferred=True, **options)


def test_a_deadline_does_not_hide_a_lost_update(
    race_two: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that counts twice when it is retried fails in another way, and after that."""
    monkeypatch.setattr(search, "_MORE", 10)
    with pytest.raises(RaceTestError) as caught:
        race_two(visit, clock=True, seconds=60, preemptions=2)

    lost, counted_twice = caught.value.failures
    assert "assert 1 == 2" in str(lost.error)
    assert not any(step.startswith("time:") for step in lost.schedule)
    assert "assert 3 == 2" in str(counted_twice.error)
    text = str(caught.value)
    assert f"others fail in other ways:\nschedule {counted_twice.number}: AssertionError: " in text
    assert any(line.lstrip(" 0123456789.").startswith("time: moves") for line in text.splitlines())
    assert f'repeat it with race_test(..., replay="{counted_twice.replay}")' in text
