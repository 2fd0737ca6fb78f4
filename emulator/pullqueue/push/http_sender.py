"""Sending the requests of push tasks over HTTP."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from time import perf_counter
from types import MappingProxyType

import h11

from pullqueue.address import SplitUrl
from pullqueue.limits import KIB, MIB
from pullqueue.push.request import BODY_KEPT, PushRequest, PushResponse
from pullqueue.text import describe_os_error, shorten

_BODY_READ = 32 * MIB
"""Bytes of a response's body that are read: the largest response that App Engine permits."""
_HEAD_BYTES = 64 * KIB
"""Maximum size of a response's status line and headers, and of each of its chunk headers."""
_RECEIVED_AT_ONCE = 64 * KIB
_IDLE_SECONDS = 1.0
"""How long an idle connection is kept: less than any server of note keeps it, or a request could be
on its way while the server closes the connection.
"""
_IDLE_CONNECTIONS = 64
_NOTHING_LISTENS = "connection refused"
_LOST = "connection lost"
"""Why there was no response; the address is before it."""
_REFUSED = 1_000
"""Addresses of which it is known that they refuse connections."""


class HttpSender:
    """Sends push tasks over HTTP; thread-safe.

    An idle connection is kept for a second, as long as the app keeps it, and no more than 64 are.
    Redirects are not followed.
    """

    def __init__(self) -> None:
        self.own_ports: frozenset[int] = frozenset()
        """Ports of this machine to which nothing is sent: those of the server itself."""
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        """The one that was used last at the end."""
        self._busy: set[_Connection] = set()
        self.refused: dict[str, str] = {}
        """By origin, why there was no connection; whoever uses it clears it before."""
        self._closed = False

    def send(
        self,
        request: PushRequest,
        address: SplitUrl,
        *,
        proof: Mapping[str, str] = MappingProxyType({}),
        is_valid: Callable[[], bool] | None = None,
    ) -> PushResponse:
        """Send a request to a server, below the path of its address.

        A service of App Engine gets the header `proof`, too.

        The request's deadline is for everything, from the connection to the last byte of the
        response. A response with a status whose body is cut is complete. Whatever else goes wrong
        is a response without a status, whose reason names the address. `is_valid` is asked
        immediately before the first byte; where it returns False, nothing is sent.
        """
        deadline = perf_counter() + request.deadline_seconds
        connection = self._idle_connection(address.origin)
        try:
            if connection is None:
                connection = _connect(address, deadline, self.own_ports)
            self._begin(connection)
            if "://" not in str(request.target):
                request = request._replace(headers={**request.headers, **proof})
            return connection.exchange(request, address, deadline, is_valid)
        except TimeoutError:
            reason = request.late
        except ConnectionRefusedError:
            reason = _NOTHING_LISTENS
        except h11.RemoteProtocolError as error:
            reason = f"the response is not valid HTTP: {_shown(error)}"
        except Exception as error:  # noqa: BLE001 - the attempt has failed, whatever it is
            what = "cannot connect" if connection is None else _LOST
            reason = f"{what}: {_shown(error)}"
        finally:
            if connection is not None:
                self._end(connection)
        is_refused = connection is None and reason != request.late
        reason = f"{address.netloc}: {reason}"
        if is_refused:
            if len(self.refused) == _REFUSED:  # a client can make up any number of origins
                self.refused.clear()
            self.refused[address.origin] = reason
        return PushResponse(None, reason="the server stopped" if self._closed else reason)

    def close_idle(self) -> None:
        """Close the idle connections that the app has closed, or that were idle for a second."""
        since = perf_counter() - _IDLE_SECONDS
        with self._lock:
            closed = [each for each in self._idle if each.idle_since < since or not each.is_alive()]
            self._idle = [each for each in self._idle if each not in closed]
        for connection in closed:
            connection.close()

    def close(self) -> None:
        """End all requests under way, without a response, and close all connections."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for connection in self._busy:
                connection.shut_down()
        for connection in idle:
            connection.close()

    def _idle_connection(self, origin: str) -> _Connection | None:
        with self._lock:
            for connection in [each for each in self._idle if each.origin == origin]:
                self._idle.remove(connection)
                if connection.is_alive():
                    return connection
                connection.close()
        return None

    def _begin(self, connection: _Connection) -> None:
        with self._lock:
            self._busy.add(connection)
            if self._closed:  # while it was opened
                connection.shut_down()

    def _end(self, connection: _Connection) -> None:
        surplus = connection
        with self._lock:
            self._busy.discard(connection)
            if connection.is_reusable() and not self._closed:
                self._idle.append(connection)
                if len(self._idle) <= _IDLE_CONNECTIONS:
                    return
                surplus = self._idle.pop(0)
        surplus.close()


class _Connection:
    """An open connection to a server, for one request after the other."""

    def __init__(self, origin: str, opened: socket.socket) -> None:
        self.origin = origin
        self.idle_since: float
        """When its last request has ended, by `perf_counter`."""
        self._socket = opened
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)

    def exchange(
        self,
        request: PushRequest,
        address: SplitUrl,
        deadline: float,
        is_valid: Callable[[], bool] | None,
    ) -> PushResponse:
        """Send a request and return the response.

        Raises:
            OSError: there is no response until the deadline, or the connection was lost.
            RemoteProtocolError: the response is not valid.
        """
        headers = {"Host": address.netloc} | request.headers
        head = h11.Request(
            method=request.method,
            target=address.path + request.path,
            headers=[(name.encode(), value.strip().encode()) for name, value in headers.items()],
        )
        parts = [head, h11.Data(request.body), h11.EndOfMessage()]
        data = b"".join(self._http.send(part) or b"" for part in parts)
        self._socket.settimeout(_left(deadline))
        # A server may respond, and close the connection, before it has read the body.
        with suppress(BrokenPipeError, ConnectionResetError):
            if is_valid is not None and not is_valid():  # nothing is between this and the sending
                return PushResponse(None, reason="it is no longer valid")
            self._socket.sendall(data)
        events = self._events(deadline)
        response = next(event for event in events if isinstance(event, h11.Response))
        body, read = b"", 0
        try:
            for event in events:
                if isinstance(event, h11.Data):
                    body += event.data[: BODY_KEPT - len(body)]
                    read += len(event.data)
                    if read > _BODY_READ:
                        break
        except TimeoutError:
            raise
        except (OSError, h11.RemoteProtocolError):  # the body is cut, which changes nothing
            pass
        received = {name: value.decode("latin-1") for name, value in response.headers}
        return PushResponse(
            response.status_code,
            body,
            retry_after=received.get(b"retry-after", ""),
            location=received.get(b"location", ""),
        )

    def _events(self, deadline: float) -> Iterator[h11.Event]:
        """Yield the response in parts, and those of status 1xx before it; return at its end."""
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Event):
                yield event
            elif event is h11.PAUSED:
                return
            else:
                self._socket.settimeout(_left(deadline))
                data = self._socket.recv(_RECEIVED_AT_ONCE)
                if not data and self._http.their_state is h11.SEND_RESPONSE:
                    raise ConnectionError("the app closed it without a response")
                self._http.receive_data(data)
            if isinstance(event, h11.EndOfMessage):
                return

    def is_reusable(self) -> bool:
        """Return whether the last exchange is complete, and another one can follow."""
        http = self._http
        is_complete = http.our_state is h11.DONE and http.their_state is h11.DONE
        if not is_complete or http.trailing_data[0]:
            return False
        http.start_next_cycle()
        self.idle_since = perf_counter()
        return True

    def is_alive(self) -> bool:
        """Return whether an idle connection is open at both ends, and nothing has arrived.

        It is of no more use where something has.
        """
        self._socket.setblocking(False)  # noqa: FBT003 - the name says it
        try:
            # Not the method of a TLS socket, which has another error where nothing has arrived.
            socket.socket.recv(self._socket, 1)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def shut_down(self) -> None:
        """End the request under way, from another thread."""
        with suppress(OSError):
            # Not the method of a TLS socket, which another thread may be reading.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def refused_at(reason: str) -> str:
    """Return the address at which nothing listens, from a reason; empty: that is not the reason."""
    address = reason.removesuffix(f": {_NOTHING_LISTENS}")
    return "" if address == reason else address


def is_disconnected(reason: str) -> bool:
    """Return whether there was no response because the connection was refused or lost."""
    return any(f": {why}" in f": {reason}" for why in (_NOTHING_LISTENS, _LOST))


def _connect(address: SplitUrl, deadline: float, own_ports: frozenset[int]) -> _Connection:
    """Open a connection, except to one of `own_ports` of this machine."""
    opened = socket.create_connection((address.host, address.port), _left(deadline))
    try:
        here, there = opened.getsockname(), opened.getpeername()
        if here[0] == there[0] and there[1] in own_ports:
            raise ConnectionError("tasks are not sent to the server itself")
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.scheme == "https":
            opened.settimeout(_left(deadline))
            opened = _tls().wrap_socket(opened, server_hostname=address.host)
    except BaseException:
        opened.close()
        raise
    return _Connection(address.origin, opened)


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _left(deadline: float) -> float:
    """Return the seconds until a deadline, by `perf_counter`.

    Raises:
        TimeoutError: it has passed.
    """
    left = deadline - perf_counter()
    if left <= 0:
        raise TimeoutError
    return min(left, threading.TIMEOUT_MAX)


def _shown(error: Exception) -> str:
    """Return an error as part of a line; it can have what the app has sent."""
    text = describe_os_error(error) if isinstance(error, OSError) else str(error)
    return shorten(text.strip() or type(error).__name__, limit=100)
