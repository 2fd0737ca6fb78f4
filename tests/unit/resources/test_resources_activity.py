"""What operators did, what failed, and what an app has mailed."""

from __future__ import annotations

import logging
from datetime import datetime

import pytest
from console_client import ConsoleClient
from control_client import ControlClient
from scenes import steps_of
from tables import each_row

from pullqueue import Emulator, ManualClock, NewTask
from pullqueue.clock import to_usec
from pullqueue.engine.events import Interface, Origin
from pullqueue.limits import MIB
from pullqueue.observe.mail_log import Attachment, Mail, MailLog
from pullqueue.observe.models import Request
from pullqueue.resources.models import parse_since
from pullqueue.runtime.state import ServerState
from pullqueue.server.lifecycle import Server
from pullqueue.services.hosting import Services
from pullqueue.structs import Bytes
from pullqueue.text import format_size


@each_row(
    ("now", "since", "meant"),
    [
        ("2026-01-02T14:05:00Z", "14:04:59", "2026-01-02T14:04:59Z"),
        ("2026-01-02T14:05:00Z", "14:05", "2026-01-02T14:05:00Z"),
        ("2026-01-02T14:05:00Z", "14:05:01", "2026-01-01T14:05:01Z"),
        ("0001-01-02T14:05:00Z", "14:06", "0001-01-01T14:06:00Z"),
        ("0001-01-01T14:05:00Z", "14:06", "0001-01-01T14:06:00Z"),
    ],
)
def test_a_time_of_the_day_is_the_last_one_that_there_was(now: str, since: str, meant: str) -> None:
    """On the first day of all it can be later."""
    now_usec = to_usec(datetime.fromisoformat(now))

    assert parse_since(since, now_usec) == datetime.fromisoformat(meant)


def fail(
    server: Server,
    queue: str,
    *,
    method: str = "attempt 2",
    status: int = 503,
    reason: str = "no",
    client: str = "app",
) -> None:
    """Record a request that failed: an attempt, unless it has another method."""
    request = Request(
        verb="POST",
        path="/",
        method=method,
        queue=queue,
        status=status,
        milliseconds=0,
        response=Bytes.of(reason.encode()),
    )
    server.state.requests.record(request, origin=Origin(Interface.PUSH, client))


def succeed(server: Server, queue: str, method: str) -> None:
    fail(server, queue, method=method, status=204)


