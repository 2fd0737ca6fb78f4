"""A small client of `taskqueue/v1beta2`."""

from __future__ import annotations

import json
import logging
from http.client import HTTPException
from typing import Any, TypedDict, Unpack
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

import click

from pullqueue.address import ADDRESS_VARIABLE
from pullqueue.config.text import reason_of

Json = dict[str, Any]

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
        self._url = (
            f"{self._root}/taskqueue/{flags['service_version']}/projects/"
            f"{quote(flags['project_name'], safe='~:')}/taskqueues/"
            f"{quote(flags['taskqueue_name'], safe='')}"
        )
        self._queue = flags["taskqueue_name"]
        self._dumps = flags["dump_request"]
        self._opener = build_opener(ProxyHandler({}))
        if flags["access_token"]:
            self._opener.addheaders.append(("Authorization", f"Bearer {flags['access_token']}"))

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
        url = f"{self._url}{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        if self._dumps:
            click.echo(f"--request-start--\n{verb} {url}\n{json.dumps(body)}\n--request-end--")
        _log.debug("%s %s", verb, url)
        request = Request(url, data, headers, method=verb)  # noqa: S310 - http(s), see server_url
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                return dict(json.loads(response.read() or b"{}"))
        except HTTPError as error:
            with error:
                refusal = _refusal(error)
            raise refusal or self._unreachable(f"status {error.code} {error.reason}") from None
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "reason", error)
            reason = reason_of(why) if isinstance(why, BaseException) else why
            raise self._unreachable(reason) from None

    def _unreachable(self, reason: str) -> ApiError:
        return ApiError(
            f"no task queue responds at {self._root} ({reason}): start one with `pullqueue serve`, "
            f"or pass its address with --api_host or {ADDRESS_VARIABLE}"
        )


def _task(name: str) -> str:
    return f"/tasks/{quote(name, safe='')}"


def _refusal(response: HTTPError) -> ApiError | None:
    """Return the service's message with its details, if it was the service that responded."""
    try:
        error = json.loads(response.read())["error"]
        details = error["errors"][0].get("debugInfo")
        return ApiError(f"{error['message']}{f' ({details})' if details else ''}")
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
