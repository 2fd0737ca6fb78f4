"""What docs/explanation/security.md says, attacked: by web pages, files and tasks. For forged
tokens see tests/unit/api/test_rest_grants.py.

Every attack goes over a real socket at a running server, or into a process of its own.
"""

from __future__ import annotations

import gzip
import socket
import sys
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from typing import NamedTuple

import pytest
from programs import completed

from pullqueue import Emulator, Queue
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.server.lifecycle import Server

QUEUES = "/taskqueue/v1beta2/projects/p/taskqueues"
TASKS = f"{QUEUES}/q/tasks"
CONFIG = QueueConfig(queues=(QueueSettings(name="q", mode=QueueMode.PULL),))
CHANGES = [
    ("POST", TASKS, b'{"queueName": "q", "payloadBase64": ""}'),
    ("POST", f"{TASKS}/lease?numTasks=1&leaseSecs=60", b""),
    ("DELETE", f"{TASKS}/kept", b""),
    ("POST", "/_emulator/reset", b""),
    ("POST", "/console/server/reset", b""),
    ("POST", "/rpc_http", b""),
    ("POST", "/batch", b""),
    ("POST", "/token", b""),
]
ROUTES = ["/", f"{QUEUES}/q", "/_emulator/health", "/console/", "/discovery/v1/apis", "/tokeninfo"]
EVIL = "http://evil.example"


class Reply(NamedTuple):
    """An answer."""

    status: int
    headers: HTTPMessage
    body: bytes


@pytest.fixture
def server() -> Iterator[Server]:
    """Yield a running server whose queue holds the task `kept`."""
    emulator = Emulator(CONFIG)
    emulator.queue("q").add(name="kept")
    with Server(emulator) as server:
        yield server


@pytest.fixture
def queue(server: Server) -> Queue:
    """Return the server's queue."""
    return server.emulator.queue("q")


def send(
    server: Server, verb: str, path: str, body: bytes | None = None, /, **headers: str
) -> Reply:
    """Send a request, with `_` for `-` in the names of headers."""
    connection = HTTPConnection(server.host, server.port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body and "Content-Type" not in named:
        named["Content-Type"] = "application/json"
    connection.request(verb, path, body, named)
    response = connection.getresponse()
    reply = Reply(response.status, response.headers, response.read())
    connection.close()
    return reply


def send_raw(server: Server, request: bytes) -> bytes:
    """Send bytes as they are, and return what comes back until the server closes."""
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


# -- web pages -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ROUTES)
def test_a_name_that_was_made_to_point_here_is_refused(server: Server, path: str) -> None:
    """DNS rebinding: a page of evil.example, whose name now means 127.0.0.1, reads nothing."""
    reply = send(server, "GET", path, Host=f"evil.example:{server.port}")

    assert reply.status == 403
    assert b"evil.example" in reply.body


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "page", [{"Origin": EVIL}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}]
)
def test_a_page_of_another_site_changes_nothing(
    server: Server, queue: Queue, change: tuple[str, str, bytes], page: dict[str, str]
) -> None:
    """CSRF: what a browser sends for another site's page is refused on every route."""
    before = queue.list_tasks()

    reply = send(server, *change, **page)

    assert reply.status == 403
    assert queue.list_tasks() == before


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x"])
def test_a_form_of_the_same_site_needs_the_token(server: Server, queue: Queue, kind: str) -> None:
    """What knows the origin but not the token of the console's pages cannot use it."""
    origin = f"http://127.0.0.1:{server.port}"

    reply = send(server, "POST", "/console/server/reset", b"x=y", Origin=origin, Content_Type=kind)

    assert reply.status == 403
    assert [task.name for task in queue.list_tasks()] == ["kept"]


@pytest.mark.parametrize("path", ROUTES)
def test_no_answer_may_be_read_by_another_site(server: Server, path: str) -> None:
    """No answer carries the headers by which a browser would let another page read it."""
    for verb in ("GET", "OPTIONS"):
        headers = send(server, verb, path, Origin=EVIL, Access_Control_Request_Method="PUT").headers

        assert not [name for name in headers if name.lower().startswith("access-control-allow")]


@pytest.mark.parametrize("path", [*ROUTES, "/missing"])
def test_no_answer_is_taken_for_another_type(server: Server, path: str) -> None:
    """A browser goes by the content type alone, whatever a task or an error contains."""
    assert send(server, "GET", path).headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/_emulator/reset", "/console/server/reset", f"{TASKS}/lease"])
def test_a_link_changes_nothing(server: Server, queue: Queue, path: str) -> None:
    """An image or a link makes a GET, which changes nothing, whatever header is beside it."""
    before = queue.list_tasks()

    send(server, "GET", f"{path}?numTasks=1&leaseSecs=60", X_HTTP_Method_Override="POST")

    assert queue.list_tasks() == before


def test_the_console_cannot_be_framed(server: Server) -> None:
    """No page may put the console into a frame and lead clicks to it."""
    headers = send(server, "GET", "/console/").headers

    assert headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


# -- tasks ---------------------------------------------------------------------------------------

