"""The sentence that says why the tasks of a queue do not move, and when they will."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from scenes import LEASE
from werkzeug.test import Client

from pullqueue import (
    AttemptRecord,
    Emulator,
    HttpRequest,
    ManualClock,
    NewTask,
    SystemClock,
)
from pullqueue.config.model import QueueSettings
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.engine.queue import Queue
from pullqueue.engine.verbs import insert
from pullqueue.limits import Limits
from pullqueue.push.addresses import PushAddresses
from pullqueue.push.dispatcher import Dispatcher
from pullqueue.push.request import PushResponse
from pullqueue.resources.operations import parse_body
from pullqueue.resources.overview import get_summary
from pullqueue.resources.queues import get_queue
from pullqueue.resources.service import set_fault
from pullqueue.runtime.causes import Cause
from pullqueue.runtime.fault_registry import NewFault
from pullqueue.runtime.progress import Progress
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import create_app
from pullqueue.tasks import RetryParameters
from pullqueue.testing import run_tasks

CONFIG = """\
queue:
- name: pull
  mode: pull
- name: push
  rate: 5/s
- name: zero
  rate: 0/s
- name: one
  rate: 100/s
  max_concurrent_requests: 1
"""


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    return Emulator.from_text(CONFIG, clock=clock)


def serving(emulator: Emulator) -> ServerState:
    """Return the state of a server that has an address and does not send yet."""
    return ServerState(emulator, push_to=PushAddresses(["http://127.0.0.1:9"]))


@pytest.fixture
def state(emulator: Emulator) -> ServerState:
    return serving(emulator)


@pytest.fixture
def push(emulator: Emulator) -> Queue:
    return emulator.queue("push")


@pytest.fixture
def pull(emulator: Emulator) -> Queue:
    return emulator.queue("pull")


def of(state: ServerState, name: str) -> Progress:
    return get_queue(state, name).progress


def shown(state: ServerState, name: str) -> tuple[str | None, str]:
    """Return the reason and the sentence of a queue."""
    progress = of(state, name)
    return progress.reason, progress.text


def attempt(
    queue: Queue,
    status: int,
    reason: str | None = None,
    *,
    fault: int | None = None,
    backoff_seconds: float = 40,
) -> None:
    """Add a task of which one attempt ends with a status; 0: there is no response."""
    task = start_attempt(queue, queue.add(), lease_seconds=60, attempts=AttemptRecord())
    ended_usec = queue.now_usec()
    record = AttemptRecord(1, status=status, reason=reason, ended_usec=ended_usec, fault=fault)
    finish_attempt(queue, task, attempts=record, backoff_seconds=backoff_seconds)


@pytest.mark.parametrize("name", ["pull", "push", "zero", "one"])
def test_a_queue_without_tasks_waits_for_nothing(state: ServerState, name: str) -> None:
    text, severity = ("its rate is 0", "warning") if name == "zero" else ("", "info")
    progress = of(state, name)
    assert (progress.text, progress.severity, progress.next) == (text, severity, None)


@pytest.mark.parametrize(
    ("url", "project", "options"),
    [
        ("", "", ""),
        ("http://127.0.0.1:8124", "", ""),
        ("http://127.0.0.1:8125", "", " --url http://127.0.0.1:8125"),
        ("http://127.0.0.1:8124", "other", " --project other"),
        ("http://[::1]:8125", "other", " --url http://[::1]:8125 --project other"),
    ],
)
def test_commands_have_the_address_of_the_server(
    emulator: Emulator, url: str, project: str, options: str
) -> None:
    """Where it is not the default one, so that they can be pasted."""
    state = ServerState(emulator, push_to=PushAddresses())
    state.url, state.project = url, project
    emulator.queue("push").add()

    kept = f"kept, not delivered: run `pullqueue push-to http://localhost:8080{options}`"
    assert get_queue(state, "push").kept == kept
    assert of(state, "push").text == f"tasks are {kept}"
    push = get_summary(state).push
    assert push is not None
    assert push.kept == {"push": kept}


def test_a_queue_that_queue_yaml_does_not_list_is_disabled(
    state: ServerState, emulator: Emulator, pull: Queue
) -> None:
    """One that was created was never in the file."""
    pull.add()
    emulator.create_queue(QueueSettings(name="made")).add()
    queues = [queue for queue in emulator.config.queues if queue.name != "pull"]
    emulator.reconfigure(replace(emulator.config, queues=tuple(queues)), disable_created=True)

    text = "it is no longer in queue.yaml: 1 task kept until it is there again"
    assert shown(state, "pull") == ("disabled", text)
    text = "queue.yaml, applied after it was created, does not have it: 1 task kept until it is "
    assert shown(state, "made") == ("disabled", f"{text}resumed")


@pytest.mark.parametrize(
    ("name", "one", "more"),
    [
        ("pull", "workers can lease it", "workers can lease them"),
        ("push", "it starts", "all can start"),
    ],
)
def test_a_paused_queue_waits_until_it_is_resumed(
    state: ServerState, name: str, one: str, more: str
) -> None:
    queue = state.emulator.queue(name)
    queue.pause()
    assert shown(state, name) == ("paused", "it is paused")

    for tasks, then in (("1 due task waits", one), ("2 due tasks wait", more)):
        queue.add()
        text = f"it is paused: {tasks} until it is resumed, then {then}"
        assert shown(state, name) == ("paused", text)
    assert of(state, name).severity == "warning"


def test_a_paused_queue_says_what_comes_after_it_is_resumed(
    state: ServerState, push: Queue
) -> None:
    """More tasks than the bucket has tokens need time; and what happened before stays shown."""
    attempt(push, 500, "no mail")
    for _ in range(12):
        push.add()
    push.pause()

    assert of(state, "push").text == (
        "it is paused: 12 due tasks wait until it is resumed, then 5 can start, and `pullqueue "
        "clock advance 2s --deliver` sends all; its only attempt in the last minute failed: "
        "status 500 (no mail)"
    )
    assert of(state, "push").severity == "error"


def test_a_paused_queue_of_which_nothing_is_due_says_when_something_is(
    state: ServerState, push: Queue, clock: ManualClock
) -> None:
    """To move the clock is not the advice: it would start nothing."""
    push.add(eta=clock.now() + timedelta(minutes=5))
    attempt(push, 500)
    push.pause()
    clock.advance(61)
    push.delete_tasks(push.list_tasks(1))

    assert (
        of(state, "push").text == "it is paused; nothing is due: its only task is due in 3 min 59 s"
    )
    push.purge()
    attempt(push, 500, backoff_seconds=100)
    assert of(state, "push").text.endswith("nothing is due: its only task is due in 1 min 40 s")


def test_rate_0_waits_for_another_rate(state: ServerState) -> None:
    state.emulator.queue("zero").add()

    text = "its rate is 0: 1 due task waits until queue.yaml has another rate"
    assert shown(state, "zero") == ("rate 0", text)


LOCAL = "http://localhost:8390/mail"
PUSH_TO, DEFAULT = "run `pullqueue push-to", "http://localhost:8080"
NOTHING_FOR = "there is no address for"
NOT_DELIVERED = (
    "this server does not deliver push tasks: use run_tasks() of pullqueue.testing in a test, or "
    "`pullqueue serve`"
)


@pytest.mark.parametrize(
    ("url", "addresses", "text"),
    [
        ("", None, f"{PUSH_TO} {DEFAULT}`"),
        ("", PushAddresses(["a=http://a"]), f"there is no default address: {PUSH_TO} {DEFAULT}`"),
        (LOCAL, PushAddresses(), ""),
        (LOCAL, None, NOT_DELIVERED),
        *(
            (f"{origin}/mail", None, f'{NOTHING_FOR} "{origin}": {PUSH_TO} {option}`')
            for origin, option in (
                ("https://api.example.com", f"https://api.example.com={DEFAULT}"),
                ("http://orders.internal:8080", "http://orders.internal:8080"),
                ("http://orders:8080", "http://orders:8080"),
            )
        ),
    ],
)
def test_a_task_without_an_address_is_kept_and_says_what_to_do(
    emulator: Emulator, push: Queue, url: str, addresses: PushAddresses | None, text: str
) -> None:
    """HTTP tasks of Cloud Tasks name where they go: a public host is that of an app on this
    machine, one of a local network is called itself.
    """
    insert(push, [NewTask(request=HttpRequest(url) if url else None)], absolute_urls=True)

    expected = ("no address", f"tasks are kept, not delivered: {text}") if text else (None, "")
    assert shown(ServerState(emulator, push_to=addresses), "push") == expected


def test_tasks_of_which_some_are_kept_are_counted(
    emulator: Emulator, clock: ManualClock, push: Queue
) -> None:
    """The server knows where one goes that has an address of its own."""
    state = ServerState(emulator, push_to=PushAddresses())
    push.add(eta=clock.now() + timedelta(minutes=5))
    kept = f"kept, not delivered: {PUSH_TO} {DEFAULT}`"
    when = "; nothing is due: its only task is due in 5 min"
    assert of(state, "push").text == f"tasks are {kept}{when}"
    insert(push, [NewTask(request=HttpRequest(LOCAL))], absolute_urls=True)

    for is_are in ("1 of 2 tasks is", "2 of 3 tasks are"):
        push.add()
        assert of(state, "push").text == f"{is_are} {kept}"


def test_the_address_of_a_queue_with_a_target_is_named(emulator: Emulator, push: Queue) -> None:
    """With the port that the first service other than the default one often has."""
    emulator.reconfigure(
        Emulator.from_text("queue: [{name: push, rate: 5/s, target: worker}]").config
    )
    push.add()

    assert of(ServerState(emulator), "push").text == (
        f"tasks are kept, not delivered: {PUSH_TO} worker=http://localhost:8081`"
    )


def test_tasks_wait_for_an_app_that_does_not_listen_yet(
    state: ServerState, emulator: Emulator
) -> None:
    """That is not a missing address."""
    emulator.queue("push").add()
    state.push_to.await_app()

    text = (
        "tasks are kept, not delivered: the server waits for the app to listen at "
        "http://127.0.0.1:9"
    )
    assert shown(state, "push") == ("not listening", text)


def test_tasks_of_a_queue_that_was_a_pull_queue_say_what_to_do(
    state: ServerState, emulator: Emulator
) -> None:
    """They have no request: they are kept, and nothing else fails because of them."""
    emulator.queue("pull").add(name="old")
    emulator.reconfigure(Emulator.from_text(CONFIG.replace("mode: pull", "rate: 5/s")).config)

    text = (
        "tasks are kept, not delivered: it was added while the queue was a pull queue: delete "
        "it, or set `mode: pull` and lease it"
    )
    assert shown(state, "pull") == ("no address", text)


def test_tasks_of_a_project_with_a_clock_of_its_own_wait_until_they_are_run(
    state: ServerState, emulator: Emulator
) -> None:
    assert state.delivery is not None
    state.delivery.is_held = True
    assert of(state, "push").text == ""
    emulator.queue("push").add()

    text = (
        "1 due task waits for `POST /_emulator/run`, or for a clock that is advanced with `deliver`"
    )
    assert shown(state, "push") == ("run only", text)


@pytest.mark.parametrize("name", ["pull", "push"])
def test_a_fault_that_has_done_nothing_is_not_named(state: ServerState, name: str) -> None:
    call = "lease_tasks" if name == "pull" else "attempt"
    set_fault(state, parse_body({"kind": "fail", "call": call}, NewFault))
    assert of(state, name).text == ""
    eta = state.emulator.clock.now() + timedelta(days=1)
    state.emulator.queue(name).add(eta=eta)

    assert shown(state, name)[0] == "not due"


@pytest.mark.parametrize(
    ("faults", "text"),
    [
        ([None, 1, 1], "3 of 4 attempts failed in the last minute: 2 by fault 1 (fail), 1 x "),
        ([1], "1 of 2 attempts failed in the last minute: by fault 1 (fail)"),
        ([7], "1 of 2 attempts failed in the last minute: by fault 7 (removed)"),
    ],
)
def test_a_fault_is_named_with_what_it_has_caused(
    state: ServerState, faults: list[int | None], text: str, push: Queue
) -> None:
    set_fault(state, parse_body({"kind": "fail", "call": "attempt"}, NewFault))
    for fault in faults:
        attempt(push, 500, "no mail", fault=fault)
    attempt(push, 200)

    assert of(state, "push").text.startswith(text)


@pytest.mark.parametrize(
    ("count", "more"), [(2, ""), (3, ", fault 3 (fail)"), (4, ", fault 3 (fail) and 1 other")]
)
def test_faults_that_can_trigger_on_the_next_attempts_are_named(
    state: ServerState, count: int, more: str, push: Queue
) -> None:
    """Up to three, of those for this queue."""
    for queues in [*[["push"]] * count, ["one"]]:
        fault = {"kind": "fail", "call": "attempt", "queues": queues}
        set_fault(state, parse_body(fault, NewFault))
    set_fault(state, parse_body(fault | {"queues": ["push"], "url": "/other"}, NewFault))
    attempt(push, 500)

    assert of(state, "push").causes[-1] == Cause(
        reason="faults",
        severity="info",
        count=1,
        text=f"fault 1 (fail), fault 2 (fail){more} can trigger on the next attempts",
    )


def test_an_app_that_does_not_respond_is_an_error(state: ServerState, push: Queue) -> None:
    for _ in range(3):
        attempt(push, 0, "connection refused")

    text = "the app does not respond (connection refused): all 3 attempts failed in the last minute"
    progress = of(state, "push")
    assert progress.causes[0] == Cause(reason="no response", severity="error", count=3, text=text)
    assert (progress.severity, progress.delivered, progress.failed) == ("error", 0, 3)
    assert progress.text == (
        f"{text}; 3 tasks wait for their next attempt, the first in 40 s (`pullqueue clock advance "
        "40s --deliver`)"
    )
    attempt(push, 0, "timed out")
    text = (
        "the app does not respond: all 4 attempts failed in the last minute: 3 x no response "
        "(connection refused), 1 x no response (timed out)"
    )
    cause = of(state, "push").causes[0]
    assert cause == Cause(reason="no response", severity="error", count=4, text=text)


def test_attempts_that_all_fail_are_an_error_with_their_results(
    state: ServerState, push: Queue
) -> None:
    """The most frequent ones first; reasons with a pattern in common are one."""
    for status, reason in [(404, None), (500, "a"), (500, "b"), (500, "b"), (502, "a"), (503, "a")]:
        attempt(push, status, reason)

    text = "all 6 attempts failed in the last minute: "
    assert of(state, "push").causes[0].text == (
        f"{text}2 x status 500 (b), 1 x status 404, 1 x status 500 (a), 2 others"
    )
    for number in range(3):
        attempt(push, 500, f"no order {number}")
    assert of(state, "push").causes[0].text == (
        "all 9 attempts failed in the last minute: 3 x status 500 (no order …), 2 x status 500 "
        "(b), 1 x status 404, 3 others"
    )
    assert of(state, "push").severity == "error"


def test_a_queue_says_since_when_its_attempts_fail(
    state: ServerState, clock: ManualClock, push: Queue
) -> None:
    """It begins again after a success, also after that of a minute in which others failed."""
    found = []
    for statuses in ([500], [200], [500, 200], [500], [], [500], [500]):
        clock.advance(60)
        for status in statuses:
            attempt(push, status)
        found.append(of(state, "push"))

    minutes = [each.failing_since and each.failing_since[14:16] for each in found]
    assert minutes == ["01", None, None, "04", "04", "04", "04"]
    assert [each.severity for each in found] == ["error", "info", *["error"] * 5]
    texts = [each.causes[0].text for each in found[3:]]
    assert texts == [
        "its only attempt in the last minute failed: status 500",
        "its only attempt since 00:04 UTC failed: status 500",
        "its only attempt in the last minute failed: status 500",
        "its only attempt in the last minute failed (failing since 00:04 UTC): status 500",
    ]

    clock.advance(60)
    text = "all 3 attempts since 00:04 UTC failed: status 500"
    assert of(state, "push").causes[0].text == text

    clock.advance(86_400 - 120)
    attempt(push, 500)
    assert "failing since 2026-01-01 00:06 UTC" in of(state, "push").text


def test_attempts_of_which_no_results_are_recorded_any_more_are_counted(
    clock: ManualClock,
) -> None:
    emulator = Emulator.from_text(CONFIG, clock=clock, limits=Limits(events_kept=5))
    for reason in ("old", "new", "new"):
        attempt(emulator.queue("push"), 500, reason)
    clock.advance(60)

    text = "all 3 attempts since 00:00 UTC failed: status 500 (new)"
    assert text in of(ServerState(emulator), "push").text


def test_a_queue_whose_tasks_are_all_exhausted_says_why(emulator: Emulator) -> None:
    state = serving(emulator)
    settings = emulator.queue("push").settings
    limited = replace(settings, retry_parameters=RetryParameters(task_retry_limit=0))
    emulator.reconfigure(replace(emulator.config, queues=(limited,)))
    for attempts, exhausted in (
        ("its only attempt in the last minute failed", "1 task is exhausted, {} adds it"),
        ("all 2 attempts failed in the last minute", "2 tasks are exhausted, {} adds them"),
    ):
        emulator.queue("push").add(request=HttpRequest("/mail"))
        run_tasks(emulator, send=lambda _: 500)

        how = exhausted.format("and not tried again until `pullqueue tasks requeue push --all`")
        assert of(state, "push").text == f"{attempts}: status 500; {how}"


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        ([200, 200, 500], "some failed"),
        ([200, 500], "failing"),
        ([200, 500, 500], "failing"),
        ([200, 0], "failing"),
    ],
)
def test_a_queue_fails_from_half_of_its_attempts_on(
    state: ServerState, statuses: list[int], reason: str, push: Queue
) -> None:
    for status in statuses:
        attempt(push, status)
    push.add()

    assert of(state, "push").reason == reason


@pytest.mark.parametrize(
    ("slots", "one"), [(1, "the running attempt"), (3, "one of 3 running attempts")]
)
def test_a_full_number_of_running_attempts_holds_up_others(
    state: ServerState, emulator: Emulator, slots: int, one: str
) -> None:
    settings = replace(emulator.queue("one").settings, max_concurrent_requests=slots)
    emulator.reconfigure(replace(emulator.config, queues=(settings,)))
    queue = emulator.queue("one")
    for _ in range(slots - 1):
        start_attempt(queue, queue.add(), lease_seconds=60, attempts=AttemptRecord())
    queue.add()
    assert of(state, "one").reason is None

    start_attempt(queue, queue.add(), lease_seconds=60, attempts=AttemptRecord())
    text = f"1 due task waits for {one} to end: max_concurrent_requests is {slots}"
    assert shown(state, "one") == ("concurrency", text)


def test_tasks_that_wait_for_attempts_to_end_take_as_long_as_those_before() -> None:
    """By the system's clock."""
    emulator = Emulator.from_text(CONFIG, clock=SystemClock())
    state = serving(emulator)
    queue = emulator.queue("one")
    for _ in range(4):
        attempt(queue, 200)
    start_attempt(queue, queue.add(), lease_seconds=60, attempts=AttemptRecord())
    for _ in range(10):
        queue.add()

    text = "10 due tasks wait for the running attempt to end: max_concurrent_requests is 1, about "
    assert of(state, "one").text == f"{text}2 min 30 s for all at the pace of the last minute"


