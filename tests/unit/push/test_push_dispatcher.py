"""Which push tasks may start, and what their attempts leave behind."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pullqueue import Emulator, ManualClock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.engine import verbs
from pullqueue.engine.events import EventKind, Operation
from pullqueue.engine.interceptors import QueueCall
from pullqueue.engine.memory.store import MemoryStore
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import Claim
from pullqueue.errors import TransientError, UnknownQueueError
from pullqueue.faults.declaration import Faults
from pullqueue.push.attempt import Attempt, RunningAttempt
from pullqueue.push.dispatcher import Dispatcher, why_not_sent
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.stores import open_store
from pullqueue.tasks import HttpRequest, NewTask, Task

CONFIG = """
queue:
- name: web
  rate: 2/s
  bucket_size: 3
  max_concurrent_requests: 2
  retry_parameters:
    task_retry_limit: 2
    min_backoff_seconds: 10
- name: other
  rate: 500/s
  bucket_size: 500
- name: paused
  rate: 0/s
- name: pull
  mode: pull
"""
LATE = """
queue:
- name: web
  rate: 100/s
  bucket_size: 1
  max_concurrent_requests: 500
"""
OK = PushResponse(200)
FAILED = PushResponse(500)


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    return Emulator.from_text(CONFIG, clock=clock)


@pytest.fixture
def web(emulator: Emulator) -> Queue:
    return emulator.queue("web")


@pytest.fixture
def other(emulator: Emulator) -> Queue:
    """A queue with wide limits."""
    return emulator.queue("other")


def add(queue: Queue, *names: str, **options: Any) -> None:
    queue.add_many([NewTask(name=name, **options) for name in names])


def names(tasks: Iterable[Task]) -> list[str]:
    return [task.name for task in tasks]


def started(dispatcher: Dispatcher, queue: Queue, name: str) -> RunningAttempt:
    """Start an attempt that must be possible."""
    running = dispatcher.start(queue.get_task(name))
    assert running is not None
    return running


def attempt(dispatcher: Dispatcher, queue: Queue, name: str, response: PushResponse) -> Attempt:
    return dispatcher.finish(started(dispatcher, queue, name), response)


class TestWhatMayStart:
    def test_due_tasks_in_order(self, emulator: Emulator, other: Queue, clock: ManualClock) -> None:
        """By eta, then by arrival; not those whose eta is in the future."""
        now = clock.now()
        add(other, "late", eta=now + timedelta(seconds=1))
        add(other, "second", "third", eta=now)
        add(other, "first", eta=now - timedelta(seconds=1))

        assert names(Dispatcher(emulator).find_startable(other, 2)) == ["first", "second"]
        assert names(Dispatcher(emulator).find_startable(other, 9)) == ["first", "second", "third"]

    def test_a_bucket_of_tasks_starts_at_once_then_rate_a_second(
        self, emulator: Emulator, web: Queue, clock: ManualClock
    ) -> None:
        """Retries take tokens, too; another dispatcher of the emulator finds as many."""
        add(web, *"abcdef")
        dispatcher = Dispatcher(emulator)
        for name in "abc":
            attempt(dispatcher, web, name, FAILED)

        assert Dispatcher(emulator).find_startable(web, 9) == []
        clock.advance(0.5)
        assert names(Dispatcher(emulator).find_startable(web, 9)) == ["d"]
        clock.advance(60)
        assert len(dispatcher.find_startable(web, 9)) == 2
        free = Dispatcher(emulator, rates=False)
        assert len(free.find_startable(web, 9)) == 6
        assert (free.enforced_rate(web), free.tokens(web)) == (math.inf, sys.maxsize)

    @pytest.mark.parametrize(("options", "count"), [({}, 1), ({"late_seconds": 1}, 100)])
    def test_who_looks_late_starts_as_many_as_there_were(
        self, clock: ManualClock, options: dict[str, Any], count: int
    ) -> None:
        """If that is asked for."""
        emulator = Emulator.from_text(LATE, clock=clock)
        web, dispatcher = emulator.queue("web"), Dispatcher(emulator, **options)
        add(web, "a")
        attempt(dispatcher, web, "a", OK)
        clock.advance(60)

        assert dispatcher.count_allowed(web) == count

    def test_no_more_attempts_run_at_once_than_max_concurrent_requests(
        self, emulator: Emulator, web: Queue
    ) -> None:
        add(web, *"abc")
        dispatcher = Dispatcher(emulator)
        first = started(dispatcher, web, "a")
        started(dispatcher, web, "b")

        assert dispatcher.find_startable(web, 9) == []
        dispatcher.finish(first, OK)
        assert names(dispatcher.find_startable(web, 9)) == ["c"]

    def test_reserved_attempts_take_a_slot_and_a_token(
        self, emulator: Emulator, web: Queue
    ) -> None:
        """Before they start; one that cannot start returns both."""
        add(web, *"abc")
        dispatcher = Dispatcher(emulator)
        first, second = dispatcher.find_startable(web, 9)
        for task in (first, second):
            dispatcher.reserve(task)

        assert (dispatcher.counts["web"], dispatcher.find_startable(web, 9)) == (2, [])
        running = dispatcher.start(first)
        dispatcher.release(first)
        web.delete_tasks(second)
        assert dispatcher.start(second) is None
        dispatcher.release(second)
        assert dispatcher.running == [running]
        assert names(dispatcher.find_startable(web, 9)) == ["c"]
        dispatcher.reserve(web.get_task("c"))
        dispatcher.release(web.get_task("c"))
        assert dispatcher.tokens(web) == 2  # one of three is used

    def test_nothing_starts_from_queues_that_are_not_dispatched(
        self, emulator: Emulator, other: Queue, clock: ManualClock
    ) -> None:
        """A pull queue, a paused one, one with rate 0 or a disabled one; nor does time start it."""
        dispatcher = Dispatcher(emulator, rates=False)
        for queue in (other, emulator.queue("pull"), emulator.queue("paused")):
            add(queue, "a")
            add(queue, "later", eta=clock.now() + timedelta(seconds=7))
        other.pause()
        found = [dispatcher.find_startable(queue, 9) for queue in emulator.queues]
        reasons = [why_not_sent(emulator.queue(name)) for name in ("web", "other", "paused")]
        other.resume()
        other.is_disabled = True

        assert found == [[]] * 5
        assert reasons == [None, "the queue is paused", "rate is 0"]
        assert dispatcher.find_startable(other, 9) == []
        assert dispatcher.next_usec(emulator.queue("paused")) is None

    def test_a_clock_past_the_lease_does_not_start_a_task_twice(
        self, emulator: Emulator, other: Queue, clock: ManualClock
    ) -> None:
        add(other, "a")
        dispatcher = Dispatcher(emulator, lease_seconds=30)
        running = started(dispatcher, other, "a")
        clock.advance(60)

        assert dispatcher.find_startable(other, 9) == []
        assert dispatcher.run_now(other.get_task("a")) is None
        assert dispatcher.finish(running, OK).outcome == "succeeded"

    def test_a_task_starts_again_once_a_crashed_attempt_lost_its_lease(
        self, emulator: Emulator, other: Queue, clock: ManualClock
    ) -> None:
        add(other, "a")
        started(Dispatcher(emulator, lease_seconds=30), other, "a")
        dispatcher = Dispatcher(emulator)
        before, runs_now = (
            dispatcher.find_startable(other, 9),
            dispatcher.run_now(other.get_task("a")),
        )
        clock.advance(30)

        assert (before, runs_now) == ([], None)
        assert names(dispatcher.find_startable(other, 9)) == ["a"]
        assert started(dispatcher, other, "a").request.attempt == 2

    @pytest.mark.parametrize("change", ["delete", "start"])
    def test_a_task_that_was_changed_meanwhile(
        self, emulator: Emulator, other: Queue, change: str
    ) -> None:
        """An attempt does not start if the task was deleted, or started by another server."""
        add(other, "a")
        [task] = Dispatcher(emulator).find_startable(other, 1)
        if change == "delete":
            other.delete_tasks("a")
        else:
            started(Dispatcher(emulator), other, "a")

        assert Dispatcher(emulator).start(task) is None


class TestWhenMoreMayStart:
    def test_the_next_task_starts_at_its_eta_where_tokens_are_left(
        self, emulator: Emulator, other: Queue, clock: ManualClock
    ) -> None:
        add(other, "now")
        dispatcher = Dispatcher(emulator)

        assert dispatcher.next_usec(other) is None
        add(other, "later", eta=clock.now() + timedelta(seconds=7))
        assert dispatcher.next_usec(other) == clock.now_usec() + 7_000_000

    def test_a_token_that_is_there_is_not_waited_for(self) -> None:
        """By a clock that goes on between two looks at it."""
        with closing(Emulator.from_text("queue:\n- {name: other, rate: 500/s}\n")) as emulator:
            other = emulator.queue("other")
            add(other, "kept")
            dispatcher = Dispatcher(emulator)

            assert [dispatcher.next_usec(other) for _ in range(20)] == [None] * 20

    def test_the_next_task_starts_when_a_token_comes(
        self, emulator: Emulator, web: Queue, clock: ManualClock
    ) -> None:
        """Where none is left; the task is due or becomes due. Without tasks, none is waited for."""
        dispatcher = Dispatcher(emulator)
        add(web, *"abc")
        for name in "abc":
            attempt(dispatcher, web, name, OK)
        assert dispatcher.next_usec(web) is None

        for name, seconds in (("due", 0), ("soon", 0.1)):
            add(web, name, eta=clock.now() + timedelta(seconds=seconds))
            assert dispatcher.next_usec(web) == clock.now_usec() + 500_000
            web.purge()


class TestOutcomes:
    def test_a_successful_task_is_deleted_and_its_name_reserved(
        self, emulator: Emulator, other: Queue, clock: ManualClock
    ) -> None:
        other.add(b"x", name="a", request=HttpRequest("/mail"))
        dispatcher = Dispatcher(emulator, app_host="guestbook.appspot.com")
        clock.advance(5)

        done = attempt(dispatcher, other, "a", PushResponse(204))

        assert (done.status, done.outcome, done.number) == (204, "succeeded", 1)
        assert (done.request.url, done.request.body) == ("/mail", b"x")
        assert done.request.headers["Host"] == "guestbook.appspot.com"
        assert done.started == clock.now()
        assert done.task.eta == clock.now() - timedelta(seconds=5)
        assert repr(done) == (
            "Attempt(POST /mail, task='a', number=1, status=204, outcome='succeeded')"
        )
        assert [event.kind for event in other.history("a")] == [
            EventKind.ADDED,
            EventKind.ATTEMPT_STARTED,
            EventKind.ATTEMPT_SUCCEEDED,
        ]

    def test_a_failed_task_waits_then_is_exhausted(
        self, emulator: Emulator, web: Queue, clock: ManualClock
    ) -> None:
        """As long as the queue says, with all that it has left."""
        add(web, "a")
        dispatcher = Dispatcher(emulator, rates=False)
        error = ValueError("broken")
        found = []
        refused, broken = PushResponse(None, reason="refused"), PushResponse(503, error=error)
        for pause, response in ((10, FAILED), (20, refused), (0, broken)):
            ended = attempt(dispatcher, web, "a", response)
            found.append((ended.status, ended.outcome))
            clock.advance(pause)

        assert found == [(500, "will retry"), (None, "will retry"), (503, "exhausted")]
        assert (ended.error, ended.number, dispatcher.running) == (error, 3, [])
        [task] = web.exhausted
        record = task.attempts
        assert (record.finished, record.responses, record.status) == (3, 2, 503)
        assert web.list_tasks() == []

    def test_the_pause_begins_at_the_end_of_an_attempt(
        self, emulator: Emulator, web: Queue, clock: ManualClock
    ) -> None:
        """But at the call of RunTask, however long that attempt takes, whatever its eta was."""
        add(web, "a")
        add(web, "b", eta=clock.now() + timedelta(days=1))
        dispatcher = Dispatcher(emulator)
        running, called = started(dispatcher, web, "a"), dispatcher.run_now(web.get_task("b"))
        assert called is not None
        clock.advance(4)
        for each in (running, called):
            dispatcher.finish(each, FAILED)

        pauses = [web.get_task(name).eta - clock.now() for name in "ab"]
        assert pauses == [timedelta(seconds=10), timedelta(seconds=6)]

    def test_a_task_whose_last_attempts_were_interrupted_is_exhausted(
        self, emulator: Emulator, web: Queue, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        """One more than permitted is sent, as it is not known whether the last one was."""
        add(web, "a")
        for _ in range(4):
            started(Dispatcher(emulator, rates=False), web, "a")
            clock.advance(3600)

        found = web.get_task("a")
        assert [Dispatcher(emulator).start(found) for _ in range(2)] == [None, None]
        [task] = web.exhausted
        reason = "the last 4 attempts were interrupted"
        assert (task.attempts.finished, task.attempts.reason) == (4, reason)
        assert caplog.messages == [f'task "a" of queue "web" is exhausted: {reason}']

    @pytest.mark.parametrize("change", ["delete", "purge", "lost"])
    def test_a_task_that_is_gone(
        self, emulator: Emulator, other: Queue, clock: ManualClock, change: str
    ) -> None:
        """The response of a task that was deleted, or started elsewhere, changes nothing."""
        add(other, "a")
        running = started(Dispatcher(emulator, lease_seconds=30), other, "a")
        if change == "delete":
            other.delete_tasks("a")
        elif change == "purge":
            other.purge()
        else:
            clock.advance(30)
            started(Dispatcher(emulator), other, "a")

        ended = Dispatcher(emulator).finish(running, FAILED)

        assert (ended.status, ended.outcome) == (500, "dropped")
        assert len(other.list_tasks()) == (change == "lost")

    def test_a_lease_is_renewed_until_the_attempt_ends(
        self, emulator: Emulator, other: Queue, clock: ManualClock
    ) -> None:
        add(other, "a")
        dispatcher = Dispatcher(emulator, lease_seconds=30)
        running = started(dispatcher, other, "a")
        clock.advance(20)

        assert running.renew()
        assert other.get_task("a").eta == clock.now() + timedelta(seconds=30)
        assert dispatcher.finish(running, OK).outcome == "succeeded"
        assert not running.renew()

    @pytest.mark.parametrize("change", ["delete", "start"])
    def test_a_lost_lease_is_not_renewed(
        self,
        emulator: Emulator,
        other: Queue,
        clock: ManualClock,
        monkeypatch: pytest.MonkeyPatch,
        change: str,
    ) -> None:
        """A lease that is older is looked at: what was frozen finds out what was done."""
        add(other, "a")
        running = started(Dispatcher(emulator), other, "a")
        assert (running.by_call, running.is_lost) == (False, False)
        assert running.is_own(renewed_within=-1)
        assert not running.is_lost
        if change == "delete":
            other.delete_tasks("a")
            assert not running.renew()
        else:
            clock.advance(3600)
            started(Dispatcher(emulator), other, "a")

        monkeypatch.setattr("pullqueue.push.attempt.perf_counter", lambda: running._renewed)
        assert [running.is_own(renewed_within=age) for age in (0, -1)] == [True, False]
        assert running.is_lost

    def test_a_result_that_cannot_be_stored_leaves_the_lease(
        self, emulator: Emulator, other: Queue, clock: ManualClock
    ) -> None:
        """Which nobody renews; an attempt without a result returns the task at once."""
        add(other, "lost", "abandoned")
        dispatcher = Dispatcher(emulator, lease_seconds=30)
        lost, abandoned = (started(dispatcher, other, each) for each in ("lost", "abandoned"))

        dispatcher.lose(lost)
        dispatcher.abandon(abandoned)

        assert dispatcher.running == []
        assert not lost.renew()
        assert names(dispatcher.find_startable(other, 9)) == ["abandoned"]
        clock.advance(30)
        assert names(dispatcher.find_startable(other, 9)) == ["abandoned", "lost"]

    @pytest.mark.parametrize(
        ("options", "url", "status", "rate"),
        [
            ({"throttle": True}, "/", 503, 1),
            ({}, "/", 503, 2),
            ({"throttle": True}, "/", 429, 2),
            ({"throttle": True}, "http://localhost/", 429, 1),
        ],
    )
    def test_a_status_slows_its_queue_down(
        self, tmp_path: Path, *, options: dict[str, Any], url: str, status: int, rate: float
    ) -> None:
        """Also after a restart."""
        for is_first in (True, False):
            store = open_store(f"sqlite:///{tmp_path}/tasks.db")
            with closing(Emulator.from_text(CONFIG, store=store)) as emulator:
                web, dispatcher = emulator.queue("web"), Dispatcher(emulator, **options)
                if is_first:
                    task = NewTask(name="a", request=HttpRequest(url))
                    verbs.insert(web, [task], absolute_urls=True)
                    attempt(dispatcher, web, "a", PushResponse(status))
                assert dispatcher.enforced_rate(web) == rate

    def test_a_restart_takes_a_queue_whose_first_task_is_a_pull_task(
        self, clock: ManualClock, tmp_path: Path
    ) -> None:
        """A queue that was a pull queue for a while has tasks of both kinds."""
        store = f"sqlite:///{tmp_path}/tasks.db"
        emulator = Emulator.from_text(CONFIG, clock=clock, store=open_store(store))
        web = emulator.queue("web")
        add(web, "a")
        attempt(Dispatcher(emulator, throttle=True), web, "a", PushResponse(429))
        settings = web.settings
        as_pull = QueueSettings(name="web", mode=QueueMode.PULL)
        emulator.reconfigure(QueueConfig(queues=(as_pull,)))
        add(web, "pull")
        emulator.reconfigure(QueueConfig(queues=(settings,)))
        emulator.close()

        emulator = Emulator.from_text(CONFIG, clock=clock, store=open_store(store))

        assert Dispatcher(emulator, throttle=True).enforced_rate(emulator.queue("web")) == 2
        emulator.close()

    def test_attempts_that_would_have_been_refused_are_counted(
        self, emulator: Emulator, web: Queue, clock: ManualClock
    ) -> None:
        """As if they had been made while the clock went on, by backoff and rate."""
        add(web, "a", "b")
        tasks, dispatcher = web.list_tasks(), Dispatcher(emulator)
        clock.advance(15)
        found = []
        for task, shortest in zip(tasks, (0, 30), strict=True):
            counts = dispatcher.count_refused(task, "refused", shortest_seconds=shortest)
            count = counts.total()
            after = web.get_task(task.name)
            found.append((count, after.retry_count, after.attempts.reason, after.eta - clock.now()))

        pause = timedelta(seconds=15)
        assert found == [(2, 2, "refused", pause), (1, 1, "refused", pause)]
        assert EventKind.ATTEMPT_FAILED not in web.count_events(last=timedelta(seconds=1))
        assert not dispatcher.count_refused(tasks[0], "refused", shortest_seconds=0)
        clock.advance(15)
        counts = dispatcher.count_refused(web.get_task("a"), "refused", shortest_seconds=0)
        assert counts.total() == 1
        assert names(web.exhausted) == ["a"]

    def test_an_attempt_ends_though_the_store_does_not_respond(self, clock: ManualClock) -> None:
        """Its lease is not renewed when the store is back."""
        errors: list[TransientError] = []

        class Store(MemoryStore):
            def renew_attempt(self, task: Task, *, lease_usec: int) -> Task:
                for error in errors:
                    raise error
                return super().renew_attempt(task, lease_usec=lease_usec)

            def finish_attempt(self, task: Task, **options: Any) -> Task:
                raise TransientError("the store does not respond")

        emulator = Emulator.from_text(CONFIG, clock=clock, store=Store)
        web, dispatcher = emulator.queue("web"), Dispatcher(emulator)
        add(web, "a", "b")
        first, second = (started(dispatcher, web, name) for name in "ab")
        errors.append(TransientError("the store does not respond"))
        dispatcher.abandon(first)
        with pytest.raises(TransientError):
            dispatcher.finish(second, OK)
        errors.clear()

        assert [first.renew(), second.renew()] == [False, False]
        assert dispatcher.running == [second]
        add(web, "c")
        with pytest.raises(TransientError):
            dispatcher.count_refused(web.get_task("c"), "refused", shortest_seconds=0)
        assert web.get_task("c").eta == clock.now()

    def test_a_queue_that_is_deleted_meanwhile_has_no_exhausted_task(
        self, clock: ManualClock
    ) -> None:
        class Store(MemoryStore):
            def finish_attempt(self, task: Task, **options: Any) -> Task:
                raise UnknownQueueError("deleted", queue_name=task.queue_name)

        emulator = Emulator.from_text(CONFIG, clock=clock, store=Store)
        web, dispatcher = emulator.queue("web"), Dispatcher(emulator, rates=False)
        add(web, "a")
        for _ in range(4):
            started(Dispatcher(emulator, rates=False), web, "a")
            clock.advance(3600)

        assert dispatcher.start(web.get_task("a")) is None

    @pytest.mark.parametrize(("claim", "tokens"), [(Claim.NEW, 1), (Claim.KEPT, 3)])
    def test_a_new_claim_counts_the_attempts_of_another_server(
        self, clock: ManualClock, claim: Claim, tokens: int
    ) -> None:
        attempts: list[Operation] = []

        class SharedStore(MemoryStore):
            def claim_dispatch(self, queue_name: str) -> Claim:
                assert queue_name == "web"
                return claim

            def list_last_attempts(self, queue_name: str, *, limit: int) -> list[Operation]:
                assert queue_name == "web"
                return attempts[:limit]

        emulator = Emulator.from_text(CONFIG, clock=clock, store=SharedStore)
        dispatcher, web = Dispatcher(emulator, throttle=True), emulator.queue("web")
        assert dispatcher.claim(web) is claim
        assert dispatcher.tokens(web) == 3
        started = Operation(clock.now_usec(), EventKind.ATTEMPT_STARTED, ("a",), (1,))
        attempts += [started] * 2

        assert dispatcher.claim(web) is claim
        assert dispatcher.tokens(web) == tokens


class TestRunNow:
    @pytest.mark.parametrize("name", ["web", "paused"])
    def test_neither_eta_rate_slots_nor_pause_hold_it(
        self, emulator: Emulator, clock: ManualClock, name: str
    ) -> None:
        queue = emulator.queue(name)
        queue.pause()
        dispatcher = Dispatcher(emulator)
        add(queue, *"abcd", eta=clock.now() + timedelta(days=1))

        running = [dispatcher.run_now(task) for task in queue.list_tasks()]

        assert all(running)
        queue.resume()
        add(queue, "e")
        for one in running:
            assert one is not None
            dispatcher.finish(one, OK)
        assert len(dispatcher.find_startable(queue, 9)) == (name == "web")


class TestTasksThatWait:
    def address(self, task: Task) -> str | None:
        """Return an address for tasks with the target `here`."""
        return "http://app" if task.request and task.request.target == "here" else None

    def found(self, dispatcher: Dispatcher, queue: Queue, limit: int = 9) -> list[str]:
        return names(task for task, _ in dispatcher.find_deliverable(queue, limit, self.address))

    def add(
        self, queue: Queue, prefix: str, count: int, target: str | None = None, **o: Any
    ) -> None:
        for start in range(0, count, 100):
            ids = range(start, min(count, start + 100))
            add(queue, *(f"{prefix}{n}" for n in ids), request=HttpRequest("/", target=target), **o)

    def test_they_do_not_block_others(
        self, emulator: Emulator, other: Queue, clock: ManualClock
    ) -> None:
        self.add(other, "waits", 2)
        self.add(other, "goes", 1, "here")
        self.add(other, "waits-too", 500)
        self.add(other, "goes-too", 1, "here")
        self.add(other, "not-due", 1, "here", eta=clock.now() + timedelta(seconds=1))
        dispatcher = Dispatcher(emulator)

        assert self.found(dispatcher, other, 3) == ["goes0", "goes-too0"]
        assert other.get_task("waits0").retry_count == 0

    def test_they_are_not_read_each_time(self, emulator: Emulator, other: Queue) -> None:
        """What is read does not grow with their number, and a task that is added is found."""
        self.add(other, "waits", 1000)
        dispatcher = Dispatcher(emulator)
        assert self.found(dispatcher, other) == []
        seen: list[Task] = []

        def counting(task: Task) -> str | None:
            seen.append(task)
            return self.address(task)

        self.add(other, "goes", 1, "here")
        [(task, address)] = dispatcher.find_deliverable(other, 9, counting)

        assert (task.name, address) == ("goes0", "http://app")
        assert len(seen) < 500

    @pytest.mark.parametrize("place", [0, 198, 199, 200, 201, 398, 399, 400])
    def test_a_task_that_is_added_among_them(
        self, emulator: Emulator, other: Queue, clock: ManualClock, place: int
    ) -> None:
        """One with an earlier eta is found too, after some passes, on each page of those read."""
        first = clock.now() - timedelta(seconds=1000)
        for number in range(400):
            self.add(other, f"waits{number}-", 1, eta=first + timedelta(seconds=number))
        dispatcher = Dispatcher(emulator)
        self.found(dispatcher, other)
        self.add(other, "goes", 1, "here", eta=first + timedelta(seconds=place - 0.5))

        assert ["goes0"] in [self.found(dispatcher, other) for _ in range(5)]

    def test_the_last_of_them_is_looked_at_once_more(self, tmp_path: Path) -> None:
        """And each page from where the one before has ended."""
        store = open_store(f"sqlite:///{tmp_path}/tasks.db")
        with closing(Emulator.from_text(CONFIG, store=store)) as emulator:
            other, dispatcher = emulator.queue("other"), Dispatcher(emulator)
            self.add(other, "waits", 400)
            assert self.found(dispatcher, other) == []
            looks: list[list[str]] = []
            for _ in range(3):
                seen: list[Task] = []
                dispatcher.find_deliverable(other, 9, seen.append)
                looks.append(names(seen))

        pages = (range(200, 400), range(0), range(200))
        assert looks == [[f"waits{number}" for number in page] for page in pages]

    def test_a_task_after_them_is_found_once(self, emulator: Emulator, other: Queue) -> None:
        """Each time, though it is on the page of those that are looked at once more."""
        self.add(other, "waits", 3)
        self.add(other, "goes", 2, "here")
        self.add(other, "waits-too", 1)
        dispatcher = Dispatcher(emulator)

        assert [self.found(dispatcher, other) for _ in range(3)] == [["goes0", "goes1"]] * 3

    def test_one_before_them_is_not_found_before_its_eta(
        self, emulator: Emulator, other: Queue, clock: ManualClock
    ) -> None:
        """Though they were due: the clock of a machine can be set back."""
        self.add(other, "waits", 3)
        dispatcher = Dispatcher(emulator)
        assert self.found(dispatcher, other) == []
        due = clock.now()
        clock.return_to_usec(clock.now_usec() - 2_000_000)
        self.add(other, "goes", 1, "here", eta=due - timedelta(seconds=1))

        assert self.found(dispatcher, other) == []
        clock.advance(1)
        assert self.found(dispatcher, other) == ["goes0"]

    def test_they_are_not_looked_at_once_more_without_sweeps(
        self, emulator: Emulator, other: Queue, clock: ManualClock
    ) -> None:
        self.add(other, "waits", 3)
        dispatcher = Dispatcher(emulator)
        assert self.found(dispatcher, other) == []
        self.add(other, "goes", 1, "here", eta=clock.now() - timedelta(seconds=1))

        assert dispatcher.find_deliverable(other, 9, self.address, sweeps=False) == []
        assert self.found(dispatcher, other) == ["goes0"]


class TestFaults:
    def send(self, emulator: Emulator, response: PushResponse = OK) -> tuple[PushResponse, int]:
        """Send a task; return the response, and how often it was sent."""
        other = emulator.queue("other")
        add(other, "a")
        sent: list[PushRequest] = []

        def send(request: PushRequest) -> PushResponse:
            sent.append(request)
            return response

        dispatcher = Dispatcher(emulator)
        running = started(dispatcher, other, "a")
        response = dispatcher.send(running, send)
        assert sent in ([], [running.request])
        return response, len(sent)

    @pytest.mark.parametrize(
        ("fault", "options", "response", "sent"),
        [
            ("fail", {"status": 503}, PushResponse(503, reason="answered by fault 2", fault=2), 0),
            ("fail", {"error": TransientError("no")}, PushResponse(None, reason="no", fault=2), 0),
            (
                "lose_response",
                {"error": TransientError("no")},
                PushResponse(
                    None,
                    reason="no: the handler ran, and its response with status 200 was lost",
                    fault=2,
                ),
                1,
            ),
        ],
        ids=["status", "error", "lost response"],
    )
    def test_a_status_is_a_response_and_an_error_is_none(
        self, emulator: Emulator, fault: str, options: Any, response: PushResponse, sent: int
    ) -> None:
        """A lost response was sent by the app. What a fault did has its number."""
        Faults(emulator).fail("add", times=1).remove()
        getattr(Faults(emulator), fault)("attempt", **options)

        assert self.send(emulator) == (response, sent)

    def test_an_interceptor_that_fails_leaves_the_error_of_the_app(
        self, emulator: Emulator
    ) -> None:
        """The error is not a fault, so that the response has no number."""

        def fail(call: QueueCall, proceed: Callable[[], object]) -> object:
            result = proceed()
            if call.verb == "attempt":
                raise TransientError("no")
            return result

        emulator.interceptors.add(fail)
        error = ValueError("broken")
        reason = "no: the handler ran, and its response with status 500 was lost"

        found = self.send(emulator, PushResponse(500, error=error))
        assert found == (PushResponse(None, reason=reason, error=error), 1)

    def test_an_interceptor_can_answer_with_a_status(self, emulator: Emulator) -> None:
        def answer(call: QueueCall, proceed: Callable[[], object]) -> object:
            return 503 if call.verb == "attempt" else proceed()

        emulator.interceptors.add(answer)

        assert self.send(emulator) == (PushResponse(503), 0)

    def test_an_error_of_who_sends_is_raised(self, emulator: Emulator, other: Queue) -> None:
        add(other, "a")
        dispatcher = Dispatcher(emulator)

        def fail(_: PushRequest) -> PushResponse:
            raise TypeError("no response")

        with pytest.raises(TypeError, match=r"^no response$"):
            dispatcher.send(started(dispatcher, other, "a"), fail)

    def test_latency_beyond_the_deadline_leaves_no_response(
        self, emulator: Emulator, clock: ManualClock
    ) -> None:
        """Up to the deadline it only takes time."""
        before = clock.now()
        faults = Faults(emulator)
        with faults.latency("attempt", 600):
            assert self.send(emulator) == (OK, 1)
        assert clock.now() == before + timedelta(seconds=600)
        emulator.reset()
        faults.latency("attempt", 601)

        response, _ = self.send(emulator)

        assert (response.status, response.fault) == (None, 2)
        assert clock.now() == before + timedelta(seconds=1200)

    def test_faults_of_other_calls_do_not_touch_attempts(
        self, emulator: Emulator, other: Queue
    ) -> None:
        for verb in ("lease_tasks", "delete_tasks", "list_tasks", "get_task"):
            Faults(emulator).fail(verb)
        add(other, "a")
        dispatcher = Dispatcher(emulator)

        [task] = dispatcher.find_startable(other, 1)
        running = dispatcher.start(task)

        assert running is not None
        assert dispatcher.finish(running, OK).outcome == "succeeded"
