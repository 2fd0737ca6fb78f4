"""Projects of one server: each call is answered from the project that it names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
import requests
from cloudtasks_api import ApiRefused, GrpcApi, HttpClient, RestApi
from control_client import ControlClient
from push_app import PushApp, until
from tables import each_row

from pullqueue import Emulator, ManualClock
from pullqueue.cloudtasks.versions import V2
from pullqueue.limits import Limits
from pullqueue.push.addresses import PushAddresses
from pullqueue.runtime.delivery import Delivery
from pullqueue.server.lifecycle import Server

QUEUES = "queue:\n- {name: pull, mode: pull}\n- {name: push, rate: 500/s, bucket_size: 100}\n"
FILE = "queue:\n- {name: pull, mode: pull}\n"


@contextmanager
def serving(app: PushApp, clock: ManualClock, **options: Any) -> Iterator[Server]:
    project = options.pop("project", None)
    emulator = Emulator.from_text(QUEUES, clock=clock, project=project)
    push_to = PushAddresses([app.url])
    with closing(emulator), Server(emulator, push_to=push_to, **options) as server:
        yield server


@pytest.fixture
def server(app: PushApp, clock: ManualClock) -> Iterator[Server]:
    with serving(app, clock) as server:
        yield server


@pytest.fixture
def control(server: Server) -> ControlClient:
    return ControlClient(server)


def v1beta2(server: Server, project: str, queue: str = "pull") -> str:
    return f"{server.url}/taskqueue/v1beta2/projects/{project}/taskqueues/{queue}/tasks"


def apis(server: Server) -> list[Any]:
    return [RestApi(HttpClient(server.url), version=V2), GrpcApi(server, version=V2)]


def test_a_project_has_queues_tasks_and_a_clock_of_its_own(
    server: Server, control: ControlClient
) -> None:
    """Whichever interface names it, with the prefix of a partition or not."""
    start = "2030-05-05T00:00:00+00:00"
    body = {"name": "test-7", "clock": "manual", "now": start, "queue_yaml": FILE}
    made = control.post("/projects", body).body["project"]
    assert made == {"name": "test-7", "own": False, "manual": True, "now": start, "queues": 1}

    for project in ("test-7", "s~test-7"):
        requests.post(v1beta2(server, project), json={"payloadBase64": "aGk="}, timeout=60)
    assert control.get("/queues/pull?project=test-7").body["queue"]["tasks"] == 2
    assert control.get("/queues/pull").body["queue"]["tasks"] == 0
    control.post("/clock?project=test-7", {"advance": 3600})
    assert control.get("/clock?project=test-7").body["now"] == "2030-05-05T01:00:00+00:00"
    assert control.get("/clock").body["now"] == "2026-01-01T00:00:00+00:00"
    for number, call in enumerate(apis(server)):
        location = "projects/test-7/locations/us-central1"
        call("CreateQueue", parent=location, queue={"name": f"{location}/queues/made-{number}"})
        names = [each["name"] for each in call("ListQueues", parent=location)["queues"]]
        assert f"{location}/queues/made-{number}" in names
        own = call("ListQueues", parent="projects/my-app/locations/us-central1")["queues"]
        assert not any("made" in each["name"] for each in own)


def test_the_log_names_a_project(
    server: Server, control: ControlClient, caplog: pytest.LogCaptureFixture
) -> None:
    """With commands that reach it; of the server's own project as if there were no others."""
    caplog.set_level("INFO", "pullqueue")
    control.post("/projects", {"name": "one", "clock": "manual", "queue_yaml": QUEUES})
    for name in ("one", "any"):
        tasks = f"/v2/projects/{name}/locations/us-central1/queues/push/tasks"
        for url in ("https://api.example.com/x", ""):
            control.send("POST", tasks, {"task": {"httpRequest": {"url": url}}})
    control.post("/queues/push/tasks?project=one", {"tasks": [{"request": {"url": "/fails/1"}}]})
    control.post("/run?project=one", {})
    control.post("/queues/push/pause")

    found = {each.message.partition("(")[0].rstrip() for each in caplog.records}
    option = f"--url {server.url} --project one`"
    assert "project one: ran the push tasks" in found
    assert "paused queue push" in found
    assert any(each.startswith("project one: attempt 1 of task ") for each in found)
    assert any(each.startswith("project one: CreateTask refused, ") for each in found)
    assert any(each.startswith("CreateTask refused, ") for each in found)
    assert any(each.startswith("project one: task ") and each.endswith(option) for each in found)


