"""Control routes on the log of requests: what is recorded, what is hidden, filters, and the events
that name requests.
"""

from __future__ import annotations

import gzip
import json
import tracemalloc
from base64 import b64decode
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
import requests
from control_client import ControlClient

from pullqueue import Emulator, HttpRequest, Limits, ManualClock, NewTask
from pullqueue.api.auth import ACCEPTED_SCOPES
from pullqueue.engine.events import Interface, Origin
from pullqueue.engine.interceptors import Touched
from pullqueue.observe import request_log
from pullqueue.observe.activity import ActivityLog
from pullqueue.observe.models import Request
from pullqueue.observe.request_log import RequestLog, excerpt
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.server.lifecycle import Server
from pullqueue.testing import run_tasks

QUEUE = "/taskqueue/v1beta2/projects/app/taskqueues/pull"
TASKS = f"{QUEUE}/tasks"
JSON = {"payloadBase64": "YQ=="}
BATCH = {"Content-Type": "multipart/mixed; boundary=b"}
WITH_ACL = """\
queue:
- {name: pull, mode: pull, acl: [{user_email: worker@example.com}]}
"""
PART = b"--b\r\nContent-Type: application/http\r\n\r\n"


def latest(control: ControlClient) -> Any:
    return control.get("/requests").body["requests"][0]


def test_requests_are_recorded(control: ControlClient) -> None:
    """Those to the API, with what was sent and answered; they are listed in pages."""
    control.send("POST", TASKS, JSON)
    control.send("GET", f"{QUEUE}?getStats=true")
    control.send("GET", "/nowhere")

    listed = control.get("/requests?limit=2").body
    first = control.get(f"/requests?limit=2&before={listed['next']}").body["requests"][0]

    assert [one["status"] for one in listed["requests"]] == [404, 200]
    assert (first["verb"], first["path"], first["status"]) == ("POST", TASKS, 200)
    assert (first["method"], first["queue"]) == ("tasks.insert", "pull")
    assert first["body"]["text"] == json.dumps(JSON)
    assert json.loads(first["response"]["text"])["payloadBase64"] == "YQ=="
    assert control.get(f"/requests/{first['number']}").body["request"] == first
    assert control.get("/requests/99").status == control.get("/requests/x").status == 404
    assert control.call("DELETE", "/requests").body == {"deleted": 3}
    assert control.get("/requests").body == {"requests": [], "next": None}


def test_a_request_that_failed_says_why(control: ControlClient) -> None:
    """And names the task that it was refused for, so that it is found by that."""
    body = {"id": "twin", **JSON}
    control.send("POST", TASKS, body)
    control.send("POST", TASKS, body)

    refused, added = control.get("/requests?task=twin").body["requests"]
    assert (refused["status"], refused["tasks"], refused["task_count"]) == (400, ["twin"], 1)
    assert (refused["reason"], added["reason"]) == ("Task name already taken: twin", "")


def test_a_lease_that_gets_no_tasks_because_of_the_lease_rate_says_so() -> None:
    limits = Limits(leases_per_second=1)
    emulator = Emulator.from_text(
        "queue: [{name: pull, mode: pull}]", clock=ManualClock(), limits=limits
    )
    with Server(emulator) as server:
        control = ControlClient(server)
        for _ in range(2):
            control.send("POST", f"{TASKS}/lease?leaseSecs=60&numTasks=1", {})

        reasons = [each["reason"] for each in control.get("/requests").body["requests"]]
        assert reasons == ["no tasks because of the lease rate", ""]


def test_a_method_of_cloud_tasks_is_found_by_both_names(control: ControlClient) -> None:
    """That of gRPC, and that of REST."""
    control.send("POST", "/v2/projects/p/locations/us-central1/queues/pull/tasks", {"task": {}})

    for method in ("CreateTask", "tasks.create", "create"):
        found = control.get(f"/requests?method={method}").body["requests"]
        assert [each["method"] for each in found] == ["projects.locations.queues.tasks.create"]
    assert control.get("/requests?method=CreateQueue").body["requests"] == []


def test_only_calls_of_apps_are_requests(control: ControlClient) -> None:
    """The address in a browser, its icon, the console and control routes are not recorded."""
    for path in ("/", "/favicon.ico", "/console/", "/_emulator/queues", "/_emulators"):
        control.send("GET", path)

    assert [one["path"] for one in control.get("/requests").body["requests"]] == ["/_emulators"]


