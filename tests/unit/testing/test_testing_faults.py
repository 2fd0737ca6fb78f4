"""Faults in the calls to an emulator."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import (
    DeadlineExceeded,
    GoogleAPIError,
    InternalServerError,
    PermissionDenied,
    ResourceExhausted,
    ServiceUnavailable,
    Unauthorized,
)
from tables import each_row

from pullqueue import (
    ClockError,
    DeadlineExceededError,
    DeleteResult,
    Emulator,
    HttpRequest,
    InternalError,
    ManualClock,
    NewTask,
    OverQuotaError,
    PullQueueError,
    Queue,
    RateLimitExceededError,
    TaskLeaseExpiredError,
    TombstonedTaskError,
    TransientError,
    UnknownQueueError,
    UnknownTaskError,
    sdk,
)
from pullqueue.engine import verbs
from pullqueue.engine.interceptors import call_deadline
from pullqueue.faults.declaration import CALL_OF_METHOD, METHODS
from pullqueue.faults.fault import find_faults
from pullqueue.sdk.imports import apiproxy_errors, taskqueue
from pullqueue.testing import (
    Faults,
    assert_available,
    assert_empty,
    assert_leased,
    describe,
    run_tasks,
)

NOT_OF_PULLQUEUE = apiproxy_errors.ApplicationError
"""An error that only the SDK has."""
INJECTED = "injected by a fault"
FACTS: dict[type[Exception], dict[str, object]] = {
    OverQuotaError: {"limit_bytes": 0, "needed_bytes": 0},
    UnknownTaskError: {"queue_name": "work", "task_name": ""},
    UnknownQueueError: {"queue_name": "work"},
}
"""Of errors that need them; what is unknown is empty."""
OF_ANOTHER = type("InternalError", (Exception,), {})


def outcomes(queue: Queue, calls: int) -> str:
    marks = []
    for _ in range(calls):
        try:
            queue.lease_tasks(60, 1)
        except TransientError:
            marks.append("x")
        else:
            marks.append(".")
    return "".join(marks)


@pytest.fixture
def faults(emulator: Emulator) -> Faults:
    return Faults(emulator)


@each_row(
    ("when", "marks"),
    [
        ({}, "xxxxxx"),
        ({"after": 2}, "..xxxx"),
        ({"every": 1}, "xxxxxx"),
        ({"every": 3}, "..x..x"),
        ({"after": 1, "every": 2, "times": 2}, "..x.x."),
        ({"queues": ["limited"]}, "......"),
        # The first number of the random sequence, which has to be less.
        ({"probability": 0.8444218515250481, "times": 1}, ".x...."),
        ({"queues": ("limited", "work"), "times": 1}, "x....."),
    ],
)
def test_after_every_times_and_queues_narrow_a_fault(
    monkeypatch: pytest.MonkeyPatch,
    faults: Faults,
    queue: Queue,
    when: dict[str, object],
    marks: str,
) -> None:
    """Where the SDK is not loaded, too."""
    monkeypatch.delitem(sys.modules, "pullqueue.sdk.rpcs", raising=False)
    with faults.fail("lease_tasks", TransientError, **when):  # type: ignore[arg-type]
        assert outcomes(queue, 6) == marks


def test_the_queues_of_a_fault_are_queues_or_their_names(faults: Faults, limited: Queue) -> None:
    fault = faults.fail("lease_tasks", TransientError, queues=[limited, "work"])

    assert outcomes(limited, 2) == "xx"
    assert str(fault).startswith(
        'fail("lease_tasks", TransientError, queues=["limited", "work"]): '
    )


class TestFaultsOfTasks:
    @pytest.fixture
    def pushed(self, emulator: Emulator) -> Queue:
        queue = emulator.queue("pushed")
        for url in ("/mail/ada?to=ada", "/mail/bob", "/report"):
            queue.add(request=HttpRequest(url))
        return queue

    def test_a_url_selects_attempts_by_their_path(
        self, emulator: Emulator, faults: Faults, pushed: Queue
    ) -> None:
        """Without the query, `*` being any text."""
        fault = faults.fail("attempt", status=HTTPStatus.SERVICE_UNAVAILABLE, url="/mail/*")

        attempts = run_tasks(emulator, send=lambda _: 200)

        assert [attempt.status for attempt in attempts] == [503, 503, 200]
        shown = 'fail("attempt", status=503, url="/mail/*"): triggered on 2 of 2 calls'
        assert (fault.calls, fault.hits, str(fault)) == (2, 2, shown)

    def test_a_url_selects_adds(self, faults: Faults, emulator: Emulator, queue: Queue) -> None:
        """Of batches those with such a task; a push task without a request has its queue's path."""
        pushed = emulator.queue("pushed")
        with faults.fail("add", url="?*"):
            queue.add()
        faults.fail("add", url="/_ah/queue/*")

        queue.add()
        pushed.add(request=HttpRequest("/mail"))
        with pytest.raises(TransientError):
            pushed.add()
        faults.fail("add", url="/mail")
        with pytest.raises(TransientError):
            pushed.add(request=HttpRequest("/mail?to=ada"))
        with pytest.raises(TransientError):
            pushed.add_many([NewTask(request=HttpRequest("/mail")), NewTask()])

    def test_each_task_is_counted_on_its_own(
        self, emulator: Emulator, faults: Faults, pushed: Queue
    ) -> None:
        lost = faults.lose_response("attempt", per_task=True, times=1, after=1)

        attempts = run_tasks(emulator, send=lambda a: 503 if a.attempt == 1 else 200, until="empty")

        by_number = sorted((a.number, a.status) for a in attempts)
        assert by_number == [(1, 503)] * 3 + [(2, None)] * 3 + [(3, 200)] * 3
        assert (lost.calls, lost.hits, lost.is_spent) == (9, 3, False)

    def test_tasks_of_one_url_are_counted_by_queue_and_name(
        self, emulator: Emulator, faults: Faults, pushed: Queue
    ) -> None:
        other = emulator.queue("default")
        faults.fail("add", per_task=True, times=1)
        for queue, name in ((pushed, "a"), (pushed, "b"), (other, "a")):
            with pytest.raises(TransientError):
                queue.add(name=name, request=HttpRequest("/same"))
            queue.add(name=name, request=HttpRequest("/same"))
        lost = faults.lose_response("attempt", per_task=True, times=1, url="/same")

        run_tasks(emulator, send=lambda _: 200, until="empty")

        assert (lost.calls, lost.hits) == (6, 3)

    def test_an_add_is_repeated_by_its_name_or_its_request(
        self, faults: Faults, queue: Queue
    ) -> None:
        faults.fail("add", per_task=True, times=1)
        for task in NewTask(name="a"), NewTask(name="b"), NewTask("c"), NewTask("d"):
            with pytest.raises(TransientError):
                queue.add_many([task])
            queue.add_many([task])

        assert len(queue.list_tasks()) == 4

    @pytest.mark.parametrize("option", [{"url": "/mail"}, {"per_task": True}])
    def test_tasks_of_other_calls_are_refused(self, faults: Faults, option: Any) -> None:
        [name] = option
        message = f"^{name} is for faults of attempt and add, not of {{}}: remove it$"
        with pytest.raises(ValueError, match=message.format("lease_tasks")):
            faults.fail("lease_tasks", **option)
        with pytest.raises(ValueError, match=message.format("purge")):
            faults.latency("purge", **option)
        with pytest.raises(ValueError, match=message.format("a lease")):
            faults.empty_leases(**option)
        assert faults.active == []


