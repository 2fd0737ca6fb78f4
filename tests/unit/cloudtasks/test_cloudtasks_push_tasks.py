"""Cloud Tasks: the methods on push tasks, in both versions."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest
from cloudtasks_api import LOCATION, Call, RestApi, refused
from push_app import push_app, until

from pullqueue import (
    Emulator,
    HttpRequest,
    ManualClock,
    RequestToken,
    RetryParameters,
    Task,
    TaskState,
)
from pullqueue.cloudtasks.versions import V2, V2BETA2, VERSIONS, Version
from pullqueue.push.addresses import PushAddresses
from pullqueue.push.retry import conclude, start
from pullqueue.server.lifecycle import Server
from pullqueue.testing import run_tasks

PUSH = f"{LOCATION}/queues/push"
ONE = f"{PUSH}/tasks/one"
NOW = "2026-01-01T00:00:00Z"
URL = "https://api.example.com/work"
AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"
BODY = b64encode(b"work").decode()
WORKER = "worker@app.iam.gserviceaccount.com"


@pytest.fixture(params=list(VERSIONS.values()), ids=list(VERSIONS))
def version(request: pytest.FixtureRequest) -> Version:
    """Return each version."""
    version: Version = request.param
    return version


only_v2 = pytest.mark.parametrize("version", [V2], ids=["v2"])


def create(call: Call, message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Create a task with a name and return its FULL view."""
    task = {"name": ONE, **message}
    return call("CreateTask", parent=PUSH, task=task, responseView="FULL", **fields)


def app_engine(version: Version, url: str = "/mail", body: str = "", **fields: Any) -> Any:
    """Return the message of an App Engine task."""
    names = ("relativeUrl", "payload") if version is V2BETA2 else ("relativeUri", "body")
    return {"appEngineHttpRequest": {names[0]: url, names[1]: body, **fields}}


def http(url: str = URL, **fields: Any) -> dict[str, Any]:
    """Return the message of an HTTP task."""
    return {"httpRequest": {"url": url, **fields}}


def attempt(emulator: Emulator, status: int | None, reason: str | None = None) -> Task:
    """Carry out an attempt that gets a status."""
    queue = emulator.queue("push")
    [task] = queue.list_tasks()
    running = queue.start_attempt(
        task, lease_seconds=600, attempts=start(task, emulator.clock.now_usec())
    )
    end = conclude(
        running, status, settings=queue.settings, now_usec=emulator.clock.now_usec(), reason=reason
    )
    return queue.finish_attempt(
        running,
        attempts=end.attempts,
        outcome=end.outcome,
        backoff_seconds=end.backoff_seconds,
    )


def stored(emulator: Emulator) -> HttpRequest:
    """Return the request of the one task."""
    [task] = emulator.queue("push").list_tasks()
    assert task.request is not None
    return task.request