def test_tasks_wait_for_the_rate_as_long_as_the_clock_stands(
    state: ServerState, push: Queue
) -> None:
    for _ in range(20):
        push.add()

    text = "15 due tasks wait for the rate of 5/s: `pullqueue clock advance 3s --deliver` sends all"
    assert shown(state, "push") == ("rate", text)


def test_one_task_waits_for_a_clock_that_stands_once_the_bucket_is_empty(
    state: ServerState, push: Queue
) -> None:
    """However short that is: no time passes until the clock is moved."""
    task = push.add()
    assert shown(state, "push") == (None, "")
    dispatcher = Dispatcher(state.emulator, throttle=True)
    for _ in range(5):
        dispatcher.reserve(task)

    waits = "1 due task waits"
    sends = "`pullqueue clock advance 1s --deliver` sends it"
    assert shown(state, "push") == ("rate", f"{waits} for the rate of 5/s: {sends}")
    push.pause()
    text = f"it is paused: {waits} until it is resumed, then {sends}"
    assert shown(state, "push") == ("paused", text)


@pytest.mark.parametrize(
    ("retried", "text"),
    [(0, "all"), (1, "these; 1 more is retried later"), (2, "these; 2 more are retried later")],
)
def test_tasks_that_are_retried_later_are_not_in_the_time_of_those_that_wait(
    retried: int, text: str
) -> None:
    """By the system's clock; they take their share of the rate as soon as they are due."""
    emulator = Emulator.from_text(CONFIG, clock=SystemClock())
    queue = emulator.queue("push")
    for _ in range(retried):
        attempt(queue, 503)
    for _ in range(605):
        queue.add()

    [rate] = [each for each in of(serving(emulator), "push").causes if each.reason == "rate"]
    assert (rate.count, rate.text) == (
        600,
        f"600 due tasks wait for the rate of 5/s, about 2 min for {text}",
    )


