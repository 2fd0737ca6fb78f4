"""Push tasks, delivered by a server to an app."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from linting import run_pullqueue
from push_app import Control, PushApp, Received, push_app, until
from served import free_port

from pullqueue import Clock, Emulator, HttpRequest, ManualClock, NewTask
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, Rate
from pullqueue.cron.file import parse_cron
from pullqueue.engine import verbs
from pullqueue.push.addresses import PushAddresses
from pullqueue.push.attempt import RunningAttempt
from pullqueue.runtime import state
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store

QUEUE_YAML = """\
queue:
- name: web
  rate: 500/s
  bucket_size: 500
  retry_parameters:
    min_backoff_seconds: 0.05
- name: hourly
  rate: 1/h
  bucket_size: 1
- name: single
  rate: 500/s
  max_concurrent_requests: 1
- name: once
  rate: 500/s
  retry_parameters:
    task_retry_limit: 0
- name: patient
  rate: 500/s
  retry_parameters:
    min_backoff_seconds: 1800
- name: worker
  rate: 500/s
  target: worker
"""


@contextmanager
def delivering(*addresses: str, clock: Clock | None = None) -> Iterator[Control]:
    emulator = Emulator.from_text(QUEUE_YAML, clock=clock)
    with Server(emulator, push_to=PushAddresses(addresses)) as server:
        yield Control(server.url)


@pytest.fixture
def control(app: PushApp) -> Iterator[Control]:
    with delivering(app.url) as control:
        yield control


def test_a_task_is_sent_as_app_engine_sends_it(control: Control, app: PushApp) -> None:
    headers = [["X-Mine", "7"], ["X-AppEngine-QueueName", "other"], ["Host", "evil.example"]]
    request = {"url": "/mail?x=1", "method": "PUT", "headers": headers}
    task = {"name": "t1", "payload": "to=ada", "request": request}
    control.call("POST", "/queues/web/tasks", {"tasks": [task]})
    until(lambda: not control.queue("web")["tasks"])
    [logged] = control.call("GET", "/requests")["requests"]
    history = control.call("GET", "/queues/web/tasks/t1/history")["events"]

    [received] = app.received
    assert (received.method, received.path, received.body) == ("PUT", "/mail?x=1", b"to=ada")
    assert received.headers["X-Mine"] == "7"
    assert received.headers["X-AppEngine-QueueName"] == "web"
    assert received.headers["X-AppEngine-User-IP"] == "0.1.0.2"
    assert received.headers["Host"] == app.url.removeprefix("http://")
    assert (logged["interface"], logged["tasks"], logged["status"]) == ("push", ["t1"], 200)
    assert "X-AppEngine-TaskName: t1" in logged["headers"]
    assert [(event["kind"], event["interface"], event["request"]) for event in history] == [
        ("added", "control", None),
        ("attempt started", "push", logged["number"]),
        ("attempt succeeded", "push", logged["number"]),
    ]
    assert history[1]["client"] == app.url


def test_an_attempt_whose_lease_was_lost_is_neither_sent_nor_finished(
    app: PushApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server that shares the store may have sent the task."""
    asked = threading.Event()

    def is_own(running: RunningAttempt, *, renewed_within: float) -> bool:
        running.is_lost = renewed_within > 0
        asked.set()
        return False

    monkeypatch.setattr(RunningAttempt, "is_own", is_own)
    emulator = Emulator.from_text(QUEUE_YAML, clock=ManualClock())
    with Server(emulator, push_to=PushAddresses([app.url])):
        emulator.queue("web").add(name="lost", request=HttpRequest("/lost"))
        assert asked.wait(60)

    assert app.received == []
    assert emulator.queue("web").get_task("lost").attempts.finished == 0


