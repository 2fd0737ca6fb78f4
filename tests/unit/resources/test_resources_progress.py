"""The sentence that says why the tasks of a queue do not move, and when they will."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cloudtasks_api import PULL, RestApi, refused
from msgspec import convert, to_builtins
from scenes import LEASE, steps_of
from tables import each_row
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
from pullqueue.resources.clock import get_clock
from pullqueue.resources.operations import parse_body
from pullqueue.resources.overview import get_summary
from pullqueue.resources.queues import get_queue
from pullqueue.resources.service import set_fault
from pullqueue.runtime.causes import Cause
from pullqueue.runtime.fault_registry import NewFault
from pullqueue.runtime.progress import Progress
from pullqueue.runtime.sender_threads import SenderThreads
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
- name: three
  rate: 100/s
  max_concurrent_requests: 3
"""


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    return Emulator.from_text(CONFIG, clock=clock, limits=Limits(leases_per_second=10))


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
    """Return the progress of a queue as a client gets it: each field has its type."""
    return convert(to_builtins(get_queue(state, name).progress), Progress)


def shown(state: ServerState, name: str) -> tuple[str | None, str]:
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


def lease(state: ServerState, tag: str | None = None, **query: object) -> None:
    """Lease a task as a worker does, over REST."""
    by_tag = {} if tag is None else {"groupByTag": "true", "tag": tag}
    given = {"numTasks": 1, "leaseSecs": 10} | by_tag | query
    Client(create_app(state.emulator, state=state)).post(LEASE.format("pull"), query_string=given)


class Steps:
    """What happens to the queues of a server, by methods that steps name."""

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self.queue = state.emulator.queue

    def add(self, name: str, count: int = 1, delay: float = 0, tag: str | None = None) -> None:
        eta = self.state.emulator.clock.now() + timedelta(seconds=delay)
        self.queue(name).add_many([NewTask(eta=eta, tag=tag)] * count)

    def add_limited(self, delay: float) -> None:
        """Add a task with a limit of its own to retries."""
        eta = self.state.emulator.clock.now() + timedelta(seconds=delay)
        request = HttpRequest("/mail", retry=RetryParameters(task_retry_limit=1))
        self.queue("push").add(eta=eta, request=request)

    def end(self, status: int, *words: object, backoff_seconds: float = 40) -> None:
        """Add a task of which one attempt ends with a status, and a reason."""
        reason = " ".join(map(str, words)) or None
        attempt(self.queue("push"), status, reason, backoff_seconds=backoff_seconds)

    def late(self, *words: Any) -> None:
        """The same, with a backoff of ten minutes."""
        self.end(*words, backoff_seconds=600)

    def start(self, name: str) -> None:
        """Add a task of which one attempt is running."""
        task, record = self.queue(name).add(), AttemptRecord()
        start_attempt(self.queue(name), task, lease_seconds=60, attempts=record)

    def take(self, count: int) -> None:
        """Reserve slots and tokens for attempts, which do not begin."""
        dispatcher, [task, *_] = Dispatcher(self.state.emulator), self.queue("push").list_tasks()
        for _ in range(count):
            dispatcher.reserve(task)

    def lease(self, count: int, seconds: int) -> None:
        self.queue("pull").lease_tasks(seconds, count)

    def ask(self, tag: str) -> None:
        lease(self.state, tag)

    def done(self, count: int) -> None:
        """Add tasks which a worker leases and deletes."""
        self.add("pull", count, tag="new")
        self.queue("pull").delete_tasks(self.queue("pull").lease_tasks_by_tag(10, count, "new"))

    def poll(self, calls: int) -> None:
        for _ in range(calls):
            lease(self.state)

    def purge(self, name: str) -> None:
        self.queue(name).purge()

    def pause(self, name: str) -> None:
        self.queue(name).pause()

    def jump(self, seconds: str) -> None:
        self.state.emulator.clock.advance(float(seconds))  # type: ignore[attr-defined]


