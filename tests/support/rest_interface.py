"""The interface of workers that speak REST: a real server, one kept connection."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Unpack
from urllib.parse import quote

from interfaces import Interface, Serving, Shown, TaskFields, served
from requests import HTTPError, Session

from pullqueue import (
    Emulator,
    InvalidQueueModeError,
    NameInUseError,
    OverQuotaError,
    TaskLeaseExpiredError,
    UnknownQueueError,
    UnknownTaskError,
)
from pullqueue.clock import to_usec

_ERRORS: dict[str, type[Exception]] = {
    "The task lease has expired.": TaskLeaseExpiredError,
    "Task name already taken": NameInUseError,
    "The task name is invalid.": UnknownTaskError,
    "Queue not found.": UnknownQueueError,
    "is a push queue": InvalidQueueModeError,
    "total_storage_limit": OverQuotaError,
}
"""By a part of the message."""


class RestInterface(Interface):
    """The Task Queue API, without a client library."""

    def __init__(self, emulator: Emulator, url: str, session: Session) -> None:
        super().__init__(emulator)
        self._url = f"{url}/taskqueue/v1beta2/projects/s~app/taskqueues"
        self._session = session
        session.trust_env = False  # no proxies, which would be looked for at each call

    def error_of(self, error: Exception) -> type[Exception]:
        if not isinstance(error, HTTPError):
            return type(error)
        found = (kind for text, kind in _ERRORS.items() if text in error.response.text)
        return next(found, ValueError)

    def add(self, payload: bytes, *, queue: str = "pull", **fields: Unpack[TaskFields]) -> str:
        eta = fields.get("eta")
        task = {
            "queueName": queue,
            "payloadBase64": urlsafe_b64encode(payload).decode(),
            "leaseTimestamp": eta and str(to_usec(eta)),
            "id": fields.get("name"),
            "tag": fields.get("tag"),
        }
        return str(self._call("POST", f"{queue}/tasks", json=task)["id"])

    def lease(self, seconds: float, count: int, *, queue: str = "pull") -> list[Shown]:
        return self._lease(queue, {"leaseSecs": seconds, "numTasks": count})

    def lease_by_tag(
        self, seconds: float, count: int, tag: str | None = None, *, queue: str = "pull"
    ) -> list[Shown]:
        by_tag = {"groupByTag": "true", "tag": tag}
        return self._lease(queue, {"leaseSecs": seconds, "numTasks": count, **by_tag})

    def modify(self, held: Shown, seconds: float, *, queue: str = "pull") -> Shown:
        body = {"id": held.name, "queueName": queue, "leaseTimestamp": str(held.eta_usec)}
        path, query = f"{queue}/tasks/{held.name}", {"newLeaseSeconds": seconds}
        return _shown(self._call("POST", path, params=query, json=body))

    def delete(self, name: str, *, queue: str = "pull") -> bool:
        try:
            self._call("DELETE", f"{queue}/tasks/{quote(name)}")
        except HTTPError as error:
            if self.error_of(error) is UnknownTaskError:
                return False
            raise
        return True

    def count(self, *, queue: str = "pull") -> int:
        shown = self._call("GET", queue, params={"getStats": "true"})
        return int(shown["stats"]["totalTasks"])

    def _lease(self, queue: str, parameters: dict[str, Any]) -> list[Shown]:
        leased = self._call("POST", f"{queue}/tasks/lease", params=parameters)
        return list(map(_shown, leased.get("items", [])))

    def _call(self, verb: str, path: str, **options: Any) -> dict[str, Any]:
        response = self._session.request(verb, f"{self._url}/{path}", timeout=60, **options)
        response.raise_for_status()
        return {} if response.status_code == 204 else dict(response.json())


@contextmanager
def rest_interface(serve: Serving = served) -> Iterator[Interface]:
    """Serve an emulator and yield the interface to it."""
    with serve("app") as (server, emulator), Session() as session:
        yield RestInterface(emulator, server.url, session)


def _shown(item: dict[str, Any]) -> Shown:
    return Shown(
        name=item["id"],
        payload=urlsafe_b64decode(item["payloadBase64"]),
        eta_usec=int(item["leaseTimestamp"]),
        tag=item.get("tag"),
        retry_count=item["retry_count"],
    )
