"""Killing the handlers of push tasks at each of their calls, and losing their responses."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
from functions import KINDS, Run, Work, handling, in_turn, sending_to
from sdk_calls import ndb, sdk_testbed

from pullqueue import Emulator, Queue
from pullqueue.engine.interceptors import QueueCall
from pullqueue.errors import DeadlineExceededError, InvalidQueueModeError, TransientError
from pullqueue.push.request import PushRequest
from pullqueue.server.lifecycle import Server
from pullqueue.tasks import HttpRequest, NameInUseError
from pullqueue.testing import (
    Crash,
    CrashTestError,
    Faults,
    assert_empty,
    drain,
    drain_async,
    run_tasks,
)

pytestmark = pytest.mark.slow


class Shop:
    def __init__(self, pushed: Queue) -> None:
        self.pushed = pushed
        self.charged: set[bytes] = set()
        self.shipped: set[bytes] = set()

    def setup(self) -> None:
        self.charged.clear()
        self.shipped.clear()
        self.pushed.add("1", name="order-1", request=HttpRequest("/charge"))

    def charge_wrongly(self, order: bytes) -> None:
        """Lose the order where it dies between the two."""
        if order in self.charged:
            return
        self.charged.add(order)
        self.pushed.add(order, request=HttpRequest("/ship"))

    def charge(self, order: bytes) -> None:
        self.charged.add(order)
        with suppress(NameInUseError):
            self.pushed.add(order, name="ship-1", request=HttpRequest("/ship"))

    def ship(self, order: bytes) -> None:
        self.shipped.add(order)

    def check(self) -> None:
        assert self.shipped == self.charged == {b"1"}


@pytest.fixture
def shop(pushed: Queue) -> Shop:
    return Shop(pushed)


Charge = Callable[[bytes], None]
MakeApp = Callable[[Shop, Charge], dict[str, Any]]
"""Returns the arguments that say where tasks are sent."""


@pytest.fixture(params=[*KINDS, "flask, careless"])
def make_app(request: pytest.FixtureRequest) -> Iterator[MakeApp]:
    """Make an app; a careless one responds to every request with success."""
    kind = request.param.removesuffix(", careless")
    with ExitStack() as stack:

        def make(shop: Shop, charge: Charge) -> dict[str, Any]:
            step = lambda path: (charge if path == "charge" else shop.ship)(b"1")  # noqa: E731
            where = stack.enter_context(sending_to(kind, step))
            if kind != request.param:
                where["app"].wsgi_app = catching_everything(where["app"].wsgi_app)
            return where

        yield make


def catching_everything(app: Any) -> Any:
    def catching(environ: Any, start_response: Any) -> Any:
        try:
            return list(app(environ, start_response))
        except BaseException:  # noqa: BLE001
            start_response("200 OK", [])
            return []

    return catching


def test_a_handler_survives_each_crash(crash: Run, shop: Shop, make_app: MakeApp) -> None:
    where = make_app(shop, shop.charge)

    # One add, in three ways, and the responses of two attempts.
    assert crash(setup=shop.setup, check=shop.check, **where) == 5


def test_a_handler_that_loses_an_order_is_found(crash: Run, shop: Shop, make_app: MakeApp) -> None:
    where = make_app(shop, shop.charge_wrongly)

    with pytest.raises(CrashTestError) as caught:
        crash(setup=shop.setup, check=shop.check, **where)

    (failure,) = caught.value.failures
    assert (failure.crash, failure.call_number) == (Crash.BEFORE, 1)
    lines = str(caught.value).splitlines()
    attempt = 'attempt 1 of task "order-1" of queue "pushed" (POST /charge)'
    call = failure.calls[0]
    assert call.startswith("add(")
    assert lines[:5] == [
        "crash_test: 1 of 5 crashes leads to a wrong state",
        "",
        f"killed before call 1, {call}, in {attempt}:",
        "  calls until then:",
        f"    1. {call}",
    ]
    assert lines[5].startswith("  AssertionError: assert")
    assert "attempt failed (no response) until" in str(caught.value)


def test_the_response_of_every_attempt_is_lost_once(crash: Run, pushed: Queue) -> None:
    statuses: list[int] = []
    runs: list[int] = []

    def send(_: PushRequest) -> int:
        runs[-1] += 1
        return statuses.pop()

    def setup() -> None:
        statuses[:] = [200, 200, 503, 503]
        runs.append(0)
        pushed.add(name="mail")

    # The task fails twice; each of the three attempts can lose its response.
    with pytest.raises(CrashTestError) as caught:
        crash(setup=setup, check=lambda: runs[-1] == 3, send=send)

    assert runs == [3, 3, 3, 4]
    (failure,) = caught.value.failures
    assert failure.crash is Crash.RESPONSE_LOST
    assert str(failure).splitlines()[:3] == [
        'response lost, in attempt 3 of task "mail" of queue "pushed" (POST /_ah/queue/pushed):',
        "  it has made no calls",
        "  AssertionError: check returned False",
    ]


class Dying:
    def __init__(self, queue: Queue, file: Path) -> None:
        self.queue = queue
        self.file = file
        self.threads: list[threading.Thread] = []

    def change(self) -> None:
        try:
            self.file.touch()
        finally:
            self.queue.add("from the dead")

    def call(self) -> None:
        """Reach a point; the handler lives where only the answer is lost."""
        with suppress(DeadlineExceededError):
            self.queue.purge()

    def excepting(self) -> None:
        try:
            self.call()
        except BaseException:  # noqa: BLE001
            self.change()

    def generating(self) -> None:
        def lines() -> Iterator[int]:
            alive = False
            try:
                yield 1
                alive = True
            finally:
                if not alive:
                    self.change()

        generator = lines()
        cycle: list[object] = [generator]
        cycle.append(cycle)
        next(generator)
        cycle += ([] for _ in range(20_000))  # after so many the garbage collector runs
        self.call()
        list(generator)

    def threading(self) -> None:
        died = threading.Event()
        ended = threading.Lock()  # unlike an event, for which the threads of the dead do not wait

        def wait() -> None:
            with ended:
                pass
            if died.is_set():
                self.change()

        self.threads.append(threading.Thread(target=wait))
        with ended:
            self.threads[-1].start()
            try:
                self.call()
            except BaseException:
                died.set()
                raise

    def persisting(self) -> None:
        for _ in range(3):
            with suppress(BaseException):
                self.call()
                return
            with suppress(BaseException):
                self.change()


@pytest.mark.parametrize("how", ["excepting", "generating", "threading", "persisting"])
def test_a_dead_handler_changes_nothing(
    crash: Run, queue: Queue, pushed: Queue, tmp_path: Path, how: str
) -> None:
    dying = Dying(queue, tmp_path / "from the dead")

    def check() -> bool:
        for thread in dying.threads:
            thread.join()
        if how == "generating":
            gc.collect(1)  # closes generators that are left
        return not queue.list_tasks(10) and not dying.file.exists()

    assert crash(setup=pushed.add, check=check, send=handling(getattr(dying, how))) == 4


def test_what_handlers_log_is_shown_where_the_run_fails(
    crash: Run,
    queue: Queue,
    pushed: Queue,
    add_handler: Callable[[logging.Handler], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each cause, by the attempt that was hit and the last one, and nothing of the dead: a
    framework logs each exception, also that by which they end.
    """
    logger = logging.getLogger("shop")
    add_handler(logging.StreamHandler(sys.stderr))
    begun: list[None] = []
    failures = 0
    setup = in_turn(begun.clear, pushed.add)

    def handle(_: PushRequest) -> int:
        begun.append(None)
        logger.error("begins")
        try:
            queue.add()
        except DeadlineExceededError:
            logger.exception("the answer was lost")
        except BaseException:
            logger.exception("dead")
            raise
        if 1 < len(begun) <= 1 + failures:
            logger.error("fails for the %d. time", len(begun) - 1)
            raise LookupError("no such order")
        return 200

    assert crash(send=handle, setup=setup) == 4
    assert capsys.readouterr().err == "begins\n"  # in the run without a crash
    with pytest.raises(CrashTestError, match="2 of 4 crashes"):
        crash(send=handle, setup=setup, check=lambda: len(queue.list_tasks(10)) < 2)
    assert Counter(capsys.readouterr().err.split()) == {"begins": 1 + 2 + 2}
    failures = 9
    with pytest.raises(CrashTestError, match="3 of 4 crashes") as caught:
        crash(send=handle, setup=setup, check=lambda: not pushed.exhausted)
    assert "last: status 500 (LookupError: no such order)" in str(caught.value)
    assert isinstance(caught.value.failures[0].error.__cause__, LookupError)
    shown = ["begins", "begins", "fails for the 3. time"]
    assert capsys.readouterr().err.splitlines() == ["begins", *shown, *shown]