SENTENCES = """\
pause pull -> paused 0: warning
it is paused

pause pull; add pull -> paused 1: warning
it is paused: 1 due task waits until it is resumed, then workers can lease it

pause pull; add pull 2 -> paused 2: warning
it is paused: 2 due tasks wait until it is resumed, then workers can lease them

pause push; add push -> paused 1: warning
it is paused: 1 due task waits until it is resumed, then it starts

pause push; add push 2 -> paused 2: warning
it is paused: 2 due tasks wait until it is resumed, then all can start

start one; add one; pause one -> paused 1: warning
it is paused: 1 due task waits until it is resumed, then it starts when attempts end

add three 3; pause three -> paused 3: warning
it is paused: 3 due tasks wait until it is resumed, then all can start

add three 5; pause three -> paused 5: warning
it is paused: 5 due tasks wait until it is resumed, then 3 can start, and the others when attempts
end

add one; jump 1; start one; jump 59 -> concurrency 1: warning
1 due task waits for the running attempt to end: max_concurrent_requests is 1

pause zero; add zero -> paused 1, rate 0 1: warning
it is paused: 1 due task waits until it is resumed; its rate is 0: 1 due task waits until
queue.yaml has another rate

start one; add one 2; pause one -> paused 2: warning
it is paused: 2 due tasks wait until it is resumed, then all start when attempts end

end 500 no mail; add push 12; pause push -> paused 12, failing 1: error
it is paused: 12 due tasks wait until it is resumed, then 5 can start, and `pullqueue clock
advance 2s --deliver` sends all; its only attempt in the last minute failed: status 500 (no mail)

add push 2 300 -> not due 2: info
nothing is due: the first of 2 tasks is due in 5 min (`pullqueue clock advance 300s --deliver`)

add push 1 300; pause push; jump 61 -> paused 0, not due 1: warning
it is paused; nothing is due: its only task is due in 3 min 59 s

end 500; add push 1 300 -> failing 1, retrying 1, not due 1: error
its only attempt in the last minute failed: status 500; 1 task waits for its next attempt in 40 s
(`pullqueue clock advance 40s --deliver`); nothing is due: its only scheduled task is due in 5 min
(`pullqueue clock advance 300s --deliver`)

late 500; pause push -> paused 0, failing 1, not due 1: error
it is paused; its only attempt in the last minute failed: status 500; nothing is due: its only
task is due in 10 min

add zero -> rate 0 1: warning
its rate is 0: 1 due task waits until queue.yaml has another rate

add push 20 -> rate 15: info
15 due tasks wait for the rate of 5/s: `pullqueue clock advance 3s --deliver` sends all

add push -> : info

add push; take 5 -> rate 1: info
1 due task waits for the rate of 5/s: `pullqueue clock advance 1s --deliver` sends it

add push; take 5; pause push -> paused 1: warning
it is paused: 1 due task waits until it is resumed, then `pullqueue clock advance 1s --deliver`
sends it

add push; take 5; end 500 -> failing 1, rate 1: error
its only attempt in the last minute failed: status 500; 1 due task waits for the rate of 5/s:
`pullqueue clock advance 1s --deliver` sends this; 1 more is retried later

end 0 connection refused; end 0 connection refused -> no response 2, retrying 2: error
the app does not respond (connection refused): all 2 attempts failed in the last minute; 2 tasks
wait for their next attempt, the first in 40 s (`pullqueue clock advance 40s --deliver`)

end 0 127.0.0.1:9: connection refused; add_limited 60 -> no response 1, retrying 1, not due 1: error
the app does not respond (127.0.0.1:9: connection refused): its only attempt in the last minute
failed: start what listens at 127.0.0.1:9, or `pullqueue push-to URL` (retries have no limit); 1
task waits for its next attempt in 40 s (`pullqueue clock advance 40s --deliver`); nothing is due:
its only scheduled task is due in 1 min (`pullqueue clock advance 60s --deliver`)

end 0 -> no response 1, retrying 1: error
the app does not respond (no reason is known): its only attempt in the last minute failed; 1 task
waits for its next attempt in 40 s (`pullqueue clock advance 40s --deliver`)

end 0 refused; end 0 timed out -> no response 2, retrying 2: error
the app does not respond: all 2 attempts failed in the last minute: 1 x no response (refused), 1 x
no response (timed out); 2 tasks wait for their next attempt, the first in 40 s (`pullqueue clock
advance 40s --deliver`)

end 404; end 500 a; end 500 b; end 500 b; end 502 a; end 503 a -> failing 6, retrying 6: error
all 6 attempts failed in the last minute: 2 x status 500 (b), 1 x status 404, 1 x status 500 (a),
2 others; 6 tasks wait for their next attempt, the first in 40 s (`pullqueue clock advance 40s
--deliver`)

end 500 b; end 500 order 1; end 500 order 2; end 503 order 7 -> failing 4, retrying 4: error
all 4 attempts failed in the last minute: 2 x status 500 (order …), 1 x status 500 (b), 1 x status
503 (order 7); 4 tasks wait for their next attempt, the first in 40 s (`pullqueue clock advance
40s --deliver`)

end 500; add push -> failing 1: error
its only attempt in the last minute failed: status 500

end 500; start push -> failing 1: error
its only attempt in the last minute failed: status 500

end 500; purge push -> failing 1: warning
its only attempt in the last minute failed: status 500

end 500 no order 7 -> failing 1, retrying 1: error
its only attempt in the last minute failed: status 500 (no order 7); 1 task waits for its next
attempt in 40 s (`pullqueue clock advance 40s --deliver`)

end 500; end 200; end 200; jump 39.5 -> some failed 1, retrying 1: warning
1 of 3 attempts failed in the last minute: status 500; 1 task waits for its next attempt in < 1 s
(`pullqueue clock advance 1s --deliver`)

end 200; end 0 -> failing 1, retrying 1: error
1 of 2 attempts failed in the last minute: no response; 1 task waits for its next attempt in 40 s
(`pullqueue clock advance 40s --deliver`)

end 200; end 500; end 500 -> failing 2, retrying 2: error
2 of 3 attempts failed in the last minute: status 500; 2 tasks wait for their next attempt, the
first in 40 s (`pullqueue clock advance 40s --deliver`)

end 200; late 500 no mail; add push 1 300; jump 60 -> retrying 1, not due 1: info
1 task waits for its next attempt in 9 min (`pullqueue clock advance 540s --deliver`) after status
500 (no mail); nothing is due: its only scheduled task is due in 4 min (`pullqueue clock advance
240s --deliver`)

start one -> : info

start one; add one -> concurrency 1: info
1 due task waits for the running attempt to end: max_concurrent_requests is 1

start three; start three; add three -> : info

start three; start three; start three; add three -> concurrency 1: info
1 due task waits for one of 3 running attempts to end: max_concurrent_requests is 3

add push; jump 59 -> : info

add push; jump 60 -> due 1: warning
1 task is due, the first for 1 min

add push 2; jump 60 -> due 2: warning
2 tasks are due, the first for 1 min

poll 11; add pull -> lease rate 1: warning
1 of 11 lease calls of the last minute got none because of the lease rate of 10 a second:
`pullqueue clock advance 1s`, or start the server with --no-lease-rate-limit

add pull; ask red -> other tag 1: warning
in the last minute workers asked only for the tag "red", which the available task does not have

add pull 1 30; ask red -> not due 1: info
nothing is due: its only task is due in 30 s (`pullqueue clock advance 30s`)

add pull; add pull 1 30 red; ask red -> other tag 1: warning
in the last minute workers asked only for the tag "red", which the available task does not have

add pull 2; ask red; add pull 1 0 red -> no worker 3: warning
no worker has leased in the last minute: 3 tasks are available

add pull; ask a; ask b; ask c; ask d; ask e -> other tag 1: warning
in the last minute workers asked only for the tags "e", "d", "c", "b", "a", which the available
task does not have

add pull; ask a; ask b; ask c; ask d; ask e; ask f -> no worker 1: warning
no worker has leased in the last minute: 1 task is available

add pull 3; jump 60; lease 1 300; ask red -> other tag 2: warning
in the last minute workers asked only for the tag "red", which none of 2 available has

add pull 2; ask red; ask blue -> other tag 2: warning
in the last minute workers asked only for the tags "blue", "red", which none of 2 available has

add pull; jump 60; done 1 -> few leased 1: info
1 task is available, workers leased 1 in the last minute, 1 was deleted: about 1 min for it at
this rate

add pull 2; jump 60; done 2 -> few leased 2: info
2 tasks are available, workers leased 2 in the last minute, 2 were deleted: about 1 min for all at
this rate

add pull 10; jump 60; done 1 -> few leased 10: info
10 tasks are available, workers leased 1 in the last minute, 1 was deleted: about 10 min for all
at this rate

add pull 11; jump 60; done 1 -> few leased 11: warning
11 tasks are available, workers leased 1 in the last minute, 1 was deleted: about 11 min for all
at this rate

add pull 41; jump 60; done 5 -> few leased 41: info
41 tasks are available, workers leased 5 in the last minute, 5 were deleted: about 8 min 12 s for
all at this rate

add pull 2; jump 59; lease 1 300 -> : info

add pull 3; jump 59; lease 1 300 -> few leased 2: info
2 tasks are available, workers leased 1 in the last minute, none was deleted

add pull 3; jump 60; lease 1 300 -> few leased 2: warning
2 tasks are available, workers leased 1 in the last minute, none was deleted

add pull; lease 1 10; jump 11 -> leases expire 1: warning
workers leased 1 in the last minute, 1 lease expired, none was deleted: see why workers do not
finish, or lease for longer

add pull 3; jump 60; lease 1 10; jump 11 -> leases expire 1: warning
workers leased 1 in the last minute, 1 lease expired, none was deleted: see why workers do not
finish, or lease for longer

add pull 2; lease 2 100; jump 101 -> no worker 2, leases expire 2: warning
no worker has leased in the last minute: 2 tasks are available; 2 leases expired in the last
minute, none was deleted: see why workers do not finish, or lease for longer

add pull; lease 1 10; jump 11; done 1 -> : info

add pull; lease 1 10; jump 11; purge pull -> : info

add pull; lease 1 10; jump 11; pause pull -> paused 1: warning
it is paused: 1 due task waits until it is resumed, then workers can lease it

add pull; lease 1 300 -> leased 1: info
1 task is leased, none is available: its lease ends in 5 min (`pullqueue clock advance 300s`)

add pull 2; lease 2 300 -> leased 2: info
2 tasks are leased, none is available: the first lease ends in 5 min (`pullqueue clock advance
300s`)

add pull; lease 1 300; add pull 1 30 -> leased 1, not due 1: info
1 task is leased, none is available: its lease ends in 5 min (`pullqueue clock advance 300s`);
nothing is due: its only scheduled task is due in 30 s (`pullqueue clock advance 30s`)

add pull; lease 1 300; pause pull -> paused 0: warning
it is paused
"""
"""What happened -> the causes with their counts: the severity, and below it the sentence."""