class TestAppEngineTasks:
    def test_what_is_shown(self, call: Call, version: Version, emulator: Emulator) -> None:
        """Defaults are filled in; BASIC hides the body and nothing else."""
        full = create(call, app_engine(version, body=BODY, headers={"X-Mixed": "a"}))
        basic = call("GetTask", name=ONE)

        url, body = ("relativeUrl", "payload") if version is V2BETA2 else ("relativeUri", "body")
        request = {
            "httpMethod": "POST",
            "appEngineRouting": {
                "service": "worker",
                "version": "v1",
                "host": "v1.worker.app.appspot.com",
            },
            url: "/mail",
            "headers": {
                "Content-Length": "4",
                "Content-Type": "application/octet-stream",
                "User-Agent": AGENT,
                "X-Mixed": "a",
            },
        }
        deadline = {} if version is V2BETA2 else {"dispatchDeadline": "600s"}
        shown = {"name": ONE, "scheduleTime": NOW, "createTime": NOW, **deadline}
        assert basic == {"appEngineHttpRequest": request, "view": "BASIC", **shown}
        assert full == {"appEngineHttpRequest": {**request, body: BODY}, "view": "FULL", **shown}
        assert stored(emulator) == HttpRequest("/mail", headers=(("X-Mixed", "a"),))

    @pytest.mark.parametrize(
        ("message", "request_"),
        [
            ({"url": ""}, HttpRequest("/")),
            ({"httpMethod": "GET", "url": "/x?y=%20"}, HttpRequest("/x?y=%20", "GET")),
            ({"httpMethod": "HTTP_METHOD_UNSPECIFIED"}, HttpRequest("/mail")),
            (
                {"appEngineRouting": {"service": "s", "version": "v", "instance": "0"}},
                HttpRequest("/mail", target="0.v.s"),
            ),
            ({"appEngineRouting": {"version": "v"}}, HttpRequest("/mail", target="v.default")),
        ],
    )
    def test_what_is_stored(
        self,
        call: Call,
        version: Version,
        emulator: Emulator,
        message: dict[str, Any],
        request_: HttpRequest,
    ) -> None:
        """Method, path and routing are those of the message."""
        create(call, app_engine(version, **message))

        assert stored(emulator) == request_

    @only_v2
    @pytest.mark.parametrize(
        ("message", "text"),
        [
            ({"url": "mail"}, '"mail": it must begin with /'),
            ({"url": "//host"}, "must begin with one /"),
            ({"body": BODY, "httpMethod": "PATCH"}, "http_method is PATCH: use POST, PUT"),
        ],
    )
    def test_what_is_not_valid(
        self, call: Call, version: Version, emulator: Emulator, message: Any, text: str
    ) -> None:
        """It is refused, and nothing is stored."""
        with refused("INVALID_ARGUMENT", text):
            create(call, app_engine(version, **message))
        assert emulator.queue("push").list_tasks() == []


class TestHttpTasks:
    def test_what_is_shown(self, call: Call, version: Version) -> None:
        """No Content-Type is set, and a User-Agent of the user is replaced."""
        headers = {"content-type": "text/plain", "user-agent": "mine", "X-CloudTasks-X": "1"}
        token = {"serviceAccountEmail": WORKER}
        full = create(call, http(body=BODY, headers=headers, oidcToken=token))
        basic = call("GetTask", name=ONE)["httpRequest"]

        assert full["httpRequest"] == basic | {"body": BODY}
        assert basic == {
            "url": URL,
            "httpMethod": "POST",
            "headers": {"User-Agent": "Google-Cloud-Tasks", "content-type": "text/plain"},
            "oidcToken": token,
        }

    @only_v2
    @pytest.mark.parametrize(
        ("message", "request_"),
        [
            ({"url": "http://example.com/%zz"}, HttpRequest("http://example.com/%zz")),
            ({"url": "https://x/é b"}, HttpRequest("https://x/%C3%A9%20b")),
            ({"httpMethod": "PATCH", "body": BODY}, HttpRequest(URL, "PATCH")),
            (
                {"oauthToken": {"serviceAccountEmail": WORKER}},
                HttpRequest(
                    URL,
                    token=RequestToken(
                        "oauth_token", WORKER, "https://www.googleapis.com/auth/cloud-platform"
                    ),
                ),
            ),
            (
                {
                    "url": "http://localhost:8080/work",
                    "oidcToken": {"serviceAccountEmail": WORKER, "audience": "me"},
                },
                HttpRequest(
                    "http://localhost:8080/work", token=RequestToken("oidc_token", WORKER, "me")
                ),
            ),
        ],
    )
    def test_what_is_stored(
        self, call: Call, emulator: Emulator, message: dict[str, Any], request_: HttpRequest
    ) -> None:
        """URLs are encoded, not parsed; a token is stored and shown."""
        shown = create(call, http(**message))["httpRequest"]

        assert stored(emulator) == request_
        assert {key: shown[key] for key in message if key.endswith("Token")} == {
            key: {**value, **({"scope": request_.token.detail} if key == "oauthToken" else {})}
            for key, value in message.items()
            if request_.token and key.endswith("Token")
        }

    @only_v2
    @pytest.mark.parametrize(
        ("message", "text"),
        [
            ({"url": ""}, "url is missing"),
            ({"url": "/work"}, "use an http:// or https:// URL"),
            ({"url": "ftp://example.com"}, "use an http:// or https:// URL"),
            ({"headers": {"X-A": "b" * 81_917}}, "headers have 81920 bytes"),
            ({"oidcToken": {}}, "service_account_email is missing"),
            (
                {"oauthToken": {"serviceAccountEmail": "nomail"}},
                'oauth_token.service_account_email is "nomail": use an e-mail address',
            ),
            (
                {"url": "http://example.com", "oidcToken": {"serviceAccountEmail": WORKER}},
                "begin with https://",
            ),
        ],
    )
    def test_what_is_not_valid(
        self, call: Call, emulator: Emulator, message: dict[str, Any], text: str
    ) -> None:
        """It is refused, and nothing is stored."""
        with refused("INVALID_ARGUMENT", text):
            create(call, http(**message))
        assert emulator.queue("push").list_tasks() == []