def test_faults_and_requests_are_those_of_a_project(server: Server, control: ControlClient) -> None:
    control.post("/projects", {"name": "one", "queue_yaml": FILE})
    control.post("/faults?project=one", {"kind": "fail", "call": "add"})

    refused, added = (
        requests.post(v1beta2(server, name), json={"payloadBase64": "aA=="}, timeout=60)
        for name in ("one", "my-app")
    )

    assert (refused.status_code, added.status_code) == (503, 200)
    logged = {
        project: [each["status"] for each in control.get(f"/requests{project}").body["requests"]]
        for project in ("", "?project=one")
    }
    assert logged == {"": [200], "?project=one": [503]}


@pytest.mark.parametrize(
    ("number", "others"), [(49, ""), (50, ", or 1 other"), (60, ", or 11 others")]
)
def test_an_unknown_project_is_answered_with_the_first_names(
    control: ControlClient, number: int, others: str
) -> None:
    names = [f"p{index}" for index in range(number)]
    for name in names:
        control.post("/projects", {"name": name, "clock": "manual"})

    first = ", ".join(["my-app", *names][:50])
    message = control.get("/queues?project=else").message
    assert message == f'there is no project "else": use one of {first}{others}'


def test_a_project_that_is_deleted_has_left_nothing(server: Server, control: ControlClient) -> None:
    """Its routes may name it, as a client does that adds the parameter to each call."""
    made = {"name": "one", "queue_yaml": FILE}
    assert control.post("/projects?project=one", made).status == 200
    requests.post(v1beta2(server, "one"), json={"payloadBase64": "aA=="}, timeout=60)
    ended = control.call("DELETE", "/projects/one?project=one", None)
    assert ended.body == {"deleted": "one"}

    gone = control.get("/queues?project=one")
    assert (gone.status, gone.message) == (404, 'there is no project "one": use one of my-app')
    control.post("/projects", made)
    assert control.get("/queues/pull?project=one").body["queue"]["tasks"] == 0


ENDED = (
    'project "one" has ended: stop what still calls it, or make it again by POST '
    "/_emulator/projects"
)


def batch_of(server: Server, project: str) -> requests.Response:
    """Send a batch with one call, which lists tasks of a project."""
    part = f"GET {v1beta2(server, project).removeprefix(server.url)} HTTP/1.1\r\n\r\n"
    return requests.post(
        f"{server.url}/batch/taskqueue/v1beta2",
        f"--b\r\nContent-Type: application/http\r\n\r\n{part}\r\n--b--\r\n",
        headers={"Content-Type": "multipart/mixed; boundary=b"},
        timeout=60,
    )


@pytest.mark.parametrize("begins", [False, True])
def test_a_project_that_has_ended_is_refused_until_it_is_made_again(
    app: PushApp, clock: ManualClock, *, begins: bool
) -> None:
    """By each interface, also where other names begin a project, or are the server's own."""
    project = "shop" if begins else None
    with serving(app, clock, project=project, begins_projects=begins) as server:
        control = ControlClient(server)
        location = "projects/one/locations/us-central1"
        task = {"id": "mine", "payloadBase64": "aA=="}

        def call_all() -> list[str]:
            inserted = requests.post(v1beta2(server, "s~one"), json=task, timeout=60).json()
            found = [inserted.get("error", {}).get("message", "")]
            for call in apis(server):
                try:
                    call("ListQueues", parent=location)
                    found.append("")
                except ApiRefused as refused:
                    assert refused.code == "NOT_FOUND"
                    found.append(refused.message)
            reply = control.get(f"/queues/{location}/queues/pull/tasks")
            found.append("" if reply.status == 200 else reply.message)
            found.append(ENDED if ENDED.replace('"', '\\"') in batch_of(server, "one").text else "")
            return found

        made = {"name": "one", "queue_yaml": FILE}
        for _ in range(2):
            control.post("/projects", made)
            assert call_all() == [""] * 5
            listed = [batch_of(server, each).text for each in ("one", project or "my-app")]
            assert ["mine" in each for each in listed] == [True, False]
            control.call("DELETE", "/projects/one", None)
            assert call_all() == [ENDED] * 5
        assert server.emulator.queue("pull").fetch_statistics().tasks == 0
        assert [each["name"] for each in control.get("/projects").body["projects"]] == [
            project or "my-app"
        ]


