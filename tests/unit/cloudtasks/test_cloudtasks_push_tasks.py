"""Cloud Tasks: the methods on push tasks, of v2 where no other version is named."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from cloudtasks_api import PUSH, ApiRefused, Call, GrpcApi, RestApi, app_engine, http, refused
from push_app import push_app, until
from tables import each_row
from werkzeug.test import Client

from pullqueue import (
    AttemptRecord,
    Emulator,
    HttpRequest,
    Limits,
    ManualClock,
    RequestToken,
    RetryParameters,
    Task,
    TaskState,
)
from pullqueue.cloudtasks.versions import V2, V2BETA2, VERSIONS, Version
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.push.addresses import PushAddresses
from pullqueue.push.request import PushResponse
from pullqueue.push.retry import conclude, start
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import create_app
from pullqueue.server.lifecycle import Server
from pullqueue.testing import run_tasks

ONE = f"{PUSH}/tasks/one"
NOW = "2026-01-01T00:00:00Z"
URL = "https://api.example.com/work"
AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"
BODY = b64encode(b"work").decode()
WORKER = "worker@app.iam.gserviceaccount.com"
EMAIL = {"serviceAccountEmail": WORKER}
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
VERSION = V2

every_version = pytest.mark.parametrize("version", VERSIONS.values(), ids=list(VERSIONS))


def create(call: Call, message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Create a task with a name and return its FULL view."""
    task = {"name": ONE, **message}
    return call("CreateTask", parent=PUSH, task=task, responseView="FULL", **fields)


def attempt(emulator: Emulator, status: int | None, reason: str | None = None) -> Task:
    """Carry out an attempt that gets a status."""
    queue = emulator.queue("push")
    [task] = queue.list_tasks()
    running = start_attempt(
        queue, task, lease_seconds=600, attempts=start(task, emulator.clock.now_usec())
    )
    response = PushResponse(status, reason=reason)
    now_usec = emulator.clock.now_usec()
    attempts, pause = conclude(running, response, settings=queue.settings, now_usec=now_usec)
    return finish_attempt(queue, running, attempts=attempts, backoff_seconds=pause)


