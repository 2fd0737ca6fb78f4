"""A program that works on one task: its files, its lease and its output."""

from __future__ import annotations

import logging
import subprocess
import tempfile
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from time import monotonic
from typing import Self
from urllib.parse import quote
from urllib.request import Request, urlopen

from pullqueue.cli.connection import Json
from pullqueue.gtaskqueue.api import ApiError, TaskQueueApi

_TERMINATE_SECONDS = 5
_POST_SECONDS = 60

_log = logging.getLogger("pullqueue.puller")


@dataclass(frozen=True, kw_only=True, slots=True)
class PullerFlags:
    """The values of the puller's flags, which its help describes."""

    lease_secs: int
    num_tasks: int
    min_running_tasks: int
    timeout_secs_for_next_lease_request: float
    sleep_interval_secs: float
    sleep_before_next_poll_secs: float
    taskapi_requests_per_sec: int | None
    executable_binary: list[str]
    output_url: str | None
    appengine_access_token_file: Path | None
    task_timeout_secs: float
    tag: str | None
    exit_when_empty: bool


class Program:
    """A program that is running on a leased task."""

    def __init__(
        self,
        flags: PullerFlags,
        task: Json,
        process: subprocess.Popen[bytes],
        folder: tempfile.TemporaryDirectory[str],
    ) -> None:
        self._flags = flags
        self._name = str(task["id"])
        self._process = process
        self._folder = folder
        self._started = monotonic()
        self.set_lease(task)

    @classmethod
    def start(cls, flags: PullerFlags, task: Json) -> Self | None:
        """Start the program on a task; None, and a line in the log, where that fails."""
        folder = tempfile.TemporaryDirectory(prefix="gtaskqueue-")
        try:
            payload, output = (Path(folder.name) / name for name in ("payload", "output"))
            payload.write_bytes(urlsafe_b64decode(task.get("payloadBase64", "")))
            output.touch()
            process = subprocess.Popen(  # noqa: S603 - what the user asked for
                [*flags.executable_binary, str(payload), str(output)]
            )
        except (OSError, ValueError) as error:
            folder.cleanup()
            _log.error("task %s: the program cannot be started: %s", task["id"], error)
            return None
        return cls(flags, task, process, folder)

    def set_lease(self, task: Json) -> None:
        """Remember the current lease, which was just made."""
        self._task = task
        self._renewed = monotonic()

    def poll(self, api: TaskQueueApi) -> bool:
        """Return whether the program is running; when it has ended, finish its task."""
        status = self._process.poll()
        if status is None and monotonic() - self._started > self._flags.task_timeout_secs:
            _log.warning("task %s: the program was ended, since it took too long", self._name)
            self._end()
            return False
        if status is None:
            self._extend(api)
            return True
        if status == 0:
            self._finish(api)
        else:
            _log.warning("task %s: the program ended with status %d", self._name, status)
        self._folder.cleanup()
        return False

    def abandon(self, api: TaskQueueApi) -> None:
        """End the program and release its task."""
        self._end()
        try:
            api.change_lease(self._task, 0)
        except ApiError as error:
            _log.warning("task %s: not released: %s", self._name, error.message)

    def _extend(self, api: TaskQueueApi) -> None:
        """Extend the lease once half of it has passed."""
        if monotonic() - self._renewed < self._flags.lease_secs / 2:
            return
        self._renewed = monotonic()
        try:
            self.set_lease(api.change_lease(self._task, self._flags.lease_secs))
        except ApiError as error:
            _log.warning("task %s: the lease is not extended: %s", self._name, error.message)

    def _finish(self, api: TaskQueueApi) -> None:
        if self._flags.output_url and not self._post(self._flags.output_url):
            return
        try:
            api.delete(self._name)
        except ApiError as error:
            _log.warning("task %s: is done, but not deleted: %s", self._name, error.message)

    def _post(self, url: str) -> bool:
        headers = {"Content-Type": "byte-array"}  # as Google's
        try:
            if self._flags.appengine_access_token_file:
                token = self._flags.appengine_access_token_file.read_text("utf-8").strip()
                headers["Authorization"] = f"Bearer {token}"
            output = (Path(self._folder.name) / "output").read_bytes()
            request = Request(url + quote(self._name, safe=""), output, headers)  # noqa: S310 - the user's
            urlopen(request, timeout=_POST_SECONDS).close()  # noqa: S310 - the same
        except (OSError, HTTPException, ValueError) as error:
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
