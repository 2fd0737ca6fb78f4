"""Sending push tasks over HTTP."""

from __future__ import annotations

import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from resource import RLIMIT_NOFILE
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from push_app import push_app, until
from rlimits import limited
from tables import each_row

from pullqueue.address import SplitUrl, split_url
from pullqueue.push import http_sender
from pullqueue.push.http_sender import HttpSender, refused_at
from pullqueue.push.request import PushRequest, PushResponse

PUSH = PushRequest(
    method="POST",
    url="/mail?x=1",
    headers={"Content-Type": "text/plain", "X-Mine": "ä", "Content-Length": "6"},
    body=b"to=ada",
    target=None,
    queue_name="web",
    task_name="t1",
    attempt=1,
    deadline_seconds=60,
)


def send(sender: HttpSender, request: PushRequest, address: str) -> PushResponse:
    split = split_url(address)
    assert split is not None
    return sender.send(request, split._replace(path=split.path.rstrip("/")))


@contextmanager
def raw_server(*scripts: Callable[[socket.socket], object]) -> Iterator[str]:
    """Run one script for each connection, one after the other, and yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for script in scripts:
                with server.accept()[0] as connection, suppress(OSError):
                    script(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join(60)


@pytest.fixture
def sender() -> Iterator[HttpSender]:
    sender = HttpSender()
    yield sender
    sender.close()


def answer(text: bytes) -> Callable[[socket.socket], None]:
    """Return a script that reads a request, sends some bytes and closes the connection."""

    def script(connection: socket.socket) -> None:
        read_request(connection)  # or the connection would be reset
        connection.sendall(text)

    return script


def read_request(connection: socket.socket) -> None:
    received = b""
    while not received.endswith(PUSH.body):
        received += connection.recv(1 << 16)


def silence(connection: socket.socket) -> None:
    """Send nothing until the connection is closed."""
    while connection.recv(1 << 16):
        pass


def drip(beginning: bytes) -> Callable[[socket.socket], None]:
    """Return a script that sends something and then a byte now and then, until it is stopped."""

    def script(connection: socket.socket) -> None:
        connection.sendall(beginning)
        while True:
            time.sleep(0.01)  # noqa: TID251 - a slow server
            connection.sendall(b"x")

    return script


def test_the_request_of_a_task_is_sent(sender: HttpSender) -> None:
    """Method, path below that of the address, headers and body; Host is the address's."""
    with push_app() as app:
        response = send(sender, PUSH, f"{app.url}/base/")

    assert response == PushResponse(200)
    [request] = app.received
    assert (request.method, request.path) == ("POST", "/base/mail?x=1")
    assert request.headers == {
        "Host": app.url.removeprefix("http://"),
        "Content-Length": "6",
        "Content-Type": "text/plain",
        "X-Mine": "ä".encode().decode("latin-1"),
    }
    assert request.body == b"to=ada"