MARKUP = "{{ 7 * 191 }}{% raw %}<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@pytest.mark.parametrize("page", ["queues/q", "queues/q/tasks/t", "queues/q/tasks/t?view=hex"])
def test_a_task_is_text_in_the_console(server: Server, queue: Queue, page: str) -> None:
    """Template and HTML injection: a payload and a tag are shown as they are, never run."""
    queue.add(MARKUP, name="t", tag=MARKUP)

    body = send(server, "GET", f"/console/{page}").body.decode()

    assert "1337" not in body
    assert "<script>alert" not in body
    assert "<img" not in body


def test_what_was_searched_for_is_text_in_the_console(server: Server) -> None:
    """Reflected injection: the words of a query come back as text."""
    body = send(
        server, "GET", "/console/queues/q?search=%3Cscript%3Ealert(1)&tag=%22%3E%3Ci%3E"
    ).body

    assert b"<script>alert" not in body
    assert b'"><i>' not in body


def test_a_payload_is_never_a_page(server: Server, queue: Queue) -> None:
    """A payload is handed out as a file of bytes, which no browser takes for HTML."""
    queue.add("<script>alert(1)</script>", name="page")

    headers = send(server, "GET", "/console/queues/q/tasks/page/payload").headers

    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
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
def test_no_header_can_be_slipped_in(server: Server, path: str) -> None:
    """Header injection: a line break in an address never ends a header of the answer."""
    assert "Set-Cookie" not in send(server, "GET", path).headers


def test_a_tag_with_line_breaks_adds_no_header(server: Server, queue: Queue) -> None:
    """A tag may hold any text, and stays where it belongs."""
    queue.add(name="t", tag="a\r\nSet-Cookie: a=b")

    for path in (f"{TASKS}/t", "/console/queues/q/tasks/t"):
        reply = send(server, "GET", path)
        assert reply.status == 200
        assert "Set-Cookie" not in reply.headers


# -- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "mebibytes", "refusal"),
    [
        (TASKS, 16, b"HTTP/1.1 413"),
        ("/rpc_http", 33, b"the maximum size of a call is"),  # in the words of its own protocol
    ],
)
def test_each_route_has_its_limit(
    server: Server, path: str, mebibytes: int, refusal: bytes
) -> None:
    """A body that is larger than the route accepts is refused."""
    size = (mebibytes << 20) + 1
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n"

    answer = send_raw(
        server, f"{head}Content-Type: application/json\r\n\r\n".encode() + b"x" * size
    )

    assert refusal in answer


def test_the_server_has_a_limit(server: Server) -> None:
    """A body over 512 MiB is refused by its announced size, before it is sent."""
    head = "PUT /_emulator/snapshot HTTP/1.1\r\nHost: localhost\r\n"

    answer = send_raw(server, f"{head}Content-Length: {(512 << 20) + 1}\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 413")


def test_a_body_that_never_ends(server: Server) -> None:
    """The same where it comes in chunks, of which nobody said how many."""
    chunk = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
    head = f"POST {TASKS} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

    answer = send_raw(server, head.encode() + chunk * 17 + b"0\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 413")


def test_headers_that_never_end(server: Server) -> None:
    """Headers beyond 256 KiB are refused."""
    reply = send(server, "GET", f"{QUEUES}/q", X_Filler="x" * (300 << 10))

    assert reply.status == 431


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """Return 50 MB of nothing, zipped."""
    return gzip.compress(bytes(50 << 20), compresslevel=9)


@pytest.mark.parametrize("path", [TASKS, f"{TASKS}/lease?numTasks=1&leaseSecs=60", "/rpc_http"])
def test_a_body_that_grows_when_it_is_unpacked(
    server: Server, queue: Queue, bomb: bytes, path: str
) -> None:
    """Decompression bombs: no body is unpacked further than it may be long."""
    # What answers the path is imported by the first request.
    send(server, "POST", path, b"{}")
    before = peak_memory()

    send(server, "POST", path, bomb, Content_Encoding="gzip")

    assert peak_memory() - before < 40 << 20
    assert len(queue.list_tasks()) == 1


def peak_memory() -> int:
    """Return the most memory this process ever had, in bytes."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.mark.parametrize(
    "path",
    [
        "/console/static/../../../../../../../../etc/passwd",
        "/console/static/..%2f..%2f..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/console/static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/console/static//etc/passwd",
        "/console/static/....//....//....//etc/passwd",
        "/console/static/..%5c..%5cblueprint.py",
        "/console/static/../blueprint.py",
        "/console/static/%00/etc/passwd",
    ],
)
def test_no_path_leads_out(server: Server, path: str) -> None:
    """Path tricks: nothing but the console's own files is served."""
    reply = send(server, "GET", path)

    assert reply.status in {400, 404}
    assert b"root:" not in reply.body


# -- files ---------------------------------------------------------------------------------------

RUNS = 'queue:\n- name: !!python/object/apply:os.system ["touch was-here"]\n  mode: pull\n'


def test_serving_a_hostile_file_says_so_and_ends(tmp_path: Path) -> None:
    """`pullqueue serve` runs nothing that a file asks for, and does not start."""
    (tmp_path / "queue.yaml").write_text(RUNS, "utf-8")

    done = completed(
        [sys.executable, "-m", "pullqueue", "serve", "--port", "0", "queue.yaml"], cwd=tmp_path
    )

    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "was-here").exists()