class TestCreateTask:
    def test_the_wrong_payload(self, call: Call, version: Version) -> None:
        """A task of a push queue has a request, and a task of a pull queue has none."""
        with refused("INVALID_ARGUMENT", "set app_engine_http_request or http_request"):
            create(call, {})
        if version is V2BETA2:
            with refused("INVALID_ARGUMENT", "set pull_message"):
                call("CreateTask", parent=f"{LOCATION}/queues/pull", task=http())
            with refused("INVALID_ARGUMENT", "is a push queue"):
                create(call, {"pullMessage": {}})

    @pytest.mark.parametrize(("rest", "fits"), [(0, True), (1, False)])
    def test_the_size_of_a_task(self, call: Call, rest: int, fits: bool) -> None:  # noqa: FBT001
        """1,048,569 bytes of the message, as production was measured to take."""
        message = {"httpRequest": {"url": URL, "body": ""}}
        overhead = 4 + 4 + 2 + len(URL)  # tags and lengths of the two messages
        body = b"x" * (1_048_569 - overhead + rest)
        message["httpRequest"]["body"] = b64encode(body).decode()

        if fits:
            assert call("CreateTask", parent=PUSH, task=message)
        else:
            with refused("INVALID_ARGUMENT", "the task has 1048570 bytes"):
                call("CreateTask", parent=PUSH, task=message)

    def test_a_name_in_use(self, call: Call) -> None:
        """It is refused while the task is there, and after it was deleted."""
        create(call, http())
        with refused("ALREADY_EXISTS", "exists"):
            create(call, http())
        call("DeleteTask", name=ONE)
        with refused("ALREADY_EXISTS", "was deleted"):
            create(call, http())
        with refused("INVALID_ARGUMENT", "must begin with"):
            call("CreateTask", parent=PUSH, task={"name": f"{LOCATION}/queues/x/tasks/y", **http()})

    @only_v2
    @pytest.mark.parametrize(
        ("kind", "deadline", "seconds"),
        [
            ("http", "15s", 15),
            ("http", "1800s", 1800),
            ("app engine", "86415s", 86_415),
            ("app engine", "0s", 600),
            ("http", "20.1239s", 20.123),
        ],
    )
    def test_a_deadline(
        self, call: Call, emulator: Emulator, kind: str, deadline: str, seconds: float
    ) -> None:
        """It is stored in milliseconds."""
        message = http() if kind == "http" else app_engine(V2)

        create(call, message | {"dispatchDeadline": deadline})

        assert stored(emulator).deadline_seconds == seconds

    @only_v2
    @pytest.mark.parametrize(
        ("kind", "deadline", "most"),
        [
            ("http", "14.9s", 1800),
            ("http", "1800.001s", 1800),
            ("app engine", "86416s", 86_415),
            ("http", "0s", 1800),
        ],
    )
    def test_a_deadline_out_of_range(self, call: Call, kind: str, deadline: str, most: int) -> None:
        """The range depends on the kind of the task."""
        message = http() if kind == "http" else app_engine(V2)
        with refused("INVALID_ARGUMENT", f"dispatch_deadline is .* seconds: use 15 to {most}"):
            create(call, message | {"dispatchDeadline": deadline})

    @only_v2
    def test_retry_parameters_of_a_task(self, call: Call, emulator: Emulator) -> None:
        """They replace those of the queue; max_attempts counts the first attempt."""
        retry = {"maxAttempts": 3, "minBackoff": "0.500s", "maxDoublings": 2}

        shown = create(call, http() | {"retryConfig": retry})["retryConfig"]

        assert shown == retry
        assert stored(emulator).retry == RetryParameters(
            task_retry_limit=2, min_backoff_seconds=0.5, max_doublings=2
        )
        with refused("INVALID_ARGUMENT", "task.retry_config.max_attempts is -2"):
            call("CreateTask", parent=PUSH, task=http() | {"retryConfig": {"maxAttempts": -2}})