@pytest.mark.parametrize(
    "block", SENTENCES.strip().split("\n\n"), ids=lambda block: block.partition(" -> ")[0]
)
def test_a_queue_says_why_its_tasks_do_not_move(state: ServerState, block: str) -> None:
    head, *lines = block.split("\n")
    steps, _, causes = head.partition(" -> ")
    for method, *arguments in steps_of(steps):
        getattr(Steps(state), method)(*arguments)
    words = set(re.split("[ ;]+", steps))
    [name] = words & {"pull", "zero", "one", "three"} or {"push"}
    found = of(state, name)
    shown_causes = ", ".join(f"{each.reason} {each.count}" for each in found.causes)
    assert (f"{shown_causes}: {found.severity}", found.text) == (causes, " ".join(lines))
    times = [of(state, each.name).next for each in state.emulator.queues]
    assert get_clock(state).next_change == min(filter(None, times), default=None)


@each_row("name", ["pull", "push", "zero", "one"])
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
    progress = of(state, "push")
    assert (progress.text, progress.severity) == (f"tasks are {kept}", "warning")
    push = get_summary(state).push
    assert push is not None
    assert push.kept == {"push": kept}


def test_a_queue_that_queue_yaml_does_not_list_is_disabled(
    state: ServerState, emulator: Emulator, pull: Queue
) -> None:
    """One that was created was never in the file."""
    pull.add()
    emulator.create_queue(QueueSettings(name="made")).add()
    queues = [queue for queue in emulator.config.queues if queue.name not in ("pull", "one")]
    emulator.reconfigure(replace(emulator.config, queues=tuple(queues)), disable_created=True)

    text = "it is no longer in queue.yaml: 1 task kept until it is there again, or resumed"
    assert shown(state, "pull") == ("disabled", text)
    [cause] = of(state, "pull").causes
    assert (cause.count, cause.severity) == (1, "warning")
    assert shown(state, "one") == ("disabled", "it is no longer in queue.yaml")
    text = "queue.yaml, applied after it was created, does not have it: 1 task kept until it is "
    assert shown(state, "made") == ("disabled", f"{text}resumed")


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
    """The server knows where one goes that has an address of its own.

    Of more than 100 due tasks it looks at the first 10.
    """
    state = ServerState(emulator, push_to=PushAddresses())
    push.add(eta=clock.now() + timedelta(minutes=5))
    kept = f"kept, not delivered: {PUSH_TO} {DEFAULT}`"
    when = "; nothing is due: its only task is due in 5 min"
    assert of(state, "push").text == f"tasks are {kept}{when}"
    insert(push, [NewTask(request=HttpRequest(LOCAL))], absolute_urls=True)

    for added, count, some in (
        (1, 1, "1 of 2 tasks is"),
        (1, 2, "2 of 3 tasks are"),
        (97, 99, "99 of 100 tasks are"),
        (1, 9, "some tasks are"),
    ):
        push.add_many([NewTask()] * added)
        [cause] = of(state, "push").causes
        assert (cause.text, cause.count, cause.severity) == (f"{some} {kept}", count, "warning")
    push.pause()
    text = "it is paused: 101 due tasks wait until it is resumed"
    assert of(state, "push").causes[0].text == text


