"""A program that works on one task: its files, its lease, and what becomes of its output."""

from __future__ import annotations

import logging
import subprocess
import tempfile
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Self
from urllib.parse import quote

from pullqueue.gtaskqueue.api import ApiError, Json, TaskQueueApi

_TERMINATE_SECONDS = 5
_POST_SECONDS = 60

_log = logging.getLogger("pullqueue.puller")


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What is to be done with each task."""

    command: list[str]
    lease_secs: int
    timeout_seconds: float
    output_url: str | None
    output_token: str | None


class Program:
    """A program at work on a task that is leased."""

    def __init__(
        self,
        order: Order,
        task: Json,
        process: subprocess.Popen[bytes],
        folder: tempfile.TemporaryDirectory[str],
    ) -> None:
        self._order = order
        self._task = task
        self._name = str(task["id"])
        self._process = process
        self._folder = folder
        self._started = self._renewed = monotonic()

    @classmethod
    def started(cls, order: Order, task: Json) -> Self | None:
        """Start the program on a leased task; None where it cannot be started, which is logged."""
        folder = tempfile.TemporaryDirectory(prefix="gtaskqueue-")
        try:
            payload, output = (Path(folder.name) / name for name in ("payload", "output"))
            payload.write_bytes(urlsafe_b64decode(task.get("payloadBase64", "")))
            output.touch()
            process = subprocess.Popen(  # noqa: S603 - what the user asked for
                [*order.command, str(payload), str(output)]
            )
        except (OSError, ValueError) as error:
            folder.cleanup()
            _log.error("task %s: cannot be started: %s", task["id"], error)
            return None
        return cls(order, task, process, folder)

    def goes_on(self, api: TaskQueueApi) -> bool:
        """Look after the program, and tell whether it goes on."""
        status = self._process.poll()
        if status is None and monotonic() - self._started > self._order.timeout_seconds:
            _log.warning("task %s: ended, since it took too long", self._name)
            self._end()
            return False
        if status is None:
            self._renew(api)
            return True
        if status == 0:
            self._succeed(api)
        else:
            _log.warning("task %s: the program ended with status %d", self._name, status)
        self._folder.cleanup()
        return False

    def give_up(self, api: TaskQueueApi) -> None:
        """End the program and give its task back."""
        self._end()
        try:
            api.change_lease(self._task, 0)
        except ApiError as error:
            _log.warning("task %s: cannot be given back: %s", self._name, error.message)

    def _renew(self, api: TaskQueueApi) -> None:
        """Extend the lease once half of it has passed."""
        if monotonic() - self._renewed < self._order.lease_secs / 2:
            return
        self._renewed = monotonic()
        try:
            self._task = api.change_lease(self._task, self._order.lease_secs)
        except ApiError as error:
            _log.warning("task %s: the lease is not extended: %s", self._name, error.message)

    def _succeed(self, api: TaskQueueApi) -> None:
        if self._order.output_url and not self._posted(self._order.output_url):
            return
        try:
            api.delete(self._name)
        except ApiError as error:
            _log.warning("task %s: is done, but not deleted: %s", self._name, error.message)

    def _posted(self, url: str) -> bool:
        import requests  # noqa: PLC0415 - optional; the API needs it as well

        headers = {"Content-Type": "application/octet-stream"}
        if self._order.output_token:
            headers["Authorization"] = f"Bearer {self._order.output_token}"
        try:
            requests.post(
                url + quote(self._name, safe=""),
                data=(Path(self._folder.name) / "output").read_bytes(),
                headers=headers,
                timeout=_POST_SECONDS,
            ).raise_for_status()
        except (requests.RequestException, OSError) as error:
            _log.warning("task %s: its output cannot be posted: %s", self._name, error)
            return False
        return True

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_TERMINATE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()