def test_an_app_gets_the_host_of_its_target(app: PushApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEFAULT_VERSION_HOSTNAME", "guestbook.appspot.com")
    with delivering(app.url) as control:
        control.add("worker", "/")
        control.add("web", "/")
        until(lambda: len(app.received) == 2)

    assert {received.headers["Host"] for received in app.received} == {
        *("worker.guestbook.appspot.com", "guestbook.appspot.com")
    }


def test_http_targets_are_followed_only_to_named_addresses(app: PushApp) -> None:
    app.locations = {
        "/named": "https://api.example.com/there",
        "/unknown": "https://other.example/there",
    }
    emulator = Emulator.from_text(QUEUE_YAML)
    with push_app() as named:
        push_to = PushAddresses([f"https://api.example.com={named.url}"])
        with Server(emulator, push_to=push_to):
            for name in ("named", "unknown"):
                task = NewTask(name=name, request=HttpRequest(f"{app.url}/{name}"))
                verbs.insert(emulator.queue("once"), [task], absolute_urls=True)
            until(lambda: emulator.queue("once").exhausted and named.received)
            until(lambda: not emulator.queue("once").list_tasks())

    [exhausted], [received] = emulator.queue("once").exhausted, named.received
    assert (exhausted.name, exhausted.attempts.status) == ("unknown", 302)
    assert (received.method, received.path) == ("GET", "/there")
    assert received.headers["Host"] == "api.example.com"


def test_a_queue_of_http_targets_is_delivered_without_an_address(app: PushApp) -> None:
    """No list says that it is kept, and its rate is shown, also where 429 has slowed it down."""
    emulator = Emulator.from_text(QUEUE_YAML)
    with Server(emulator, push_to=PushAddresses([])) as server:
        control = Control(server.url)
        task = NewTask(request=HttpRequest(f"{app.url}/status/429"))
        verbs.insert(emulator.queue("patient"), [task], absolute_urls=True)
        until(lambda: control.queue("patient")["retrying"])
        shown = control.call("GET", "/queues/patient/delivery")["delivery"]
        listed = run_pullqueue("queues", "list", "patient", "--url", control.url)

    assert (shown["rate"], shown["enforced_rate"]) == (500, 250)
    assert "kept" not in listed.stdout + listed.stderr


def test_a_target_that_no_queue_has_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with delivering("http://a", "v2.worker=http://b", "worker=http://c", "wroker=http://d"):
        [message] = caplog.messages

    assert message == (
        'no queue has the target "wroker": only tasks that name it are sent to its address; the '
        "targets of the queues are worker"
    )


def test_a_failed_task_is_sent_again_after_its_backoff(
    control: Control, app: PushApp, caplog: pytest.LogCaptureFixture
) -> None:
    control.add("web", "/fails/3")
    control.add("once", "/status/404")
    until(lambda: app.paths().count("/fails/3") == 4 and control.queue("once")["exhausted"])
    [task] = control.tasks("once", "exhausted")

    counts = [
        each.headers["X-AppEngine-TaskRetryCount"] for each in app.received if "fails" in each.path
    ]
    assert counts == ["0", "1", "2", "3"]
    assert (task["push"]["attempts"], task["push"]["last_status"]) == (1, 404)
    assert task["push"]["last_reason"] == "no /status/404"
    assert caplog.text.count("/fails/3 at") == 2  # attempts 1 and 2, not 3
    until(lambda: "it is exhausted" in caplog.text)
    with urlopen(f"{control.root}/metrics", timeout=60) as response:  # noqa: S310
        metrics = response.read().decode()
    for queue, status, number in (("web", 500, 3), ("web", 200, 1), ("once", 404, 1)):
        labels = f'queue="{queue}",status="{status}"'
        assert f"pullqueue_attempts_total{{{labels}}} {number}.0" in metrics


@pytest.mark.parametrize(("kind", "sent"), [("fail", []), ("lose_response", ["/mail"])])
def test_an_attempt_that_a_fault_answers_shows_no_address(
    control: Control, app: PushApp, caplog: pytest.LogCaptureFixture, kind: str, sent: list[str]
) -> None:
    control.call("POST", "/faults", {"kind": kind, "call": "attempt"})
    control.add("once", "/mail", name="t")
    until(lambda: "it is exhausted" in caplog.text)
    [logged] = control.call("GET", "/requests")["requests"]
    end = control.call("GET", "/queues/once/tasks/t/history")["events"][2]

    where = app.url if sent else "answered by a fault, not sent"
    assert (app.paths(), logged["client"], end["client"]) == (sent, where, where)
    assert f"(POST /mail {'at ' if sent else ''}{where}: " in caplog.text


def test_tasks_are_not_sent_to_the_server_itself() -> None:
    port = free_port()
    push_to = PushAddresses([f"http://localhost:{port}"])
    with Server(Emulator.from_text(QUEUE_YAML), port=port, push_to=push_to) as server:
        control = Control(server.url)
        control.add("once", "/_emulator/credentials")
        until(lambda: control.queue("once")["exhausted"])
        [task] = control.tasks("once", "exhausted")

    reason = f"localhost:{port}: cannot connect: tasks are not sent to the server itself"
    assert (task["push"]["attempts"], task["push"]["last_status"]) == (1, 0)
    assert task["push"]["last_reason"].startswith(reason)


def test_a_queue_that_cannot_be_delivered_does_not_stop_others(
    app: PushApp, caplog: pytest.LogCaptureFixture
) -> None:
    bad = QueueSettings(name="bad", mode=QueueMode.PUSH, rate=Rate(count=1, unit="x"))
    good = QueueSettings(name="good", mode=QueueMode.PUSH, rate=Rate(count=100, unit="s"))
    emulator = Emulator(QueueConfig(queues=(bad, good)))
    with Server(emulator, push_to=PushAddresses([app.url])):
        for name in ("bad", "good", "good"):
            emulator.queue(name).add(request=HttpRequest(f"/{name}"))
            until(lambda: not emulator.queue("good").list_tasks())

    assert app.paths() == ["/good", "/good"]
    assert caplog.text.count('push tasks of queue "bad" cannot be delivered') == 1


def test_a_concurrency_above_that_of_the_server_is_reported_once(
    app: PushApp, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("one", "two", "three")
    queues = "".join(
        f"- {{name: {name}, rate: 9/s, max_concurrent_requests: 900}}\n" for name in names
    )
    with Server(
        Emulator.from_text(f"queue:\n{queues}"), push_to=PushAddresses([app.url])
    ) as server:
        for name in names:
            server.emulator.queue(name).add(name=name)
        until(lambda: len(app.received) == len(names))

    assert caplog.text.count("has max_concurrent_requests 900; this server makes at most") == 1


def test_a_new_rate_applies_at_once(app: PushApp) -> None:
    emulator = Emulator.from_text(QUEUE_YAML)
    faster = Emulator.from_text(QUEUE_YAML.replace("rate: 1/h", "rate: 500/s")).config
    queue = emulator.queue("hourly")
    with Server(emulator, push_to=PushAddresses([app.url])):
        queue.add_many([NewTask()] * 10)
        until(lambda: len(app.received) == 1)
        emulator.reconfigure(faster)
        until(lambda: len(app.received) == 10)


def test_concurrency_and_other_queues(control: Control, app: PushApp) -> None:
    """Slow tasks hold up neither the tasks of other queues nor requests."""
    control.add("single", "/slow/single", count=3)
    control.add("web", "/slow/web", count=100)
    until(lambda: app.running["/slow/web"] > 30 and app.running["/slow/single"])
    control.add("once", "/quick")
    until(lambda: "/quick" in app.paths())
    assert control.queue("single")["running"] == app.running["/slow/single"] == 1
    app.released.set()
    until(lambda: not control.queue("web")["tasks"] and not control.queue("single")["tasks"])

    assert len(app.received) == 104


def test_a_step_of_the_clock_sends_what_has_become_due(app: PushApp) -> None:
    with delivering(app.url, clock=ManualClock()) as control:
        control.add("patient", "/fails/1")
        control.add("web", "/later", countdown=3600)
        control.add("web", "/slow")
        until(lambda: app.running["/slow"] and control.queue("patient")["retrying"])
        control.call("POST", "/clock", {"advance": 1800})
        until(lambda: app.paths().count("/fails/1") == 2)
        assert "/later" not in app.paths()
        control.call("POST", "/clock", {"advance": 1800})
        until(lambda: "/later" in app.paths())
        app.released.set()
        until(lambda: not control.queue("web")["tasks"])

    assert app.paths().count("/slow") == 1


def test_a_stop_waits_for_attempts_and_cron_jobs_at_the_same_time(
    app: PushApp, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pullqueue.push")
    emulator = Emulator.from_text(QUEUE_YAML)
    jobs = parse_cron("cron: [{url: /slow/job, schedule: every 24 hours}]")
    push_to = PushAddresses([app.url])
    with Server(emulator, push_to=push_to, cron=jobs) as server, ThreadPoolExecutor(1) as threads:
        [job] = server.state.cron.states
        assert server.state.cron.run_now(job)
        Control(server.url).add("once", "/slow")
        until(lambda: app.running["/slow"] and app.running["/slow/job"])
        stopped = threads.submit(server.stop)
        until(lambda: "running attempts to end: 1" in caplog.text)
        assert job.is_running
        app.released.set()
        stopped.result(timeout=60)
    assert job.last is not None
    assert job.last.status == 200
    assert emulator.queue("once").fetch_statistics().tasks == 0


@pytest.mark.parametrize("released", [True, False])
def test_an_attempt_ends_after_a_stop_or_runs_again(
    app: PushApp,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    *,
    released: bool,
) -> None:
    caplog.set_level(logging.INFO, "pullqueue.push")
    if not released:
        monkeypatch.setattr(state, "STOP_SECONDS", 0.01)
    emulator = Emulator.from_text(QUEUE_YAML)
    push_to = PushAddresses([app.url])
    with Server(emulator, push_to=push_to) as server, ThreadPoolExecutor(1) as threads:
        Control(server.url).add("once", "/slow")
        until(lambda: app.running["/slow"])
        stopped = threads.submit(server.stop)
        until(lambda: "running attempts to end: 1" in caplog.text)
        if released:
            app.released.set()
        stopped.result(timeout=60)
        assert emulator.queue("once").fetch_statistics().running == 0
    assert ("is interrupted, and its task due again" in caplog.text) is not released
    app.released.set()
    with Server(emulator, push_to=push_to) as server:
        control = Control(server.url)
        control.add("web", "/after")
        until(lambda: "/after" in app.paths() and not control.queue("once")["tasks"])

    assert app.paths().count("/slow") == (1 if released else 2)


def test_a_store_that_fails(app: PushApp, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A result that cannot be stored leaves the task leased; delivery goes on with the store."""
    clock, store = ManualClock(), open_store(f"sqlite:///{tmp_path}/tasks.db")
    emulator = Emulator.from_text(QUEUE_YAML, store=store, clock=clock)
    queue = emulator.queue("once")
    file = sqlite3.connect(tmp_path / "tasks.db", isolation_level=None, check_same_thread=False)

    def fail(_: Received) -> None:
        app.on_request = lambda _: None
        file.execute("ALTER TABLE tasks RENAME TO lost")

    app.on_request = fail
    with closing(emulator), Server(emulator, push_to=PushAddresses([app.url])), closing(file):
        queue.add(name="t1")
        until(lambda: "the result of an attempt cannot be stored" in caplog.text)
        until(lambda: 'queue "once" cannot be delivered' in caplog.text)
        file.execute("ALTER TABLE lost RENAME TO tasks")
        clock.advance(60)
        until(lambda: not queue.list_tasks())

    assert len(app.received) == 2
    assert caplog.text.count('queue "once" cannot be delivered: the store') == 1


def test_tasks_without_end_hold_up_no_queue_and_no_stop(app: PushApp) -> None:
    with delivering(app.url) as control:

        def add_more(received: Received) -> None:
            if received.path == "/more":
                control.add("web", "/more", count=2)

        app.on_request = add_more
        control.add("web", "/more")
        until(lambda: len(app.received) > 30)
        control.add("once", "/quick")
        until(lambda: "/quick" in app.paths())
        assert control.queue("web")["tasks"] > 0


@pytest.mark.parametrize("services", [["other"], []])
def test_tasks_without_an_address_are_kept(
    app: PushApp, caplog: pytest.LogCaptureFixture, services: list[str]
) -> None:
    """Every place says so and how to deliver them, and no attempt is used up. A queue whose tasks
    can have a target with an address is not itself one that is kept.
    """
    with delivering(*[f"{service}={app.url}" for service in services]) as control:
        url = ("--url", control.url)
        request = ("--request", "PUT /mail", "--header", "X-Mine: 7")
        run_pullqueue("tasks", "add", "web", "hi", "--name", "t1", *request, *url)
        until(lambda: "kept, not delivered" in caplog.text)
        queues = run_pullqueue("queues", *url)
        listed = run_pullqueue("tasks", "list", "web", *url)
        shown = run_pullqueue("tasks", "get", "web", "t1", *url)
        refused = run_pullqueue("tasks", "run", "web", "t1", *url)
        kept = control.queue("web")["kept"]
        [task] = control.tasks("web")

    pasted = f"run `pullqueue push-to http://localhost:8080 --url {control.url}`"
    assert kept == (None if services else f"kept, not delivered: {pasted}")
    assert (task["push"]["attempts"], task["state"]) == (0, "available")
    why = "there is no default address: " if services else ""
    assert task["push"]["kept"] == f"{why}{pasted}"
    assert "PUT /mail" in listed.stdout
    assert "PUT /mail" in shown.stdout
    for done in (queues, listed, shown):
        assert "kept, not delivered" in done.stderr
        assert "pullqueue push-to" in done.stderr
    assert (refused.exit_code, "cannot be sent" in refused.stderr) == (1, True)
    assert app.received == []


def test_run_shows_how_the_attempt_ends(control: Control) -> None:
    for queue, path, result in (
        ("web", "/", "t succeeded: status 200\n"),
        ("once", "/status/500", "t failed: status 500 (no /status/500); no attempt is left\n"),
        ("patient", "/status/503", "t failed: status 503 (no /status/503); next attempt 20"),
    ):
        control.add(queue, path, name="t", countdown=1000)
        (task,) = control.tasks(queue)
        done = run_pullqueue("tasks", "run", queue, "t", "--url", control.url)

        assert done.stdout.startswith(result)
        assert done.exit_code == int("failed" in result)
        assert task["retry_limit"] == (0 if queue == "once" else None)


def test_an_attempt_without_a_response() -> None:
    with delivering("http://127.0.0.1:9") as control:
        url = ("--url", control.url)
        control.call("POST", "/queues/once/pause")
        control.add("once", "/", name="t")
        done = run_pullqueue("tasks", "run", "once", "t", *url)
        _, row, *events = run_pullqueue("tasks", "get", "once", "t", *url).stdout.splitlines()
        [number] = [each["number"] for each in control.call("GET", "/requests")["requests"]]
        listed = run_pullqueue("requests", *url).stdout
        shown = run_pullqueue("requests", str(number), *url).stdout

    why = "no response (127.0.0.1:9: connection refused)"
    assert done.stdout == f"t failed: {why}; no attempt is left\n"
    assert f"POST /, last: {why}" in row
    assert row.split()[-5:] == ["exhausted,", "no", "response", "1", "0"]
    by = f"(push, request {number}, http://127.0.0.1:9"
    assert events[1].endswith(f"attempt started  {by}, run by control, pullqueue tasks run)")
    failed = f"attempt failed, {why}  {by})"
    assert events[2].endswith(failed)
    assert " none " in listed
    assert "\nheaders:\nUser-Agent: AppEngine-Google" in shown


def test_other_addresses_while_a_server_runs(app: PushApp) -> None:
    emulator = Emulator.from_text(QUEUE_YAML)
    with push_app() as other, Server(emulator) as server:
        control, url = Control(server.url), ("--url", server.url)
        for _ in range(3):
            control.add("web", "/kept", count=100)
        run_pullqueue("push-to", app.url, "worker=http://localhost:9", *url)
        named = run_pullqueue("push-to", f"worker={app.url}/worker", *url)
        until(lambda: app.paths().count("/kept") == 300)
        control.add("worker", "/a")
        until(lambda: "/worker/a" in app.paths())
        refused = run_pullqueue("push-to", "http://a..b", *url)
        missing = [run_pullqueue("push-to", *each, *url) for each in ([], ["--keep", "http://a"])]
        server.push_to(other.url)
        control.add("worker", "/b")
        until(lambda: other.paths() == ["/b"])
        kept = run_pullqueue("push-to", "--keep", *url)
        acts = [action["text"] for action in control.call("GET", "/activity")["actions"]]
        control.add("web", "/c")
        [task] = control.tasks("web")

    where = f"push tasks are delivered to {app.url}, worker at {app.url}/worker\n"
    assert (named.exit_code, named.stdout) == (0, where)
    assert (refused.exit_code, "its host is not valid" in refused.stderr) == (2, True)
    for done in missing:
        assert (done.exit_code, done.stdout) == (2, "")
        assert "pass addresses, such as http://localhost:8080, or --keep" in done.stderr
    assert (kept.exit_code, kept.stdout) == (0, "push tasks are kept, not delivered\n")
    pasted = f"run `pullqueue push-to http://localhost:8080 --url {url[1]}`"
    assert task["push"]["kept"] == pasted
    assert len(app.received) == 301
    assert acts == [
        "set the addresses of push tasks: none",
        f"set the addresses of push tasks: {app.url}, worker at {app.url}/worker",
        f"set the addresses of push tasks: {app.url}, worker at http://localhost:9",
    ]
