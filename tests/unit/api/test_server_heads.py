"""pullqueue.server.http_heads: a head read at one go says what cheroot reads line by line."""

from __future__ import annotations

import socket
from io import BytesIO
from types import SimpleNamespace

import pytest
from cheroot.server import HTTPRequest
from plain_http import QUEUE

from pullqueue.server.http_heads import environ_of, usual_head
from pullqueue.server.http_server import HttpServer
from pullqueue.server.lifecycle import Server

USUAL = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /a~b/c:d;e=f@g HTTP/1.1\r\nHost: localhost:8124\r\n\r\n",
    b"GET /? HTTP/1.1\r\n\r\n",
    b"OPTIONS /a HTTP/1.1\r\n\r\n",
    b"POST /a?b=c&d=%20?/e HTTP/1.1\r\ncontent-length: 12\r\nContent-TYPE:text/plain\r\n\r\nGET /",
    b"GET / HTTP/1.1\r\nAccept: a\r\nX-One: 1\r\naccept:b \r\nX-One: \t2\t\r\nX_Two:\r\n\r\n",
    b"GET / HTTP/1.1\r\nAccept:\r\nAccept: a\r\nX-Text: gr\xc3\xbc\xdf: \x00\r\n\r\n",
    b"DELETE /a HTTP/1.1\r\nConnection: close\r\n\r\n",
]
UNUSUAL = [
    b"",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"get / HTTP/1.1\r\n\r\n",
    b"BREW / HTTP/1.1\r\n\r\n",
    b"CONNECT / HTTP/1.1\r\n\r\n",
    b"\r\nGET / HTTP/1.1\r\n\r\n",
    b"GET  / HTTP/1.1\r\n\r\n",
    b"GET /a%2Fb HTTP/1.1\r\n\r\n",
    b"GET /a#b HTTP/1.1\r\n\r\n",
    b"GET /a?b#c HTTP/1.1\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\n\r\n",
    b"GET //elsewhere/a HTTP/1.1\r\n\r\n",
    b"GET http://elsewhere/a HTTP/1.1\r\n\r\n",
    b"GET * HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\n\n",
    b"GET / HTTP/1.1\r\nX: 1\nY: 2\r\n\r\n",
    b"GET / HTTP/1.1\r\nX: 1\r\n 2\r\n\r\n",
    b"GET / HTTP/1.1\r\nX : 1\r\n\r\n",
    b"GET / HTTP/1.1\r\n: 1\r\n\r\n",
    b"GET / HTTP/1.1\r\nno header\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 1_0\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 5\r\nContent-Length: 5\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n",
]


@pytest.mark.parametrize("sent", USUAL)
def test_a_usual_head(sent: bytes) -> None:
    """Every part of it is as cheroot has it, and what comes behind it is left alone."""
    stream = BytesIO(sent)
    server = HttpServer(("127.0.0.1", 0), None)
    expected = HTTPRequest(server, SimpleNamespace(rfile=stream))
    expected.parse_request()

    head = usual_head(sent)

    assert head == (
        stream.tell(),
        expected.method,
        expected.uri,
        expected.path,
        expected.qs,
        (expected.inheaders, environ_of(expected.inheaders)),
    )


@pytest.mark.parametrize("sent", UNUSUAL)
def test_an_unusual_head(sent: bytes) -> None:
    """It is left to cheroot, be it refused there or not."""
    assert usual_head(sent) is None


def test_headers_in_the_environment() -> None:
    """They are called there as PEP 3333 has it."""
    headers = {
        b"Content-Type": b"text/plain",
        b"Content-Length": b"3",
        b"X-Forwarded-For": b"gr\xfc\xdf",
    }

    assert environ_of(headers) == {
        "CONTENT_TYPE": "text/plain",
        "CONTENT_LENGTH": "3",
        "HTTP_X_FORWARDED_FOR": "grüß",
    }


def test_long_headers() -> None:
    """Headers too long to be remembered are read all the same."""
    sent = b"GET / HTTP/1.1\r\nX-Long: %b\r\n\r\n" % (b"a" * 5_000)

    head = usual_head(sent)

    assert head is not None
    assert head.headers.environ == {"HTTP_X_LONG": "a" * 5_000}


@pytest.mark.parametrize("line", [f"GET {QUEUE}", f"GET {QUEUE.replace('~', '%7E')}"])
def test_a_head_in_pieces(server: Server, line: str) -> None:
    """However a head arrives, and whether it is usual or not, the answer is the same."""
    sent = f"{line} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with socket.create_connection((server.host, server.port), timeout=5) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for end in (1, len(sent)):
            for begin in range(0, len(sent), end):
                plain.sendall(sent[begin : begin + end])
            assert plain.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