def lease(state: ServerState, tag: str | None = None, **query: object) -> None:
    """Lease a task as a worker does, over REST."""
    by_tag = {} if tag is None else {"groupByTag": "true", "tag": tag}
    given = {"numTasks": 1, "leaseSecs": 10} | by_tag | query
    Client(create_app(state.emulator, state=state)).post(LEASE.format("pull"), query_string=given)


@pytest.mark.parametrize(
    ("tasks", "tags", "asked"),
    [
        (1, ["red"], 'the tag "red", which the available task does not have'),
        (2, ["red", "blue"], 'the tags "blue", "red", which none of 2 available has'),
    ],
)
def test_workers_that_ask_for_other_tags(
    state: ServerState, pull: Queue, tasks: int, tags: list[str], asked: str
) -> None:
    pull.add_many([NewTask()] * tasks)
    for tag in tags:
        lease(state, tag)

    assert shown(state, "pull") == (
        "other tag",
        f"in the last minute workers asked only for {asked}",
    )


def test_workers_whose_calls_fail(state: ServerState, pull: Queue) -> None:
    pull.add()
    lease(state, leaseSecs=-1)

    reason, text = shown(state, "pull")
    assert reason == "leases fail"
    assert text.startswith(
        "1 task is available, workers leased none in the last minute: 1 of 1 lease call got none: "
        "status 400 ("
    )


