"""The interface of workers that speak REST: a real server, one kept connection."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, Unpack
from urllib.parse import quote, urlencode

from interfaces import Held, Interface, Refusal, Refused, TaskFields, manual_emulator

from pullqueue.clock import to_usec
from pullqueue.server.lifecycle import Server

_TEXTS = {
    "The task lease has expired.": Refusal.LEASE_EXPIRED,
    "Task name already taken": Refusal.NAME_TAKEN,
    "The task name is invalid.": Refusal.UNKNOWN_TASK,
    "has no task": Refusal.UNKNOWN_TASK,
    "Queue not found.": Refusal.UNKNOWN_QUEUE,
    "is a push queue": Refusal.WRONG_MODE,
    "total_storage_limit": Refusal.OVER_QUOTA,
}


class RestInterface(Interface):
    """The Task Queue API, spoken by hand."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.emulator)
        self._connection = HTTPConnection(server.host, server.port, timeout=60)

    def add(self, payload: bytes, *, queue: str = "pull", **fields: Unpack[TaskFields]) -> str:
        task = {"queueName": queue, "payloadBase64": urlsafe_b64encode(payload).decode()}
        if eta := fields.get("eta"):
            task["leaseTimestamp"] = str(to_usec(eta))
        given = {"id": fields.get("name"), "tag": fields.get("tag")}
        task |= {field: text for field, text in given.items() if text is not None}
        return str(self._call("POST", f"{queue}/tasks", body=task)["id"])

    def lease(self, seconds: float, count: int, *, queue: str = "pull") -> list[Held]:
        return self._lease(queue, {"leaseSecs": seconds, "numTasks": count})

    def lease_by_tag(
        self, seconds: float, count: int, tag: str | None = None, *, queue: str = "pull"
    ) -> list[Held]:
        parameters = {"leaseSecs": seconds, "numTasks": count, "groupByTag": "true"}
        if tag is not None:
            parameters["tag"] = tag
        return self._lease(queue, parameters)

    def modify(self, held: Held, seconds: float, *, queue: str = "pull") -> Held:
        body = {"id": held.name, "queueName": queue, "leaseTimestamp": str(held.eta_usec)}
        path = f"{queue}/tasks/{held.name}?newLeaseSeconds={seconds}"
        return _held(self._call("POST", path, body=body))

    def delete(self, name: str, *, queue: str = "pull") -> bool:
        try:
            self._call("DELETE", f"{queue}/tasks/{quote(name)}")
        except Refused as refused:
            if refused.refusal is Refusal.UNKNOWN_TASK:
                return False
            raise
        return True

    def count(self, *, queue: str = "pull") -> int:
        return int(self._call("GET", f"{queue}?getStats=true")["stats"]["totalTasks"])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _lease(self, queue: str, parameters: dict[str, Any]) -> list[Held]:
        answer = self._call("POST", f"{queue}/tasks/lease?{urlencode(parameters)}")
        return [_held(item) for item in answer.get("items", [])]

    def _call(self, verb: str, path: str, *, body: object = None) -> dict[str, Any]:
        url = f"/taskqueue/v1beta2/projects/s~app/taskqueues/{path}"
        headers = {} if body is None else {"Content-Type": "application/json"}
        self._connection.request(verb, url, None if body is None else json.dumps(body), headers)
        response = self._connection.getresponse()
        data = response.read()
        if response.status >= 300:
            raise _refused(data.decode())
        return dict(json.loads(data)) if data else {}


@contextmanager
def rest_interface() -> Iterator[Interface]:
    """Serve an emulator and return the interface to it."""
    with Server(manual_emulator()) as server:
        interface = RestInterface(server)
        yield interface
        interface.close()


def _refused(text: str) -> Refused:
    found = (refusal for known, refusal in _TEXTS.items() if known in text)
    return Refused(next(found, Refusal.INVALID))


def _held(item: dict[str, Any]) -> Held:
    return Held(
        name=item["id"],
        payload=urlsafe_b64decode(item["payloadBase64"]),
        tag=item.get("tag"),
        eta_usec=int(item["leaseTimestamp"]),
        retry_count=item["retry_count"],
    )
