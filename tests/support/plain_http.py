"""A client of the server, as plain as can be."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from pullqueue.server.lifecycle import Server

QUEUE = "/taskqueue/v1beta2/projects/s~app/taskqueues/pull"


def ask(connection: HTTPConnection, verb: str = "GET", path: str = QUEUE) -> HTTPResponse:
    """Make a request and read the answer."""
    connection.request(verb, path)
    response = connection.getresponse()
    response.read()
    return response


def raw(server: Server, request: bytes) -> tuple[str, dict[str, Any]]:
    """Send bytes and give the status line and the JSON of the answer."""
    with socket.create_connection((server.host, server.port), timeout=5) as plain:
        plain.sendall(request)
        answer = b"".join(iter(lambda: plain.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode(), json.loads(body)