class TestAttempts:
    def test_counts_and_statuses(
        self, call: Call, version: Version, emulator: Emulator, clock: ManualClock
    ) -> None:
        """Every attempt counts, and every response; the first shows when it began."""
        create(call, http())
        clock.advance(1)
        attempt(emulator, 503)
        clock.advance(1)
        attempt(emulator, None, "no response within 600 s")

        task = call("GetTask", name=ONE)

        shown = task["status"] if version is V2BETA2 else task
        names = version.attempt_fields
        counts = [shown[_camel(name)] for name in names]
        second = "2026-01-01T00:00:01.500Z"
        assert counts == [
            2,
            1,
            {"dispatchTime": "2026-01-01T00:00:01Z"},
            {
                "scheduleTime": second,
                "dispatchTime": "2026-01-01T00:00:02Z",
                "responseTime": "2026-01-01T00:00:02Z",
                "responseStatus": {"code": 4, "message": "no response within 600 s"},
            },
        ]
        assert task["scheduleTime"] == "2026-01-01T00:00:03Z"  # 1 s after the end of the second

    @pytest.mark.parametrize(
        ("status", "code"),
        [
            *((400, 3), (401, 16), (403, 7), (404, 5), (409, 6), (429, 8), (500, 13), (501, 12)),
            *((503, 14), (504, 4), (302, 2), (418, 2), (None, 14)),
        ],
    )
    @only_v2
    def test_a_status(self, call: Call, emulator: Emulator, status: int | None, code: int) -> None:
        """It is shown as a code of google.rpc; a refused connection is UNAVAILABLE."""
        create(call, http())
        attempt(emulator, status, "connection refused")

        shown = call("GetTask", name=ONE)["lastAttempt"]["responseStatus"]

        message = f"HTTP status code {status}" if status else "connection refused"
        assert shown == {"code": code, "message": message}

    @only_v2
    def test_a_running_task(self, call: Call, emulator: Emulator, clock: ManualClock) -> None:
        """Its schedule time stays; it has no response yet, and can be deleted."""
        create(call, http())
        queue = emulator.queue("push")
        [task] = queue.list_tasks()
        queue.start_attempt(task, lease_seconds=30, attempts=start(task, clock.now_usec()))

        shown = call("GetTask", name=ONE)

        assert (shown["scheduleTime"], shown["dispatchCount"]) == (NOW, 1)
        assert shown["lastAttempt"] == {"scheduleTime": NOW, "dispatchTime": NOW}
        assert call("DeleteTask", name=ONE) == {}


class TestRunTask:
    def test_a_server_that_sends_nothing(self, call: Call, emulator: Emulator) -> None:
        """The task is due at once, for `run_tasks`, and no attempt is used up."""
        create(call, http() | {"scheduleTime": "2026-01-02T00:00:00Z"})
        assert run_tasks(emulator, send=lambda _: 200) == []

        assert "dispatchCount" not in call("RunTask", name=ONE)
        [attempt] = run_tasks(emulator, send=lambda _: 200)

        assert (attempt.task.name, attempt.number) == (ONE.rpartition("/")[2], 1)

    def test_past_schedule_time_and_pause(
        self, version: Version, emulator: Emulator, clock: ManualClock
    ) -> None:
        """The task is sent at once; after a failure it waits for its retry."""
        with push_app() as app, Server(emulator, push_to=PushAddresses()) as server:
            api = RestApi(server, version=version)

            def call(method: str, /, **fields: Any) -> dict[str, Any]:
                return api.call(method, fields)

            create(call, http(f"{app.url}/fails/1") | {"scheduleTime": "2026-01-02T00:00:00Z"})
            call("PauseQueue", name=PUSH)
            ran = call("RunTask", name=ONE)
            until(lambda: emulator.queue("push").list_tasks(state=TaskState.RETRYING))
            waiting = call("GetTask", name=ONE)
            call("RunTask", name=ONE)
            until(lambda: not emulator.queue("push").list_tasks())

            assert ran["name"] == ONE
            assert waiting["scheduleTime"] == "2026-01-01T00:00:00.500Z"
            assert [received.path for received in app.received] == ["/fails/1"] * 2
            assert app.received[1].headers["X-CloudTasks-TaskRetryCount"] == "1"
            with refused("NOT_FOUND"):
                call("RunTask", name=ONE)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


