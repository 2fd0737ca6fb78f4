"""Who may ask: names in Host headers, origins, and the token of the server's own pages."""

from __future__ import annotations

import socket

import pytest
import requests
from control_client import ControlClient

from pullqueue import Emulator
from pullqueue.server.lifecycle import Server


@pytest.mark.parametrize(
    "host",
    [
        "localhost:8124",
        "LOCALHOST",
        "127.0.0.1",
        "10.1.2.3:80",
        "[::1]:8124",
        "app.localhost:1",
        "queues.example",
        socket.gethostname(),
    ],
)
def test_names_that_are_answered(emulator: Emulator, host: str) -> None:
    """Addresses, localhost, the machine's own name, and those that were allowed."""
    with Server(emulator, host_names=["queues.example"]) as server:
        reply = ControlClient(server).call("GET", "/health", headers={"Host": host})

    assert reply.status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example:8124", "127.0.0.1.evil.example", "a:b:c", "x y"],
)
@pytest.mark.parametrize("path", ["/health", "/../taskqueue/v1beta2/projects/p/taskqueues/pull"])
def test_names_that_are_not(control: ControlClient, host: str, path: str) -> None:
    """A name that someone made point here is refused, on every route."""
    reply = control._send(
        "GET", f"/_emulator{path}".replace("/_emulator/..", ""), None, {"Host": host}
    )

    assert reply.status == 403
    assert reply.message.startswith(f'the Host header is "{host}"')


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_changes_from_other_sites(control: ControlClient, headers: dict[str, str]) -> None:
    """A page of another site can change nothing, neither here nor through the API."""
    own = control.call("POST", "/reset", {}, headers)
    api = control._send(
        "POST",
        "/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks",
        {"payloadBase64": ""},
        headers,
    )

    assert own.status == api.status == 403
    assert "it comes from a page of" in own.message


def test_a_form_that_is_too_large(server: Server) -> None:
    """The field that may contain the token is read in memory, and its size is limited."""
    response = requests.post(
        f"{server.url}/_emulator/reset",
        files={"field": (None, b"x" * (5 << 20))},
        headers={"Origin": server.url},
        timeout=60,
    )

    assert response.status_code == 413
    assert response.json()["error"]["errors"][0].get("debugInfo") is None


def test_the_token(control: ControlClient, server: Server) -> None:
    """A browser's change needs the token of this server; a program needs nothing."""
    origin = {"Origin": server.url}

    without = control.call("POST", "/reset", {}, origin)
    wrong = control.call("POST", "/reset", {}, {**origin, "X-Pullqueue-Token": "x"})
    right = control.call("POST", "/reset", {}, {**origin, "X-Pullqueue-Token": server.state.token})
    program = control.post("/reset")
    reading = control.call("GET", "/queues", None, {"Origin": "http://evil.example"})

    assert (without.status, wrong.status, right.status, program.status) == (403, 403, 200, 200)
    assert "it has no token" in without.message
    assert reading.status == 200
    assert "Access-Control-Allow-Origin" not in reading.headers
