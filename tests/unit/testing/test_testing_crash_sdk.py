"""Handlers that use App Engine's SDK: killed at its calls, and what a test sees of them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from functions import Run, adding, handling, in_turn
from google.appengine.api import datastore_errors
from places import place, without_places
from sdk_calls import deferred, ndb, sdk_testbed

from pullqueue import Emulator, PullQueueError, Queue
from pullqueue.push.request import PushRequest
from pullqueue.sdk.imports import taskqueue
from pullqueue.tasks import HttpRequest
from pullqueue.testing import Crash, CrashTestError, drain, run_task, run_tasks

pytestmark = pytest.mark.slow


class Account(ndb.Model):  # type: ignore[misc] # the SDK is not typed
    value = ndb.IntegerProperty(default=0)


@pytest.fixture
def pushed(emulator: Emulator) -> Iterator[Queue]:
    with sdk_testbed(emulator):
        yield emulator.queue("pushed")


class App:
    def __init__(self, pushed: Queue) -> None:
        self.pushed = pushed

    def setup(self) -> None:
        for kind in ("charge", "shipment"):
            ndb.Key(Account, kind).delete()
        self.pushed.add(name="order", request=HttpRequest("/charge"))

    def charge_wrongly(self) -> None:
        """Lose the order where it dies between the put and the add."""
        if ndb.Key(Account, "charge").get() is None:
            Account(id="charge").put()
            taskqueue.add(url="/ship", queue_name="pushed")

    @ndb.transactional  # type: ignore[untyped-decorator]
    def charge(self) -> None:
        if ndb.Key(Account, "charge").get() is None:
            Account(id="charge").put()
            taskqueue.add(url="/ship", queue_name="pushed", transactional=True)

    def check(self) -> None:
        assert ndb.Key(Account, "charge").get() is not None
        assert ndb.Key(Account, "shipment").get() is not None

    def sending(self, charge: Callable[[], object]) -> Callable[[PushRequest], int]:
        def send(request: PushRequest) -> int:
            if request.url == "/ship":
                Account(id="shipment").put()
            else:
                charge()
            return 200

        return send


@pytest.fixture
def app(pushed: Queue) -> App:
    return App(pushed)


def test_a_put_without_its_task_is_found(crash: Run, app: App) -> None:
    with pytest.raises(CrashTestError) as caught:
        crash(setup=app.setup, check=app.check, send=app.sending(app.charge_wrongly))

    found = [(f.crash, f.calls[-1]) for f in caught.value.failures]
    put = f"datastore_v3.Put 1 entity of kind Account {place(app.charge_wrongly, '.put()')}"
    add = f'add(["/ship"]) on queue "pushed" {place(app.charge_wrongly, "taskqueue.add")}'
    assert {(Crash.AFTER, put), (Crash.BEFORE, add)} <= {*found}
    assert {crash for crash, _ in found} == {Crash.AFTER, Crash.BEFORE}


def test_a_transaction_and_its_tasks_are_atomic(crash: Run, app: App) -> None:
    """Its task is retried, so errors of reads and writes, and lost answers, change nothing."""
    send = app.sending(app.charge)
    crashes = crash(setup=app.setup, check=app.check, send=send, errors=True)
    assert crashes > 30  # without errors there are 23
    assert "errors" not in str(crashes)


def test_a_later_handler_does_not_continue_the_tasklets_of_a_dead_one(
    crash: Run, pushed: Queue
) -> None:
    seen = []

    @ndb.tasklet  # type: ignore[untyped-decorator]
    def count(name: str) -> Any:
        account = yield ndb.Key(Account, name).get_async()
        account.value += 1
        yield account.put_async()

    def send(_: PushRequest) -> int:
        seen.append(ndb.get_context())
        pending = [count(name) for name in "ab"]
        for each in pending:
            each.check_success()
        return 200

    setup = in_turn(
        lambda: ndb.put_multi([Account(id=name) for name in "ab"]), seen.clear, pushed.add
    )

    def check() -> None:
        values = [ndb.Key(Account, name).get().value for name in "ab"]
        assert all(1 <= value <= 2 for value in values)
        assert len({id(context) for context in seen}) == len(seen)

    with pytest.raises(CrashTestError) as caught:
        crash(setup=setup, check=check, send=send)

    # Where only its response is lost, the instance lives, and has the context of the thread.
    assert [failure.crash for failure in caught.value.failures] == [Crash.RESPONSE_LOST]


# Of the SDK; `pytest.warns` passes it on without the module that pyproject.toml ignores it for.
@pytest.mark.filterwarnings(r"ignore:the \(type, exc, tb\) signature of throw:DeprecationWarning")
@pytest.mark.parametrize("is_delete", [False, True])
def test_what_a_handler_does_not_await_ends_with_its_request(
    crash: Run, run: Run, pushed: Queue, *, is_delete: bool
) -> None:
    """Nor do later requests, or `check`, carry it out."""
    begun: list[Any] = []

    def setup() -> None:
        ndb.Key(Account, "old").delete()
        begun.append(Account(id="old").put_async())
        pushed.add(name="order", request=HttpRequest("/charge"))

    def send(request: PushRequest) -> int:
        ndb.Key(Account, "other").get()
        ndb.Key(Account, "old").delete_async() if is_delete else Account(id="new").put_async()
        return 200

    def check() -> None:
        ndb.Key(Account, "other").get()
        found = {account.key.id() for account in Account.query()}
        assert found == (set() if is_delete else {"old", "new"})

    what = 'task "order" of queue "pushed" (/charge): its handler did not await all that it writes'
    ndb.get_context().set_cache_policy(lambda key: key.id() != "other")
    policy = ndb.get_context().get_cache_policy()
    setup()
    with pytest.warns(UserWarning, match=re.escape(what)):
        run(send=send)
    assert begun[0].done()  # what the test has begun is carried out
    assert ndb.Key(Account, "old").get() is not None
    assert ndb.get_context().get_cache_policy() is policy
    with pytest.warns(UserWarning, match=re.escape(what)), pytest.raises(AssertionError):
        crash(setup=setup, check=check, send=send)


def test_toplevel_awaits_what_a_handler_writes(
    crash: Run, pushed: Queue, recwarn: pytest.WarningsRecorder
) -> None:
    @ndb.toplevel  # type: ignore[untyped-decorator]
    def send(_: PushRequest) -> int:
        Account(id="new").put_async()
        return 200

    setup = in_turn(lambda: ndb.Key(Account, "new").delete(), pushed.add)

    check = lambda: bool(ndb.Key(Account, "new").get())  # noqa: E731
    assert crash(setup=setup, check=check, send=send) > 3
    assert not recwarn


def test_a_tasklet_that_is_named_like_a_write_can_be_left(
    run: Run, pushed: Queue, recwarn: pytest.WarningsRecorder
) -> None:
    @ndb.tasklet  # type: ignore[untyped-decorator]
    def put() -> Any:
        yield ndb.Key(Account, "old").get_async()

    pushed.add()
    run(send=lambda _: 200 if put() else 500)
    assert not recwarn


def test_a_tasklet_of_the_test_can_run_tasks(run: Run, pushed: Queue) -> None:
    """Beside it, what handlers do not await is left."""
    pushed.add()

    @ndb.toplevel  # type: ignore[untyped-decorator]
    def flow() -> Any:
        yield Account(id="old").put_async()
        begun = ndb.Key(Account, "old").get_async()
        run(send=lambda _: 200 if Account(id="new").put_async() else 500)
        raise ndb.Return((yield begun))

    assert flow().key.id() == "old"


@pytest.mark.parametrize("is_left", [True, False])
def test_a_thread_of_a_pool_goes_on_after_the_handler_was_killed_in_it(
    crash: Run, app: App, *, is_left: bool
) -> None:
    """What it does is after the response unless the handler waits for it, and not for a call."""

    def charge() -> None:
        charging = pool.submit(app.charge)
        Account(id="beside").put()
        if not is_left:
            charging.result()

    run = partial(crash, setup=app.setup, check=app.check, send=app.sending(charge))
    with ThreadPoolExecutor(1) as pool:
        if not is_left:
            assert run().is_complete
            return
        with pytest.raises(CrashTestError) as caught:
            run()
    failures = caught.value.failures
    assert len(failures) > 10
    assert {each.calls[-1].rpartition(", ")[2] for each in failures} == {"after the response"}


def test_a_handler_begins_without_a_cache(crash: Run, app: App) -> None:
    """What setup has put is read from the datastore, as in a request of its own."""
    without_crash = [True]
    send = handling(app.charge_wrongly)

    def check() -> bool:
        return bool(without_crash and without_crash.pop())

    with pytest.raises(CrashTestError) as caught:
        crash(setup=in_turn(app.setup, lambda: Account(id="charge").put()), check=check, send=send)

    calls = without_places(caught.value.failures[-1].calls)
    assert "datastore_v3.Get 1 key of kind Account" in calls


def test_a_commit_and_its_tasks_are_one_call_to_crash_at(
    crash: Run, queue: Queue, pushed: Queue
) -> None:
    @ndb.transactional  # type: ignore[untyped-decorator]
    def change(name: str) -> None:
        Account(id=name).put()
        taskqueue.add(url="/mail", queue_name="pushed", transactional=True)

    def work() -> None:
        for task in taskqueue.Queue("work").lease_tasks(60, 1):
            if ndb.Key(Account, task.name).get() is None:
                change(task.name)
            taskqueue.Queue("work").delete_tasks(task)

    setup = in_turn(lambda: ndb.Key(Account, "one").delete(), adding(queue, "one"))

    run = partial(crash, work, setup=setup, check=lambda: len(pushed.list_tasks(10)) == 1)
    crashes, only_queues = run(), run(services=False)

    assert crashes > only_queues == 9  # lease, transactional add and delete, in three ways
    assert pushed.list_tasks(10)


def test_deferred_calls_are_killed(crash: Run, queue: Queue, pushed: Queue) -> None:
    with pytest.raises(CrashTestError) as caught:
        crash(
            setup=lambda: deferred.defer(keep, "one", _queue="pushed"),
            check=lambda: len(queue.list_tasks(10)) == 1,
            deferred=True,
        )

    crashes = [failure.crash for failure in caught.value.failures]
    assert crashes == [Crash.AFTER, Crash.ANSWER_LOST, Crash.RESPONSE_LOST]
    actor = caught.value.failures[0].actor
    assert pushed.name in actor
    assert f"(POST /_ah/queue/deferred {keep.__module__}.keep(str))" in actor


def keep(payload: str) -> None:
    taskqueue.Queue("work").add(taskqueue.Task(payload=payload, method="PULL"))


def test_an_error_of_a_service_that_a_handler_ignores_is_found(crash: Run, pushed: Queue) -> None:
    key = ndb.Key(Account, "one")

    def ignore() -> None:
        with contextlib.suppress(datastore_errors.Timeout):
            Account(key=key).put()

    setup = in_turn(key.delete, pushed.add)
    run = partial(crash, send=handling(ignore), setup=setup, check=lambda: bool(key.get()))
    before = run()

    with pytest.raises(CrashTestError) as caught:
        run(errors=True)

    (failure,) = caught.value.failures
    assert failure.crash is Crash.ERROR
    put = "datastore_v3.Put 1 entity of kind Account"
    assert failure.title.startswith("error of call ")
    assert without_places(failure.calls)[-1] == put
    assert int(str(caught.value).split(" of ")[1].split()[0]) > before


def test_an_error_of_a_queue_that_a_worker_ignores_is_found(crash: Run, queue: Queue) -> None:
    def work() -> None:
        for task in queue.lease_tasks(60, 1):
            if task.name == "one":
                with contextlib.suppress(PullQueueError):
                    queue.add(name="two")
            queue.delete_tasks(task)

    def check() -> None:
        assert {event.task_name for event in queue.events()} == {"one", "two"}

    run = partial(crash, work, setup=adding(queue, "one"), check=check)
    run()
    with pytest.raises(CrashTestError) as caught:
        run(errors=True)
    assert {failure.crash for failure in caught.value.failures} == {Crash.ERROR}


@pytest.mark.parametrize("in_thread", [True, False])
@pytest.mark.parametrize("run", [run_tasks, run_task, drain])
def test_the_test_sees_what_a_handler_has_put(
    emulator: Emulator, pushed: Queue, run: Any, *, in_thread: bool
) -> None:
    """Also if its client runs the handler in another thread, and ndb has cached the entity here."""

    def pay() -> None:
        account = Account.get_by_id("1")
        account.value = 7
        account.put()

    def send(_: PushRequest) -> int:
        if in_thread:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(pay).result()
        else:
            pay()
        return 200

    Account(id="1").put()
    task = pushed.add(name="one")
    arguments: dict[Any, list[Any]] = {run_task: [task], drain: [lambda: None]}

    run(emulator, *arguments.get(run, []), send=send)

    assert Account.get_by_id("1").value == 7