def test_an_exception_of_a_handler_is_a_retry_after_a_crash(
    crash: Run, queue: Queue, pushed: Queue
) -> None:
    begun = []

    def send(_: PushRequest) -> int:
        begun.append(1)
        queue.purge()
        if len(begun) == 2:
            raise OSError("still locked")
        return 200

    setup = in_turn(begun.clear, pushed.add)

    assert crash(setup=setup, check=lambda: len(begun) != 2, send=send) == 4
    begun[:] = [1]
    with pytest.raises(OSError, match="still locked"):
        crash(setup=pushed.add, send=send)


def test_a_worker_and_an_app_are_crashed_in_one_count(
    crash: Run, queue: Queue, pushed: Queue
) -> None:
    def work() -> None:
        for task in queue.lease_tasks(60, 1):
            with suppress(NameInUseError):
                pushed.add(name="next")
            queue.delete_tasks(task)

    crashes = crash(work, setup=queue.add, send=handling(queue.fetch_statistics))

    assert crashes == 3 * 4 + 1


def test_only_the_named_queues_are_emptied(
    crash: Run, emulator: Emulator, work: Work, queue: Queue, pushed: Queue
) -> None:
    limited, other = map(emulator.queue, ("limited", "default"))
    sent: set[str] = set()

    def setup() -> None:
        for each in (queue, limited, pushed, other):
            each.add()

    def send(request: PushRequest) -> int:
        sent.add(request.queue_name)
        emulator.queue(request.queue_name).fetch_statistics()
        return 200

    def check() -> bool:
        return bool(limited.list_tasks(1) and other.list_tasks(1))

    both: Any = {"setup": setup, "check": check}
    assert crash(work, **both, queues=["work"]) == 6
    assert crash(**both, send=send, queues=[pushed]) == 4
    assert crash(work, **both, send=send, queues=[queue, pushed]) == 10
    assert sent == {"pushed"}
    with pytest.raises(AssertionError, match=r'no task in those queues, .* in queue "limited"'):
        crash(work, setup=limited.add, check=check, queues=[queue])
    with pytest.raises(InvalidQueueModeError):
        crash(**both, send=send, queues=[queue])
    with pytest.raises(InvalidQueueModeError):
        crash(work, **both, queues=[pushed])


