"""One request: its head read, handed to the application, and answered."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from cheroot import wsgi
from cheroot.server import ChunkedRFile, HTTPRequest

from pullqueue.api.answers import JSON_TYPE, pretty, status_line
from pullqueue.api.errors import ApiError, envelope
from pullqueue.clock import USEC_PER_SECOND, SystemClock
from pullqueue.limits import MIB
from pullqueue.server.http_heads import environ_of, has_clear_length, usual_head

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_log = logging.getLogger("pullqueue.rest")
_clock = SystemClock()

_UNREAD_BYTES = MIB
"""How much of a body that no view has read is read, so that the connection can be kept."""
_MOST_TRAILERS = 100
_UNCLEAR_END = (
    "where the body ends is not clear: give one Content-Length in digits, or, with HTTP/1.1, "
    "Transfer-Encoding alone"
)
_CLEARER = {
    "Absolute URI not allowed if server is not a proxy.": "the request names a server, or its path "
    "begins with two slashes: give a path with one slash at its start"
}
"""What is said instead of cheroot's own words."""


class _Headers(dict[bytes, bytes]):
    def __setitem__(self, name: bytes, value: bytes) -> None:
        if name == b"Content-Length" and self.get(name, value) != value:
            raise ValueError(_UNCLEAR_END)
        super().__setitem__(name, value)


class Request(HTTPRequest):
    """A request whose refusals by the server itself come in the envelope, too."""

    status: bytes  # type: ignore[assignment]  # the stubs say: str
    header_environ: Mapping[str, str]
    """The headers, as the WSGI environment has them."""

    def parse_request(self) -> None:
        """Read a usual head at one go, and leave others to cheroot."""
        head = usual_head(self.conn.rfile.peek())
        if head is None:
            super().parse_request()
            self.header_environ = environ_of(self.inheaders)
            return
        self.conn.rfile.read(head.size)
        self.started_request = True
        self.method, self.uri, self.path, self.qs = head.method, head.uri, head.path, head.query
        self.authority = b""
        self.request_protocol, self.response_protocol = b"HTTP/1.1", "HTTP/1.1"
        self.inheaders, self.header_environ = head.headers
        self.close_connection = self.inheaders.get(b"Connection") == b"close"
        self.ready = True

    def read_request_headers(self) -> bool:
        """Refuse what leaves open where the body ends: a proxy might see another end."""
        self.inheaders = _Headers()
        if not super().read_request_headers():  # type: ignore[no-untyped-call]
            return False
        encoded = b"Transfer-Encoding" in self.inheaders
        twice = encoded and b"Content-Length" in self.inheaders
        too_new = encoded and self.response_protocol == "HTTP/1.0"
        if has_clear_length(self.inheaders) and not twice and not too_new:
            return True
        self.simple_response("400 Bad Request", _UNCLEAR_END)
        return False

    def send_headers(self) -> None:
        """Close the connection where the application says so, or too much of a body is unread."""
        headers = dict(self.outheaders)
        if headers.get(b"Connection") == b"close" or self._leaves_much_unread():
            self.close_connection = True
        if b"Date" not in headers:
            self.outheaders.append((b"Date", _date(_clock.now_usec() // USEC_PER_SECOND)))
        self.conn.wfile.hold_next()
        if self._has_usual_answer(headers):
            self._send_usual_head()
            return
        super().send_headers()
        if self.chunked_write:
            self.conn.wfile.flush()

    def _has_usual_answer(self, headers: Mapping[bytes, bytes]) -> bool:
        """Tell whether there is nothing to be said of how the answer ends, or of the connection."""
        ends = self.status == b"204 No Content" or (
            self.status == b"200 OK" and b"Content-Length" in headers
        )
        stays = not self.close_connection and self.server.can_add_keepalive_connection
        return ends and stays and self.response_protocol == "HTTP/1.1"

    def _send_usual_head(self) -> None:
        """Write what cheroot would, which looks at each header in turn for what may be there."""
        if not self.chunked_read and self.rfile.remaining:
            self.rfile.read(self.rfile.remaining)
        lines = [b"HTTP/1.1 %b" % self.status]
        lines += [b"%b: %b" % header for header in self.outheaders]
        lines += (b"Server: %b" % self.server.server_name.encode(), b"", b"")
        self.conn.wfile.write(b"\r\n".join(lines))

    def _leaves_much_unread(self) -> bool:
        """Tell whether what is left of the body must be neither read nor taken for a request."""
        if isinstance(self.rfile, ChunkedRFile):
            return not self.rfile.closed
        unread: int = self.rfile.remaining
        return unread > _UNREAD_BYTES

    def respond(self) -> None:
        """Answer, with or without a body."""
        super().respond()
        self.conn.wfile.flush()
        if self.chunked_read and not self.close_connection:
            self._pass_trailers()

    def _pass_trailers(self) -> None:
        """Read what stands behind the last chunk; it would be taken for the next request."""
        try:
            trailers = sum(1 for _ in islice(self.rfile.read_trailer_lines(), _MOST_TRAILERS))
        except (ValueError, OSError):
            self.close_connection = True
        else:
            self.close_connection = trailers == _MOST_TRAILERS

    def simple_response(self, status: object, msg: str = "") -> None:
        """Refuse the request, and close the connection."""
        code, _, name = str(status).partition(" ")
        refusal = ApiError(_CLEARER.get(msg, msg) or name, status=int(code), reason="badRequest")
        body = pretty(envelope(refusal)).encode()
        self.close_connection = True
        head = (
            f"{self.server.protocol} {status}\r\nContent-Length: {len(body)}\r\n"
            f"Content-Type: {JSON_TYPE}\r\nConnection: close\r\n\r\n"
        )
        try:
            self.conn.wfile.write(head.encode("latin-1") + body)
        except OSError:
            _log.debug("a refused client was gone before it could be told")


class Gateway(wsgi.Gateway_10):
    """Stands between a request and the application, with less work for each header than cheroot's.

    What the application writes leaves at once.
    """

    def start_response(
        self, status: str, headers: list[tuple[str, str]], _error: object = None
    ) -> Callable[[bytes], None]:
        """Take status and headers as they are: Flask makes none that would have to be refused."""
        self.started_response = True
        self.req.status = status_line(status).encode("latin-1")
        self.req.outheaders += [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers
        ]
        return self.write

    def get_environ(self) -> WSGIEnvironment:  # type: ignore[override]  # the stubs say: nothing
        """Give the environment of a request."""
        request = self.req
        return {
            **request.conn.environ,
            **request.header_environ,
            "PATH_INFO": request.path.decode("latin-1"),
            "QUERY_STRING": request.qs.decode("latin-1"),
            "REQUEST_METHOD": request.method.decode("latin-1"),
            "REQUEST_URI": request.uri.decode("latin-1"),
            "SERVER_PROTOCOL": request.request_protocol.decode("latin-1"),
            "wsgi.errors": sys.stderr,
            "wsgi.input": request.rfile,
            "wsgi.input_terminated": request.chunked_read,
        }


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    """Give the header that all answers of a second have in common."""
    return formatdate(second, usegmt=True).encode()