def test_actions_are_recorded_and_logged(
    control: ControlClient, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pullqueue.activity")
    control.send("GET", "/nowhere")
    emulator.queue("pull").add_many([NewTask(name=name) for name in "abc"])
    control.post("/queues/pull/pause")
    control.post("/queues/pull/change", {"action": "delete", "tasks": ["a", "gone"]})
    control.post("/queues/pull/purge")
    emulator.queue("pull").add_many([NewTask(name=f"n{n}", tag="t") for n in range(4)])
    control.post("/queues/pull/change", {"action": "delete", "tag": "t", "state": "available"})
    fault = {"kind": "fail", "call": "attempt", "queues": ["push"], "status": 503, "times": 2}
    control.post("/faults", fault)
    control.call("DELETE", "/faults/1")
    control.call("DELETE", "/requests")
    control.post("/clock", {"advance": 5})
    control.post("/reset")

    actions = control.get("/activity").body["actions"]

    assert [action["text"] for action in reversed(actions)] == [
        "paused queue pull",
        "deleted 1 task of queue pull: a",
        "purged queue pull: 2 tasks deleted",
        "deleted 4 tasks of queue pull with state=available, tag=t: n0, n1, n2 and 1 more",
        "set fault 1: fail attempt, status=503, queues=push, times=2",
        "removed fault 1: fail attempt, status=503, queues=push, times=2",
        "deleted the record of 1 request",
        "moved the clock to 2026-01-01 00:00:05",
        "reset the server: 0 tasks deleted",
    ]
    assert {action["interface"] for action in actions} == {"control"}
    assert caplog.messages[0] == "paused queue pull (control)"


def test_a_task_that_is_named_twice_is_changed_once(
    control: ControlClient, emulator: Emulator
) -> None:
    emulator.queue("pull").add(name="a")
    emulator.queue("pull").lease_tasks(60, 1)
    for action in ("release", "delete"):
        body = {"action": action, "tasks": ["a", "a"]}
        assert control.post("/queues/pull/change", body).body == {"changed": 1, "failed": {}}

    assert [each["text"] for each in control.get("/activity").body["actions"]] == [
        "deleted 1 task of queue pull: a",
        "released 1 task of queue pull: a",
    ]


def test_what_was_refused_or_changed_nothing_is_not_recorded(control: ControlClient) -> None:
    control.post("/queues/nowhere/pause")
    control.post("/queues/pull/change", {"action": "delete", "tasks": ["gone"]})
    control.post("/clock", {"advance": -1})

    assert control.get("/activity").body == {"actions": [], "failures": []}


def test_the_latest_actions_are_first_and_limited(control: ControlClient, server: Server) -> None:
    for _ in range(2_002):
        server.state.activity.record("did it")
    control.post("/queues/pull/pause")

    assert [each["text"] for each in control.get("/activity?limit=2").body["actions"]] == [
        "paused queue pull",
        "did it",
    ]
    assert len(control.get("/activity?limit=5000").body["actions"]) == 2_000


def test_requests_that_fail_in_the_same_way_are_one_failure(
    control: ControlClient, server: Server, clock: ManualClock
) -> None:
    """From the first to the last, whatever else happens; no client is shown if several fail, and
    the whole reason as long as it is that of all.
    """
    fail(server, "mail", status=0, reason="refused in 3 s")
    fail(server, "mail", reason="image 1 is broken")
    clock.advance(30)
    fail(server, "mail", status=0, reason="refused in 3 s")
    control.post("/queues/push/pause")
    clock.advance(3600)
    fail(server, "mail", reason="image 22 is broken", client="another")
    fail(server, "jobs", method="projects.locations.queues.tasks.create", status=400)
    fail(server, "", method="", status=404)

    found = {each["text"]: each for each in control.get("/activity").body["failures"]}

    assert list(found) == [
        "1 request failed: status 404 (POST /)",
        "1 call of queues.tasks.create on queue jobs failed: status 400 (no)",
        "2 attempts on queue mail failed: status 503 (image … is broken)",
        "2 attempts on queue mail failed: no response (refused in 3 s)",
    ]
    *_, mail, refused = found.values()
    assert (mail["first"][11:19], mail["last"][11:19]) == ("00:00:00", "01:00:30")
    assert (mail["queue"], mail["status"], mail["count"]) == ("mail", 503, 2)
    assert (mail["client"], refused["client"]) == ("", "app")
    for each in found.values():
        own = control.get(f"/requests?failure={each['number']}").body["requests"]
        assert (len(own), {one["status"] for one in own}) == (each["count"], {each["status"]})
        assert each["recorded"] == each["count"]
    server.state.requests.clear()
    assert {each["recorded"] for each in control.get("/activity").body["failures"]} == {0}


@pytest.mark.parametrize(
    ("steps", "counts"),
    [
        ("fail; wait 10; succeed mail; wait 5; succeed mail; wait 44; fail", [2]),
        ("fail; wait 10; succeed mail; wait 5; succeed mail; wait 45; fail", [2]),
        ("fail; wait 10; succeed mail; wait 5; succeed mail; wait 46; fail", [1, 1]),
        # The success of another kind, and one before a failure at the same time, end none.
        ("fail; succeed jobs attempt 1; succeed mail tasks.lease; wait 3600; fail", [2]),
        ("fail; succeed mail; fail; wait 61; fail", [3]),
        ("fail; fail; succeed mail; wait 61; fail", [1, 2]),
    ],
)
def test_another_failure_begins_when_requests_succeeded_meanwhile(
    control: ControlClient, server: Server, clock: ManualClock, steps: str, counts: list[int]
) -> None:
    """More than a minute after its last time; it does not say that the same has succeeded."""
    for step, *words in steps_of(steps):
        if step == "wait":
            clock.advance(words[0])
        elif step == "fail":
            fail(server, "mail")
        else:
            queue, *method = map(str, words)
            succeed(server, queue, " ".join(method) or "attempt 3")

    found = control.get("/activity").body["failures"]
    assert [each["count"] for each in found] == counts
    assert "succeeded" not in found[0]


def test_failures_are_limited(control: ControlClient, server: Server) -> None:
    """They do not displace what operators did."""
    control.post("/queues/push/pause")
    for number in range(2_050):
        fail(server, f"q{number}", method="x")
    for number in range(150):
        fail(server, "mail", reason="x" * (number + 1))

    body = control.get("/activity?limit=5000").body
    assert (len(body["failures"]), len(body["actions"])) == (2_000, 1)
    assert body["failures"][0]["count"] == 30  # those above the longest pattern are one


def test_calls_that_a_fault_fails_are_listed_with_their_client(control: ControlClient) -> None:
    """And those that succeed are not, however many they are."""
    path = "/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks/lease?leaseSecs=1&numTasks=1"
    control.post("/faults", {"kind": "fail", "call": "lease_tasks", "times": 2})
    for _ in range(4):
        control.send("POST", path, {}, {"User-Agent": "worker/1"})

    body = control.get("/activity").body
    [failure], [action] = body["failures"], body["actions"]

    assert action["text"] == "set fault 1: fail lease_tasks, error=TransientError, times=2"
    assert failure["text"].startswith("2 calls of tasks.lease on queue pull failed: ")
    assert (failure["interface"], failure["client"]) == ("REST", "worker/1")


def test_a_queue_that_is_changed_by_cloud_tasks_is_an_action(control: ControlClient) -> None:
    path = "/v2/projects/p/locations/us-central1/queues/push"
    for verb in ("pause", "resume", "getIamPolicy"):
        control.send("POST", f"{path}:{verb}", {}, {"User-Agent": "gcloud"})
    control.send(
        "PATCH", path, {"rateLimits": {"maxConcurrentDispatches": 3}}, {"User-Agent": "gcloud"}
    )
    control.send("POST", f"{path}/tasks", {"task": {"appEngineHttpRequest": {}}})

    actions = control.get("/activity").body["actions"]

    called = [
        'called queues.patch on queue push: {"rateLimits": {"maxConcurrentDispatches": 3}}',
        "called queues.resume on queue push",
        "called queues.pause on queue push",
    ]
    assert [action["text"] for action in actions] == called
    assert {action["client"] for action in actions} == {"gcloud"}


def test_exhausted_tasks_are_counted_by_the_minute(
    control: ControlClient, emulator: Emulator, clock: ManualClock
) -> None:
    """Adjacent minutes are one failure; its times are the minutes of the first and the last."""
    queue = emulator.queue("limited")
    for pause in (50, 60, 120):
        queue.add_many([NewTask(), NewTask()])
        queue.lease_tasks(1, 2)
        clock.advance(pause)
    queue.add()
    queue.lease_tasks(1, 1)
    clock.advance(1)

    found = control.get("/activity").body["failures"]

    assert [(each["first"][11:19], each["last"][11:19], each["text"]) for each in found] == [
        ("00:03:00", "00:03:00", "1 task of queue limited exhausted"),
        ("00:00:00", "00:01:00", "6 tasks of queue limited exhausted"),
    ]
    queue.requeue([each.name for each in queue.exhausted[:2]])
    texts = [each["text"] for each in control.get("/activity").body["failures"]]
    assert texts[-1] == "tasks of queue limited exhausted 6 times, 4 of them still"
    queue.remove_exhausted(each.name for each in queue.exhausted)
    texts = [each["text"] for each in control.get("/activity").body["failures"]]
    assert texts == [
        "1 task of queue limited exhausted, none of them still",
        "tasks of queue limited exhausted 6 times, none of them still",
    ]
    for since, count in (("00:01:59", 2), ("00:02:00", 1), ("00:03:51", 1), ("00:04:00", 0)):
        body = control.get(f"/activity?since=2026-01-01T{since}Z").body
        assert len(body["failures"]) == count


def test_what_goes_on_at_a_time_has_happened_since(
    control: ControlClient, server: Server, clock: ManualClock
) -> None:
    """Failures that began before it are listed with the time at which they began."""
    control.post("/queues/push/pause")
    fail(server, "mail")
    clock.advance(59)
    fail(server, "mail")

    found = control.get("/activity?since=00:00:30").body

    assert [(each["first"][11:19], each["count"]) for each in found["failures"]] == [
        ("00:00:00", 2)
    ]
    assert found["actions"] == []
    assert control.get("/activity?since=noon").status == 400


def test_the_oldest_mails_are_dropped() -> None:
    """Where there are too many, or where their bodies are too long together."""
    mails = MailLog()
    for number in range(1002):
        mails.add(Mail(sender="a", to=["b"], subject=str(number)), "")
    assert [mail.subject for mail in (mails.latest()[0], mails.latest()[-1])] == ["1001", "2"]

    for _ in range(2):
        mails.add(Mail(sender="a", to=["b"], subject="long", text="1" * 9 * MIB), "")
    assert [(mail.number, mail.subject) for mail in mails.latest()] == [(1004, "long")]
    long = "1" * 6 * MIB
    mails.add(
        Mail(sender="a", to=[long], subject=long, attachments=[Attachment(name=long, bytes=0)]), ""
    )
    assert [mail.number for mail in mails.latest()] == []
    mails.clear()
    mails.add(Mail(sender="a", to=["b"], subject="new", html="1" * 15 * MIB), "")
    assert [mail.number for mail in mails.latest()] == [1006]


def test_the_console_shows_mails() -> None:
    """Their HTML as text, and no link to the page before the first."""
    clock = ManualClock()
    state = ServerState(Emulator.from_text("queue: []", clock=clock))
    console = ConsoleClient(state)
    assert 'id="to-mails"' not in console.page("/clock")
    assert "No mails." in console.page("/mails")
    mail = Mail(
        sender="shop@example.com", to=[], cc=["c@example.com"], subject="<b>Order", html="<p>Hé",
        attachments=[Attachment(name="a.pdf", bytes=2048)],
    )  # fmt: skip
    state.services = Services(clock=clock)
    state.services.mails.add(mail, "2026-01-01T00:00:00+00:00")

    listed = console.get("/mails").text
    assert 'id="to-mails"' in listed
    assert "&lt;b&gt;Order" in listed
    assert "c@example.com" in listed
    shown = console.get("/mails/1").text
    assert "administrators" in shown
    assert "&lt;p&gt;Hé" in shown
    assert "a.pdf" in shown
    assert format_size(2048) in shown
