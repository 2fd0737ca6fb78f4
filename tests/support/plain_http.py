"""A client of the server, as plain as can be."""

from __future__ import annotations

import socket
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse

from pullqueue.server.lifecycle import Server

QUEUE = "/taskqueue/v1beta2/projects/s~app/taskqueues/pull"


def ask(connection: HTTPConnection, verb: str = "GET", path: str = QUEUE) -> HTTPResponse:
    """Make a request and read the answer."""
    connection.request(verb, path)
    response = connection.getresponse()
    response.read()
    return response


def exchange(server: Server, sent: bytes) -> bytes:
    """Send bytes as they are, and return what comes back until the server closes."""
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        received = b""
        with suppress(ConnectionError):  # a server that closes early may reset the connection
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                received += part
        return received