@pytest.mark.parametrize("version", [V2], ids=["v2"])
class TestBatches:
    def test_some_tasks_of_a_batch_fail(self, call: Call, emulator: Emulator) -> None:
        """The others are created, and the operation is done at once."""
        requests = [
            {"parent": PUSH, "task": {"name": ONE, **http()}, "responseView": "FULL"},
            {"task": {"name": ONE, **http()}},
            {"task": {}},
            {"parent": f"{LOCATION}/queues/default", "task": http()},
            {"task": app_engine(V2, "//host")},
            {"task": app_engine(V2)},
        ]

        operation = call("BatchCreateTasks", parent=PUSH, requests=requests)

        assert operation["done"] is True
        assert operation["name"].startswith(f"{LOCATION}/operations/")
        tasks = operation["response"]["tasks"]
        assert [(task["name"] == ONE, task["view"]) for task in tasks] == [
            (True, "FULL"),
            (False, "BASIC"),
        ]
        metadata = operation["metadata"]
        assert (metadata["state"], metadata["startTime"]) == ("PARTIALLY_SUCCEEDED", NOW)
        failed = metadata["failedRequests"]
        assert {key: status["code"] for key, status in failed.items()} == {
            "1": 6,
            "2": 3,
            "3": 3,
            "4": 3,
        }
        assert len(emulator.queue("push").list_tasks()) == 2

    def test_a_batch_that_succeeds(self, call: Call, emulator: Emulator) -> None:
        """A hundred tasks are created and deleted again."""
        requests = [{"task": http()}] * 100

        created = call("BatchCreateTasks", parent=PUSH, requests=requests)
        names = [task["name"] for task in created["response"]["tasks"]]
        deleted = call("BatchDeleteTasks", parent=PUSH, names=names)

        assert len(set(names)) == 100
        assert created["metadata"]["state"] == deleted["metadata"]["state"] == "SUCCEEDED"
        assert "error" not in deleted
        assert emulator.queue("push").list_tasks() == []

    def test_a_batch_that_fails(self, call: Call) -> None:
        """The operation has an error, and each task its own."""
        names = [ONE, f"{LOCATION}/queues/default/tasks/one"]

        operation = call("BatchDeleteTasks", parent=PUSH, names=names)

        assert operation["error"]["code"] == 10
        failed = operation["metadata"]["failedRequests"]
        assert {key: status["code"] for key, status in failed.items()} == {"0": 5, "1": 3}

    @pytest.mark.parametrize(
        ("method", "fields", "text"),
        [
            ("BatchCreateTasks", {}, "requests is 0 tasks: use 1 to 100"),
            ("BatchCreateTasks", {"requests": [{}] * 101}, "requests is 101 tasks"),
            ("BatchDeleteTasks", {"names": ["x"] * 1001}, "names is 1001 tasks: use 1 to 1000"),
        ],
    )
    def test_the_size_of_a_batch(
        self, call: Call, method: str, fields: dict[str, Any], text: str
    ) -> None:
        """It has one task at least."""
        with refused("INVALID_ARGUMENT", text):
            call(method, parent=PUSH, **fields)

    def test_the_limit_of_storage(self, call: Call, emulator: Emulator) -> None:
        """As many tasks as fit are created."""
        config = emulator.config
        emulator.reconfigure(replace(config, total_storage_limit_bytes=100))

        operation = call("BatchCreateTasks", parent=PUSH, requests=[{"task": http()}] * 3)

        assert [status["code"] for status in operation["metadata"]["failedRequests"].values()] == [
            8
        ]
        assert len(emulator.queue("push").list_tasks()) == 2