def test_a_fault_with_a_seed_triggers_on_the_same_calls(emulator: Emulator, queue: Queue) -> None:
    runs = []
    for seed in (1, 1, 2):
        with Faults(emulator) as faults:
            faults.fail("lease_tasks", TransientError, probability=0.5, seed=seed)
            runs.append(outcomes(queue, 40))

    assert runs[0] == runs[1] != runs[2]
    assert 5 < runs[0].count("x") < 35
    assert outcomes(queue, 1) == "."


def test_a_failed_call_does_nothing(faults: Faults, queue: Queue) -> None:
    faults.fail("add", TransientError)

    with pytest.raises(TransientError, match=re.escape("try it again (injected by a fault)")) as e:
        queue.add()

    assert_empty(queue)
    assert {Path(entry.path) for entry in e.traceback.filter(e)} == {Path(__file__)}


def test_a_call_whose_answer_is_lost_is_done(faults: Faults, queue: Queue) -> None:
    faults.lose_response("add", times=1)
    with pytest.raises(DeadlineExceededError):
        queue.add()
    faults.lose_response("add", UnknownQueueError)
    with pytest.raises(UnknownQueueError) as raised:
        queue.add()

    assert raised.value.queue_name == "work"
    assert_available(queue, 2)


@each_row(
    ("given", "raised", "message"),
    [
        (InternalError("the disk is full"), InternalError, "^the disk is full$"),
        *((each, each, INJECTED) for each in FACTS),
        # Those of the SDK are pullqueue's of the same name, if any.
        (taskqueue.TaskLeaseExpiredError, TaskLeaseExpiredError, INJECTED),
        (taskqueue.TaskLeaseExpiredError("no luck"), TaskLeaseExpiredError, "^no luck$"),
        (taskqueue.TombstonedTaskError, TombstonedTaskError, INJECTED),
        (taskqueue.UnknownQueueError, UnknownQueueError, INJECTED),
        (NOT_OF_PULLQUEUE(9, "denied"), NOT_OF_PULLQUEUE, "denied"),
        # By the status of gRPC, or by the class of Google's clients.
        ("UNAVAILABLE", TransientError, INJECTED),
        (ServiceUnavailable, TransientError, INJECTED),
        (ServiceUnavailable(""), TransientError, INJECTED),  # type: ignore[no-untyped-call]
        ("INTERNAL", InternalError, INJECTED),
        (InternalServerError, InternalError, INJECTED),
        ("DEADLINE_EXCEEDED", DeadlineExceededError, INJECTED),
        (DeadlineExceeded, DeadlineExceededError, INJECTED),
        ("RESOURCE_EXHAUSTED", RateLimitExceededError, INJECTED),
        (ResourceExhausted, RateLimitExceededError, INJECTED),
        (ResourceExhausted("no luck"), RateLimitExceededError, "^no luck$"),  # type: ignore[no-untyped-call]
        ("OverQuotaError", OverQuotaError, INJECTED),
    ],
)
def test_an_error_can_be_named_as_each_interface_knows_it(
    faults: Faults, queue: Queue, given: Any, raised: type[Exception], message: str
) -> None:
    with faults.fail("purge", given), pytest.raises(raised, match=message) as caught:
        queue.purge()

    assert caught.type is raised
    if raised in FACTS:
        assert vars(caught.value) == FACTS[raised]