def test_the_address_of_a_queue_with_a_target_is_named(emulator: Emulator, push: Queue) -> None:
    """With the port that the first service other than the default one often has."""
    emulator.reconfigure(
        Emulator.from_text("queue: [{name: push, rate: 5/s, target: worker}]").config
    )
    push.add()

    assert of(ServerState(emulator), "push").text == (
        f"tasks are kept, not delivered: {PUSH_TO} worker=http://localhost:8081`"
    )


@each_row(("address", "target"), [("{}", None), ("worker={}", "worker")])
def test_tasks_wait_for_an_app_that_does_not_listen_yet(
    clock: ManualClock, address: str, target: str | None
) -> None:
    """That is not a missing address."""
    emulator = Emulator.from_text(CONFIG, clock=clock)
    addresses = PushAddresses([address.format("http://127.0.0.1:9")])
    state = ServerState(emulator, push_to=addresses)
    emulator.queue("push").add(request=HttpRequest("/mail", target=target))
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
    state: ServerState, emulator: Emulator, push: Queue, clock: ManualClock
) -> None:
    """Except those without an address, which a run does not send either."""
    assert state.delivery is not None
    state.delivery.is_held = True
    assert of(state, "push").text == ""
    elsewhere = NewTask(request=HttpRequest("https://api.example.com/mail"))
    insert(push, [elsewhere], absolute_urls=True)
    assert [each.reason for each in of(state, "push").causes] == ["no address"]
    push.add()
    clock.advance(60)

    [_, found] = of(state, "push").causes
    text = (
        "1 due task waits for `POST /_emulator/run`, or for a clock that is advanced with `deliver`"
    )
    assert found == Cause(reason="run only", severity="warning", count=1, text=text)
    push.delete_tasks(push.list_tasks(1))
    assert shown(state, "push") == ("run only", text)
    push.pause()
    assert of(state, "push").text == "it is paused: 1 due task waits until it is resumed"


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
    for place, fault in enumerate(faults):
        attempt(push, 500 + place, "no mail", fault=fault)
    attempt(push, 200)

    assert of(state, "push").text.startswith(text)


