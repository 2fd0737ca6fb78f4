"""pullqueue.server.lifecycle, over real sockets."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from time import perf_counter

import pytest
from plain_http import QUEUE, ask

from pullqueue import Emulator, ServerAddressError
from pullqueue.server.lifecycle import Server
from pullqueue.server.workers import FREE

# Out of reach of the libraries that replace the clocks in every module they find.
REAL = {"now": perf_counter}


def seconds_to_stop(emulator: Emulator, sent: bytes) -> float:
    """Stop a server that has a kept connection and one that has sent something."""
    server = Server(emulator).start()
    with closing(HTTPConnection(server.host, server.port, timeout=5)) as kept:
        ask(kept)
        with socket.create_connection((server.host, server.port), timeout=5) as silent:
            silent.sendall(sent)
            ask(kept)
            begin = REAL["now"]()
            server.stop()
            return REAL["now"]() - begin


class TestLife:
    def test_it_listens_when_start_returns(self, emulator: Emulator) -> None:
        """The first connection after start() is accepted, on a port that was free."""
        server = Server(emulator).start()
        try:
            with closing(HTTPConnection(server.host, server.port, timeout=5)) as connection:
                assert ask(connection).status == 200
        finally:
            server.stop()

        assert server.url == f"http://127.0.0.1:{server.port}"

    def test_it_can_be_started_and_stopped_again(self, emulator: Emulator) -> None:
        """A second start or stop changes nothing, and a stopped server can start anew."""
        server = Server(emulator)
        with server:
            port = server.start().port
            assert port == server.port
        server.stop()

        with server, closing(HTTPConnection(server.host, server.port, timeout=5)) as connection:
            assert ask(connection).status == 200

    def test_nothing_listens_after_a_stop(self, emulator: Emulator) -> None:
        """After stop() the port refuses connections."""
        with Server(emulator) as server:
            address = (server.host, server.port)

        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)

    def test_its_port_is_free_for_the_next(self, emulator: Emulator) -> None:
        """Also while a client still holds its connection to the one that was stopped."""
        server = Server(emulator).start()
        port = server.port
        with closing(HTTPConnection(server.host, port, timeout=5)) as held:
            assert ask(held).status == 200
            server.stop()
            with (
                Server(emulator, port=port) as other,
                closing(HTTPConnection(other.host, port, timeout=5)) as connection,
            ):
                assert ask(connection).status == 200

    @pytest.mark.parametrize("sent", [b"", b"GET", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"])
    def test_a_stop_waits_for_no_client(self, emulator: Emulator, sent: bytes) -> None:
        """A server stops within 50 ms though clients hold kept and half-used connections."""
        # The best of a few: how busy the machine is, is not what is asked.
        assert min(seconds_to_stop(emulator, sent) for _ in range(3)) < 0.05

    def test_its_threads_end_with_it(self, emulator: Emulator) -> None:
        """A stopped server leaves no thread behind, and a running one only daemons."""
        before = set(threading.enumerate())
        with Server(emulator):
            during = set(threading.enumerate()) - before

        assert during
        assert all(thread.daemon for thread in during)
        assert set(threading.enumerate()) <= before


class TestAddress:
    def test_loopback_unless_told_otherwise(self, server: Server) -> None:
        """Other machines cannot reach it."""
        assert server._http is not None
        assert server._http.bind_addr[0] == "127.0.0.1"

    def test_a_taken_port(self, server: Server, emulator: Emulator) -> None:
        """A port that another server listens on gives one clear error."""
        other = Server(emulator, port=server.port)

        with pytest.raises(ServerAddressError) as excinfo:
            other.start()

        assert str(excinfo.value) == (
            f"port {server.port} of 127.0.0.1 is taken: stop what listens there, "
            "or choose another port"
        )

    @pytest.mark.parametrize("host", ["192.0.2.1", "no such host", "x" * 70])
    def test_an_address_of_another_machine(self, emulator: Emulator, host: str) -> None:
        """An address that is not of this machine gives one clear error."""
        with pytest.raises(ServerAddressError, match=f"cannot listen on {host}:0: "):
            Server(emulator, host=host).start()

    def test_every_interface(self, emulator: Emulator) -> None:
        """A server on every interface names an address a client can use."""
        with Server(emulator, host="0.0.0.0") as server:
            assert server.url == f"http://127.0.0.1:{server.port}"

    def test_ipv6(self, emulator: Emulator) -> None:
        """An IPv6 address stands in brackets."""
        assert Server(emulator, host="::1", port=80).url == "http://[::1]:80"
        assert Server(emulator, host="::").url == "http://[::1]:0"


class TestConnections:
    def test_many_at_once(self, server: Server) -> None:
        """200 kept connections are served in turn, and none is closed."""
        connections = [HTTPConnection(server.host, server.port, timeout=5) for _ in range(200)]
        for _ in range(2):
            for connection in connections:
                connection.request("GET", QUEUE)
            for connection in connections:
                response = connection.getresponse()
                response.read()
                assert response.status == 200
                assert not response.will_close
        for connection in connections:
            connection.close()

    def test_silent_ones_hold_up_nobody(self, server: Server, connection: HTTPConnection) -> None:
        """Connections opened ahead of their first request do not keep others waiting."""
        silent = [
            socket.create_connection((server.host, server.port), timeout=5) for _ in range(50)
        ]

        assert ask(connection).status == 200
        for each in silent:
            each.close()

    def test_more_busy_clients_than_workers(self, server: Server) -> None:
        """Clients that ask one thing after the other leave nobody without a worker."""
        answers: list[int] = []

        def ask_often() -> None:
            with closing(HTTPConnection(server.host, server.port, timeout=5)) as own:
                answers.extend(ask(own).status for _ in range(20))

        threads = [threading.Thread(target=ask_often) for _ in range(3 * FREE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert answers == [200] * (20 * 3 * FREE)

    def test_requests_sent_together(self, server: Server) -> None:
        """A client that does not wait for one answer before it asks again gets all, in order."""
        paths = [f"{QUEUE}{end}" for end in ("", "/tasks", "x")]
        sent = "".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in paths)
        with socket.create_connection((server.host, server.port), timeout=5) as plain:
            plain.sendall(sent.encode())
            plain.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: plain.recv(65536), b"")).decode()

        assert re.findall(r"HTTP/1.1 (\d+)", answer) == ["200", "200", "404"]

    def test_a_stop_in_the_midst_of_requests(self, emulator: Emulator) -> None:
        """A client that never pauses does not keep a server from stopping."""
        server = Server(emulator).start()
        asked = threading.Event()

        def ask_on() -> None:
            own = HTTPConnection(server.host, server.port, timeout=5)
            with closing(own), suppress(OSError, HTTPException):
                while True:
                    ask(own)
                    asked.set()

        client = threading.Thread(target=ask_on)
        client.start()
        assert asked.wait(5)
        server.stop()
        client.join(5)

        assert not client.is_alive()

    def test_no_waiting_for_acknowledgements(self, connection: HTTPConnection) -> None:
        """An answer is not held back until the client acknowledges the packet before it."""
        begin = REAL["now"]()
        for _ in range(50):
            ask(connection, "POST", f"{QUEUE}/tasks/lease?numTasks=1&leaseSecs=1")

        assert REAL["now"]() - begin < 50 * 0.04
