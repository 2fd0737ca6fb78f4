"""Who may ask: names in Host headers, origins, and the token of the server's own pages."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import requests
from tables import each_row

from pullqueue import Emulator, Queue
from pullqueue.server.lifecycle import Server

QUEUES = "/taskqueue/v1beta2/projects/p/taskqueues"
TASKS = f"{QUEUES}/q/tasks"
ROUTES = ["/", f"{QUEUES}/q", "/_emulator/health", "/console/", "/discovery/v1/apis", "/tokeninfo"]
EVIL = "http://evil.example"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a running server with a name of its own, whose queue has the task `kept`."""
    emulator = Emulator.from_text("queue: [{name: q, mode: pull}]")
    emulator.queue("q").add(name="kept")
    with Server(emulator, host_names=["queues.example"]) as server:
        yield server


@pytest.fixture
def queue(server: Server) -> Queue:
    return server.emulator.queue("q")


def send(
    server: Server, verb: str, path: str, body: str = "", /, **headers: str
) -> requests.Response:
    """Send a request, with `_` for `-` in the names of headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.request(
        verb, f"{server.url}{path}", data=body, headers=named, timeout=60, allow_redirects=False
    )


@each_row(
    "host",
    [
        *("localhost:8124", "LOCALHOST", "127.0.0.1", "10.1.2.3:80", "[::1]:8124"),
        *("app.localhost:1", "queues.example", socket.gethostname()),
    ],
)
def test_names_that_are_answered(server: Server, host: str) -> None:
    assert send(server, "GET", "/_emulator/health", Host=host).status_code == 200


@each_row(
    "host",
    [
        *("notlocalhost", "localhost.evil.example:8124", "127.0.0.1.evil.example", "a:b:c", "x y"),
        *("evil.example/.localhost", "evil.example#.localhost", "me@.localhost"),
    ],
)
def test_names_of_others_are_refused(server: Server, host: str) -> None:
    """DNS rebinding: a name that someone made point here is refused on every route, without the
    token of the server's own pages.
    """
    for path in ROUTES:
        reply = send(server, "GET", path, Host=host)

        assert (reply.status_code, "the host of the request is" in reply.text) == (403, True)
        assert host in reply.text
        assert server.state.token not in reply.text
        assert "start the server with --allow-host NAME" in reply.text


@each_row(
    ("verb", "path", "body"),
    [
        ("POST", TASKS, '{"queueName": "q", "payloadBase64": ""}'),
        ("POST", f"{TASKS}/lease?numTasks=1&leaseSecs=60", ""),
        ("DELETE", f"{TASKS}/kept", ""),
        ("POST", "/_emulator/reset", ""),
        ("POST", "/console/server/reset", ""),
        ("POST", "/rpc_http", ""),
        ("POST", "/batch", ""),
        ("POST", "/token", ""),
    ],
)
def test_changes_from_other_sites_are_refused(
    server: Server, queue: Queue, verb: str, path: str, body: str
) -> None:
    before = queue.list_tasks()
    replies = [
        send(server, verb, path, body, **page)
        for page in (
            *({"Origin": origin} for origin in (EVIL, "null", "http://localhost:9999")),
            *({"Sec_Fetch_Site": site} for site in ("cross-site", "same-site")),
        )
    ]

    assert [reply.status_code for reply in replies] == [403] * 5
    assert all("it comes from a page of" in reply.text for reply in replies)
    assert queue.list_tasks() == before


@pytest.mark.parametrize("path", ["/_emulator/reset", "/console/server/reset"])
def test_the_change_of_a_browser_needs_the_token_of_the_server(
    server: Server, queue: Queue, path: str
) -> None:
    origin = {"Origin": server.url}
    kinds = ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]
    refused = [send(server, "POST", path, "x=y", Content_Type=kind, **origin) for kind in kinds]
    refused.append(send(server, "POST", path, X_Pullqueue_Token="x", **origin))

    assert [reply.status_code for reply in refused] == [403] * 4
    assert all("it has no token" in reply.text for reply in refused)
    assert [task.name for task in queue.list_tasks()] == ["kept"]


def test_a_token_that_is_right_permits_changes(server: Server) -> None:
    """A page of the server may change what it shows; a program needs no token."""
    token = {"X_Pullqueue_Token": server.state.token}
    for given in (
        {"Origin": server.url, **token},
        *({"Sec_Fetch_Site": site, **token} for site in ("same-origin", "none")),
        {},
    ):
        assert send(server, "DELETE", "/_emulator/faults", **given).status_code == 200


def test_a_form_that_is_too_large_is_refused(server: Server) -> None:
    response = requests.post(
        f"{server.url}/_emulator/reset",
        files={"field": (None, b"x" * (5 << 20))},
        headers={"Origin": server.url},
        timeout=60,
    )

    assert response.status_code == 413
    assert "details" not in response.json()["error"]


@each_row("path", [*ROUTES, "/missing"])
def test_other_sites_can_read_no_answer(server: Server, path: str) -> None:
    for verb in ("GET", "OPTIONS"):
        headers = send(server, verb, path, Origin=EVIL, Access_Control_Request_Method="PUT").headers

        assert not [name for name in headers if name.lower().startswith("access-control-allow")]
        assert headers["X-Content-Type-Options"] == "nosniff"
        is_page = path.startswith("/console") and headers["Content-Type"].startswith("text/html")
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'" if is_page else "sandbox; default-src 'none'")


@pytest.mark.parametrize("path", ["/_emulator/reset", "/console/server/reset", f"{TASKS}/lease"])
def test_a_link_changes_nothing(server: Server, queue: Queue, path: str) -> None:
    before = queue.list_tasks()

    send(server, "GET", f"{path}?numTasks=1&leaseSecs=60", X_HTTP_Method_Override="POST")

    assert queue.list_tasks() == before