class TestGetTask:
    @every_version
    def test_an_app_engine_task_is_shown_with_its_defaults(
        self, call: Call, version: Version, emulator: Emulator
    ) -> None:
        """Defaults are filled in; BASIC hides the body and nothing else."""
        url, body = ("relativeUrl", "payload") if version is V2BETA2 else ("relativeUri", "body")
        message = {url: "/mail", body: BODY, "headers": {"X-Mixed": "a"}}
        full = create(call, {"appEngineHttpRequest": message})
        basic = call("GetTask", name=ONE)

        request = {
            "httpMethod": "POST",
            "appEngineRouting": {
                "service": "worker",
                "version": "v1",
                "host": "v1.worker.app.uc.r.appspot.com",
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
        [task] = emulator.queue("push").list_tasks()
        assert task.request == HttpRequest("/mail", headers=(("X-Mixed", "a"),))

    def test_an_http_task_has_no_content_type_and_the_agent_of_cloud_tasks(
        self, call: Call
    ) -> None:
        headers = {"content-type": "text/plain", "user-agent": "mine", "X-CloudTasks-X": "1"}
        full = create(call, http(body=BODY, headers=headers, oidcToken=EMAIL))
        basic = call("GetTask", name=ONE)["httpRequest"]

        assert full["httpRequest"] == basic | {"body": BODY}
        assert basic == {
            "url": URL,
            "httpMethod": "POST",
            "headers": {"User-Agent": "Google-Cloud-Tasks", "content-type": "text/plain"},
            "oidcToken": EMAIL,
        }

    def test_an_access_token_is_for_the_whole_platform_by_default(self, call: Call) -> None:
        shown = create(call, http(oauthToken=EMAIL))["httpRequest"]

        assert shown["oauthToken"] == EMAIL | {"scope": SCOPE}


class TestCreateTask:
    @pytest.mark.parametrize(
        ("task", "request_"),
        [
            (app_engine(""), HttpRequest("/")),
            (app_engine("/x?y=%20", httpMethod="GET"), HttpRequest("/x?y=%20", "GET")),
            (app_engine(httpMethod="HTTP_METHOD_UNSPECIFIED"), HttpRequest("/mail")),
            (
                app_engine(appEngineRouting={"service": "s", "version": "v", "instance": "0"}),
                HttpRequest("/mail", target="0.v.s"),
            ),
            (
                app_engine(appEngineRouting={"version": "v"}),
                HttpRequest("/mail", target="v.default"),
            ),
            # URLs are encoded, not parsed.
            (http("http://example.com/%zz"), HttpRequest("http://example.com/%zz")),
            (http("https://x/é b"), HttpRequest("https://x/%C3%A9%20b")),
            (http(httpMethod="PATCH", body=BODY), HttpRequest(URL, "PATCH")),
            (
                http(oauthToken=EMAIL),
                HttpRequest(URL, token=RequestToken("oauth_token", WORKER, SCOPE)),
            ),
            (
                http("http://localhost", oidcToken=EMAIL | {"audience": "me"}),
                HttpRequest("http://localhost", token=RequestToken("oidc_token", WORKER, "me")),
            ),
            *(
                (http() | {"dispatchDeadline": text}, HttpRequest(URL, deadline_seconds=seconds))
                for text, seconds in (("15s", 15), ("1800s", 1800), ("20.1239s", 20.123))
            ),
            *(
                (
                    app_engine() | {"dispatchDeadline": text},
                    HttpRequest("/mail", deadline_seconds=seconds),
                )
                for text, seconds in (("86415s", 86_415), ("0s", 600))
            ),
            # The first attempt counts as one of these.
            (
                http() | {"retryConfig": {"maxAttempts": 3, "minBackoff": "0.500s"}},
                HttpRequest(
                    URL, retry=RetryParameters(task_retry_limit=2, min_backoff_seconds=0.5)
                ),
            ),
        ],
    )
    @pytest.mark.parametrize("limits", [Limits(push_task_bytes=1)])
    def test_a_task_is_stored_with_all_parts_of_its_message(
        self, call: Call, emulator: Emulator, task: dict[str, Any], request_: HttpRequest
    ) -> None:
        """The limit on the size of App Engine's own push tasks is not for them."""
        shown = create(call, task)

        [stored] = emulator.queue("push").list_tasks()
        assert stored.request == request_
        assert shown.get("retryConfig") == task.get("retryConfig")

    @pytest.mark.parametrize("limits", [Limits(cloud_tasks_task_bytes=1)])
    @each_row(
        ("version", "task", "size"),
        [
            (V2, http(), 164),
            (V2, http(body=BODY), 170),
            (V2, http(headers={"X-CloudTasks-A": "ignored"}), 164),
            (V2, http() | {"name": ONE}, 147),
            (V2, http() | {"scheduleTime": "2026-01-02T00:00:00Z"}, 164),
            (V2, http() | {"scheduleTime": "2026-01-02T00:00:00.5Z"}, 170),
            (V2, http() | {"dispatchDeadline": "600s"}, 164),
            (V2, app_engine(), 205),
            (V2, app_engine(appEngineRouting={"service": "s"}), 197),
            (V2, app_engine() | {"dispatchDeadline": "600s"}, 210),
            (V2BETA2, {"appEngineHttpRequest": {"relativeUrl": "/mail"}}, 205),
        ],
    )
    def test_a_task_that_is_too_large_is_refused_with_its_size(
        self, *, client: Client, version: Version, task: dict[str, Any], size: int
    ) -> None:
        """As it would be stored: with a name, times, headers, and what it has for its target."""
        with pytest.raises(ApiRefused) as too_large:
            RestApi(client, version=version)("CreateTask", parent=PUSH, task=task)

        assert str(too_large.value) == (
            f"INVALID_ARGUMENT: Task size too large (the task has {size} bytes with its name, "
            "times and headers; the maximum is 1: store the data elsewhere and put a reference in "
            "the task)"
        )


def reason(text: str) -> dict[str, str]:
    """Return the detail that says why there was no response."""
    kind = "type.googleapis.com/google.rpc.LocalizedMessage"
    return {"@type": kind, "locale": "en-US", "message": text}


class TestAttempts:
    @every_version
    def test_every_attempt_and_every_response_counts(
        self, call: Call, version: Version, emulator: Emulator, clock: ManualClock
    ) -> None:
        """The first shows when it began."""
        create(call, http())
        clock.advance(1)
        attempt(emulator, 503)
        clock.advance(1)
        attempt(emulator, None, "no response within 600 s")

        task = call("GetTask", name=ONE)

        shown = task["status"] if version is V2BETA2 else task
        names = ["dispatchCount", "responseCount", "firstAttempt", "lastAttempt"]
        if version is V2BETA2:
            names = ["attemptDispatchCount", "attemptResponseCount"]
            names += ["firstAttemptStatus", "lastAttemptStatus"]
        second = "2026-01-01T00:00:01.500Z"
        assert [shown[name] for name in names] == [
            2,
            1,
            {"dispatchTime": "2026-01-01T00:00:01Z"},
            {
                "scheduleTime": second,
                "dispatchTime": "2026-01-01T00:00:02Z",
                "responseTime": "2026-01-01T00:00:02Z",
                "responseStatus": {
                    "code": 4,
                    "message": "DEADLINE_EXCEEDED(4): HTTP status code 504",
                    "details": [reason("no response within 600 s")],
                },
            },
        ]
        assert task["scheduleTime"] == "2026-01-01T00:00:03Z"  # 1 s after the end of the second

    @pytest.mark.parametrize(
        ("status", "code"),
        [
            (400, "INVALID_ARGUMENT(3)"),
            (401, "UNAUTHENTICATED(16)"),
            (403, "PERMISSION_DENIED(7)"),
            (404, "NOT_FOUND(5)"),
            (405, "FAILED_PRECONDITION(9)"),
            (409, "ALREADY_EXISTS(6)"),
            (416, "OUT_OF_RANGE(11)"),
            (418, "FAILED_PRECONDITION(9)"),
            (429, "RESOURCE_EXHAUSTED(8)"),
            (499, "CANCELLED(1)"),
            (500, "INTERNAL(13)"),
            (501, "UNIMPLEMENTED(12)"),
            (502, "INTERNAL(13)"),
            (503, "UNAVAILABLE(14)"),
            (504, "DEADLINE_EXCEEDED(4)"),
            (302, "UNKNOWN(2)"),
        ],
    )
    def test_the_status_of_a_response_is_shown_as_a_code(
        self, call: Call, emulator: Emulator, status: int, code: str
    ) -> None:
        create(call, http())
        attempt(emulator, status)

        shown = call("GetTask", name=ONE)["lastAttempt"]["responseStatus"]

        number = int(code.partition("(")[2][:-1])
        assert shown == {"code": number, "message": f"{code}: HTTP status code {status}"}

    @pytest.mark.parametrize(
        ("why", "shown", "code", "text"),
        [
            ("connection refused", "connection refused", 2, "UNKNOWN(2): HTTP status code 0"),
            (
                None,
                "no response before the deadline",
                4,
                "DEADLINE_EXCEEDED(4): HTTP status code 504",
            ),
        ],
    )
    def test_an_attempt_without_a_response_is_shown_with_its_reason(
        self, call: Call, emulator: Emulator, *, why: str | None, shown: str, code: int, text: str
    ) -> None:
        create(call, http())
        attempt(emulator, None, why)

        status = call("GetTask", name=ONE)["lastAttempt"]["responseStatus"]
        assert status == {"code": code, "message": text, "details": [reason(shown)]}

    def test_a_running_task_keeps_its_schedule_time_and_can_be_deleted(
        self, call: Call, emulator: Emulator, clock: ManualClock
    ) -> None:
        """Where that was not recorded, the end of the attempt is shown."""
        create(call, http())
        queue = emulator.queue("push")
        [task] = queue.list_tasks()
        task = start_attempt(queue, task, lease_seconds=30, attempts=start(task, clock.now_usec()))

        shown = call("GetTask", name=ONE)

        assert (shown["scheduleTime"], shown["dispatchCount"]) == (NOW, 1)
        assert shown["lastAttempt"] == {"scheduleTime": NOW, "dispatchTime": NOW}
        start_attempt(queue, task, lease_seconds=30, attempts=AttemptRecord())
        assert call("GetTask", name=ONE)["scheduleTime"] == "2026-01-01T00:00:30Z"
        assert call("DeleteTask", name=ONE) == {}


class TestRunTask:
    def test_a_run_makes_the_task_due_for_run_tasks(self, call: Call, emulator: Emulator) -> None:
        """And uses up no attempt."""
        create(call, http() | {"scheduleTime": "2026-01-02T00:00:00Z"})
        assert run_tasks(emulator, send=lambda _: 200) == []

        assert "dispatchCount" not in call("RunTask", name=ONE)
        [attempt] = run_tasks(emulator, send=lambda _: 200)

        assert (attempt.task.name, attempt.number) == (ONE.rpartition("/")[2], 1)

    def test_a_task_whose_attempt_has_ended_is_returned_as_it_was(
        self, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue, state = emulator.queue("push"), ServerState(emulator, push_to=PushAddresses())
        monkeypatch.setattr(state, "run_now", lambda task: queue.delete_tasks(task.name))
        call = RestApi(Client(create_app(emulator, state=state)), version=V2)
        created = create(call, http())

        assert call("RunTask", name=ONE, responseView="FULL") == created
        assert queue.list_tasks() == []

    def test_a_run_ignores_schedule_time_and_pause(self, emulator: Emulator) -> None:
        """The task is sent at once; after a failure it waits for its retry."""
        with push_app() as app, Server(emulator, push_to=PushAddresses()) as server:
            call = GrpcApi(server, version=V2)
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
            call.channel.close()