def test_the_latest_names_of_projects_that_have_ended_are_known(
    server: Server, control: ControlClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are the server's own again, as is a name that it has never had."""
    monkeypatch.setattr("pullqueue.runtime.projects._ENDED_NAMES", 2)
    for name in ("a", "b", "c"):
        control.post("/projects", {"name": name})
        control.call("DELETE", f"/projects/{name}", None)

    found = [requests.get(v1beta2(server, name), timeout=60).status_code for name in "abcd"]

    assert found == [200, 404, 404, 200]


@each_row(
    ("body", "status", "message"),
    [
        ({"name": "my-app"}, 409, 'project "my-app" is the server\'s own: use another name'),
        ({"name": "taken"}, 409, 'project "taken" exists: delete it first, or use another name'),
        ({"name": ""}, 400, 'name is "": use 1 to 100 letters, digits'),
        ({"name": "a b"}, 400, 'name is "a b": use 1 to 100 letters, digits'),
        ({"name": ".."}, 400, 'name is "..": use 1 to 100 letters, digits'),
        ({"name": "a" * 101}, 400, 'name is "aaaa'),
        ({"name": "x", "clock": "other"}, 400, "clock is not valid: Invalid enum value 'other'"),
        ({"name": "x", "now": "2026-01-01T00:00:00Z"}, 400, 'now is set: send "clock": "manual"'),
        ({"name": "x", "clock": "manual", "now": "noon"}, 400, "now"),
        ({"name": "x", "queue_yaml": "queue: 5"}, 400, "queue_yaml: queue.yaml:1:8: QY"),
        ({"name": "x", "queue_yaml": "\n"}, 400, "queue_yaml is empty: leave it out, or pass"),
    ],
)
def test_a_project_that_cannot_be_made_is_refused(
    control: ControlClient, body: dict[str, Any], status: int, message: str
) -> None:
    control.post("/projects", {"name": "taken"})

    reply = control.post("/projects", body)

    assert reply.status == status
    assert reply.message.startswith(message)
    names = [each["name"] for each in control.get("/projects").body["projects"]]
    assert names == ["my-app", "taken"]


def test_the_servers_own_project_stays(control: ControlClient) -> None:
    reply = control.call("DELETE", "/projects/my-app", None)

    message = 'project "my-app" is the server\'s own: reset it instead'
    assert (reply.status, reply.message) == (400, message)
    assert control.call("DELETE", "/projects/my-ap", None).status == 404


@pytest.mark.parametrize(
    ("body", "now", "manual"),
    [
        ({"now": "2001-01-01T00:00:00Z"}, "2001-01-01T00:00:00+00:00", True),
        ({"clock": "manual"}, "2026-01-01T00:00:00+00:00", True),
        ({"clock": "machine"}, None, False),
        ({}, "2031-01-01T00:00:00+00:00", True),
    ],
)
def test_a_reset_replaces_the_clock_of_a_project(
    server: Server, control: ControlClient, body: dict[str, Any], now: str | None, *, manual: bool
) -> None:
    """Time may go back, since nothing is left that could see it."""
    made = {"name": "one", "clock": "manual", "now": "2031-01-01T00:00:00Z", "queue_yaml": FILE}
    control.post("/projects", made)
    requests.post(v1beta2(server, "one"), json={"payloadBase64": "aA=="}, timeout=60)

    assert control.post("/reset?project=one", body).body == {"deleted": 1}

    clock = control.get("/clock?project=one").body
    assert clock["manual"] is manual
    assert now in (None, clock["now"])
    queue = control.get("/queues/pull?project=one").body["queue"]
    assert (queue["tasks"], queue["mode"]) == (0, "pull")


def test_a_reset_moves_the_servers_own_manual_clock(control: ControlClient) -> None:
    control.post("/clock", {"advance": 86_400})
    control.post("/reset", {"now": "2020-01-01T00:00:00Z"})
    assert control.get("/clock").body["now"] == "2020-01-01T00:00:00+00:00"

    refused = control.post("/reset", {"clock": "machine"})
    assert refused.status == 400
    assert refused.message.startswith("the clock of the server's own project is chosen when it")


@pytest.mark.parametrize("begins", [False, True])
def test_another_project_begins_with_a_call_that_names_it(
    app: PushApp, clock: ManualClock, *, begins: bool
) -> None:
    with serving(app, clock, project="shop", begins_projects=begins) as server:
        control = ControlClient(server)
        for call in apis(server):
            location = "projects/other/locations/us-central1"
            if begins:
                assert "pull" not in str(call("ListQueues", parent=location))
            else:
                with pytest.raises(ApiRefused, match="Permission denied on resource project oth"):
                    call("ListQueues", parent=location)
            with pytest.raises(ApiRefused):
                call("GetQueue", name="queues/no-project/x")
        unknown = requests.get(v1beta2(server, "third"), timeout=60)
        control.get("/queues/projects/looked-at/locations/us-central1/queues/pull")
        names = [each["name"] for each in control.get("/projects").body["projects"]]

    assert unknown.status_code == 404
    assert names == ["shop", "other", "third"] if begins else ["shop"]


@pytest.mark.parametrize(
    "header",
    [{"Host": "evil.example"}, {"Origin": "http://evil"}, {"Sec-Fetch-Site": "cross-site"}],
)
def test_no_project_begins_with_a_request_of_another_site(
    app: PushApp, clock: ManualClock, header: dict[str, str]
) -> None:
    """Such as for an image, which is a GET; nor with one that is refused."""
    with serving(app, clock, project="shop", begins_projects=True) as server:
        for verb in ("GET", "POST"):
            requests.request(verb, v1beta2(server, "other"), headers=header, timeout=60)
        assert [state.project for state in server.states] == [""]


def test_a_project_begins_with_the_addresses_of_the_server(clock: ManualClock) -> None:
    """And keeps its own afterwards."""
    addresses = PushAddresses(["http://localhost:8080", "worker=http://localhost:8081"])
    addresses.await_app()
    addresses.proof = {"X-Proof": "a"}
    emulator = Emulator.from_text("queue: []", clock=clock)
    with closing(emulator), Server(emulator, push_to=addresses) as server:
        ControlClient(server).post("/projects", {"name": "other"})
        own, other = server.states
        assert [*other.push_to] == ["http://localhost:8080", "worker at http://localhost:8081"]
        assert (other.push_to.awaited, other.push_to.proof) == (frozenset(), {"X-Proof": "a"})
        other.deliver_to([])

    assert len([*own.push_to]) == 2


@each_row(
    ("clock", "is_limited", "rate"),
    [("machine", False, 2), ("manual", False, None), ("manual", True, 2)],
)
def test_a_project_has_the_limits_of_the_server(
    clock: str, *, is_limited: bool, rate: int | None
) -> None:
    """Except the lease rate by a manual clock, where the server does not have that there, too."""
    emulator = Emulator.from_text("queue: []", limits=Limits(leases_per_second=2, events_kept=3))
    with closing(emulator), Server(emulator) as server:
        server.state.limits_manual_clocks = is_limited
        ControlClient(server).post("/projects", {"name": "other", "clock": clock})
        [_, other] = server.states

    assert other.emulator.limits == Limits(leases_per_second=rate, events_kept=3)


TASKS = {"tasks": [{"name": name, "request": {"url": f"/{name}"}} for name in ("a", "b")]}


class TestRun:
    @pytest.fixture
    def project(self, control: ControlClient) -> str:
        control.post("/projects", {"name": "t", "clock": "manual", "queue_yaml": QUEUES})
        return "?project=t"

    def test_nothing_is_sent_before_the_run(
        self, app: PushApp, server: Server, control: ControlClient, project: str
    ) -> None:
        """A test sets faults and looks at tasks in between, whatever the time of the machine."""
        control.post(f"/queues/push/tasks{project}", TASKS)
        control.post(f"/queues/push/tasks{project}", {"tasks": [{"request": {"url": "/c"}}]})
        control.post("/queues/push/tasks", {"tasks": [{"request": {"url": "/own"}}]})
        until(lambda: app.paths() == ["/own"])
        assert control.get(f"/queues/push{project}").body["queue"]["available"] == 3

        control.post(f"/run{project}", {})

        assert sorted(app.paths()) == ["/a", "/b", "/c", "/own"]

    def test_the_first_response_of_each_task_can_be_lost(
        self, app: PushApp, control: ControlClient, project: str
    ) -> None:
        control.post(f"/queues/push/tasks{project}", TASKS)

        run = control.post(f"/run{project}", {"lose_response": True}).body

        assert sorted(app.paths()) == ["/a", "/a", "/b", "/b"]
        attempts = [(each["tasks"][0], each["status"]) for each in run["attempts"]]
        assert sorted(attempts) == [("a", 0), ("a", 200), ("b", 0), ("b", 200)]
        assert control.get(f"/faults{project}").body == {"faults": []}

    @pytest.mark.parametrize(
        ("retry", "most", "attempts"),
        [
            ("", 100, None),
            ("{min_backoff_seconds: 0, max_backoff_seconds: 0}", 10, None),
            ("{task_retry_limit: 12}", 10, 13),
            ("{task_age_limit: 5m, max_backoff_seconds: 30}", 10, 19),
        ],
    )
    def test_a_task_that_is_retried_forever_ends_the_run(
        self,
        control: ControlClient,
        monkeypatch: pytest.MonkeyPatch,
        retry: str,
        most: int,
        attempts: int | None,
    ) -> None:
        """After a hundred failures; also behind one without an address, which stays."""
        if most < 100:
            monkeypatch.setattr("pullqueue.resources.run._MOST_FAILURES", most)
        file = f"queue: [{{name: push, rate: 5/s, retry_parameters: {retry}}}]"
        control.post("/projects", {"name": "r", "clock": "manual", "queue_yaml": file})
        kept = {"task": {"httpRequest": {"url": "http://app.example/x"}}}
        control.send("POST", "/v2/projects/r/locations/us-central1/queues/push/tasks", kept)
        tasks = {"tasks": [{"name": "a", "request": {"url": "/fails/1000"}}]}
        control.post("/queues/push/tasks?project=r", tasks)

        reply = control.post("/run?project=r", {})

        if attempts is None:
            assert reply.status == 400
            assert reply.message == (
                f'task "a" of queue "push" has failed {most} times, the last time with status 500 '
                "(no /fails/1000), and is retried forever, since it has no task_retry_limit "
                "(maxAttempts)"
            )
        else:
            assert len(reply.body["attempts"]) == attempts

    @pytest.mark.parametrize(
        ("until_", "statuses", "now", "left"),
        [
            ("due", [500], "2026-01-01T00:00:00+00:00", 2),
            ("next", [500], "2026-01-01T00:00:00+00:00", 2),
            ("2026-01-01T00:00:00Z", [500], "2026-01-01T00:00:00+00:00", 2),
            ("2026-01-01T00:59:59Z", [500, 500, 200], "2026-01-01T00:59:59+00:00", 1),
            ("2026-01-01T01:00:00Z", [500, 500, 200, 200], "2026-01-01T01:00:00+00:00", 0),
            ("2027-01-01T00:00:00Z", [500, 500, 200, 200], "2027-01-01T00:00:00+00:00", 0),
            ("empty", [500, 500, 200, 200], "2026-01-01T01:00:00+00:00", 0),
            (None, [500, 500, 200, 200], "2026-01-01T01:00:00+00:00", 0),
        ],
    )
    def test_a_run_ends_where_it_is_to_or_when_no_task_is_left(
        self,
        control: ControlClient,
        project: str,
        *,
        until_: str | None,
        statuses: list[int],
        now: str,
        left: int,
    ) -> None:
        tasks = [{"request": {"url": "/fails/2"}}, {"countdown": 3600, "request": {"url": "/"}}]
        control.post(f"/queues/push/tasks{project}", {"tasks": tasks})

        run = control.post(f"/run{project}", {"until": until_} if until_ else {}).body

        assert ([each["status"] for each in run["attempts"]], run["done"]) == (statuses, True)
        assert control.get(f"/clock{project}").body["now"] == now
        assert control.get("/clock").body["now"] == "2026-01-01T00:00:00+00:00"
        assert control.get(f"/queues/push{project}").body["queue"]["tasks"] == left

    def test_next_makes_one_step(self, control: ControlClient, project: str) -> None:
        tasks = [{"request": {"url": "/fails/1"}}, {"countdown": 3600, "request": {"url": "/"}}]
        control.post(f"/queues/push/tasks{project}", {"tasks": tasks})
        found = []
        for _ in range(4):
            run = control.post(f"/run{project}", {"until": "next"}).body
            minutes = control.get(f"/clock{project}").body["now"][11:16]
            found.append(([each["status"] for each in run["attempts"]], minutes, run["done"]))

        assert found == [
            ([500], "00:00", True),
            ([200], "00:00", True),
            ([200], "01:00", True),
            ([], "01:00", True),
        ]

    def test_the_attempts_of_a_run_can_be_limited(
        self, app: PushApp, control: ControlClient, project: str
    ) -> None:
        """To fewer than are due, to as many, and to more; the limit is not that of the next run."""
        tasks = {"tasks": [{"request": {"url": f"/{number}"}} for number in range(5)]}
        control.post(f"/queues/push/tasks{project}", tasks)
        found = []
        for most in (1, 3, 1, 1):
            run = control.post(f"/run{project}", {"max_attempts": most}).body
            found.append((len(run["attempts"]), run["done"], run["kept"]))

        assert found == [(1, False, []), (3, False, []), (1, False, []), (0, True, [])]
        assert len(app.paths()) == 5
        control.post(f"/queues/push/tasks{project}", {"tasks": [{"request": {"url": "/fails/4"}}]})
        runs = [control.post(f"/run{project}", body).body for body in ({"max_attempts": 3}, {})]
        assert [[each["status"] for each in run["attempts"]] for run in runs] == [
            [500, 500, 500],
            [500, 200],
        ]

    @pytest.mark.parametrize("end", [Delivery.stop_starting, Delivery.discard])
    def test_a_run_waits_no_longer_when_the_server_or_the_project_ends(
        self,
        app: PushApp,
        server: Server,
        control: ControlClient,
        project: str,
        end: Callable[[Delivery], None],
    ) -> None:
        control.post(f"/queues/push/tasks{project}", {"tasks": [{"request": {"url": "/slow"}}]})
        state = server.states[1]
        assert state.delivery is not None
        with state.delivering(), ThreadPoolExecutor(1) as threads:
            is_settled = threads.submit(state.delivery.settle, 90)
            until(lambda: app.running["/slow"])
            end(state.delivery)
            until(is_settled.done)  # for a shorter time
            app.released.set()

        assert is_settled.result() is False

    def test_a_task_without_an_address_stays(self, control: ControlClient, project: str) -> None:
        """No time passes until its lifetime ends; what else there is, is sent, if that has one."""
        parent = f"projects/{project.partition('=')[2]}/locations/us-central1"
        control.send("POST", f"/v2/{parent}/queues", {"name": f"{parent}/queues/http"})
        task = {"task": {"httpRequest": {"url": "http://app.example/x"}}}
        control.send("POST", f"/v2/{parent}/queues/http/tasks", task)
        control.post(f"/queues/push/tasks{project}", TASKS)

        run = control.post(f"/run{project}", {}).body

        [kept] = run["kept"]
        assert (len(run["attempts"]), run["done"]) == (2, True)
        assert (kept["queue"], kept["tasks"]) == ("http", 1)
        assert "there is no address for" in kept["text"]
        assert control.get(f"/clock{project}").body["now"][:10] == "2026-01-01"
        control.post(f"/push_to{project}", {"push_to": []})
        control.post(f"/queues/push/tasks{project}", {"tasks": [{"request": {"url": "/c"}}]})
        run = control.post(f"/run{project}", {}).body
        kept = {each["queue"]: each for each in run["kept"]}
        assert (run["attempts"], run["done"], kept["push"]["tasks"]) == ([], True, 1)
        assert kept["push"]["text"].startswith("tasks are kept, not delivered: ")

    @pytest.mark.parametrize("until_", ["due", "next", "empty", "2026-01-02T00:00:00Z"])
    def test_a_run_of_nothing_is_done(
        self, control: ControlClient, project: str, until_: str
    ) -> None:
        """Of an empty queue, and of one that is paused: its tasks stay, and that is said."""
        nothing = {"attempts": [], "done": True, "kept": []}
        assert control.post(f"/run{project}", {"until": until_}).body == nothing
        control.post(f"/queues/push/tasks{project}", TASKS)
        control.post(f"/queues/push/pause{project}")
        paused = control.post(f"/run{project}", {"until": until_}).body
        [kept] = paused.pop("kept")
        assert paused | {"kept": []} == nothing
        assert (kept["queue"], kept["tasks"]) == ("push", 2)
        assert kept["text"].startswith("it is paused")
        assert control.get(f"/queues/push{project}").body["queue"]["tasks"] == 2
        wanted = "2026-01-02" if until_.startswith("2026") else "2026-01-01"
        assert control.get(f"/clock{project}").body["now"][:10] == wanted
        control.post(f"/queues/push/resume{project}")
        assert len(control.post(f"/run{project}", {}).body["attempts"]) == 2

    def test_a_dead_target_is_retried_until_its_limit(self, control: ControlClient) -> None:
        """Each attempt is returned, without a status and with its reason."""
        limited = "queue: [{name: push, rate: 5/s, retry_parameters: {task_retry_limit: 2}}]"
        control.post("/projects", {"name": "t", "clock": "manual", "queue_yaml": limited})
        control.post("/push_to?project=t", {"push_to": ["http://127.0.0.1:9"]})
        control.post("/queues/push/tasks?project=t", {"tasks": [{"request": {"url": "/x"}}]})

        run = control.post("/run?project=t", {}).body

        assert [each["status"] for each in run["attempts"]] == [0, 0, 0]
        assert all("refused" in each["reason"] for each in run["attempts"])
        queue = control.get("/queues/push?project=t").body["queue"]
        assert (queue["tasks"], queue["exhausted"], run["done"]) == (0, 1, True)

    def test_faults_answer_the_attempts_of_a_run(
        self, app: PushApp, control: ControlClient, project: str
    ) -> None:
        fault = {"kind": "fail", "call": "attempt", "status": 503, "times": 1}
        control.post(f"/faults{project}", fault)
        control.post(f"/queues/push/tasks{project}", {"tasks": [{"request": {"url": "/a"}}]})

        run = control.post(f"/run{project}", {}).body

        assert [each["status"] for each in run["attempts"]] == [503, 200]
        assert app.paths() == ["/a"]

    @each_row("until_", ["next", "empty", "2126-01-01T00:00:00Z"])
    def test_only_a_manual_clock_is_moved(self, control: ControlClient, until_: str) -> None:
        control.post("/projects", {"name": "m", "queue_yaml": QUEUES})

        reply = control.post("/run?project=m", {"until": until_})

        assert reply.status == 400
        assert reply.message.startswith('the clock is the machine\'s: send {"until": "due"}')

    @each_row(
        ("body", "message"),
        [
            ({"until": "nxt"}, 'until is "nxt": use due, next, empty, or a time such as 2026'),
            ({"until": ""}, 'until is "": use due, next, empty, or a time'),
            ({"until": "2026-01-01T00:00:00"}, 'until is "2026-01-01T00:00:00": use due, next'),
            ({"until": "2025-12-31T23:59:59Z"}, "until is 2025-12-31T23:59:59Z, which is before n"),
            ({"until": 5}, "until is not valid: Expected `str`, got `int`"),
            ({"max_attempts": 0}, "max_attempts is not valid: Expected `int` >= 1"),
            ({"lose_response": 1}, "lose_response is not valid: Expected `bool`"),
            ({"other": 1}, "the body is not valid: Object contains unknown field `other`"),
        ],
    )
    def test_a_run_that_is_not_valid_is_refused(
        self, app: PushApp, control: ControlClient, project: str, body: dict[str, Any], message: str
    ) -> None:
        control.post(f"/queues/push/tasks{project}", TASKS)
        control.post("/clock?project=t", {"move_to": "2026-01-01T00:00:00Z"})

        reply = control.post(f"/run{project}", body)

        assert (reply.status, app.paths()) == (400, [])
        assert reply.message.startswith(message)

    def test_every_attempt_of_many_is_returned(self, control: ControlClient, project: str) -> None:
        """Whichever thread made it last, and where the rate holds some back."""
        for count in (1, 4, 7, 10, 13, 100):
            control.post(
                f"/queues/push/tasks{project}", {"tasks": [{"request": {"url": "/"}}] * count}
            )
            assert len(control.post(f"/run{project}", {}).body["attempts"]) == count


def test_a_project_that_is_busy_delays_no_other(
    app: PushApp, server: Server, control: ControlClient
) -> None:
    for name in ("busy", "other"):
        control.post("/projects", {"name": name, "queue_yaml": QUEUES})
    slow = {"tasks": [{"request": {"url": "/slow"}} for _ in range(80)]}
    control.post("/queues/push/tasks?project=busy", slow)
    until(lambda: app.running["/slow"] > 10)

    control.post("/queues/push/tasks?project=other", {"tasks": [{"request": {"url": "/quick"}}]})

    until(lambda: "/quick" in app.paths())
    app.released.set()


def test_projects_that_send_nothing_have_no_threads(app: PushApp, control: ControlClient) -> None:
    """Their tasks were sent, are kept, or have been deleted with them; the next task is sent."""
    for name in ("sent", "deleted", "kept"):
        control.post("/projects", {"name": name, "queue_yaml": QUEUES})
    queue = "/v2/projects/kept/locations/us-central1/queues/push"
    kept = {"task": {"httpRequest": {"url": "https://elsewhere.example.com"}}}
    assert control.send("POST", f"{queue}/tasks", kept).status == 200
    for name in ("sent", "deleted"):
        tasks = {"tasks": [{"request": {"url": f"/{name}"}} for _ in range(5)]}
        control.post(f"/queues/push/tasks?project={name}", tasks)
    until(lambda: len(app.received) == 10)
    control.call("DELETE", "/projects/deleted", None)

    names = ("pullqueue attempt", "pullqueue push")
    until(lambda: sum(each.name in names for each in threading.enumerate()) <= 1)
    control.post("/queues/push/tasks?project=sent", {"tasks": [{"request": {"url": "/next"}}]})
    until(lambda: "/next" in app.paths())


def test_many_projects_need_no_thread_until_they_send(control: ControlClient) -> None:
    threads = threading.active_count()
    for number in range(20):
        control.post("/projects", {"name": f"p{number}", "queue_yaml": FILE})

    assert len(control.get("/projects").body["projects"]) == 21
    assert threading.active_count() <= threads + 2


def test_a_queue_is_known_by_its_name_in_cloud_tasks(control: ControlClient) -> None:
    control.post("/projects", {"name": "one"})
    for location in ("us-central1", "europe-west1"):
        parent = f"projects/one/locations/{location}"
        control.send("POST", f"/v2/{parent}/queues", {"name": f"{parent}/queues/orders"})
        task = {"task": {"httpRequest": {"url": "http://x.example/"}}}
        control.send("POST", f"/v2/{parent}/queues/orders/tasks", task)
    names = {
        "orders@us-central1?project=one": "orders",
        "orders@europe-west1?project=one": "orders@europe-west1",
        "projects/one/locations/us-central1/queues/orders": "orders",
        "projects%2Fone%2Flocations%2Feurope-west1%2Fqueues%2Forders": "orders@europe-west1",
    }

    found = [control.send("GET", f"/_emulator/queues/{name}").body["queue"] for name in names]
    full = "projects/one/locations/us-central1/queues/orders"
    added = control.get(f"/requests?project=one&method=CreateTask&queue={full}").body["requests"]
    fault = {"kind": "fail", "call": "CreateTask", "queues": [full]}
    fault = control.post("/faults?project=one", fault).body["fault"]
    page = control.send("GET", f"/console/queues/{full}")
    other = control.send("GET", f"/_emulator/queues/{full.replace('one', 'two', 1)}")

    assert [(each["name"], each["tasks"]) for each in found] == [(n, 1) for n in names.values()]
    assert [each["queue"] for each in added] == ["orders"]
    assert (fault["call"], fault["queues"]) == ("add", ["orders"])
    assert (page.status, other.status) == (200, 404)