def test_faults_apply_beside_crashes(
    crash: Run, emulator: Emulator, queue: Queue, pushed: Queue
) -> None:
    run = partial(crash, setup=pushed.add, send=handling(queue.add))
    with Faults(emulator) as faults:
        faults.fail("add", queues=["work"], times=1)
        with pytest.raises(TransientError):
            run()
        faults.clear()
        in_retries = faults.fail("add", queues=["work"], times=1, after=1)
        assert run() == 4
        assert in_retries.hits == 3  # in each run in which the first add has been carried out


def test_what_cannot_be_tested_is_refused_with_what_to_pass(
    crash: Run, emulator: Emulator, work: Work, queue: Queue, pushed: Queue
) -> None:
    send = handling()

    def run() -> None:
        run_tasks(emulator, send=send)

    with pytest.raises(TypeError, match="nothing to crash: pass the worker, or the app"):
        crash(setup=pushed.add)
    with pytest.raises(AssertionError, match=r"no task in a pull queue, .* pass app="):
        crash(run, setup=pushed.add)
    with pytest.raises(TypeError, match="the worker calls run_tasks, so its handlers would not"):
        crash(run, setup=in_turn(queue.add, pushed.add))
    with pytest.raises(AssertionError, match=r"no task in a push queue, .* pass the worker"):
        crash(setup=queue.add, send=send)
    with pytest.raises(AssertionError, match=r"no task in a pull or push queue, .* a user can be"):
        crash(work, setup=queue.purge, send=send)


def test_drain_retries_where_errors_are_to_be_retried(
    emulator: Emulator, work: Work, queue: Queue, pushed: Queue
) -> None:
    def send(request: PushRequest) -> int:
        if request.attempt == 1:
            raise OSError("try again")
        queue.add()
        return 200

    async def work_async() -> None:
        work()

    pushed.add()
    with pytest.raises(OSError, match="try again"):
        drain(emulator, work, send=send)
    assert not emulator.interceptors
    assert drain(emulator, work, send=send, errors="retry") == 1
    pushed.add()
    asyncio.run(drain_async(emulator, work_async, send=send, errors="retry"))
    assert_empty(queue)
    with pytest.raises(ValueError, match='errors is "ignore": use "raise", "strict" or "retry"'):
        drain(emulator, work, send=send, errors="ignore")  # type: ignore[arg-type]