@pytest.mark.parametrize(
    ("count", "more"), [(2, ""), (3, ", fault 4 (fail)"), (4, ", fault 4 (fail) and 1 more")]
)
def test_faults_that_can_trigger_on_the_next_attempts_are_named(
    state: ServerState, count: int, more: str, push: Queue, clock: ManualClock
) -> None:
    """Up to three, of those for this queue that have not triggered as often as they may."""
    mail = {"call": "attempt", "queues": ["push"], "url": "/mail"}
    set_fault(state, parse_body({"kind": "latency", **mail, "times": 1}, NewFault))
    push.add(request=HttpRequest("/mail?to=ada"))
    run_tasks(state.emulator, send=lambda _: 200)
    own: list[dict[str, Any]] = [{"url": "/_ah/*"}, *[{}] * (count - 1)]
    for other in (*own, {"queues": ["one"]}, {"url": "/other"}):
        set_fault(state, parse_body({"kind": "fail", **mail, **other}, NewFault))
    push.add(request=HttpRequest("/mail?to=ada"))
    assert of(state, "push").causes == []

    text = f"fault 2 (fail), fault 3 (fail){more} can trigger on the next attempts"
    attempt(push, 500, backoff_seconds=0)
    expected = Cause(reason="faults", severity="info", count=2, text=text)
    assert of(state, "push").causes[-1] == expected
    attempt(push, 500, backoff_seconds=3600)
    clock.advance(61)
    attempt(push, 200)  # no failure of the last minute, but a task that has failed
    expected = Cause(reason="faults", severity="info", count=3, text=text)
    assert of(state, "push").causes[-1] == expected