@pytest.mark.parametrize(
    ("due", "done", "span", "severity"),
    [
        (1, 1, "1 min for it", "info"),
        (2, 2, "1 min for all", "info"),
        (10, 1, "10 min for all", "info"),
        (11, 1, "11 min for all", "warning"),
    ],
)
def test_workers_that_are_slower_than_tasks_come(
    state: ServerState,
    pull: Queue,
    clock: ManualClock,
    *,
    due: int,
    done: int,
    span: str,
    severity: str,
) -> None:
    pull.add_many([NewTask()] * due)
    clock.advance(60)
    pull.add_many([NewTask(tag="new")] * done)
    pull.delete_tasks(pull.lease_tasks_by_tag(10, done, "new"))

    progress = of(state, "pull")
    assert (progress.reason, progress.severity, progress.causes[0].count) == (
        "few leased",
        severity,
        due,
    )
    assert progress.text == (
        f"{due} {'task is' if due == 1 else 'tasks are'} available, workers leased {done} in the "
        f"last minute, {done} {'was' if done == 1 else 'were'} deleted: about {span} at this rate"
    )


@pytest.mark.parametrize(("tasks", "are"), [(1, "1 task is"), (2, "2 tasks are")])
def test_tasks_that_are_due_for_a_minute_say_so_if_nothing_else_does(
    state: ServerState, clock: ManualClock, tasks: int, are: str, push: Queue
) -> None:
    push.add_many([NewTask()] * tasks)
    clock.advance(59)
    assert shown(state, "push") == (None, "")
    clock.advance(1)

    text = f"{are} due, the first for 1 min"
    assert of(state, "push").causes == [
        Cause(reason="due", severity="warning", count=tasks, text=text)
    ]


