"""How commands reach a server, ours or another: its address, and requests to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click

from pullqueue.address import DEFAULT_PORT
from pullqueue.text import describe_os_error

Json = dict[str, Any]


class NoResponseError(Exception):
    """no server responded"""


class BrokenResponseError(Exception):
    """a response ended too early"""


class Response(NamedTuple):
    """What a server responded."""

    status: int
    phrase: str
    body: bytes


class Connection:
    """Sends requests to one server, over one connection and without a proxy."""

    def __init__(self, url: str, *, timeout: float, headers: Mapping[str, str]) -> None:
        """Take the server's URL, how many seconds it may be silent, and headers for each request.

        If the URL has a path, it goes before those of the requests.
        """
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._http = kind(parts.hostname or "", parts.port, timeout=timeout)
        self._path = parts.path
        self._headers = dict(headers)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._http.close()

    def send(self, verb: str, path: str, body: bytes | None = None) -> Response:
        """Send a request, whose body is JSON, and return the response.

        Raises:
            NoResponseError: there is none.
            BrokenResponseError: it breaks off.
        """
        headers = self._headers | ({} if body is None else {"Content-Type": "application/json"})
        try:
            self._http.request(verb, f"{self._path}{path}", body, headers)
            response = self._http.getresponse()
        except (HTTPException, OSError, ValueError) as error:
            self.close()
            raise NoResponseError(describe_os_error(error)) from None
        try:
            return Response(response.status, response.reason, response.read())
        except (HTTPException, OSError) as error:
            missing = getattr(error, "expected", None)
            problem = f"{missing} bytes are missing" if missing else describe_os_error(error)
            raise BrokenResponseError(problem) from None


def server_url(_ctx: click.Context, _parameter: click.Parameter, address: str) -> str:
    """Return the URL of an address: HOST:PORT, or a URL, perhaps with a path or without a port."""
    is_url = "://" in address
    url = address if is_url else f"http://{address}"
    try:
        parts = urlsplit(url)
        valid = parts.hostname and parts.port != 0 and (parts.port or is_url)
    except ValueError:
        valid = False
    if not valid or parts.scheme not in ("http", "https") or re.search(r"\s", url):
        raise click.BadParameter(
            f'"{address}" is not a valid address: use HOST:PORT, such as localhost:{DEFAULT_PORT}'
        )
    return url.rstrip("/")
