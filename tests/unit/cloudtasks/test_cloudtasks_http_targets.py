"""Cloud Tasks: what a queue overrides in its HTTP tasks, and BufferTask; of v2 by default."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import jwt
import pytest
from cloudtasks_api import LOCATION, MADE, ApiRefused, Call, GrpcApi, RestApi, refused
from push_app import push_app, until
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator
from pullqueue.cloudtasks.versions import V2, VERSIONS, Version
from pullqueue.config.model import HttpTarget
from pullqueue.push.addresses import PushAddresses
from pullqueue.push.http_target import override_url
from pullqueue.server.app import create_app
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store
from pullqueue.testing import run_tasks

TASKS = f"{MADE}/tasks"
BODY = b64encode(b"work").decode()
OIDC = {"serviceAccountEmail": "worker@app.iam.gserviceaccount.com", "audience": "me"}
EMAIL = OIDC["serviceAccountEmail"]
NO_ACT_AS = (
    'The principal (user or service account) lacks IAM permission "iam.serviceAccounts.actAs" for '
    'the resource "worker@app.iam.gserviceaccount.com" (or the resource may not exist).'
)
URI = {
    "scheme": "HTTP",
    "host": "api.example.com",
    "port": "8080",
    "pathOverride": {"path": "/new"},
    "queryOverride": {"queryParams": "a=1"},
    "uriOverrideEnforceMode": "IF_NOT_EXISTS",
}
TARGET: dict[str, Any] = {
    "uriOverride": URI,
    "httpMethod": "PUT",
    "headerOverrides": [{"header": {"key": "X-Team", "value": "red"}}],
    "oidcToken": OIDC,
}

VERSION = V2

every_version = pytest.mark.parametrize("version", VERSIONS.values(), ids=list(VERSIONS))


def create(call: Call, **target: Any) -> dict[str, Any]:
    """Create a queue that overrides something."""
    return call("CreateQueue", parent=LOCATION, queue={"name": MADE, "httpTarget": target})


def add(call: Call, url: str, **fields: Any) -> dict[str, Any]:
    """Add an HTTP task."""
    return call("CreateTask", parent=MADE, task={"httpRequest": {"url": url, **fields}})


class TestSettings:
    @every_version
    def test_they_are_returned_as_they_were_set(self, call: Call, version: Version) -> None:
        created = create(call, **TARGET)

        assert created["httpTarget"] == TARGET
        assert call("GetQueue", name=MADE)["httpTarget"] == TARGET
        assert call("UpdateQueue", queue=created) == created

    @pytest.mark.parametrize(
        "target",
        [
            *({"uriOverride": {key: value}} for key, value in (URI | {"scheme": "HTTPS"}).items()),
            {"httpMethod": "GET"},
            {"headerOverrides": [{"header": {"key": "!~", "value": "X" * 81_917}}]},
            {"oauthToken": {"serviceAccountEmail": EMAIL, "scope": "a"}},
        ],
    )
    def test_each_can_be_set_alone(self, call: Call, target: dict[str, Any]) -> None:
        assert create(call, **target)["httpTarget"] == target

    def test_one_part_can_be_changed_and_all_removed(self, call: Call) -> None:
        create(call, **TARGET)
        queue = {"name": MADE, "httpTarget": {"uriOverride": {"host": "b.example.com"}}}

        changed = call("UpdateQueue", queue=queue, updateMask="httpTarget.uriOverride.host")
        removed = call("UpdateQueue", queue={"name": MADE}, updateMask="httpTarget")

        assert changed["httpTarget"] == TARGET | {"uriOverride": URI | {"host": "b.example.com"}}
        assert "httpTarget" not in removed

    def test_a_store_and_a_restart_keep_them(self, tmp_path: Path) -> None:
        store = open_store(f"sqlite:///{tmp_path}/tasks.db")
        shown: list[dict[str, Any]] = []
        for _ in range(2):
            emulator = Emulator.from_text("queue: []", store=store)
            call = RestApi(Client(create_app(emulator)), version=V2)
            if not shown:
                create(call, **TARGET)
            shown.append(call("GetQueue", name=MADE))
            emulator.close()

        assert shown[0] == shown[1]
        assert shown[0]["httpTarget"] == TARGET


@each_row(
    ("target", "url", "expected"),
    [
        (HttpTarget(host="b.net"), "https://a.net:1/x?y", "https://b.net:1/x?y"),
        (HttpTarget(scheme="http"), "https://a.net/x", "http://a.net/x"),
        (HttpTarget(port=123), "https://a.net/x", "https://a.net:123/x"),
        (HttpTarget(port=0), "https://a.net:8080/x", "https://a.net/x"),
        (HttpTarget(path="/new"), "https://a.net/x?y", "https://a.net/new?y"),
        (HttpTarget(path="new"), "https://a.net/x", "https://a.net/new"),
        (HttpTarget(path=""), "https://a.net/x?y", "https://a.net?y"),
        (HttpTarget(query="z=1"), "https://a.net/x?y", "https://a.net/x?z=1"),
        (HttpTarget(query=""), "https://a.net/x?y", "https://a.net/x"),
        (HttpTarget(host="b.net"), "https://[::1]:1/%zz", "https://b.net:1/%zz"),
        (HttpTarget(port=2), "https://[::1]/x", "https://[::1]:2/x"),
    ],
)
def test_each_part_of_a_url_is_overridden(target: HttpTarget, url: str, expected: str) -> None:
    assert override_url(url, target) == expected


def test_paths_and_queries_are_encoded(call: Call, emulator: Emulator) -> None:
    """Neither can add a header to the request."""
    path, query = {"path": "/a b\r\nX: 1#é"}, {"queryParams": "q=1 2"}
    uri = {"scheme": "HTTPS", "host": "b.net", "pathOverride": path, "queryOverride": query}
    create(call, uriOverride=uri)
    add(call, "http://a.net")

    [attempt] = run_tasks(emulator, send=lambda _: 200)

    assert attempt.request.url == "https://b.net/a%20b%0D%0AX:%201%23%C3%A9?q=1%202"


@each_row(
    ("url", "expected"),
    [
        ("https://a.net", "https://a.net:1/new?z"),
        ("https://a.net/", "https://a.net:1/new?z"),
        ("https://a.net:8080/x?y", "https://a.net:8080/x?y"),
    ],
)
def test_if_not_exists_sets_only_what_a_url_does_not_have(url: str, expected: str) -> None:
    target = HttpTarget(
        scheme="http", host="b.net", port=1, path="/new", query="z", if_not_exists=True
    )
    assert override_url(url, target) == expected


class TestDelivery:
    def test_run_tasks_sends_what_the_queue_overrides(self, call: Call, emulator: Emulator) -> None:
        create(call, **TARGET | {"uriOverride": URI | {"uriOverrideEnforceMode": "ALWAYS"}})
        add(call, "https://old.example.com/x", headers={"x-team": "blue", "X-Mine": "1"}, body=BODY)

        [attempt] = run_tasks(emulator, send=lambda _: 200)

        sent = attempt.request
        assert (sent.method, sent.url) == ("PUT", "http://api.example.com:8080/new?a=1")
        assert (sent.target, sent.body) == ("http://api.example.com:8080", b"work")
        assert (sent.headers["X-Team"], sent.headers["X-Mine"]) == ("red", "1")
        assert sent.headers["Authorization"].startswith("Bearer ")
        assert "x-team" not in list(sent.headers)

    def test_the_audience_of_a_queue_is_by_default_what_is_called(
        self, call: Call, emulator: Emulator
    ) -> None:
        create(call, oidcToken={"serviceAccountEmail": OIDC["serviceAccountEmail"]})
        add(call, "https://old.example.com/x")

        [attempt] = run_tasks(emulator, send=lambda _: 200)

        token = attempt.request.headers["Authorization"].removeprefix("Bearer ")
        claims = jwt.decode(token, options={"verify_signature": False})
        assert claims["aud"] == "https://old.example.com/x"

    def test_a_change_of_the_queue_applies_to_tasks_that_wait(
        self, call: Call, emulator: Emulator
    ) -> None:
        create(call)
        shown = add(call, "https://old.example.com/x")
        queue = {"name": MADE, "httpTarget": {"uriOverride": {"host": "new.example.com"}}}
        call("UpdateQueue", queue=queue)

        [attempt] = run_tasks(emulator, send=lambda _: 200)

        assert attempt.request.url == "https://new.example.com/x"
        assert shown["httpRequest"]["url"] == "https://old.example.com/x"

    def test_a_queue_that_overrides_nothing_sends_a_url_as_it_is(
        self, call: Call, emulator: Emulator
    ) -> None:
        create(call, uriOverride={})
        add(call, "https://old.example.com/x?")

        [attempt] = run_tasks(emulator, send=lambda _: 200)

        assert attempt.request.url == "https://old.example.com/x?"

    def test_app_engine_tasks_are_left_alone(self, call: Call, emulator: Emulator) -> None:
        create(call, **TARGET)
        task = {"appEngineHttpRequest": {"relativeUri": "/mail"}}
        call("CreateTask", parent=MADE, task=task)

        [attempt] = run_tasks(emulator, send=lambda _: 200)

        assert (attempt.request.method, attempt.request.url) == ("POST", "/mail")
        assert "X-Team" not in attempt.request.headers

    def test_a_server_sends_to_the_overridden_address_only(self, emulator: Emulator) -> None:
        """Whatever address the task has, that of the queue decides whether it may be called."""
        with push_app() as app, Server(emulator, push_to=PushAddresses()) as server:
            call = GrpcApi(server, version=V2)
            port = app.url.rpartition(":")[2]
            create(call, uriOverride={"scheme": "HTTP", "host": "127.0.0.1", "port": port})
            add(call, "https://api.example.com/moved")
            until(lambda: app.paths() == ["/moved"])
            queue = {"name": MADE, "httpTarget": {"uriOverride": {"host": "api.example.com"}}}
            call("UpdateQueue", queue=queue)
            kept = add(call, f"{app.url}/kept")
            with refused("FAILED_PRECONDITION", "there is no address for"):
                call("RunTask", name=kept["name"])
            call.channel.close()
        assert app.paths() == ["/moved"]


class TestBufferTask:
    @every_version
    def test_the_url_of_the_queue_and_the_body_of_the_call_are_a_task(
        self, call: Call, version: Version, emulator: Emulator
    ) -> None:
        create(call, uriOverride={"host": "api.example.com", "pathOverride": {"path": "/work"}})
        body = {"data": BODY, "contentType": "text/plain"}

        created = call("BufferTask", queue=MADE, taskId="one", body=body)["task"]

        assert created["name"] == f"{TASKS}/one"
        assert created["httpRequest"] == {
            "url": "https://api.example.com/work",
            "httpMethod": "POST",
            "headers": {"Content-Type": "text/plain", "User-Agent": "Google-Cloud-Tasks"},
        }
        [attempt] = run_tasks(emulator, send=lambda _: 200)
        sent = attempt.request
        assert (sent.url, sent.body) == ("https://api.example.com/work", b"work")

    @pytest.mark.parametrize(
        ("verb", "path", "data", "stored"),
        [
            ("POST", "tasks:buffer", b"{'message': 'Hello'}", ("POST", b"{'message': 'Hello'}")),
            ("POST", "tasks:buffer", b'{"message": 1}', ("POST", b'{"message": 1}')),
            ("POST", "tasks/:buffer", b"{}", ("POST", b"")),
            ("POST", "tasks/one:buffer", b"", ("POST", b"")),
            ("PUT", "tasks:buffer", b"x", ("PUT", b"x")),
            ("GET", "tasks:buffer", b"", ("GET", b"")),
            ("GET", "tasks/one:buffer", b"", ("GET", b"")),
            ("DELETE", "tasks/one:buffer", b"", ("DELETE", b"")),
        ],
    )
    def test_any_http_request_becomes_a_task(
        self,
        *,
        call: RestApi,
        client: Client,
        emulator: Emulator,
        verb: str,
        path: str,
        data: bytes,
        stored: tuple[str, bytes],
    ) -> None:
        """A body keeps its type."""
        create(call, uriOverride={"host": "api.example.com"})

        url = f"/v2/{MADE}/{path}"
        response = client.open(url, method=verb, data=data, content_type="text/plain")
        created = response.get_json()["task"]

        [task] = emulator.queue("made").list_tasks()
        assert task.request is not None
        assert (task.request.method, task.payload) == stored
        assert created["name"] == f"{TASKS}/{task.name}"
        assert task.name == "one" or "one" not in path
        kind = created["httpRequest"]["headers"].get("Content-Type")
        assert kind == ("text/plain" if task.payload else None)

    @pytest.mark.parametrize("verb", ["GET", "POST"])
    def test_a_page_of_another_site_cannot_add_tasks(
        self, call: Call, client: Client, emulator: Emulator, verb: str
    ) -> None:
        """An image in such a page is a GET without the header Origin."""
        create(call, uriOverride={"host": "api.example.com"})
        headers = {"Sec-Fetch-Site": "cross-site"}

        response = client.open(f"/v2/{MADE}/tasks:buffer", method=verb, headers=headers)

        assert response.status_code == 403
        assert emulator.queue("made").list_tasks() == []

    def test_a_queue_without_a_url_is_refused(self, call: Call) -> None:
        create(call, httpMethod="PUT")
        text = (
            'queue "made" has no URL for its tasks: set http_target.uri_override.host, by '
            "CreateQueue or UpdateQueue$"
        )
        with refused(f"FAILED_PRECONDITION: {text}"):
            call("BufferTask", queue=MADE)
        with refused("NOT_FOUND", "Queue does not exist"):
            call("BufferTask", queue=f"{LOCATION}/queues/unknown")

    def test_an_id_in_use_or_not_valid_is_refused(self, call: RestApi) -> None:
        """A body without a type is taken for JSON."""
        create(call, uriOverride={"host": "api.example.com"})

        created = call("BufferTask", queue=MADE, taskId="one", body={"data": BODY})["task"]
        as_it_is = call.send("POST", f"{MADE}/tasks:buffer", b"not JSON")["task"]

        for task in (created, as_it_is):
            assert task["httpRequest"]["headers"]["Content-Type"] == "application/json"
        in_use, choose = r'\(task "one" of queue "made"', r"choose another name, or omit it\)$"
        with refused(
            "ALREADY_EXISTS", f"Requested entity already exists {in_use} exists: {choose}"
        ):
            call("BufferTask", queue=MADE, taskId="one")
        call("DeleteTask", name=f"{TASKS}/one")
        reserved = f"{in_use} was done, deleted or exhausted recently: {choose}"
        with refused("ALREADY_EXISTS", f"a task with this name existed too recently.* {reserved}"):
            call("BufferTask", queue=MADE, taskId="one")
        with refused("INVALID_ARGUMENT", 'Task ID "a b" can contain only'):
            call("BufferTask", queue=MADE, taskId="a b")


class TestServiceAccounts:
    """Where some are named, tasks and queues can ask for tokens of no others."""

    @pytest.mark.parametrize("kind", ["oidcToken", "oauthToken"])
    @pytest.mark.parametrize("named", [(), (EMAIL,), ("other@app.iam.gserviceaccount.com", EMAIL)])
    def test_those_that_are_named_get_tokens(
        self, call: Call, emulator: Emulator, kind: str, named: tuple[str, ...]
    ) -> None:
        emulator.service_accounts = frozenset(named)
        create(call, **{kind: {"serviceAccountEmail": EMAIL}})
        request = {"url": "https://api.example.com/", kind: {"serviceAccountEmail": EMAIL}}

        made = call("CreateTask", parent=MADE, task={"httpRequest": request})
        assert made["httpRequest"][kind]["serviceAccountEmail"] == EMAIL

    def test_a_task_of_another_is_refused_as_recorded(self, call: Call, emulator: Emulator) -> None:
        create(call)
        emulator.service_accounts = frozenset({"workers@app.iam.gserviceaccount.com"})
        request = {"url": "https://api.example.com/", "oidcToken": OIDC}

        with pytest.raises(ApiRefused) as refusal:
            call("CreateTask", parent=MADE, task={"httpRequest": request})
        recorded, _, advice = str(refusal.value).partition(" (task.")
        assert recorded == f"PERMISSION_DENIED: {NO_ACT_AS}"
        assert advice == (
            f'http_request.oidc_token.service_account_email is "{EMAIL}", which is not one of the '
            'service accounts that were named: did you mean "workers@app.iam.gserviceaccount.com"?)'
        )
        assert call("ListTasks", parent=MADE) == {}

    def test_a_queue_of_another_is_refused_and_not_made(
        self, call: Call, emulator: Emulator
    ) -> None:
        emulator.service_accounts = frozenset({"workers@app.iam.gserviceaccount.com"})

        text = rf'lacks IAM .*\(queue\.http_target\.oidc_token\.service_account_email is "{EMAIL}"'
        with refused("PERMISSION_DENIED", text):
            create(call, oidcToken=OIDC)
        with refused("NOT_FOUND", ""):
            call("GetQueue", name=MADE)