def test_a_pull_queue_of_which_all_is_leased_waits_for_a_lease_to_end(
    state: ServerState, pull: Queue
) -> None:
    pull.add()
    pull.lease_tasks(300, 1)

    text = (
        "1 task is leased, none is available: its lease ends in 5 min (`pullqueue clock advance "
        "300s`)"
    )
    assert shown(state, "pull") == ("leased", text)
    assert of(state, "pull").next == "2026-01-01T00:05:00+00:00"


def test_tasks_that_wait_for_their_next_attempt_say_why(
    state: ServerState, push: Queue, clock: ManualClock
) -> None:
    attempt(push, 500)
    for _ in range(2):
        attempt(push, 200)

    text = "1 task waits for its next attempt in 40 s (`pullqueue clock advance 40s --deliver`)"
    assert of(state, "push").causes[1].text == text
    clock.advance(39.5)
    assert of(state, "push").causes[1].text == text.replace("40 s", "< 1 s").replace("40s", "1s")


def test_tasks_that_failed_long_ago_say_how(
    state: ServerState, push: Queue, clock: ManualClock
) -> None:
    """Where no other cause does."""
    attempt(push, 200)
    attempt(push, 500, "no mail", backoff_seconds=600)
    push.add(eta=clock.now() + timedelta(seconds=300))
    clock.advance(60)

    text = "1 task waits for its next attempt in 9 min (`pullqueue clock advance 540s --deliver`)"
    later = (
        "nothing is due: its only task is due in 4 min (`pullqueue clock advance 240s --deliver`)"
    )
    assert shown(state, "push") == ("retrying", f"{text} after status 500 (no mail); {later}")


