"""A small client of `taskqueue/v1beta2`."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import TypedDict, Unpack
from urllib.parse import quote, urlencode

import click

from pullqueue.address import ADDRESS_VARIABLE
from pullqueue.cli.connection import (
    BrokenResponseError,
    Connection,
    Json,
    NoResponseError,
)

_TIMEOUT_SECONDS = 60

_log = logging.getLogger("pullqueue.gtaskqueue")


class ApiError(click.ClickException):
    """the server refused a call, or cannot be reached"""


class ApiFlags(TypedDict):
    """Which queue of which server is meant: the values of the flags of these names."""

    project_name: str
    taskqueue_name: str
    api_host: str
    service_version: str
    access_token: str | None
    dump_request: bool


class TaskQueueApi:
    """One queue over REST."""

    def __init__(self, **flags: Unpack[ApiFlags]) -> None:
        """Name the queue."""
        self._root = flags["api_host"]
        self._path = (
            f"/taskqueue/{flags['service_version']}/projects/"
            f"{quote(flags['project_name'], safe='~:')}/taskqueues/"
            f"{quote(flags['taskqueue_name'], safe='')}"
        )
        self._queue = flags["taskqueue_name"]
        self._dumps = flags["dump_request"]
        token = flags["access_token"]
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = Connection(self._root, timeout=_TIMEOUT_SECONDS, headers=headers)

    def get_queue(self, *, stats: bool) -> Json:
        """Return the queue, with its statistics if these are asked for."""
        return self._call("GET", "", {"getStats": str(stats).lower()})

    def list_tasks(self) -> Json:
        """Return the first hundred tasks."""
        return self._call("GET", "/tasks")

    def get_task(self, name: str) -> Json:
        """Return one task."""
        return self._call("GET", _task(name))

    def lease(self, *, lease_secs: int, num_tasks: int, tag: str | None = None) -> Json:
        """Lease tasks; with a `tag`, only those."""
        query: Json = {"leaseSecs": lease_secs, "numTasks": num_tasks}
        if tag is not None:
            query |= {"groupByTag": "true", "tag": tag}
        return self._call("POST", "/tasks/lease", query)

    def change_lease(self, task: Json, lease_secs: int) -> Json:
        """Make the lease of a leased task end `lease_secs` from now; 0 releases it."""
        body = {name: task[name] for name in ("id", "leaseTimestamp")} | {"queueName": self._queue}
        return self._call("POST", _task(task["id"]), {"newLeaseSeconds": lease_secs}, body)

    def delete(self, name: str) -> None:
        """Delete one task."""
        self._call("DELETE", _task(name))

    def _call(
        self, verb: str, path: str, query: Json | None = None, body: Json | None = None
    ) -> Json:
        """Call a method and return its response.

        Raises:
            ApiError: it is refused, or nothing answers.
        """
        path = f"{self._path}{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        url = f"{self._root}{path}"
        if self._dumps:
            click.echo(f"--request-start--\n{verb} {url}\n{json.dumps(body)}\n--request-end--")
        _log.debug("%s %s", verb, url)
        try:
            response = self._connection.send(verb, path, data)
            if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                problem = f"status {response.status} {response.phrase}"
                raise _refusal(response.body) or self._unreachable(problem)
            return dict(json.loads(response.body or b"{}"))
        except (NoResponseError, BrokenResponseError, ValueError) as error:
            raise self._unreachable(str(error)) from None
        finally:
            self._connection.close()  # it may be long until the next call

    def _unreachable(self, reason: str) -> ApiError:
        return ApiError(
            f"no task queue responds at {self._root} ({reason}): start one with `pullqueue serve`, "
            f"or pass its address with --api_host or {ADDRESS_VARIABLE}"
        )


def _task(name: str) -> str:
    return f"/tasks/{quote(name, safe='')}"


def _refusal(body: bytes) -> ApiError | None:
    """Return the service's message with its details, if it was the service that responded."""
    try:
        error = json.loads(body)["error"]
        details = error["errors"][0].get("debugInfo")
        return ApiError(f"{error['message']}{f' ({details})' if details else ''}")
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
