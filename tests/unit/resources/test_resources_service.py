"""Control routes on the server as a whole."""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from resource import RLIMIT_FSIZE

import pytest
import requests
from control_client import ControlClient
from locks import WatchedLock
from prometheus_client.parser import text_string_to_metric_families
from rlimits import limited
from store_rules import WrongClock, config_of
from stores import own_schema

import pullqueue
from pullqueue import Emulator, Limits, ManualClock, NewTask, QueueState, SystemClock
from pullqueue.cli._process import Signals
from pullqueue.config.model import QueueMode, QueueSettings
from pullqueue.engine.events import Interface
from pullqueue.errors import ConfigFileError
from pullqueue.observe.models import Request
from pullqueue.runtime.config_file import ConfigFile
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store

QUEUE = "/taskqueue/v1beta2/projects/app/taskqueues/pull"


def test_a_server_is_healthy_and_ready_once_it_answers(control: ControlClient) -> None:
    assert control.get("/health").body == {"status": "ok"}
    assert control.get("/ready").body == {"ready": True, "reason": None}
    assert control.get("/version").body["version"] == pullqueue.__version__


@pytest.fixture
def stored(tmp_path: Path, queue_yaml: Path) -> Iterator[ControlClient]:
    """Yield a client of a server whose tasks are in `tasks.db`."""
    emulator = Emulator.from_file(queue_yaml, store=open_store(f"sqlite:///{tmp_path}/tasks.db"))
    with closing(emulator), Server(emulator) as server:
        yield ControlClient(server)


def test_a_server_is_not_ready_without_its_file(stored: ControlClient, tmp_path: Path) -> None:
    assert stored.get("/ready").status == 200
    (tmp_path / "tasks.db").rename(tmp_path / "elsewhere")

    reply = stored.get("/ready")

    (tmp_path / "elsewhere").rename(tmp_path / "tasks.db")
    assert (reply.status, reply.body["ready"]) == (503, False)
    assert "was deleted or replaced while it was in use" in reply.body["reason"]
    assert stored.get("/ready").status == 200


def test_a_server_is_not_ready_without_space(stored: ControlClient, tmp_path: Path) -> None:
    """A file in which no task of some size has room is 503, until there is more space."""
    size = (tmp_path / "tasks.db-wal").stat().st_size
    with limited(RLIMIT_FSIZE, size + 50_000):
        while stored.post("/queues/pull/tasks", {"payload": "x" * 15_000}).status == 200:
            pass
        reply = stored.get("/ready")
        reading = stored.get("/queues")

    assert (reply.status, reply.body["ready"]) == (503, False)
    assert "try again" in reply.body["reason"]
    assert reading.status == 200
    assert stored.get("/ready").status == 200


def test_a_server_is_not_ready_where_the_largest_task_has_no_room(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'tasks.db'}")
    limits = Limits(task_bytes=2**60)
    emulator = Emulator.from_text("queue: []", clock=ManualClock(), limits=limits, store=store)
    with closing(emulator):
        reply = ControlClient(Server(emulator)).get("/ready")

    assert reply.status == 503
    assert "left, and the largest task needs" in reply.body["reason"]


def test_a_reload_adds_changes_and_disables_queues(
    control: ControlClient, queue_yaml: Path, emulator: Emulator
) -> None:
    """A disabled one keeps its tasks."""
    emulator.queue("limited").add(name="kept")
    queue_yaml.write_text(
        "queue:\n- name: pull\n  mode: pull\n  retry_parameters: {task_retry_limit: 3}\n"
        "- name: new\n  mode: pull\n- name: push\n  rate: 5/s\n"
    )

    changes = control.post("/reload").body

    assert changes == {
        "added": ["new"],
        "changed": ["pull"],
        "removed": ["limited"],
        "total_storage_limit": False,
        "settings": {"pull": ["retry_parameters"]},
    }
    text = control.get("/activity").body["actions"][0]["text"]
    assert text.endswith(": added new; changed pull (retry_parameters); disabled limited")
    assert control.get("/queues/limited").body["queue"]["state"] == "disabled"
    assert "is disabled" in control.post("/queues/limited/lease").message
    assert control.get("/queues/limited/tasks/kept").status == 200
    assert control.get("/config").body["loaded"] == "2026-01-01T00:00:00+00:00"