def test_what_was_done_in_the_last_minute_is_counted(state: ServerState, pull: Queue) -> None:
    pull.add_many([NewTask()] * 3)
    pull.delete_tasks(pull.lease_tasks(60, 2)[:1])
    for status in (200, 200, 200, 500):
        attempt(state.emulator.queue("push"), status)

    found = [of(state, name) for name in ("pull", "push")]
    counts = [(each.leased, each.done, each.delivered, each.failed) for each in found]
    assert counts == [(2, 1, 0, 0), (0, 3, 3, 1)]


def test_a_queue_says_since_when_its_attempts_fail(
    state: ServerState, clock: ManualClock, push: Queue
) -> None:
    """The time begins again after a success, also in a minute in which others failed."""
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


def test_attempts_of_which_no_results_are_recorded_any_more_are_counted(clock: ManualClock) -> None:
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
        assert of(state, "push").causes[-1].severity == "warning"


@each_row(
    ("threads", "busy", "text"),
    [
        (1, {"one": 1}, '1 attempt at the same time; 1 of "one"'),
        (
            4,
            {"push": 3},
            '4 attempts at the same time and keeps 1 of them for other queues; 3 of "push"',
        ),
        (
            *(8, {"default": 1, "three": 2, "one": 2, "zero": 3}),
            '8 attempts at the same time; 3 of "zero", 2 of "one", 2 of "three", 1 of others',
        ),
        (
            *(4, {"zero": 1, "three": 1, "one": 1, "default": 1}),
            '4 attempts at the same time; 1 of "default", 1 of "one", 1 of "three", 1 of others',
        ),
    ],
)
def test_tasks_wait_for_the_attempts_of_all_queues(
    clock: ManualClock, threads: int, busy: dict[str, int], text: str
) -> None:
    emulator = Emulator.from_text(CONFIG, clock=clock)
    addresses = PushAddresses(["http://127.0.0.1:9"])
    state = ServerState(emulator, push_to=addresses, senders=SenderThreads(threads))
    assert state.delivery is not None
    for name, count in busy.items():
        for _ in range(count):
            task = emulator.queue(name).add()
            state.delivery.dispatcher.reserve(task)
            emulator.queue(name).delete_tasks(task)
    emulator.queue("push").add()

    for seconds, severity in ((59, "info"), (1, "warning")):
        clock.advance(seconds)
        [cause] = of(state, "push").causes
        assert (cause.reason, cause.severity, cause.count) == ("shared slots", severity, 1)
        wait = "1 due task waits for a slot: this server makes at most "
        assert cause.text == f"{wait}{text} are running"