@pytest.mark.parametrize(
    "error",
    [taskqueue.TransientError, taskqueue.PermissionDeniedError, apiproxy_errors.OverQuotaError],
)
def test_an_app_on_the_sdk_gets_what_was_set(
    emulator: Emulator, faults: Faults, error: type[Exception]
) -> None:
    faults.fail("lease_tasks", error)

    with sdk.install(emulator), pytest.raises(error) as caught:
        taskqueue.Queue("work").lease_tasks(60, 1)
    assert caught.type is error


def test_a_fault_is_removed(faults: Faults, queue: Queue) -> None:
    first = faults.fail("lease_tasks", TransientError)
    with faults.empty_leases() as second:
        assert outcomes(queue, 2) == "xx"
        first.remove()
        first.remove()
        assert faults.active == [second]
        assert outcomes(queue, 2) == ".."

    assert faults.active == []
    assert (first.hits, second.hits) == (2, 2)
    assert not queue.interceptors


def test_the_fault_set_first_triggers_first(emulator: Emulator, queue: Queue) -> None:
    with Faults(emulator) as others:
        faults = Faults(emulator)
        faults.fail("purge", TransientError, times=1)
        others.fail("purge", InternalError, times=1)
        faults.fail("purge", OverQuotaError)
        never = others.fail("purge", TransientError)

        seen = []
        for _ in range(4):
            with pytest.raises(PullQueueError) as caught:
                queue.purge()
            seen.append(type(caught.value))

        assert seen == [TransientError, InternalError, OverQuotaError, OverQuotaError]
        assert (never.calls, never.hits) == (0, 0)
        faults.clear()
        with pytest.raises(TransientError):
            queue.purge()


def test_lease_tasks_means_leases_by_tag_too(faults: Faults, queue: Queue) -> None:
    both = faults.fail("lease_tasks", TransientError, times=2)
    by_tag = faults.fail("lease_tasks_by_tag", InternalError)

    with pytest.raises(TransientError):
        queue.lease_tasks_by_tag(60, 1)
    with pytest.raises(TransientError):
        queue.lease_tasks(60, 1)
    queue.lease_tasks(60, 1)
    with pytest.raises(InternalError):
        queue.lease_tasks_by_tag(60, 1)

    assert (both.hits, by_tag.hits) == (2, 1)