def test_tasks_that_are_not_due_say_when_they_will_be() -> None:
    emulator = Emulator.from_text(CONFIG, clock=SystemClock())
    eta = emulator.clock.now() + timedelta(minutes=90, seconds=30)
    emulator.queue("pull").add(eta=eta)

    text = "nothing is due: its only task is due in 1 h 30 min"
    assert shown(ServerState(emulator), "pull") == ("not due", text)


@pytest.mark.parametrize("name", ["push", "created"])
def test_a_queue_that_is_slowed_down_shows_its_rate_and_why(state: ServerState, name: str) -> None:
    """That of queue.yaml, or the default."""
    state.emulator.create_queue(QueueSettings(name="created"))
    queue = state.emulator.queue(name)
    dispatcher = Dispatcher(state.emulator, throttle=True)
    for _ in range(3):
        running = dispatcher.start(queue.add())
        assert running is not None
        dispatcher.finish(running, PushResponse(200))
    running = dispatcher.start(queue.add())
    assert running is not None
    dispatcher.finish(running, PushResponse(503))

    assert of(state, name).text.startswith(
        "1 of 4 attempts failed in the last minute: status 503; slowed from 5/s to 2.5/s on "
        "average, with bursts of up to 5, by responses that report overload: status 503, of HTTP "
        "targets also 429 and 5xx; 1 task waits for its next attempt"
    )
    [slowed] = [each for each in of(state, name).causes if each.reason == "slowed"]
    assert slowed.severity == "warning"


def test_a_reason_that_occurs_once_is_shown_as_it_is(state: ServerState, push: Queue) -> None:
    attempt(push, 500, "no order 7")

    assert of(state, "push").causes[0].text.endswith(": status 500 (no order 7)")
