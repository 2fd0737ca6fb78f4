"""The clients of a server, and which tasks they have leased."""

from __future__ import annotations

from typing import Any

import requests
from control_client import ControlClient

from pullqueue import Emulator, ManualClock, NewTask
from pullqueue.observe.activity import ActivityLog
from pullqueue.observe.models import Request
from pullqueue.observe.request_log import RequestLog
from pullqueue.server.lifecycle import Server

TASKS = "/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks"


def lease(server: Server, agent: str, count: int, seconds: int = 600) -> None:
    """Lease tasks as the client of a name."""
    url = f"{server.url}{TASKS}/lease?numTasks={count}&leaseSecs={seconds}"
    requests.post(url, headers={"User-Agent": agent}, timeout=60)


def workers(control: ControlClient) -> dict[str, dict[str, Any]]:
    return {each["client"]: each for each in control.get("/workers").body["workers"]}


def test_each_client_has_its_leases_and_its_last_call(
    control: ControlClient, server: Server, emulator: Emulator, clock: ManualClock
) -> None:
    emulator.queue("pull").add_many([NewTask() for _ in range(5)])
    lease(server, "dead/1.0", 2)
    clock.advance(100)
    lease(server, "alive/2.0", 1)
    requests.get(f"{server.url}/v2/nothing", headers={"User-Agent": "alive/2.0"}, timeout=60)

    found = workers(control)

    assert list(found) == ["alive/2.0", "dead/1.0"]
    dead, alive = found["dead/1.0"], found["alive/2.0"]
    assert (dead["leased"], dead["longest_seconds"], dead["queues"]) == (2, 100, ["pull"])
    assert (dead["last"], dead["until"]) == (
        "2026-01-01T00:00:00+00:00",
        "2026-01-01T00:10:00+00:00",
    )
    assert (alive["leased"], alive["calls"], alive["failed"]) == (1, 2, 1)
    assert (alive["address"], alive["interfaces"]) == (
        "127.0.0.1",
        ["REST", "Cloud Tasks REST"],
    )


def test_a_lease_that_has_expired_is_counted(
    control: ControlClient, server: Server, emulator: Emulator, clock: ManualClock
) -> None:
    """One that was released is not."""
    emulator.queue("pull").add_many([NewTask(name=name) for name in "abc"])
    lease(server, "slow", 2, 10)
    control.post("/queues/pull/tasks/b/lease", {"lease_seconds": 0})
    clock.advance(11)

    slow = workers(control)["slow"]
    assert (slow["leased"], slow["expired"], slow["until"]) == (0, 1, None)


def test_a_client_is_silent_that_has_not_called_since_its_leases_expired(
    control: ControlClient, server: Server, emulator: Emulator, clock: ManualClock
) -> None:
    """If its calls are known."""
    emulator.queue("pull").add_many([NewTask() for _ in range(4)])
    emulator.queue("pull").lease_tasks(10, 1)
    emulator.queue("pull").lease_tasks(60, 1)
    lease(server, "worker", 1, 10)
    lease(server, "worker", 1, 20)
    silent = []
    for seconds in (9, 1, 9, 1):
        clock.advance(seconds)
        silent.append(workers(control)["worker"]["silent"])
    requests.get(f"{server.url}{TASKS}", headers={"User-Agent": "worker"}, timeout=60)

    assert silent == [False, True, True, True]
    assert workers(control)["worker"]["silent"] is False
    assert workers(control)["this process"]["silent"] is False


def test_clients_outlive_their_requests_but_no_reset(
    control: ControlClient, server: Server, emulator: Emulator
) -> None:
    emulator.queue("pull").add()
    lease(server, "worker", 1)
    control.call("DELETE", "/requests")

    assert workers(control)["worker"]["leased"] == 1
    control.post("/reset")
    assert workers(control) == {}


def test_a_thousand_clients_are_kept_and_a_hundred_queues_of_each(emulator: Emulator) -> None:
    activity = ActivityLog(emulator)
    log = RequestLog(emulator, activity)
    calls = [
        *((f"c{number}", "") for number in range(1001)),
        *(("c1", f"q{n}") for n in range(101)),
    ]
    for agent, queue in calls:
        log.record(
            Request(verb="GET", path="/x", status=200, milliseconds=0, agent=agent, queue=queue)
        )

    found = activity.workers()
    assert (len(found), "c0" in found, next(iter(found))) == (1000, False, "c1")
    assert found["c1"].queues == [f"q{number}" for number in range(100)]


def test_leases_of_a_snapshot_are_counted_as_not_recorded(
    control: ControlClient, emulator: Emulator
) -> None:
    """A snapshot has leases, but not who has them."""
    emulator.queue("pull").add_many([NewTask(), NewTask()])
    emulator.queue("pull").lease_tasks(60, 2)
    control.call("PUT", "/snapshot", control.get("/snapshot").body)

    found = workers(control)
    assert found["not recorded"]["leased"] == 2
    assert found["not recorded"]["longest_seconds"] is None


def test_any_number_of_leases_is_counted(control: ControlClient, emulator: Emulator) -> None:
    """Their client is that of the history of the tasks, though nothing is known of its calls."""
    queue = emulator.queue("pull")
    for _ in range(250):
        queue.add_many([NewTask()] * 100)
    for _ in range(25):
        queue.lease_tasks(60, 1_000)

    [worker] = workers(control).values()
    assert (worker["client"], worker["leased"], worker["last"]) == ("this process", 25_000, None)


def test_tasks_are_listed_by_who_has_leased_them(
    control: ControlClient, server: Server, emulator: Emulator, clock: ManualClock
) -> None:
    """A lease that has expired, or whose client is not recorded, is nobody's."""
    emulator.queue("pull").add_many([NewTask(name=name) for name in "abcd"])
    lease(server, "dead", 2)
    lease(server, "alive", 1)

    def names(client: str, path: str = "/tasks") -> str:
        found = control.get(f"{path}?client={client}").body
        assert found["total"] == len(found["tasks"])
        return "".join(task["name"] for task in found["tasks"])

    assert (names("dead"), names("alive"), names("other")) == ("ab", "c", "")
    assert names("dead", "/queues/pull/tasks") == "ab"
    assert control.get("/tasks?client=dead&state=available").body["tasks"] == []

    control.call("PUT", "/snapshot", control.get("/snapshot").body)
    assert (names("dead"), names("not+recorded")) == ("", "abc")
    clock.advance(3600)
    assert names("not+recorded") == ""


def test_a_leased_task_shows_who_has_it(
    control: ControlClient, server: Server, emulator: Emulator, clock: ManualClock
) -> None:
    emulator.queue("pull").add_many([NewTask(name=name) for name in "ab"])
    lease(server, "worker/1", 1)
    clock.advance(5)

    leased, other = control.get("/queues/pull/tasks?sort=name&descending=true").body["tasks"][::-1]
    assert leased["leased_by"] == {
        "client": "worker/1",
        "interface": "REST",
        "leased": "2026-01-01T00:00:00+00:00",
        "seconds": 5,
    }
    assert other["leased_by"] is None
    assert control.get("/queues/pull/tasks/a").body["task"]["leased_by"]["client"] == "worker/1"