def test_faults_set_at_the_same_time(emulator: Emulator) -> None:
    with ThreadPoolExecutor(8) as threads:
        set_ = list(
            threads.map(lambda _: Faults(emulator).fail("purge", TransientError), range(50))
        )
        assert {*find_faults(emulator)} == {*set_}
        list(threads.map(lambda fault: fault.remove(), set_))

    assert find_faults(emulator) == []
    assert not emulator.interceptors


def test_the_state_shows_the_faults_in_their_order_with_hits(
    emulator: Emulator, queue: Queue, faults: Faults
) -> None:
    error = TransientError("x")
    faults.fail("delete_tasks", error, queues=["work"])
    faults.empty_leases(every=2)
    faults.latency("lease_tasks_by_tag", 2.0)
    faults.lose_response("purge")
    faults.expire_leases(after=3)

    queue.lease_tasks_by_tag(60, 1)
    queue.lease_tasks(60, 1)

    assert describe(emulator).splitlines()[-5:] == [
        f'fault fail("delete_tasks", {error!r}, queues=["work"]): triggered on 0 of 0 calls',
        "fault empty_leases(every=2): triggered on 1 of 2 calls",
        'fault latency("lease_tasks_by_tag", 2): triggered on 1 of 1 calls',
        'fault lose_response("purge", DeadlineExceededError): triggered on 0 of 0 calls',
        "fault expire_leases(after=3): triggered on 0 of 0 calls",
    ]
    faults.clear()
    assert "fault" not in describe(emulator)


def test_a_latency_passes_by_the_clock(faults: Faults, queue: Queue, clock: ManualClock) -> None:
    """An answer arrives when part of the lease has passed; who waits less gets an error."""
    start = clock.now()
    faults.latency("add", 40)
    faults.latency("lease_tasks_by_tag", timedelta(seconds=40))
    faults.latency("purge", 0)

    with call_deadline(40_000_000):
        queue.add()
    message = "^a fault makes the call take 40 seconds, and its deadline is 30\\.5 seconds$"
    with call_deadline(30_500_000), pytest.raises(DeadlineExceededError, match=message):
        queue.add()
    assert clock.now() - start == timedelta(seconds=70.5)
    assert_available(queue, 2)

    [task] = queue.lease_tasks_by_tag(60, 1)
    assert task.eta - clock.now() == timedelta(seconds=20)
    now = clock.now()
    queue.purge()
    assert clock.now() == now


def test_empty_leases_find_nothing(faults: Faults, queue: Queue) -> None:
    queue.add()
    faults.empty_leases(times=2)

    assert verbs.lease(queue, 60, 1).rate_limited
    assert queue.lease_tasks_by_tag(60, 1) == []
    assert len(queue.lease_tasks(60, 1)) == 1


def test_a_lease_expires_before_the_next_call_of_its_holder(
    faults: Faults, queue: Queue, clock: ManualClock
) -> None:
    queue.add()
    fault = faults.expire_leases(times=1)

    [task] = queue.lease_tasks(60, 1)
    assert_leased(queue, 1)
    assert fault.hits == 1
    with pytest.raises(TaskLeaseExpiredError):
        queue.modify_task_lease(task, 60)

    assert clock.now() == task.eta
    assert [again.name for again in queue.lease_tasks(60, 1)] == [task.name]
    assert queue.delete_tasks(task) == [DeleteResult.DELETED]


def test_another_worker_leases_between(faults: Faults, queue: Queue) -> None:
    queue.add("a")
    done: list[bytes] = []

    def work() -> None:
        tasks = queue.lease_tasks(60, 1)
        done.extend(task.payload for task in tasks)
        queue.delete_tasks(tasks)

    message = '^other_worker is "work": pass a function without arguments, which leases the tasks$'
    with pytest.raises(TypeError, match=message):
        faults.expire_leases(other_worker="work")  # type: ignore[arg-type]
    faults.expire_leases(other_worker=work)
    work()
    queue.add("b")
    work()

    assert done == [b"a", b"a", b"b", b"b"]
    assert_empty(queue)


def test_a_lease_that_has_ended_lapses_nevertheless(
    faults: Faults, queue: Queue, clock: ManualClock
) -> None:
    """Where the test's clock has passed the end of the lease already, it stays where it is."""
    queue.add()
    faults.expire_leases()
    queue.lease_tasks(60, 1)
    now = clock.advance(100)

    queue.purge()

    assert clock.now() == now


