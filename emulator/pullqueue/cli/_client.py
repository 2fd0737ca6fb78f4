"""The control routes of a running server, as the commands call them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

import click

from pullqueue.address import ADDRESS_VARIABLE
from pullqueue.cli._options import server_url
from pullqueue.config.text import reason_of
from pullqueue.error_codes import EXIT_FAILURE

_TIMEOUT_SECONDS = 60

Json = dict[str, Any]


class RefusedError(click.ClickException):
    """the server refused an operation"""

    def __init__(self, message: str, *, status: int) -> None:
        """Take the server's reason and the HTTP status."""
        self.status = status
        super().__init__(message)


class ServerError(RefusedError):
    """the server failed"""

    exit_code = EXIT_FAILURE


class UnreachableError(click.ClickException):
    """no server responds"""

    exit_code = EXIT_FAILURE


class Answer:
    """The response of a server, of which no part is lost unnoticed."""

    def __init__(self, response: HTTPResponse, url: str) -> None:
        self._response = response
        self._url = url
        self.bytes = response.length or 0
        """Its length; 0 if that was not announced."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._response.close()

    def read(self, most: int | None = None) -> bytes:
        """Return the rest of it, or up to `most` bytes; nothing at its end.

        Raises:
            UnreachableError: it breaks off.
        """
        try:
            data = self._response.read(most)
        except (HTTPException, OSError) as error:
            raise self._broken_off(reason_of(error)) from None
        if not data and self._response.length:
            raise self._broken_off(f"{self._response.length} bytes are missing")
        return data

    def _broken_off(self, why: str) -> UnreachableError:
        return UnreachableError(
            f"the response of {self._url} broke off ({why}): check whether the server still runs, "
            "and try again"
        )


class Client:
    """Calls one server, over one connection and without a proxy."""

    def __init__(self, url: str | None = None, *, timeout: float = _TIMEOUT_SECONDS) -> None:
        """Take an address; None is that of the environment, or the default.

        `timeout` is how many seconds the server may be silent.

        Raises:
            UsageError: it is not an address.
        """
        self.url = server_url(url)
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=timeout)
        self._prefix = f"{parts.path}/_emulator"
        if (ctx := click.get_current_context(silent=True)) is not None:
            ctx.call_on_close(self._connection.close)

    def get(self, path: str, /, **query: object) -> Json:
        """Read something; parameters that are None are left out."""
        return self._json("GET", path, query=query)

    def post(self, path: str, body: Mapping[str, object] | None = None) -> Json:
        """Change something."""
        return self._json("POST", path, body=json.dumps(body or {}).encode())

    def put(self, path: str, body: bytes, **query: object) -> Json:
        """Replace something."""
        return self._json("PUT", path, query=query, body=body)

    def delete(self, path: str) -> Json:
        """Delete something."""
        return self._json("DELETE", path)

    def open(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Send a request and return the response, for a `with` block.

        Raises:
            RefusedError: the server refuses it.
            UnreachableError: there is no server, or it is not a pullqueue.
        """
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        target = f"{self._prefix}{path}" + (f"?{urlencode(given)}" if given else "")
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            self._connection.request(verb, target, body, headers)
            response = self._connection.getresponse()
        except (HTTPException, OSError, ValueError) as error:
            self._connection.close()
            raise UnreachableError(
                f"no pullqueue responds at {self.url} ({reason_of(error)}): start one with "
                f"`pullqueue serve`, or pass its address with --url or {ADDRESS_VARIABLE}"
            ) from None
        answer = Answer(response, self.url)
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            with answer:
                raise self._refusal(answer.read(), response.status)
        return answer

    def _json(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
    ) -> Json:
        with self.open(verb, path, query=query, body=body) as answer:
            data = answer.read()
        try:
            return dict(json.loads(data))
        except (ValueError, TypeError):
            raise self._stranger() from None

    def _refusal(self, body: bytes, status: int) -> click.ClickException:
        """Return the error of a server in its own words, or that it is not a pullqueue."""
        try:
            answer = json.loads(body)
            if "reason" in answer:
                return ServerError(answer["reason"], status=status)
            message = answer["error"]["message"]
            # The message may be that of the real service; the details are in `debugInfo`.
            details = answer["error"]["errors"][0].get("debugInfo") or message
        except (ValueError, LookupError, TypeError, AttributeError):
            return self._stranger()
        if message == HTTPStatus.NOT_FOUND.phrase:
            return self._stranger()  # our routes name what is missing
        kind = ServerError if status >= HTTPStatus.INTERNAL_SERVER_ERROR else RefusedError
        return kind(str(details), status=status)

    def _stranger(self) -> UnreachableError:
        return UnreachableError(
            f"the server at {self.url} is not a pullqueue, or another version: pass its address "
            f"with --url or {ADDRESS_VARIABLE}"
        )


def task_path(queue: str, task: str | None = None) -> str:
    """Return the path of a queue's tasks, or of one task."""
    path = f"/queues/{quote(queue, safe='')}/tasks"
    return path if task is None else f"{path}/{quote(task, safe='')}"


def queue_path(queue: str, action: str = "") -> str:
    """Return the path of a queue, or of an operation on it."""
    return f"/queues/{quote(queue, safe='')}" + (f"/{action}" if action else "")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
