"""What docs/explanation/security.md says, attacked: by tasks, requests and addresses.

For web pages see tests/unit/server/test_origins.py, for forged tokens
tests/unit/api/test_rest_grants.py. Every attack goes over a real socket at a running server.
"""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator

import pytest
from control_client import ControlClient
from plain_http import exchange
from tables import each_row

from pullqueue import Emulator
from pullqueue.server.lifecycle import Server

QUEUES = "/taskqueue/v1beta2/projects/p/taskqueues"
TASKS = f"{QUEUES}/q/tasks"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a running server; what its tests add has a name of its own."""
    with Server(Emulator.from_text("queue: [{name: q, mode: pull}]")) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> ControlClient:
    """Return a client that sends paths as they are."""
    return ControlClient(server)


@each_row(
    "path",
    [
        f"{TASKS}/x%0d%0aSet-Cookie:%20a=b",
        f"{QUEUES}/x%0d%0aSet-Cookie:%20a=b",
        f"{TASKS}?fields=x%0d%0aSet-Cookie:%20a=b",
        "/console/queues/x%0d%0aSet-Cookie:%20a=b",
        "/%0d%0aSet-Cookie:%20a=b",
        "/console%0d%0aSet-Cookie:%20a=b",
    ],
)
def test_no_header_can_be_slipped_in(client: ControlClient, path: str) -> None:
    """Header injection: a line break in an address never ends a header of the answer."""
    assert "Set-Cookie" not in client.send("GET", path).headers


def test_a_tag_with_line_breaks_adds_no_header(server: Server, client: ControlClient) -> None:
    task = server.emulator.queue("q").add(tag="a\r\nSet-Cookie: a=b")

    for path in (TASKS, "/console/queues/q/tasks"):
        reply = client.send("GET", f"{path}/{task.name}")
        assert (reply.status, "Set-Cookie" in reply.headers) == (200, False)


def test_a_body_over_512_mib_is_refused_before_it_is_sent(server: Server) -> None:
    head = "PUT /_emulator/snapshot HTTP/1.1\r\nHost: localhost\r\n"

    answer = exchange(server, f"{head}Content-Length: {(512 << 20) + 1}\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 413")


def test_no_body_is_unpacked_further_than_it_may_be_long(client: ControlClient) -> None:
    """Decompression bombs."""
    bomb = gzip.compress(bytes(100 << 20), compresslevel=1)
    tracemalloc.start()
    try:
        client.send("POST", TASKS, bomb, {"Content-Encoding": "gzip"})
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak_bytes < 80 << 20


@pytest.mark.parametrize(
    "path",
    [
        "/console/static/../../../../../../../../etc/passwd",
        "/console/static/..%2f..%2f..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/console/static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/console/static/..%5c..%5cblueprint.py",
        "/console/static/%00/etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_files_of_the_console(client: ControlClient, path: str) -> None:
    reply = client.send("GET", path)

    assert reply.status in {400, 404}
    assert "root:" not in str(reply.body)
