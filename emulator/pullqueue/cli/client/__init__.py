"""The commands that call a running server; its control routes, as they call them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import quote, urlencode

import click

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS
from pullqueue.cli.client.connection import BrokenResponseError, Connection, Json, NoResponseError
from pullqueue.error_codes import EXIT_FAILURE, EXIT_USAGE, advice_in
from pullqueue.tasks import split_queue_name

_TIMEOUT_SECONDS = 60.0


class RefusedError(click.ClickException):
    """the server refused an operation"""


class InvalidValueError(RefusedError):
    """the server refused a value"""

    exit_code = EXIT_USAGE


class FailedError(RefusedError):
    """the server failed, there is none, or it is not a pullqueue"""

    exit_code = EXIT_FAILURE


class NoServerError(FailedError):
    """no server responds"""


class Client:
    """Calls one server, over one connection and without a proxy."""

    def __init__(
        self,
        url: str,
        *,
        project: str | None = None,
        timeout: float = _TIMEOUT_SECONDS,
        root: str = "/_emulator",
        token: str | None = None,
        option: str = "--url",
    ) -> None:
        """Take the URL of the server.

        `project` is the one that is meant, None: the server's own. `timeout` is how many seconds
        the server may be silent. `root` goes before each path, `token` with each request; `option`
        is the one that sets the URL.
        """
        self.url, self.project = url, project
        self._root, self._option = root, option
        context = click.get_current_context(silent=True)
        headers = {"User-Agent": context.command_path if context else "pullqueue command"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._connection = Connection(url, timeout=timeout, headers=headers)

    def command(self, text: str) -> str:
        """Return a command for a message, with the options by which it reaches this server."""
        known = os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
        is_known = self.url.removeprefix("http://") == known.removeprefix("http://").rstrip("/")
        url = "" if is_known else f" --url {self.url}"
        project = f" --project {self.project}" if self.project else ""
        return f"`pullqueue {text}{url}{project}`"

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._connection.close()

    def get(self, path: str, /, **query: object) -> Json:
        """Read something; parameters that are None are left out."""
        return self.call("GET", path, **query)

    def post(self, path: str, /, **fields: object) -> Json:
        """Change something; fields that are None are left out."""
        return self.call("POST", path, json.dumps(without_none(fields)).encode())

    def call(self, verb: str, path: str, body: bytes | None = None, /, **query: object) -> Json:
        """Send a request and return the JSON object of the response.

        Raises:
            RefusedError: the server refuses it.
            FailedError: it fails, there is none, or it is not a pullqueue.
        """
        parameters = urlencode(without_none(query))
        return self.parse(self.read(verb, f"{path}?{parameters}" if parameters else path, body))

    def parse(self, data: bytes) -> Json:
        """Return the JSON object of a response, or raise a FailedError."""
        try:
            return dict(json.loads(data))
        except (ValueError, TypeError, RecursionError):
            raise self._not_pullqueue() from None

    def read(self, verb: str, path: str, body: bytes | None = None) -> bytes:
        """Send a request and return the body of the response.

        Raises:
            RefusedError: the server refuses it.
            FailedError: it fails, there is none, or it is not a pullqueue.
        """
        try:
            if self.project is not None:
                path += f"{'&' if '?' in path else '?'}{urlencode({'project': self.project})}"
            response = self._connection.send(verb, f"{self._root}{path}", body)
        except NoResponseError as error:
            is_tls = self.url.startswith("https:")
            no_tls = "use http:// unless a proxy with TLS is in front of it, " if is_tls else ""
            raise NoServerError(
                f"no pullqueue responds at {self.url} ({error}): {no_tls}start one with "
                f"`pullqueue serve`, or pass its address with {self._option} or {ADDRESS_VARIABLE}"
            ) from None
        except BrokenResponseError as error:
            raise FailedError(
                f"the response of {self.url} broke off ({error}): check whether the server still "
                "runs, and try again"
            ) from None
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise self._refusal(response.body, response.status)
        return response.body

    def _refusal(self, body: bytes, status: int) -> click.ClickException:
        """Return the error of a server in its own words, or that it is not a pullqueue."""
        try:
            answer = json.loads(body)
            if "reason" in answer:
                return FailedError(f"{self.url} is not ready: {answer['reason']}")
            error = answer["error"]
            message = error["message"]
            # The message may be that of the real service.
            details = advice_in(error) or str(message)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return self._not_pullqueue()
        if message == HTTPStatus.NOT_FOUND.phrase:
            return self._not_pullqueue()  # our routes name what is missing
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return FailedError(details)
        if error.get("status") == "INVALID_ARGUMENT":
            return InvalidValueError(details)
        return RefusedError(details)

    def _not_pullqueue(self) -> FailedError:
        return FailedError(
            f"the server at {self.url} is not a pullqueue, or another version: pass its address "
            f"with {self._option} or {ADDRESS_VARIABLE}"
        )


def without_none(fields: Mapping[str, object]) -> Json:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def queue_path(queue: str, *names: str) -> str:
    """Return the path of a queue, or of something of it: `queue_path("orders", "tasks")`.

    Raises:
        UsageError: no queue or task can have such a name.
    """
    for name in (split_queue_name(queue)[2], *names):
        if not name or "/" in name:
            raise click.UsageError(f'"{name}" is not a valid name of a queue or task')
    return "/".join(["/queues", *(quote(name, safe="") for name in (queue, *names))])