def test_a_method_of_cloud_tasks_is_its_call(faults: Faults, queue: Queue) -> None:
    faults.fail("CreateTask", times=1)
    lost = faults.lose_response("LeaseTasks")
    found = [faults.latency(name).options for name in METHODS]

    assert lost.options == {"call": "lease_tasks", "error": DeadlineExceededError}
    assert found == [{"call": CALL_OF_METHOD[name], "seconds": 1} for name in METHODS]
    with pytest.raises(TransientError):
        queue.add()


def fail(verb: str, error: Any = TransientError, **when: Any) -> Callable[[Faults], object]:
    return lambda faults: faults.fail(verb, error, **when)


def latency(by: Any) -> Callable[[Faults], object]:
    return lambda faults: faults.latency("add", by)


NOT_AN_ERROR = " is not an error of pullqueue or of .* such as pullqueue\\."


@each_row(
    ("set_fault", "error", "message"),
    [
        (fail("work"), ValueError, 'there is no call "work": use one of add, lease_tasks, '),
        (fail("create_task"), ValueError, '"create_task": the call of CreateTask is "add"'),
        (fail("insert"), ValueError, 'there is no call "insert": the call of insert is "add"'),
        (fail("lease_task"), ValueError, '"lease_task": did you mean "lease_tasks"?'),
        (fail("mail.Send"), ValueError, '^"mail.Send" is a call to a service of .* not use: add'),
        (fail("atempt", status=503), ValueError, '"atempt": did you mean "attempt"?'),
        (fail("add", status=503), ValueError, "status is 503, and add has none"),
        (fail("attempt", status=99), ValueError, "status is 99: the status of a failed attempt is"),
        (fail("add", queues=[]), ValueError, r"queues is \[\]: expected `array` of length >= 1"),
        (
            fail("add", queues="work"),
            TypeError,
            r'^queues is "work": pass a list, queues=\["work"\]$',
        ),
        (fail("add", queues=7), TypeError, r"^queues is 7: pass a list, queues=\[7\]$"),
        (fail("add", queues=["works"]), UnknownQueueError, '^queue "works" is not in '),
        (fail("attempt", url=""), ValueError, "^url is : expected `str` of length >= 1"),
        (fail("attempt", url=7), ValueError, "^url is 7: expected `str`, got `int`"),
        (fail("attempt", per_task=1), ValueError, "^per_task is 1: expected `bool`, got `int`"),
        (fail("add", times=0), ValueError, "^times is 0: expected `int` >= 1"),
        (fail("add", after=-1), ValueError, "^after is -1: expected `int` >= 0"),
        (fail("add", every=0), ValueError, "^every is 0: expected `int` >= 1"),
        (fail("add", probability=0), ValueError, "^probability is 0: expected `float` > 0.0"),
        (fail("add", probability=1.5), ValueError, "^probability is 1.5: expected `float` <= 1.0"),
        (
            fail("add", time=1),
            TypeError,
            r"^fail\(\) has no argument `time`: use one of queues, times, after, ",
        ),
        (latency(-1), ClockError, "must be 0 or more"),
        (latency(timedelta(seconds=-1)), ClockError, "must be 0 or more"),
        (latency(float("inf")), ClockError, "finite number"),
        (latency(1e300), ClockError, "finite number"),
        (fail("add", OSError), TypeError, f"{NOT_AN_ERROR}TransientError$"),
        (fail("add", KeyError("x")), TypeError, f"{NOT_AN_ERROR}TransientError$"),
        (fail("add", OF_ANOTHER), TypeError, f"{NOT_AN_ERROR}InternalError$"),
        (fail("add", GoogleAPIError), TypeError, f"^GoogleAPIError{NOT_AN_ERROR}TransientError$"),
        (
            lambda faults: faults.lose_response("add", Unauthorized),
            TypeError,
            f"{NOT_AN_ERROR}TransientError$",
        ),
        (fail("add", "UNAVAILBLE"), ValueError, '^there is no error "UNAVAILBLE": (did|use one)'),
        (fail("add", PermissionDenied), ValueError, '"PERMISSION_DENIED": (did you|use one of)'),
        (fail("add", NOT_OF_PULLQUEUE), TypeError, "application_error"),
    ],
)
def test_faults_that_can_never_trigger_are_refused(
    faults: Faults,
    monkeypatch: pytest.MonkeyPatch,
    set_fault: Callable[[Faults], object],
    error: type[Exception],
    message: str,
) -> None:
    """Where the fault is set, not in the app's call."""
    monkeypatch.delitem(sys.modules, "pullqueue.sdk.rpcs", raising=False)
    with pytest.raises(error, match=message):
        set_fault(faults)
    assert faults.active == []