def test_attempts_that_take_long_are_named(
    state: ServerState, clock: ManualClock, push: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that takes longest, by the clock or by the machine's time, and its deadline."""
    assert state.delivery is not None
    dispatcher = state.delivery.dispatcher
    now_seconds = 0.0
    for module in ("attempt", "dispatcher"):
        monkeypatch.setattr(f"pullqueue.push.{module}.perf_counter", lambda: now_seconds)

    def found() -> tuple[str, str, int]:
        [cause] = of(state, "push").causes
        return cause.text, cause.severity, cause.count

    dispatcher.start(push.add())
    now_seconds = 30
    text = "1 attempt has been running for 30 s, its deadline is in 9 min 30 s"
    assert found() == (text, "info", 1)
    now_seconds = 60
    text = "1 attempt has been running for 1 min, its deadline is in 9 min"
    assert found() == (text, "warning", 1)

    now_seconds = 30
    dispatcher.start(push.add())
    text = "2 attempts are running, the longest for {}, its deadline is in {}"
    assert found() == (text.format("30 s", "9 min 30 s"), "info", 2)
    clock.advance(59)
    assert found() == (text.format("59 s", "9 min 30 s"), "info", 2)
    clock.advance(1)
    assert found() == (text.format("1 min", "9 min 30 s"), "warning", 2)
    now_seconds = 605
    assert found() == (text.format("10 min 5 s", "0 s"), "warning", 2)


def test_tasks_that_wait_for_attempts_to_end_take_as_long_as_those_before() -> None:
    """By the system's clock."""
    emulator = Emulator.from_text(CONFIG, clock=SystemClock())
    state = serving(emulator)
    queue = emulator.queue("one")
    for _ in range(5):
        attempt(queue, 200)
    start_attempt(queue, queue.add(), lease_seconds=60, attempts=AttemptRecord())
    for _ in range(41):
        queue.add()

    text = "41 due tasks wait for the running attempt to end: max_concurrent_requests is 1, about "
    assert of(state, "one").text == f"{text}8 min 12 s for all at the pace of the last minute"


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

    state = serving(emulator)
    [rate] = [each for each in of(state, "push").causes if each.reason == "rate"]
    assert (rate.count, rate.text) == (
        600,
        f"600 due tasks wait for the rate of 5/s, about 2 min for {text}",
    )
    queue.pause()
    text = "605 due tasks wait until it is resumed, then about 2 min at the rate of 5/s"
    assert of(state, "push").causes[0].text == f"it is paused: {text}"


def test_workers_whose_calls_fail(state: ServerState, pull: Queue) -> None:
    pull.add()
    lease(state, leaseSecs=-1)

    reason, text = shown(state, "pull")
    assert reason == "leases fail"
    assert text.startswith(
        "1 task is available, workers leased none in the last minute: 1 of 1 lease call got none: "
        "status 400 ("
    )
    assert of(state, "pull").severity == "warning"


def test_workers_who_get_none_because_of_a_fault(state: ServerState, pull: Queue) -> None:
    """One that makes them get fewer tasks; leases of operators are not theirs."""
    pull.add_many([NewTask()] * 3)
    set_fault(state, parse_body({"kind": "latency", "call": "lease_tasks", "times": 1}, NewFault))
    lease(state, tag="red")
    client = Client(create_app(state.emulator, state=state))
    client.post("/_emulator/queues/pull/lease", json={"max_tasks": 1})
    text = 'in the last minute workers asked only for the tag "red", which none of 2 available has'
    assert shown(state, "pull") == ("other tag", text)

    set_fault(state, parse_body({"kind": "empty_leases"}, NewFault))
    lease(state)
    text = (
        "2 tasks are available, workers leased none in the last minute (operators leased 1): 1 of "
        "2 lease calls got none: by fault 2 (empty_leases)"
    )
    assert shown(state, "pull") == ("leases fail", text)
    state.faults.clear()
    lease(state)
    assert of(state, "pull").causes == []


class StandingClock(SystemClock):
    """The system's clock, but for the time that passes."""

    def now_usec(self) -> int:
        return 1_800_000_000_000_000


def test_leases_over_the_rate_say_what_to_do_by_the_clock_of_the_system() -> None:
    """Also those of Cloud Tasks, which get status 429: these are not failures of the app."""
    limits = Limits(leases_per_second=1)
    emulator = Emulator.from_text(CONFIG, clock=StandingClock(), limits=limits)
    emulator.queue("pull").add_many([NewTask() for _ in range(3)])
    state = ServerState(emulator)
    client = Client(create_app(emulator, state=state))
    lease = RestApi(client)
    assert lease("LeaseTasks", parent=PULL, leaseDuration="60s", filter='tag="red"') == {}
    with refused("RESOURCE_EXHAUSTED"):
        lease("LeaseTasks", parent=PULL, leaseDuration="60s")
    client.post(LEASE.format("pull"), query_string={"numTasks": 1, "leaseSecs": 60})

    [cause] = of(state, "pull").causes
    assert (cause.reason, cause.severity, cause.count) == ("lease rate", "info", 3)
    assert cause.text == (
        "2 of 3 lease calls of the last minute got none because of the lease rate of 1 a second: "
        "lease more at a time, or start the server with --no-lease-rate-limit"
    )


def test_tasks_that_are_not_due_say_when_they_will_be() -> None:
    emulator = Emulator.from_text(CONFIG, clock=SystemClock())
    eta = emulator.clock.now() + timedelta(minutes=90, seconds=30)
    emulator.queue("pull").add(eta=eta)

    text = "nothing is due: its only task is due in 1 h 30 min"
    assert shown(ServerState(emulator), "pull") == ("not due", text)
    assert of(ServerState(emulator), "pull").next == eta.isoformat()


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
    assert (slowed.count, slowed.severity) == (0, "warning")