def test_only_services_of_app_engine_get_the_proof(sender: HttpSender) -> None:
    http_task = PUSH._replace(url="http://api.test/a", target="http://api.test")
    with push_app() as app:
        for request in (PUSH, PUSH._replace(target="worker"), http_task):
            sender.send(request, SplitUrl(app.url), proof={"X-Proof": "a"})

    assert [each.headers.get("X-Proof") for each in app.received] == ["a", "a", None]


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "None"), ("localhost", "cannot connect: .*Hostname mismatch.*")],
)
def test_the_certificate_of_a_server_is_verified(
    sender: HttpSender,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    host: str,
    expected: str,
) -> None:
    file, context = tmp_path / "server.pem", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    file.write_bytes(make_certificate("127.0.0.1"))
    context.load_cert_chain(file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    http_sender._tls.cache_clear()

    def respond(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as encrypted:
            answer(b"HTTP/1.1 204 None\r\n\r\n")(encrypted)

    with raw_server(respond) as url:
        address = url.replace("http://127.0.0.1", f"https://{host}")
        response = send(sender, PUSH, address)
    http_sender._tls.cache_clear()

    assert response.status == (204 if expected == "None" else None)
    assert re.fullmatch(f"({address[8:]}: )?{expected}", str(response.reason))


def make_certificate(host: str) -> bytes:
    """Return a key, and a certificate of it for an IP address that it has signed itself, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2100, 1, 1, tzinfo=UTC))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=True
        )
        .sign(key, SHA256())
    )
    plain = PrivateFormat.PKCS8, NoEncryption()
    return key.private_bytes(Encoding.PEM, *plain) + certificate.public_bytes(Encoding.PEM)


def test_an_http_target_keeps_its_host_wherever_it_is_sent(sender: HttpSender) -> None:
    headers = {"Host": "api.example.com"}
    url = "https://api.example.com/ä#x"
    request = PUSH._replace(url=url, method="GET", headers=headers, body=b"")
    with push_app() as app:
        send(sender, request, app.url)

    [received] = app.received
    assert (received.method, received.path) == ("GET", "/%C3%A4")
    assert received.headers["Host"] == "api.example.com"
    assert "Content-Length" not in received.headers


def test_the_next_request_uses_the_same_connection(sender: HttpSender) -> None:
    """Unless the server closes it. A redirect is a response like others."""
    with push_app() as app:
        assert [send(sender, PUSH, app.url).status for _ in range(3)] == [200] * 3
    headers = b"Location: /\r\nRetry-After: 7\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    closing = answer(b"HTTP/1.1 302 Found\r\n" + headers)
    with raw_server(*[closing] * 3) as url:
        for _ in range(3):
            response = send(sender, PUSH, url)
            assert (response.status, response.retry_after, response.location) == (302, "7", "/")

    assert len({request.port for request in app.received}) == 1


def test_a_request_that_is_no_longer_valid_is_not_sent(sender: HttpSender) -> None:
    with push_app() as app:
        address = split_url(app.url)
        assert address is not None
        address = address._replace(path="")
        refused = sender.send(PUSH, address, is_valid=lambda: False)
        sent = sender.send(PUSH, address, is_valid=lambda: True)

    assert (refused.status, refused.reason) == (None, "it is no longer valid")
    assert (sent.status, app.paths()) == (200, ["/mail?x=1"])


@each_row(
    ("error", "shown"), [(ValueError(), "ValueError"), (ValueError("x" * 101), f"{'x' * 97}...")]
)
def test_an_error_of_any_kind_is_the_reason(
    sender: HttpSender, error: Exception, shown: str
) -> None:
    def fail() -> bool:
        raise error

    with push_app() as app:
        failed = sender.send(PUSH, SplitUrl(app.url), is_valid=fail)

    reason = f"{SplitUrl(app.url).netloc}: connection lost: {shown}"
    assert (failed.status, failed.reason, app.received) == (None, reason, [])


def test_a_kept_connection_that_the_server_closed_is_replaced(sender: HttpSender) -> None:
    closed = threading.Event()

    def close(connection: socket.socket) -> None:
        answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")(connection)
        connection.close()
        closed.set()

    with raw_server(close, answer(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")) as url:
        assert send(sender, PUSH, url).status == 200
        closed.wait(60)
        assert send(sender, PUSH, url).status == 201


@each_row(
    ("script", "reason"),
    [
        (answer(b""), "connection lost: the app closed it without a response"),
        (answer(b"not HTTP\r\n\r\n"), "illegal status line: bytearray(b'not HTTP')"),
        (answer(b"x" * 90_000), "is not valid HTTP: Receive buffer too long"),
        (answer(b"HTTP/1.1 200 OK\r\nA: " + b"1" * 90_000), "Receive buffer too long"),
        (answer(b"HTTP/1.1 200 OK\r\nA\r\n\r\n"), "illegal header line: bytearray(b'A')"),
        (answer(b"HTTP/1.1 101 Switching\r\n\r\n"), "without a pending proposal"),
    ],
)
def test_an_invalid_response_is_none_and_the_reason_says_why(
    script: Any, reason: str, sender: HttpSender
) -> None:
    with raw_server(script) as url:
        response = send(sender, PUSH, url)

    assert response.status is None
    assert reason in str(response.reason)


def test_a_response_may_have_long_headers(sender: HttpSender) -> None:
    """Which arrive in parts, since there are more before them."""
    hints = b"HTTP/1.1 103 Hints\r\nA: " + b"1" * 40_000 + b"\r\n\r\n"
    headers = b"A: " + b"1" * 60_000 + b"\r\nContent-Length: 2\r\n\r\n"
    with raw_server(answer(hints + b"HTTP/1.1 200 OK\r\n" + headers + b"ok")) as url:
        assert send(sender, PUSH, url) == PushResponse(200, b"ok")


def test_a_refused_connection_is_an_attempt_without_response(
    sender: HttpSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one that is refused, but not after one that is late, the address is known to refuse."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    with monkeypatch.context() as patch:
        patch.setattr(http_sender, "perf_counter", lambda: 5.0)
        late = send(sender, PUSH._replace(deadline_seconds=0), url)
    assert (str(late.reason).endswith("no response within 0 s"), sender.refused) == (True, {})

    reason = f"{SplitUrl(url).netloc}: connection refused"
    assert send(sender, PUSH, url) == PushResponse(None, reason=reason)
    assert sender.refused == {url: reason}
    assert refused_at(reason) == SplitUrl(url).netloc
    assert refused_at(f"{SplitUrl(url).netloc}: connection lost") == ""


def test_no_more_than_a_thousand_addresses_are_known_to_refuse(sender: HttpSender) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    counts = []
    for number in range(1_001):
        send(sender, PUSH, f"http://127.0.{number // 250}.{number % 250 + 1}:{port}")
        counts.append(len(sender.refused))

    assert counts == [*range(1, 1_001), 1]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(silence, id="silence"),
        pytest.param(drip(b""), id="in the status line"),
        pytest.param(drip(b"HTTP/1.1 200 OK\r\nX-Slow: "), id="in the headers"),
        pytest.param(drip(b"HTTP/1.1 200 OK\r\n\r\n"), id="in the body"),
    ],
)
def test_a_response_that_never_ends_is_none_at_the_deadline(
    script: Any, sender: HttpSender
) -> None:
    """The deadline is for the whole response, whether nothing or now and then a byte comes."""
    with raw_server(script) as url:
        response = send(sender, PUSH._replace(deadline_seconds=0.1), url)

    reason = f"{SplitUrl(url).netloc}: no response within 0.1 s"
    assert response == PushResponse(None, reason=reason)


def test_a_body_that_is_not_read_ends_at_the_deadline(sender: HttpSender) -> None:
    """Over a connection that was kept, too."""
    ended, waits = threading.Event(), []

    def stall(connection: socket.socket) -> None:
        answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")(connection)
        waits.append(ended.wait(10))

    headers = {"Content-Length": str(1 << 24)}
    with raw_server(stall) as url:
        assert send(sender, PUSH, url).status == 200
        large = PUSH._replace(body=b"x" * (1 << 24), headers=headers, deadline_seconds=0.1)
        response = send(sender, large, url)
        ended.set()

    reason = f"{SplitUrl(url).netloc}: no response within 0.1 s"
    assert (response, waits) == (PushResponse(None, reason=reason), [True])


def test_an_encryption_that_never_begins_ends_at_the_deadline(sender: HttpSender) -> None:
    ended, waits = threading.Event(), []

    with raw_server(lambda _: waits.append(ended.wait(10))) as url:
        address = url.replace("http:", "https:")
        response = send(sender, PUSH._replace(deadline_seconds=0.1), address)
        ended.set()

    reason = f"{SplitUrl(url).netloc}: no response within 0.1 s"
    assert (response, waits) == (PushResponse(None, reason=reason), [True])


def test_a_success_whose_body_is_cut_is_one(sender: HttpSender) -> None:
    with raw_server(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")) as url:
        assert send(sender, PUSH, url) == PushResponse(200, b"abc")
    with raw_server(answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\na")) as u:
        assert send(sender, PUSH, u).status == 200


def test_an_endless_response_is_read_up_to_a_limit(sender: HttpSender) -> None:
    """That of the largest response of App Engine; little of it is kept."""

    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * (1 << 20))

    with raw_server(flood) as url:
        assert send(sender, PUSH, url) == PushResponse(200, b"x" * 4096)


@each_row(("size", "connections"), [(32 << 20, 1), ((32 << 20) + 1, 2)])
def test_the_largest_response_leaves_its_connection_open(
    sender: HttpSender, size: int, connections: int
) -> None:
    """A larger one is not read to its end."""
    with push_app() as app:
        app.bodies["/mail?x=1"] = b"x" * size
        assert [send(sender, PUSH, app.url).status for _ in range(2)] == [200, 200]

    assert len({request.port for request in app.received}) == connections


@each_row("size", [b"-1", b"-2", b"0x10", b"1_0", b"+5", b"f" * 30])
def test_a_chunk_size_that_is_not_hexadecimal_ends_the_body(
    sender: HttpSender, size: bytes
) -> None:
    """Nothing after it is read."""

    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.sendall(size + b"\r\n")
        while True:
            connection.sendall(b"x" * (1 << 16))

    with raw_server(flood) as url:
        assert send(sender, PUSH, url) == PushResponse(200)


def test_informational_responses_are_not_final(sender: HttpSender) -> None:
    """They are skipped, and the late response is not that of the next request."""
    hints = b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\n"

    def script(connection: socket.socket) -> None:
        for status in (b"200 OK", b"500 Error"):
            answer(hints + b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")(connection)

    with raw_server(script) as url:
        assert [send(sender, PUSH, url).status for _ in range(2)] == [200, 500]


def test_what_follows_a_response_is_not_that_of_the_next_request(sender: HttpSender) -> None:
    complete = b"HTTP/1.1 %d OK\r\nContent-Length: 0\r\n\r\n"

    def two(connection: socket.socket) -> None:
        answer(complete % 201 + complete % 202)(connection)
        connection.recv(1)

    with raw_server(two, answer(complete % 200)) as url:
        assert [send(sender, PUSH, url).status for _ in range(2)] == [201, 200]


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_server_may_refuse_a_body_without_reading_it(
    sender: HttpSender, error: type[OSError]
) -> None:
    def refuse(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        if error is BrokenPipeError:
            connection.shutdown(socket.SHUT_WR)
        connection.recv(1)

    with raw_server(refuse) as url:
        large = PUSH._replace(body=b"x" * (1 << 24), headers={"Content-Length": str(1 << 24)})
        assert send(sender, large, url).status == 413


def test_a_stop_ends_requests_under_way_without_response() -> None:
    """Later ones do not start."""
    sender = HttpSender()
    arrived = threading.Event()

    def wait(connection: socket.socket) -> None:
        read_request(connection)
        arrived.set()
        connection.recv(1)

    with ExitStack() as stack:
        url = stack.enter_context(raw_server(wait))
        responses: list[PushResponse] = []
        thread = threading.Thread(target=lambda: responses.append(send(sender, PUSH, url)))
        thread.start()
        arrived.wait(60)
        sender.close()
        thread.join(60)

    assert responses == [PushResponse(None, reason="the server stopped")]


def test_a_stop_ends_a_request_whose_connection_is_lost(sender: HttpSender) -> None:
    asked, stopped = threading.Event(), threading.Event()

    def reset(connection: socket.socket) -> None:
        asked.wait(60)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def stop() -> bool:
        [connection] = sender._busy
        asked.set()
        until(lambda: not connection.is_alive())
        sender.close()
        stopped.set()
        return True

    with raw_server(reset) as url:
        response = sender.send(PUSH, SplitUrl(url), is_valid=stop)

    assert response == PushResponse(None, reason="the server stopped")
    assert stopped.is_set()


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.example", ".", "localhost:99999", "[::1"])
def test_an_address_that_cannot_be_called_leaves_no_status(sender: HttpSender, host: str) -> None:
    response = sender.send(PUSH, SplitUrl(f"http://{host}"))

    assert response.status is None
    assert str(response.reason).startswith(f"{host}: cannot connect: ")


def test_no_descriptors_left_leaves_no_status(sender: HttpSender) -> None:
    with push_app() as app:
        with limited(RLIMIT_NOFILE, 1):
            failed = send(sender, PUSH, app.url)
        again = send(sender, PUSH, app.url)

    reason = f"{SplitUrl(app.url).netloc}: cannot connect: too many open files"
    assert failed == PushResponse(None, reason=reason)
    assert again.status == 200


def test_nothing_is_sent_to_own_ports_whatever_the_address_is_called(sender: HttpSender) -> None:
    with push_app() as app:
        port = int(app.url.rpartition(":")[2])
        sender.own_ports = frozenset({port})
        responses = [
            send(sender, PUSH, f"http://{host}:{port}") for host in ("127.0.0.1", "localhost")
        ]
        sender.own_ports = frozenset({port + 1})
        other = send(sender, PUSH, app.url)

    assert {response.reason for response in responses} == {
        f"{host}:{port}: cannot connect: tasks are not sent to the server itself"
        for host in ("127.0.0.1", "localhost")
    }
    assert other.status == 200
    assert len(app.received) == 1


class TestIdleConnections:
    """What becomes of connections that apps keep open."""

    def test_one_that_the_app_closes_is_closed(self, sender: HttpSender) -> None:
        """The next look finds it, and its descriptor is free again."""
        before = descriptors()
        with raw_server(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as url:
            send(sender, PUSH, url)
        sender.close_idle()

        assert not sender._busy
        until(lambda: descriptors() <= before)  # of the server, too

    def test_one_that_is_not_used_is_closed(
        self, sender: HttpSender, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Time is that of the process; until then it stays open."""
        closed = threading.Event()

        def script(connection: socket.socket) -> None:
            answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")(connection)
            connection.recv(1)
            closed.set()

        with raw_server(script) as url:
            send(sender, PUSH, url)
            sender.close_idle()
            assert not closed.wait(0.05)
            monkeypatch.setattr(http_sender, "_IDLE_SECONDS", 0)
            with monkeypatch.context() as patch:
                [idle] = sender._idle
                patch.setattr(http_sender, "perf_counter", lambda: idle.idle_since)
                sender.close_idle()
            assert not closed.wait(0.05)
            sender.close_idle()
            assert closed.wait(60)

    def test_their_number_is_limited(self, sender: HttpSender) -> None:
        """The one that was idle longest is closed first, and each target gets its request."""
        with ExitStack() as stack:
            apps = [stack.enter_context(push_app()) for _ in range(70)]
            before = descriptors()
            assert {send(sender, PUSH, app.url).status for app in apps} == {200}
            until(lambda: descriptors() - before <= 2 * 64)  # the apps have the other ends
            for app in (apps[-64], apps[-1], apps[-65]):
                send(sender, PUSH, app.url)

        for place, connections in ((-65, 2), (-64, 1), (-1, 1)):
            assert len({received.port for received in apps[place].received}) == connections


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