def test_the_caller_is_recorded() -> None:
    """Where tokens are required, requests and events name the owner of the token, also of a call
    that was refused.
    """
    emulator = Emulator.from_text(WITH_ACL)
    emulator.queue("pull").add(name="t1")
    with Server(emulator, acl=True) as server:
        control = ControlClient(server)
        control.send("GET", QUEUE)
        for scopes in (ACCEPTED_SCOPES, frozenset({"other"})):
            token = server.tokens.issue("worker@example.com", scopes).text
            lease = f"{TASKS}/lease?leaseSecs=60&numTasks=1"
            control.send("POST", lease, headers={"Authorization": f"Bearer {token}"})

        logged = control.get("/requests").body["requests"]

    [_, leased] = emulator.queue("pull").history("t1")
    assert leased.origin is not None
    assert leased.origin.client == "worker@example.com"
    assert [(one["status"], one["caller"]) for one in logged] == [
        (403, "worker@example.com"),
        (200, "worker@example.com"),
        (401, None),
    ]


def test_compressed_bodies_are_recorded_decompressed(
    control: ControlClient, server: Server
) -> None:
    """Request and response can be read; of a body that is not valid only the length is known,
    since it may contain credentials.
    """
    body = json.dumps(JSON).encode()
    headers = {"Content-Encoding": "gzip", "User-Agent": "java (gzip)"}
    answer = requests.post(f"{server.url}{TASKS}", gzip.compress(body), headers=headers, timeout=60)
    logged = latest(control)
    control.send("POST", TASKS, b"zip", headers)
    invalid = latest(control)["body"]

    assert answer.headers["Content-Encoding"] == "gzip"
    assert b64decode(logged["body"]["base64"]) == body
    assert json.loads(logged["response"]["text"]) == answer.json()
    assert logged["response"]["bytes"] == len(answer.content)
    assert (invalid["bytes"], invalid["base64"]) == (3, "")


def test_json_stays_json_where_credentials_are_hidden(control: ControlClient) -> None:
    """What looks like one is hidden to the end of its text, and no further."""
    for tag, pretty in product(["access_token=x y", "Authorization: x\\y"], ["true", "false"]):
        control.send("POST", f"{TASKS}?prettyPrint={pretty}", {"payloadBase64": "", "tag": tag})

        logged = latest(control)
        for part in ("body", "response"):
            assert "(hidden)" in json.loads(logged[part]["text"])["tag"]


@pytest.mark.parametrize(
    ("path", "body", "recorded"),
    [
        ("/token", b"assertion=secret", b""),
        (
            TASKS,
            b"access_token=one&OAUTH_TOKEN=two&fields=id",
            b"access_token=(hidden)&OAUTH_TOKEN=(hidden)&fields=id",
        ),
        (
            TASKS,
            b"GET /x?access_token=1 X\r\nAuthorization: 2\r\nX: 3\r\nAUTHORIZATION : 4\r\n 5\r\n",
            b"GET /x?access_token=(hidden) X\r\n%s(hidden)\r\nX: 3\r\n%s(hidden)\r\n"
            % (b"Authorization:", b"AUTHORIZATION :"),
        ),
        (TASKS, b"GET /x\r\nAuthorization: 2\r\n", b"GET /x\r\nAuthorization:(hidden)\r\n"),
        (
            TASKS,
            b'{"private_key": "-----BEGIN RSA PRIVATE KEY-----\\nMII/x+y=\\n", "tag": "a"}',
            b'{"private_key": "(hidden)", "tag": "a"}',
        ),
    ],
    ids=["token", "form", "batch", "header", "key"],
)
def test_credentials_in_bodies_are_not_recorded(
    control: ControlClient, path: str, body: bytes, recorded: bytes
) -> None:
    """Neither those of a form nor those of the calls in a batch, however they are written."""
    control.send("POST", path, body)

    assert b64decode(latest(control)["body"]["base64"]) == recorded


def test_credentials_in_queries_and_responses_are_not_recorded(control: ControlClient) -> None:
    """However the names of the parameters are spelled; neither the tokens that the server issues,
    nor what the response to a batch repeats.
    """
    control.send("GET", f"{QUEUE}?access_token=one&alt=json&oauth%5Ftoken=two&flag")
    asked = latest(control)["query"]
    control.send("POST", "/token", b"assertion=secret")
    issued = latest(control)["response"]
    part = b"GET /x?access_token=one and more HTTP/1.1\r\n\r\n"
    answer = control.send("POST", "/batch", PART + part + b"--b--\r\n", BATCH)

    assert asked == "access_token=(hidden)&alt=json&oauth%5Ftoken=(hidden)&flag"
    assert (issued["bytes"] > 0, issued["base64"]) == (True, "")
    assert "access_token=one" in answer.body
    assert "access_token=(hidden) and more" in latest(control)["response"]["text"]