def test_a_broken_file_changes_nothing(control: ControlClient, queue_yaml: Path) -> None:
    """What is wrong with it is reported until it is repaired."""
    before = control.get("/queues").body
    text = queue_yaml.read_text()
    queue_yaml.write_text("queue:\n- name: a b\n  mode: pull\n")

    refused = control.post("/reload")
    problem = control.get("/config").body["problem"]
    queue_yaml.write_text(text)
    fixed = control.post("/reload")

    assert refused.status == 400
    assert "queue.yaml:2:9" in refused.message
    assert problem == refused.message
    assert not any(fixed.body.values())
    assert control.get("/config").body["problem"] is None
    assert control.get("/queues").body == before


def test_the_file_is_read_when_it_changes_or_on_demand(
    queue_yaml: Path, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """Once it is written: what is there between two steps is not applied, and is not an error. A
    broken or missing one is logged.
    """
    caplog.set_level(logging.INFO, "pullqueue")
    file = ConfigFile(queue_yaml)
    file.check(emulator, changes=True, now=False)
    for text in ("", "queue:\n", "queue:\n- name: other\n  mode: pull\n"):
        queue_yaml.write_text(text)
        file.check(emulator, changes=True, now=False)
        file.check(emulator, changes=False, now=False)
    assert not caplog.messages
    file.check(emulator, changes=True, now=False)
    file.check(emulator, changes=False, now=True)
    queue_yaml.write_text(f"total_storage_limit: 1M\n{queue_yaml.read_text()}")
    file.check(emulator, changes=True, now=True)
    queue_yaml.unlink()
    file.check(emulator, changes=True, now=False)
    file.check(emulator, changes=True, now=False)

    assert [message.partition(" is ")[2] for message in caplog.messages[:3]] == [
        "applied: added other; disabled pull, limited, push",
        "applied: nothing changed",
        "applied: changed total_storage_limit",
    ]
    assert len(caplog.messages) == 4
    assert "is not applied, since it is not valid" in caplog.messages[3]
    assert emulator.queue("other").state is QueueState.RUNNING


@pytest.mark.parametrize("keep", [False, True])
def test_a_reload_disables_created_queues_unless_they_are_kept(
    queue_yaml: Path, emulator: Emulator, *, keep: bool
) -> None:
    made = emulator.create_queue(QueueSettings(name="made", mode=QueueMode.PULL))
    file = ConfigFile(queue_yaml, keep_created=keep)

    assert file.reload(emulator).removed == ([] if keep else ["made"])
    assert (made.state is QueueState.DISABLED) is not keep
    assert file.reload(emulator).removed == []
    made.resume()
    assert made.state is QueueState.RUNNING


def test_a_link_out_of_the_project_is_not_applied(
    tmp_path: Path, queue_yaml: Path, emulator: Emulator
) -> None:
    """A file that has become such a link is refused by its path, with nothing of its content."""
    file = ConfigFile(queue_yaml)
    (tmp_path / "outside").mkdir()
    queue_yaml.rename(tmp_path / "outside" / "queue.yaml")
    (tmp_path / "outside" / "queue.yaml").write_text("hunter2: x\n")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    file.path = tmp_path / "project" / "queue.yaml"
    file.path.symlink_to("../outside/queue.yaml")
    with pytest.raises(ConfigFileError, match="a symbolic link leads out of the project") as caught:
        file.reload(emulator)
    assert file.problem == str(caught.value)


def test_a_change_of_the_file_is_tried_until_the_store_takes_it(
    tmp_path: Path, queue_yaml: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason is logged once."""
    store = tmp_path / "tasks.db"
    with closing(
        Emulator.from_file(queue_yaml, store=open_store(f"sqlite:///{store}"))
    ) as emulator:
        file = ConfigFile(queue_yaml)
        queue_yaml.write_text("queue:\n- name: other\n  mode: pull\n")
        store.rename(tmp_path / "elsewhere")
        for _ in range(4):
            file.check(emulator, changes=True, now=False)
        (message,) = caplog.messages
        problem = file.problem
        (tmp_path / "elsewhere").rename(store)
        file.check(emulator, changes=True, now=False)

        assert message == f"{queue_yaml} is not applied: {problem}"
        assert "was deleted or replaced" in message
        assert emulator.queue("other").add(b"1")
        assert file.problem is None

        store.rename(tmp_path / "elsewhere")
        file.check(emulator, changes=True, now=True)
        assert file.problem
        (tmp_path / "elsewhere").rename(store)
        file.check(emulator, changes=True, now=False)
        assert file.problem is None


def test_a_server_that_came_from_no_file_has_nothing_to_reload(emulator: Emulator) -> None:
    control = ControlClient(Server(emulator))

    control.post("/projects", {"name": "one"})
    assert "was not started from a queue.yaml" in control.post("/reload").message
    assert control.post("/reload?project=one").message == (
        "project one has the queues that it was made with, so there is no file to reload: start "
        "the server with `pullqueue serve --queue-yaml-for one=FILE`"
    )
    assert control.get("/config").body["reloadable"] is False


def test_the_clock_moves_forward_and_never_back(control: ControlClient) -> None:
    """By seconds or to a time; that of the machine stays."""
    assert control.get("/clock").body == {
        "now": "2026-01-01T00:00:00+00:00",
        "manual": True,
        "next_change": None,
    }
    assert control.post("/clock", {"advance": 1.5}).body["now"] == (
        "2026-01-01T00:00:01.500000+00:00"
    )
    moved = control.post("/clock", {"move_to": "2026-01-02T00:00:00Z"})
    assert moved.body["now"] == "2026-01-02T00:00:00+00:00"
    assert "never goes back" in control.post("/clock", {"advance": -1}).message
    assert (
        "is not a valid time: use one such as"
        in control.post("/clock", {"move_to": "noon"}).message
    )
    for body in ({}, {"advance": 1, "move_to": "2026-01-03T00:00:00Z"}):
        assert "either advance or move_to" in control.post("/clock", body).message
    assert "unknown field `hours`" in (control.post("/clock", {"advance": 1, "hours": 1}).message)

    of_machine = ControlClient(Server(Emulator.from_text("queue: []", clock=SystemClock())))
    assert of_machine.get("/clock").body["manual"] is False
    assert "cannot be moved" in of_machine.post("/clock", {"advance": 1}).message


def test_a_signal_during_a_reload_asks_for_another(
    emulator: Emulator, queue_yaml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers: dict[int, Callable[[int, None], None]] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    asked: list[bool] = []

    class Asked(ConfigFile):
        def check(self, emulator: Emulator, *, changes: bool, now: bool) -> None:
            super().check(emulator, changes=changes, now=now)
            asked.append(now)
            number = signal.SIGHUP if len(asked) == 1 else signal.SIGTERM
            handlers[number](number, None)

    signals = Signals(Server(emulator, config_file=Asked(queue_yaml)))
    handlers[signal.SIGHUP](signal.SIGHUP, None)
    signals.wait(watch=False)

    assert asked == [True, True]


def test_one_of_reloads_at_once_sees_what_has_changed(
    emulator: Emulator, queue_yaml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, lock = ConfigFile(queue_yaml), WatchedLock()
    monkeypatch.setattr(file, "_lock", lock)
    queue_yaml.write_text(queue_yaml.read_text() + "- {name: more, mode: pull}\n")

    with ThreadPoolExecutor(3) as pool, lock:
        reloads = [pool.submit(file.reload, emulator) for _ in range(3)]
        assert lock.wait_for(3)

    assert sorted(one.result().added for one in reloads) == [[], [], ["more"]]


def test_a_token_is_issued_for_the_scopes_of_the_request(control: ControlClient) -> None:
    token = control.get("/token?email=a@example.com&scope=one%20two").body["access_token"]

    info = control.send("GET", f"/tokeninfo?access_token={token}").body

    assert sorted(info["scope"].split()) == ["one", "two"]


def test_a_reset_deletes_all_but_the_time(control: ControlClient, server: Server) -> None:
    """Tasks, names, events, requests and faults."""
    control.post("/queues/pull/tasks", {"tasks": [{"name": "a"}]})
    control.post("/faults", {"kind": "empty_leases"})
    control.post("/clock", {"advance": 5})
    requests.get(f"{server.url}{QUEUE}", timeout=60)

    control.post("/reset")

    assert control.get("/queues/pull").body["queue"]["tasks"] == 0
    assert control.get("/queues/pull/tasks/a/history").status == 404
    assert control.get("/requests").body["requests"] == []
    assert control.get("/faults").body == {"faults": []}
    assert control.get("/clock").body["now"] == "2026-01-01T00:00:05+00:00"


@pytest.mark.parametrize("keep", [False, True])
def test_a_reset_keeps_created_queues_on_demand(
    control: ControlClient, emulator: Emulator, *, keep: bool
) -> None:
    """Their tasks are deleted and the names can be used again, those of queue.yaml stay."""
    made = emulator.create_queue(QueueSettings(name="made", mode=QueueMode.PULL))
    made.pause()
    made.add(name="a")
    made.delete_tasks("a")

    control.post("/reset", {"keep_queues": keep})

    names = [queue["name"] for queue in control.get("/queues").body["queues"]]
    assert names == ["pull", "limited", "push", *(["made"] if keep else [])]
    if keep:
        assert control.post("/queues/made/tasks", {"tasks": [{"name": "a"}]}).body["refused"] == {}
        assert control.get("/queues/made").body["queue"]["state"] == "running"


def test_throughput_is_counted_from_the_store(
    control: ControlClient, emulator: Emulator, clock: ManualClock
) -> None:
    """So that several servers return the same numbers."""
    queue = emulator.queue("limited")
    for seconds in (30, 40):
        queue.add_many([NewTask(name=f"leased-{seconds}"), NewTask(), NewTask()])
        queue.lease_tasks(0, 1)
        clock.advance(seconds)
        queue.delete_tasks(queue.list_tasks(limit=1))
    queue.purge()

    shown = control.get("/queues/limited/throughput").body

    assert shown == {"last_minute": {"added": 3, "leased": 1, "deleted": 4, "exhausted": 1}}


def test_metrics_have_the_numbers_of_queues_and_requests(
    control: ControlClient, server: Server
) -> None:
    """For Prometheus, without attempts of push tasks; verbs that clients make up are one series."""
    control.post("/queues/pull/tasks", {"tasks": [{}, {}]})
    control.post("/queues/pull/lease")
    for verb in ("GET", "VERBA", "VERBB"):
        requests.request(verb, f"{server.url}{QUEUE}", timeout=60)
    log = server.state.requests
    attempt = Request(verb="POST", path="/", status=200, milliseconds=0)
    log.record(attempt, origin=log.origin(Interface.PUSH))

    reply = control.get("/metrics")

    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(reply.body)
        for sample in family.samples
    }
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert samples["pullqueue_tasks", "available", "pull"] == 1
    assert samples["pullqueue_tasks", "leased", "pull"] == 1
    assert samples["pullqueue_leased_last_minute", "pull"] == 1
    counts = {key[1:]: n for key, n in samples.items() if key[0] == "pullqueue_requests_total"}
    assert counts == {("200", "GET"): 1, ("405", "other"): 2}
    assert samples["pullqueue_request_seconds_total",] > 0
    assert samples["pullqueue_clock_seconds",] == server.emulator.now_usec() / 1e6
    assert samples["pullqueue_info", pullqueue.__version__] == 1


def test_time_is_that_of_the_store() -> None:
    """Where that of the machine is another: states, ages, countdowns and metrics go by it, and a
    snapshot loaded keeps its leases.
    """
    store = open_store(own_schema("control_time"))
    emulator = Emulator(config_of(1), clock=WrongClock(7200), store=store)
    emulator.reset()
    control = ControlClient(Server(emulator))
    control.post("/queues/pull/tasks", {"tasks": [{"name": "leased"}]})
    control.post("/queues/pull/lease", {"lease_seconds": 3600})
    control.post("/queues/pull/tasks", {"tasks": [{"name": "due"}]})
    saved = control.get("/snapshot").body
    metrics = control.get("/metrics").body
    listed = [task["name"] for task in control.get("/queues/pull/tasks?state=leased").body["tasks"]]
    age = control.get("/queues").body["queues"][0]["oldest_age_seconds"]
    control.call("PUT", "/snapshot?shift=true", saved)
    task = control.get("/queues/pull/tasks/leased").body["task"]
    again = control.post("/queues/pull/lease", {"lease_seconds": 60, "max_tasks": 9}).body
    now_usec = emulator.now_usec()

    assert listed == ["leased"]
    assert 0 <= age < 3600
    assert task["state"] == "leased"
    assert 0 < task["lease_seconds_left"] <= 3600
    assert [task["name"] for task in again["tasks"]] == ["due"]
    (seconds,) = re.findall(r"^pullqueue_clock_seconds{} (\S+)$", metrics, re.MULTILINE)
    assert 0 <= now_usec / 1_000_000 - float(seconds) < 3600
    emulator.close()
