"""The server at a glance: what changes its behaviour, what a step did, what happens per minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from control_client import ControlClient
from push_app import PushApp, until
from scenes import dead_port, scene
from tables import each_row

import pullqueue
from pullqueue import Emulator, HttpRequest, ManualClock, NewTask
from pullqueue.push.addresses import PushAddresses
from pullqueue.resources.clock import ClockMove, move_clock
from pullqueue.resources.history import HistoryQuery, get_history
from pullqueue.resources.operations import parse_body
from pullqueue.resources.overview import FlowQuery, get_flow
from pullqueue.resources.queues import get_queue
from pullqueue.resources.service import set_fault
from pullqueue.runtime.fault_registry import NewFault
from pullqueue.runtime.state import ServerState
from pullqueue.server.lifecycle import Server
from pullqueue.testing import exhaust

START = "2026-01-01T00:00:00+00:00"


def test_the_summary_of_a_fresh_server_shows_nothing_set_or_paused(control: ControlClient) -> None:
    """Nothing is exhausted; the push queue delivers to nobody."""
    assert control.get("/summary").body == {
        "clock": {"now": START, "manual": True, "next_change": None},
        "faults": [],
        "paused": [],
        "exhausted": {},
        "unlisted": {},
        "push": {"addresses": [], "tasks": 0, "kept": {}},
    }


def test_the_summary_has_what_changes_behaviour(control: ControlClient, emulator: Emulator) -> None:
    """Faults that can still trigger, paused queues, exhausted tasks, push tasks that are kept."""
    for times in (1, 2):
        control.post("/faults", {"kind": "fail", "call": "purge", "times": times})
    with pytest.raises(pullqueue.TransientError):
        emulator.queue("pull").purge()
    emulator.queue("limited").add(name="t1")
    exhaust(emulator.queue("limited"), "t1")
    emulator.queue("push").add()
    control.post("/queues/pull/pause")

    summary = control.get("/summary").body
    assert [fault["number"] for fault in summary["faults"]] == [2]
    assert (summary["paused"], summary["exhausted"]) == (["pull"], {"limited": 1})
    assert summary["push"]["tasks"] == 1
    assert "run `pullqueue push-to" in summary["push"]["kept"]["push"]


def test_due_tasks_of_a_paused_queue_are_available_and_wait(
    control: ControlClient, emulator: Emulator, clock: ManualClock
) -> None:
    """The numbers of a queue count them as its lists of tasks show them."""
    emulator.queue("pull").add_many([NewTask(), NewTask()])
    clock.advance(60)

    paused = control.post("/queues/pull/pause").body["queue"]
    assert (paused["state"], paused["available"], paused["paused"]) == ("paused", 2, 2)
    assert paused["oldest_age_seconds"] == 60
    resumed = control.post("/queues/pull/resume").body["queue"]
    assert (resumed["state"], resumed["available"], resumed["paused"]) == ("running", 2, 0)
    assert resumed["oldest_age_seconds"] == 60


def test_a_step_of_the_clock_says_what_it_did(control: ControlClient, emulator: Emulator) -> None:
    """Per queue: leases that ended, tasks that became due, tasks that are exhausted."""
    pull, limited = emulator.queue("pull"), emulator.queue("limited")
    pull.add_many([NewTask(eta=emulator.clock.now() + timedelta(seconds=60))] * 3)
    pull.add_many([NewTask()] * 2)
    limited.add()
    pull.lease_tasks(60, 1)
    limited.lease_tasks(60, 1)
    pull.lease_tasks(61, 1)

    nothing = control.post("/clock", {"advance": 59}).body["steps"]
    moved = control.post("/clock", {"advance": 1}).body["steps"]
    assert nothing == []
    assert [tuple(step.values())[:6] for step in moved] == [
        ("pull", 1, 3, 0, 0, 0),
        ("limited", 1, 0, 0, 0, 1),
    ]


RATE = "20 due tasks wait for the rate of 5/s: `pullqueue clock advance 4s --deliver` sends all"
RUN = "`POST /_emulator/run`, or for a clock that is advanced with `deliver`"
PAUSED = "it is paused: 25 due tasks wait until it is resumed, then 5 can start, and"


@each_row(
    ("how", "sending", "waiting", "text"),
    [
        ("", 5, 20, RATE),
        ("held", 0, 25, f"25 due tasks wait for {RUN}; {RATE}"),
        ("paused", 0, 0, f"{PAUSED} `pullqueue clock advance 4s --deliver` sends all"),
    ],
)
def test_a_step_says_what_is_sent_and_why_the_others_wait(
    how: str, sending: int, waiting: int, text: str
) -> None:
    """Nothing is sent in a project whose clock moves without a delivery."""
    emulator = Emulator.from_text("queue: [{name: push, rate: 5/s}]", clock=ManualClock())
    queue, eta = emulator.queue("push"), emulator.clock.now() + timedelta(hours=1)
    queue.add_many([NewTask(eta=eta) for _ in range(25)])
    state = ServerState(emulator, push_to=PushAddresses(["http://localhost:1"]))
    assert state.delivery is not None
    state.delivery.is_held = how == "held"
    if how == "paused":
        queue.pause()

    [step] = move_clock(state, ClockMove(advance=3600)).steps

    assert (step.due, step.sending, step.waiting, step.text) == (25, sending, waiting, text)


def test_a_step_has_a_queue_of_which_an_attempt_began() -> None:
    with scene("queue: [{name: push, rate: 1/m, bucket_size: 1}]") as played:
        played.play([("add", "push", "mail", 1, 0), ("add", "push", "hangs", 1, 0)])

        moved = played.deliver(60)
        while not moved.reached:  # on a busy machine
            moved = move_clock(played.state, ClockMove(move_to=moved.target, deliver=True))

    [step] = moved.steps
    assert (step.due, step.delivered, step.sending, step.waiting) == (0, 0, 1, 0)


class TestDelivery:
    """Time passes, and push tasks are delivered meanwhile."""

    @pytest.fixture
    def soon(self, clock: ManualClock) -> datetime:
        """Return a time before which nothing is delivered, as the clock has to be moved to it."""
        return clock.now() + timedelta(seconds=1)

    @pytest.fixture
    def server(self, app: PushApp, emulator: Emulator) -> Iterator[Server]:
        with Server(emulator, push_to=PushAddresses([app.url])) as server:
            yield server

    def test_the_rate_and_the_clock_are_obeyed(
        self, app: PushApp, server: Server, clock: ManualClock, soon: datetime
    ) -> None:
        started = clock.now()
        server.emulator.queue("push").add_many([NewTask(eta=soon) for _ in range(50)])
        times: list[float] = []
        app.on_request = lambda _: times.append((clock.now() - started).total_seconds())
        moved = move_clock(server.state, ClockMove(advance=60, deliver=True))

        assert (moved.reached, clock.now()) == (True, started + timedelta(seconds=60))
        [step] = moved.steps
        assert step.delivered >= 45  # the others were sent before
        assert step.waiting == 0
        seconds = Counter(int(time) for time in times)
        assert sum(seconds.values()) == 50
        assert max(seconds.values()) <= 10  # the full bucket, and the rate
        assert 9 <= max(times) <= 11

    def test_failed_attempts_are_repeated_after_their_backoff(
        self, server: Server, soon: datetime
    ) -> None:
        retry = "retry_parameters: {min_backoff_seconds: 60, max_doublings: 0}"
        text = f"queue: [{{name: push, rate: 5/s, {retry}}}]"
        server.emulator.reconfigure(Emulator.from_text(text).config)
        queue = server.emulator.queue("push")
        task = queue.add(request=HttpRequest("/fails/3"), eta=soon)

        [step] = move_clock(server.state, ClockMove(advance=3600, deliver=True)).steps

        assert (step.due, step.failed, step.delivered) == (4, 3, 1)
        attempts = [event for event in queue.history(task) if event.status == 500]
        waits = [b.usec - a.usec for a, b in pairwise(attempts)]
        assert waits == [60_000_000, 120_000_000]

    @pytest.fixture
    def dead(self, app: PushApp, clock: ManualClock) -> Iterator[Server]:
        """Return a server some of whose tasks go where nobody listens."""
        text = """
            queue:
            - {name: push, rate: 100/s}
            - name: limited
              rate: 100/s
              target: dead
              retry_parameters: {task_retry_limit: 2, min_backoff_seconds: 60}
            - name: dead
              rate: 100/s
              target: dead
              retry_parameters: {min_backoff_seconds: 1, max_backoff_seconds: 1}
        """
        with dead_port() as port:
            emulator = Emulator.from_text(text, clock=clock)
            addresses = PushAddresses([app.url, f"dead=http://127.0.0.1:{port}"])
            with Server(emulator, push_to=addresses) as server:
                yield server

    def test_an_address_at_which_nobody_listens_is_not_asked_again(
        self, dead: Server, soon: datetime
    ) -> None:
        """The attempts of its tasks are counted: by their backoff, until they are exhausted."""
        dead.emulator.queue("push").add(request=HttpRequest("/mail"), eta=soon)
        for name in ("limited", "dead"):
            dead.emulator.queue(name).add_many([NewTask(name="a", eta=soon)])

        moved = move_clock(dead.state, ClockMove(advance=601, deliver=True))

        assert moved.reached
        done = {
            each.queue: (each.due, each.delivered, each.failed, each.exhausted)
            for each in moved.steps
        }
        assert done == {"push": (1, 1, 0, 0), "limited": (3, 0, 3, 1), "dead": (601, 0, 601, 0)}
        [exhausted] = dead.emulator.queue("limited").exhausted
        address = dead.state.push_to.of("dead")
        reason = f"{address and address.netloc}: connection refused"
        assert (exhausted.retry_count, exhausted.attempts.reason) == (3, reason)
        [task] = dead.emulator.queue("dead").list_tasks()
        assert (task.retry_count, task.attempts.finished) == (601, 601)
        assert task.eta_usec > dead.emulator.now_usec()
        recorded = [each for each in dead.state.requests.latest() if each.queue == "dead"]
        assert [each.times for each in recorded] == [601]
        activity = [each.text for each in dead.state.activity.failures()]
        assert f"601 attempts on queue dead failed: no response ({reason})" in activity
        assert dead.state.delivery is not None
        assert dead.state.delivery.attempts.counts["dead", 0] == 601
        progress = get_queue(dead.state, "dead").progress
        assert progress.failed == 60
        assert "all 60 attempts failed in the last minute" in progress.text
        minutes = get_flow(dead.state, FlowQuery(queue="dead"))["dead"]
        assert [(each.leased, each.failed) for each in minutes] == [(1, 1), *[(60, 60)] * 10]
        history = get_history(dead.state, "dead", "a", HistoryQuery()).events
        assert sum(each.attempts for each in history if each.kind == "attempt failed") == 601

    def test_a_fault_answers_an_address_at_which_nobody_listens(
        self, dead: Server, soon: datetime
    ) -> None:
        """So each attempt is made."""
        dead.emulator.queue("dead").add_many([NewTask(eta=soon)])
        fault = {"kind": "fail", "call": "attempt", "status": 500, "after": 4, "times": 1}
        set_fault(dead.state, parse_body(fault, NewFault))

        move_clock(dead.state, ClockMove(advance=10, deliver=True))

        results = dead.emulator.queue("dead").count_failures(last=timedelta(minutes=1))
        assert {each.status: count for each, count in results.items()} == {0: 9, 500: 1}

    def test_an_address_is_asked_again_when_time_passes_again(
        self, dead: Server, app: PushApp, soon: datetime
    ) -> None:
        dead.emulator.queue("dead").add_many([NewTask(eta=soon)])
        move_clock(dead.state, ClockMove(advance=60, deliver=True))
        dead.push_to(app.url)

        [step] = move_clock(dead.state, ClockMove(advance=60, deliver=True)).steps

        assert (step.delivered, app.paths()) == (1, ["/_ah/queue/dead"])

    def test_a_move_that_goes_on_shows_what_its_parts_did(
        self, app: PushApp, server: Server
    ) -> None:
        """An attempt that takes long ends the first. Also what happened between them is shown; one
        to another time begins with nothing.
        """
        queue = server.emulator.queue("push")
        queue.add(request=HttpRequest("/slow"))
        server.state.wake()
        until(lambda: app.running["/slow"])
        first = move_clock(server.state, ClockMove(advance=60, deliver=True, seconds=0.01))
        [begun] = server.state.activity.actions()
        assert begun.text == (
            "began to deliver while time passes, until 2026-01-01 00:01:00, and reached "
            "2026-01-01 00:00:00"
        )
        app.released.set()
        until(lambda: not queue.list_tasks())
        second = move_clock(server.state, ClockMove(move_to=first.target, deliver=True))
        third = move_clock(server.state, ClockMove(advance=60, deliver=True))

        assert (first.reached, first.steps) == (False, [])
        assert [(each.time, each.text) for each in server.state.activity.actions()] == [
            (START, "moved the clock to 2026-01-01 00:01:00"),
            (first.target, "moved the clock to 2026-01-01 00:02:00"),
        ]
        assert (second.reached, second.start, second.now) == (True, first.start, first.target)
        assert [step.delivered for step in second.steps] == [1]
        assert (third.start, third.steps) == (first.target, [])

    def test_without_an_address_the_clock_only_moves(self, emulator: Emulator) -> None:
        emulator.queue("push").add()

        assert move_clock(ServerState(emulator), ClockMove(advance=60, deliver=True)).reached


def test_the_flow_is_counted_per_minute(
    control: ControlClient, emulator: Emulator, clock: ManualClock
) -> None:
    """By minutes of the emulator's clock in which anything happened, also after a jump."""
    queue = emulator.queue("pull")
    queue.add_many([NewTask()] * 3)
    clock.advance(61)
    queue.delete_tasks(queue.lease_tasks(60, 2))
    clock.advance(86_400)
    queue.purge()

    flow = control.get("/flow").body["flow"]
    assert flow["limited"] == flow["push"] == []
    numbers = [tuple(minute.values()) for minute in flow["pull"]]
    assert numbers == [
        (START, 3, 0, 0, 0, 0, 0),
        ("2026-01-01T00:01:00+00:00", 0, 2, 2, 0, 0, 0),
        ("2026-01-02T00:01:00+00:00", 0, 0, 1, 0, 0, 0),
    ]
    last = control.get("/flow?minutes=60&queue=pull").body["flow"]
    assert last == {"pull": flow["pull"][2:]}


def test_the_overview_says_where_the_server_listens(control: ControlClient, server: Server) -> None:
    """And how it was started."""
    body = control.get("/server").body
    assert (body["url"], body["grpc"], body["store"], body["auth"]) == (
        *(server.url, None, "memory"),
        "none",
    )
    assert (body["profile"], body["manual_clock"], body["push_to"]) == ("gcloud", True, [])
    assert body["uptime_seconds"] >= 0
    assert body["version"] == pullqueue.__version__