def add_in_process(queue: Queue, _: Server) -> None:
    queue.add("from the dead")


def add_over_rest(_: Queue, server: Server) -> None:
    path = "/taskqueue/v1beta2/projects/p/taskqueues/work/tasks"
    with suppress(requests.ConnectionError):
        requests.post(server.url + path, json={"payloadBase64": "YQ=="}, timeout=30)


class Order(ndb.Model):  # type: ignore[misc] # the SDK is not typed
    """What a dead handler puts."""


def put_entity(*_: object) -> None:
    Order(id="from the dead").put()


@pytest.mark.parametrize("add", [add_in_process, add_over_rest, put_entity])
@pytest.mark.parametrize("kind", ["pool", "thread"])
@pytest.mark.usefixtures("left_soon")
def test_a_dead_handler_changes_nothing_after_the_test(
    crash: Run,
    emulator: Emulator,
    queue: Queue,
    pushed: Queue,
    *,
    add: Callable[..., None],
    kind: str,
) -> None:
    """What refuses the calls of its threads goes with the last of them."""
    tested = threading.Lock()  # unlike an event, for which the threads of the dead do not wait
    begun: list[Callable[[], object]] = []
    tried: list[None] = []
    send_of_sockets = socket.socket.send

    with (
        sdk_testbed(emulator),
        Server(emulator) as server,
        ThreadPoolExecutor(max_workers=9) as pool,
    ):
        interceptors = len(emulator.interceptors)

        def wait_and_add(died: threading.Event) -> None:
            with tested:
                pass
            if died.is_set():
                tried.append(None)
                add(queue, server)

        def begin(died: threading.Event) -> None:
            if kind == "pool":
                begun.append(pool.submit(wait_and_add, died).exception)
            else:
                thread = threading.Thread(target=wait_and_add, args=[died])
                thread.start()
                begun.append(thread.join)

        def send(_: PushRequest) -> int:
            died = threading.Event()
            begin(died)
            try:
                queue.purge()
            except DeadlineExceededError:
                raise
            except BaseException:
                died.set()
                raise
            return 200

        with tested:
            assert crash(setup=pushed.add, send=send) == 4
        assert len(begun) == 1 + 4 * 2
        for wait in begun:
            wait()
        assert len(tried) == 2
        pool.shutdown()  # what follows the end of a call has been done, too

        assert not queue.list_tasks(1)
        assert Order.get_by_id("from the dead") is None
        assert len(emulator.interceptors) == interceptors
    assert socket.socket.send is send_of_sockets


def test_a_call_under_way_is_carried_out_before_its_handler_dies(
    crash: Run, emulator: Emulator, queue: Queue, pushed: Queue
) -> None:
    late: list[bool] = []
    under_way, died = threading.Event(), threading.Event()

    def carry_out_slowly(call: QueueCall, call_next: Callable[[], object]) -> object:
        if call.queue is not queue or call.verb != "add":
            return call_next()
        under_way.set()
        died.wait(0.02)
        late.append(died.is_set())
        return call_next()

    def add() -> None:
        try:
            with suppress(DeadlineExceededError):
                queue.add()
        finally:
            under_way.set()

    def send(_: PushRequest) -> int:
        under_way.clear()
        died.clear()
        thread = threading.Thread(target=add)
        thread.start()
        under_way.wait(60)
        try:
            queue.purge()
        except BaseException:
            died.set()
            raise
        finally:
            thread.join()
        return 200

    with emulator.interceptors.installed(carry_out_slowly):
        crash(setup=pushed.add, send=send)

    assert set(late) == {False}


@pytest.mark.parametrize(("failures", "is_endless"), [(29, False), (30, True)])
def test_a_task_that_fails_forever_after_a_crash_ends_the_run(
    crash: Run, emulator: Emulator, failures: int, *, is_endless: bool
) -> None:
    """The report says so; the run does not go on until a thousand attempts were made."""
    queue, attempts = emulator.queue("default"), [0]

    def setup() -> None:
        attempts[0] = 0
        queue.add(name="one")

    def send(_: PushRequest) -> int:
        attempts[0] += 1
        queue.fetch_statistics()
        return 500 if 1 < attempts[0] <= failures else 200

    message = r'"one" of queue "default" has failed 30 times.* is retried forever, since'
    with pytest.raises(CrashTestError, match=message) if is_endless else nullcontext():
        crash(send=send, setup=setup)