def test_the_log_is_bounded(control: ControlClient, server: Server) -> None:
    """The latest ten thousand stay, four KiB of each; where that is too much, without bodies."""
    control.send("POST", TASKS, {"payloadBase64": "A" * 8000})
    long = latest(control)["body"]
    call: Any = {"verb": "POST", "path": "/x", "status": 200, "milliseconds": 0}
    body = excerpt(b"A" * 8000)
    for _ in range(10_005):
        server.state.requests.record(Request(**call, body=body))
    logged = server.state.requests.latest()

    assert (long["bytes"], long["truncated"], len(long["text"])) == (8021, True, 4096)
    # The first request on the queue stays: those on none are more.
    assert [each.number for each in (logged[0], *logged[-2:])] == [10_006, 8, 1]
    assert len(logged) == 10_000
    assert [(len(one.body.data), one.body.size) for one in (logged[0], logged[-2])] == [
        (4096, 8000),
        (0, 8000),
    ]
    assert sum(one.memory for one in logged) <= 16 * 2**20
    assert control.call("DELETE", "/requests").body == {"deleted": 10_000}
    for _ in range(3):
        server.state.requests.record(Request(**call, body=body))
    assert all(one.body.data for one in server.state.requests.latest())


def test_the_log_does_not_grow_where_bodies_are_small(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left of the requests that were dropped."""
    monkeypatch.setattr(request_log, "_KEPT", 300)
    log, body, sizes = RequestLog(emulator, ActivityLog(emulator)), excerpt(b"{}"), []
    tracemalloc.start()
    try:
        for _ in range(4):
            for _ in range(300):
                log.record(Request(verb="GET", path="/x", status=200, milliseconds=0, body=body))
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()

    assert max(sizes[2:]) - min(sizes[1:]) < 10_000


def test_queues_that_a_client_makes_up_have_no_share(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their requests are dropped before those of queues that are there, and as soon as others."""
    monkeypatch.setattr(request_log, "_KEPT", 100)
    log = RequestLog(emulator, ActivityLog(emulator))

    def record(queue: str, status: int = 200) -> None:
        log.record(Request(verb="GET", path="/x", queue=queue, status=status, milliseconds=0))

    record("pull")
    for number in range(100):
        record(f"unknown-{number}", 404)
    record("pull", 404)
    record("push")

    kept = [each.queue for each in log.latest()]
    assert (len(kept), kept.count("pull")) == (100, 2)
    assert (kept[:2], kept[-1]) == (["push", "pull"], "pull")
    assert len(log.latest_of("pull", last=timedelta(minutes=1))) == 2
    assert isinstance(emulator.clock, ManualClock)
    emulator.clock.advance(60)
    assert log.latest_of("pull", last=timedelta(minutes=1)) == []
    log.clear()
    record("pull", 404)
    assert [each.queue for each in log.latest()] == ["pull"]


def test_names_that_a_client_makes_up_are_recorded_in_part(
    control: ControlClient, server: Server
) -> None:
    """In the requests, the activity and the clients, as long as a valid one can be."""
    name, task = "q" * 200, "t" * 500
    for more in ("x", "y" * 60_000):
        control.send("GET", f"/taskqueue/v1beta2/projects/app/taskqueues/{name}{more}/tasks")
        call = {"verb": "CALL", "path": "/x", "status": 404, "milliseconds": 0}
        touched = Touched()
        touched.add(f"{name}{more}", [f"{task}{more}"])
        request = Request(**call, method=f"{name}{more}", caller=f"{name}{more}")  # type: ignore[arg-type]
        server.state.requests.record(request, touched=touched)

    recorded = server.state.requests.latest()
    assert {(each.queue, len(each.path) <= 2000) for each in recorded} == {(name, True)}
    assert (recorded[0].method, recorded[0].caller, recorded[0].tasks) == (name, name, [task])
    assert len(server.state.activity.failures()) == 2
    assert len(control.get("/activity").body["failures"][0]["text"]) < 1000
    workers = server.state.activity.workers().values()
    assert all(each.queues == [name] for each in workers)
    assert sum(len(each.last_method) for each in workers) < 3000


def failed_attempt(
    log: RequestLog, queue: str, task: str, response: PushResponse, *, app: str = "http://app"
) -> None:
    """Record an attempt as the delivery does."""
    sent = PushRequest("POST", "/mail", {}, b"", None, queue, task, 1, 600)
    origin = log.origin(Interface.PUSH, app)
    log.record_sent(sent, response, method="attempt 1", seconds=0, origin=origin)


def test_attempts_without_a_response_are_joined_in_a_thousand_places(emulator: Emulator) -> None:
    """Those of the queue that has had none for longest are not, so that the memory has a limit."""
    log = RequestLog(emulator, ActivityLog(emulator))
    for name in (*(f"q{number}" for number in range(1001)), "q1", "q0"):
        failed_attempt(log, name, "task", PushResponse(None, reason="late"))

    assert [each.times for each in log.latest()[:2]] == [1, 2]


def test_attempts_that_get_no_response_for_the_same_reason_are_one(clock: ManualClock) -> None:
    """Until one of the queue gets a response from there; the last is shown, with their number."""
    emulator = Emulator.from_text(WITH_ACL, clock=clock)
    log = RequestLog(emulator, ActivityLog(emulator))
    refused, late = (PushResponse(None, reason=why) for why in ("connection refused", "late"))
    for number in range(30):
        failed_attempt(log, "a", f"t{number}", refused)
        failed_attempt(log, "b", "other", late)
        clock.advance(1)
    failed_attempt(log, "a", "t1", late)
    failed_attempt(log, "a", "t1", refused, app="http://other")
    failed_attempt(log, "b", "done", PushResponse(200))
    failed_attempt(log, "b", "other", late)
    failed_attempt(log, "b", "empty", PushResponse(500))

    found = [(each.queue, each.reason, each.times, each.tasks[0]) for each in log.latest()]
    assert found == [
        ("b", "", 1, "empty"),
        ("b", "late", 1, "other"),
        ("b", "", 1, "done"),
        ("a", "connection refused", 1, "t1"),
        ("a", "late", 1, "t1"),
        ("b", "late", 30, "other"),
        ("a", "connection refused", 30, "t29"),
    ]
    assert log.latest()[0].response.data == b""
    joined = log.latest()[-1]
    assert (joined.first, joined.time) == ("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:29+00:00")
    assert joined.tasks == [f"t{number}" for number in range(29, 9, -1)]
    assert log.number_of(Origin(Interface.PUSH, request=joined.number, server=log.server)) == 59
    assert log.number_of(Origin(Interface.PUSH, request=1, server=log.server)) is None


def test_the_response_belongs_to_the_task(
    control: ControlClient,
    server: Server,
    emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when its request was dropped."""
    monkeypatch.setattr(request_log, "_KEPT", 100)
    queue = emulator.queue("push")
    queue.add(name="failed", request=HttpRequest("/mail"))
    body = b"Traceback: " + b"x" * 9_000
    run_tasks(emulator, send=lambda _: PushResponse(500, body, reason="no"))
    call: Any = {"verb": "POST", "path": "/x", "status": 200, "milliseconds": 0}
    for _ in range(105):
        server.state.requests.record(Request(**call, queue="other"))

    history = control.get("/queues/push/tasks/failed/history").body

    assert b64decode(history["last_response"]["base64"]) == body[:4096]
    assert {event["request"] for event in history["events"]} == {None}
    assert history["events"][-1]["reason"].startswith("Traceback: xxx")


def test_a_request_names_a_bounded_number_of_tasks(control: ControlClient, server: Server) -> None:
    """A lease of many tasks names twenty, and says how many there were."""
    server.emulator.queue("pull").add_many([NewTask(name=f"t{n}") for n in range(30)])
    control.send("POST", f"{TASKS}/lease?leaseSecs=60&numTasks=30")

    logged = latest(control)
    assert (len(logged["tasks"]), logged["task_count"], logged["queue"]) == (20, 30, "pull")


def test_the_parts_of_a_batch_are_requests_of_their_own(control: ControlClient) -> None:
    """Each has a number, and the User-Agent of the batch."""
    inserts = (
        f'{PART.decode()}POST {TASKS} HTTP/1.1\r\n\r\n{{"payloadBase64": "", "id": "t{n}"}}\r\n'
        for n in (1, 2)
    )
    body = f"{''.join(inserts)}--b--\r\n".encode()
    control.send("POST", "/batch", body, {**BATCH, "User-Agent": "batcher"})

    for n, number in ((1, 2), (2, 3)):
        (added,) = control.get(f"/queues/pull/tasks/t{n}/history").body["events"]
        assert (added["client"], added["request"]) == ("batcher", number)


def test_requests_are_filtered_by_several_fields_at_once(control: ControlClient) -> None:
    """Queue, task, interface, method, client, status and text."""
    control.send("POST", TASKS, {**JSON, "id": "t1"})
    worker = {"User-Agent": "Worker/1.0"}
    control.send("POST", f"{TASKS}/lease?leaseSecs=60&numTasks=9", headers=worker)
    control.send("GET", QUEUE.replace("pull", "limited"))
    control.send("GET", f"{TASKS}/nothing")

    for query, numbers in {
        "interface=REST": [4, 3, 2, 1],
        "interface=SDK": [],
        "method=lease": [2],
        "client=worker": [2],
        "client=127.0.0.1": [4, 3, 2, 1],
        "status=failed": [4],
        "status=2xx": [3, 2, 1],
        "queue=limited": [3],
        "task=t1": [2, 1],
        "task=t1&method=insert": [1],
        "search=payloadbase64": [2, 1],
        "search=TASKS.GET": [4],
    }.items():
        listed = control.get(f"/requests?{query}").body["requests"]
        assert [logged["number"] for logged in listed] == numbers, query


def events_of(control: ControlClient, task: str) -> list[tuple[Any, ...]]:
    """Return what is known of the origin of each event of a task."""
    events = control.get(f"/queues/pull/tasks/{task}/history").body["events"]
    return [(e["kind"], e["interface"], e["client"], e["request"]) for e in events]


def test_events_and_requests_name_each_other(
    control: ControlClient, emulator: Emulator, server: Server
) -> None:
    """Each event has interface, client and request; each request its tasks and their number."""
    worker = {"User-Agent": "worker/1.0"}
    tasks = f"{server.url}{TASKS}"
    requests.post(tasks, json={**JSON, "id": "t1"}, headers=worker, timeout=60)
    requests.post(f"{tasks}/lease?leaseSecs=60&numTasks=9", headers=worker, timeout=60)
    control.post("/queues/pull/tasks/t1/lease", {"lease_seconds": 0})
    emulator.queue("pull").lease_tasks(60, 1)
    control.post("/clock", {"advance": 60})
    emulator.queue("pull").delete_tasks("t1")
    requests.get(f"{tasks}/t1", headers=worker, timeout=60)

    assert events_of(control, "t1") == [
        ("added", "REST", "worker/1.0", 1),
        ("leased", "REST", "worker/1.0", 2),
        ("released", "control", "", None),
        ("leased", "Python", "", None),
        ("lease expired", None, "", None),
        ("deleted", "Python", "", None),
    ]
    logged = control.get("/requests?task=t1").body["requests"]
    assert [(one["number"], one["tasks"], one["task_count"]) for one in logged] == [
        (3, ["t1"], 1),
        (2, ["t1"], 1),
        (1, ["t1"], 1),
    ]


def test_numbers_of_another_server_are_not_shown(emulator: Emulator) -> None:
    """Its request log is not here: only interface and client are shown."""
    other, server = (ControlClient(Server(emulator)) for _ in range(2))
    other.send("POST", TASKS, {**JSON, "id": "t1"})

    [(_, interface, _, number)] = events_of(server, "t1")
    assert (interface, number) == ("REST", None)
    assert events_of(other, "t1")[0][-1] == 1


def test_a_call_has_a_number_at_each_server_that_records_it(emulator: Emulator) -> None:
    """No other request has it there."""
    first, second = (RequestLog(emulator, ActivityLog(emulator)) for _ in range(2))
    second.origin(Interface.REST)
    call = {"method": "taskqueue.Add", "status": 200, "body": b"", "response": b""}
    origin = first.origin(Interface.SDK)
    for log in (first, second):
        log.record_call(call, seconds=0, origin=origin, touched=None)

    assert [log.latest()[0].number for log in (first, second)] == [1, 2]


def test_the_request_that_creates_a_queue_names_it(control: ControlClient) -> None:
    """Whoever asks for a queue that was deleted since gets that reason."""
    location = "projects/p/locations/us-central1"
    path = f"{location}/queues/made"
    created = control.send("POST", f"/v2/{location}/queues", {"name": path})
    control.send("DELETE", f"/v2/{path}")

    deletion, creation = control.get("/requests").body["requests"]
    assert created.status == 200
    assert (creation["queue"], deletion["queue"]) == ("made", "made")
    assert control.get("/queues/made").message == 'queue "made" was deleted'
