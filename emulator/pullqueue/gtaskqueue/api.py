"""A small client of `taskqueue/v1beta2`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from pullqueue.address import ADDRESS_VARIABLE
from pullqueue.cli._addresses import server_url
from pullqueue.cli._reasons import reason_of

if TYPE_CHECKING:
    import requests

Json = dict[str, Any]

_TIMEOUT_SECONDS = 60


class ApiError(click.ClickException):
    """the server refused a call, or cannot be reached"""

    exit_code = 1


class TaskQueueApi:
    """One queue over REST; safe under threads as long as each has its own."""

    def __init__(
        self, api_host: str | None, project: str, queue: str, *, access_token: str | None = None
    ) -> None:
        """Name the server, the project and the queue.

        `api_host` is an address such as http://localhost:8124; None is the running emulator's.

        Raises:
            ApiError: the library that speaks HTTP is not installed.
            ClickException: the server's address is none.
        """
        self._root = server_url(api_host, name="--api_host")
        self._url = (
            f"{self._root}/taskqueue/v1beta2/projects/{quote(project, safe='~:')}"
            f"/taskqueues/{quote(queue, safe='')}"
        )
        self._queue = queue
        self._session = _session()
        if access_token:
            self._session.headers["Authorization"] = f"Bearer {access_token}"

    def get_queue(self) -> Json:
        """Give the queue with its statistics."""
        return self._call("GET", "", {"getStats": "true"})

    def list_tasks(self) -> Json:
        """Give the first hundred tasks."""
        return self._call("GET", "/tasks")

    def get_task(self, name: str) -> Json:
        """Give one task."""
        return self._call("GET", _task(name))

    def lease(self, *, lease_secs: int, num_tasks: int, tag: str | None = None) -> Json:
        """Lease tasks; with a `tag`, only those."""
        query: Json = {"leaseSecs": lease_secs, "numTasks": num_tasks}
        if tag is not None:
            query |= {"groupByTag": "true", "tag": tag}
        return self._call("POST", "/tasks/lease", query)

    def change_lease(self, task: Json, lease_secs: int) -> Json:
        """Let the lease of a task that is held end `lease_secs` from now; 0 gives it back."""
        body = {
            "id": task["id"],
            "queueName": self._queue,
            "leaseTimestamp": task["leaseTimestamp"],
        }
        return self._call("POST", _task(task["id"]), {"newLeaseSeconds": lease_secs}, body)

    def delete(self, name: str) -> None:
        """Delete one task."""
        self._call("DELETE", _task(name))

    def _call(
        self, verb: str, path: str, query: Json | None = None, body: Json | None = None
    ) -> Json:
        """Call a method and give its answer.

        Raises:
            ApiError: it is refused, or nothing answers.
        """
        import requests  # noqa: PLC0415 - optional, see _session

        try:
            answer = self._session.request(
                verb,
                self._url + path,
                params=query,
                json=body,
                timeout=_TIMEOUT_SECONDS,
            )
            if answer.ok:
                return dict(answer.json()) if answer.content else {}
            raise ApiError(self._refusal(answer))
        except (requests.RequestException, ValueError) as error:
            raise ApiError(
                f"no task queue answers at {self._root} ({_cause(error)}): start one with "
                f"`pullqueue serve`, or say where it is with --api_host or {ADDRESS_VARIABLE}"
            ) from None

    def _refusal(self, answer: requests.Response) -> str:
        """Give the service's words, and what exactly was wrong where the server adds that."""
        try:
            told = answer.json()["error"]
            exactly = told["errors"][0].get("debugInfo")
            return f"{told['message']}{f' ({exactly})' if exactly else ''}"
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ValueError(f"it answers {answer.status_code} {answer.reason}") from None


def _session() -> requests.Session:
    try:
        import requests  # noqa: PLC0415 - optional
    except ImportError:
        raise ApiError("requests is not installed: pip install 'pullqueue[gtaskqueue]'") from None
    return requests.Session()


def _task(name: str) -> str:
    return f"/tasks/{quote(name, safe='')}"


def _cause(error: BaseException) -> str:
    """Give what the system says of an error that libraries have wrapped several times."""
    cause: BaseException | None = error
    while cause is not None:
        if getattr(cause, "strerror", None):
            return reason_of(cause)
        cause = cause.__cause__ or cause.__context__
    return reason_of(error)
