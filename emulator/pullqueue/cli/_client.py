"""The control routes of a running server, as the commands call them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

import click

from pullqueue.address import ADDRESS_VARIABLE
from pullqueue.cli._addresses import server_url
from pullqueue.cli._reasons import reason_of

_TIMEOUT_SECONDS = 60

Json = dict[str, Any]


class RefusedError(click.ClickException):
    """the server refused what was asked of it"""

    def __init__(self, message: str, *, status: int) -> None:
        """Carry the server's reason and the HTTP status."""
        self.status = status
        super().__init__(message)


class UnreachableError(click.ClickException):
    """no server answers"""


class Answer:
    """What a server sends, of which nothing goes missing unnoticed."""

    def __init__(self, response: HTTPResponse, url: str) -> None:
        self._response = response
        self._url = url
        self.bytes = response.length or 0
        """How long it is; 0 where that was not announced."""

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
        """Give the rest of it, or as much of it as `most`; nothing when it is over.

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
            f"the answer of {self._url} broke off ({why}): see whether the server is still there, "
            "and try again"
        )


class Client:
    """Speaks to one server; no proxy stands between."""

    def __init__(self, url: str | None = None, *, timeout: float = _TIMEOUT_SECONDS) -> None:
        """Take an address; None is that of the environment, or the default one.

        `timeout` is for how many seconds the server may say nothing.

        Raises:
            ClickException: it is no address.
        """
        self.url = server_url(url)
        self._timeout = timeout
        self._opener = build_opener(ProxyHandler({}))

    def get(self, path: str, /, **query: object) -> Json:
        """Ask for something; parameters that are None are left out."""
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
        """Send a request and give the answer, for a `with` block.

        Raises:
            RefusedError: the server refuses it.
            UnreachableError: there is no server, or none of ours.
        """
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        url = f"{self.url}/_emulator{path}" + (f"?{urlencode(given)}" if given else "")
        headers = {"Content-Type": "application/json"} if body is not None else {}
        request = Request(url, body, headers, method=verb)  # noqa: S310 - http(s), see server_url
        try:
            return Answer(self._opener.open(request, timeout=self._timeout), self.url)
        except HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (URLError, HTTPException, OSError, ValueError) as error:
            why = getattr(error, "reason", error)
            reason = reason_of(why) if isinstance(why, BaseException) else why
            raise UnreachableError(
                f"no pullqueue answers at {self.url} ({reason}): start one with `pullqueue serve`, "
                f"or say where it is with --url or {ADDRESS_VARIABLE}"
            ) from None

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

    def _refusal(self, error: HTTPError) -> click.ClickException:
        """Give what a server said in its own words, or that it is none of ours."""
        try:
            answer = json.loads(error.read())
            if "reason" in answer:
                return RefusedError(answer["reason"], status=error.code)
            # The message may be the real service's; what exactly was wrong then stands beside it.
            told = answer["error"]["errors"][0].get("debugInfo") or answer["error"]["message"]
        except (ValueError, LookupError, TypeError, AttributeError):
            return self._stranger()
        if told == HTTPStatus.NOT_FOUND.phrase:
            return self._stranger()  # whatever is missing from a route of ours is named
        return RefusedError(str(told), status=error.code)

    def _stranger(self) -> UnreachableError:
        return UnreachableError(
            f"what answers at {self.url} is no pullqueue, or one of another version: say where it "
            f"is with --url or {ADDRESS_VARIABLE}"
        )


def task_path(queue: str, task: str | None = None) -> str:
    """Give the path of a queue's tasks, or of one task."""
    path = f"/queues/{quote(queue, safe='')}/tasks"
    return path if task is None else f"{path}/{quote(task, safe='')}"


def queue_path(queue: str, action: str = "") -> str:
    """Give the path of a queue, or of something to do with it."""
    return f"/queues/{quote(queue, safe='')}" + (f"/{action}" if action else "")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
