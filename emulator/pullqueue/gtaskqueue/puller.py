"""`gtaskqueue_puller`: run a program for each task of a queue, several at once."""

from __future__ import annotations

import logging
import math
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from base64 import urlsafe_b64decode
from http.client import HTTPException
from logging.handlers import RotatingFileHandler
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import click

from pullqueue.cli.client.connection import Json
from pullqueue.gtaskqueue.command import (
    CONTEXT,
    LEASE_SECS,
    OWN,
    TAG,
    ApiError,
    FlagsCommand,
    TaskQueueApi,
    api_flags,
    flags,
)

_TERMINATE_SECONDS = 5
_POST_SECONDS = 60
_LOG_BYTES = 2**20
_LOG_FILES = 5
_LOG_FORMAT = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"

_log = logging.getLogger("pullqueue.puller")


class Program:
    """The program that is running on a leased task; OSError or ValueError: it cannot be started."""

    def __init__(self, flags: SimpleNamespace, task: Json) -> None:
        self._flags = flags
        self._name = str(task["id"])
        self._folder = tempfile.TemporaryDirectory(prefix="gtaskqueue-")
        payload, self._output = (Path(self._folder.name) / name for name in ("payload", "output"))
        try:
            payload.write_bytes(urlsafe_b64decode(task.get("payloadBase64", "")))
            self._output.touch()
            command = [*flags.executable_binary, str(payload), str(self._output)]
            self._process = subprocess.Popen(command)  # noqa: S603 - what the user asked for
        except (OSError, ValueError):
            self._folder.cleanup()
            raise
        self._started = monotonic()
        self.set_lease(task)

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
        if status:
            _log.warning("task %s: the program ended with status %d", self._name, status)
        elif not self._flags.output_url or self._post(self._flags.output_url):
            try:
                api.call("DELETE", self._name)
            except ApiError as error:
                _log.warning("task %s: is done, but not deleted: %s", self._name, error.message)
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

    def _post(self, url: str) -> bool:
        headers = {"Content-Type": "byte-array"}  # as Google's
        try:
            if self._flags.appengine_access_token_file:
                token = self._flags.appengine_access_token_file.read_text("utf-8").strip()
                headers["Authorization"] = f"Bearer {token}"
            address = url + quote(self._name, safe="")
            request = Request(address, self._output.read_bytes(), headers)  # noqa: S310 - the user's URL
            urlopen(request, timeout=_POST_SECONDS).close()  # noqa: S310 - the user's URL
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


def _program(_: click.Context, _option: click.Parameter, text: str) -> list[str]:
    """Return a program and its arguments, split as a shell would split them."""
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise click.BadParameter(f'"{text}": {error}') from None
    if not command or shutil.which(command[0]) is None:
        raise click.BadParameter(f'program "{text}" is not found: check its spelling')
    return command


_SECONDS, _POSITIVE_SECONDS = click.FloatRange(0), click.FloatRange(0, min_open=True)
_TOKEN_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_LOG_FILE = click.Path(path_type=Path, dir_okay=False, writable=True)
_AGAIN_HELP = "Lease more anyway when, since the last lease, a program ended this long ago."
_RATE_HELP = "Maximum rate of calls: a lease waits where the deletions before it exceed the rate."
_COMMAND_HELP = (
    "Program and arguments. The names of two files are added: the first has the payload, the "
    "second is for the output."
)
_BEARER_HELP = "File with a bearer token to send with the output (with Google's, one of OAuth 1)."
_LOG_HELP = "File to log to, with older lines in FILE.1 to FILE.5; default: standard error."
_FLAGS: Any = (
    LEASE_SECS,
    ("--num_tasks", click.IntRange(1, 1000), 10, "Maximum number of programs that run at once."),
    (
        "--min_running_tasks",
        click.IntRange(0),
        0,
        "Lease more when no more programs than this run.",
    ),
    ("--timeout_secs_for_next_lease_request", _SECONDS, 600.0, _AGAIN_HELP),
    ("--sleep_interval_secs", _SECONDS, 2.0, "Seconds to wait after a lease without tasks."),
    ("--sleep_before_next_poll_secs", _POSITIVE_SECONDS, 2.0, "Seconds between looks at programs."),
    ("--taskapi_requests_per_sec", click.IntRange(1), None, _RATE_HELP),
    ("--executable_binary", str, "/bin/cat", _COMMAND_HELP, {"callback": _program}),
    (
        "--output_url",
        str,
        None,
        "URL to post the output to, plus the task's name (.../done?name=).",
    ),
    ("--appengine_access_token_file", _TOKEN_FILE, None, _BEARER_HELP),
    ("--task_timeout_secs", _POSITIVE_SECONDS, 3600.0, "Seconds after which a program is ended."),
    ("--log_output_file", _LOG_FILE, None, _LOG_HELP),
    TAG,
    ("--exit_when_empty/--noexit_when_empty", bool, False, f"End when no task is left. {OWN}"),
)


@click.command(cls=FlagsCommand, context_settings=CONTEXT)
@flags(*_FLAGS)
@api_flags("testpuller")
def gtaskqueue_puller(api: TaskQueueApi, *, log_output_file: Path | None, **given: object) -> None:
    """Run a program for each task of a queue.

    A task is deleted when its program has ended with status 0 and its output was posted, if that
    was asked for. While a program runs, its lease is extended. The task of a program that fails or
    is ended is leased again when its lease has run out.

    All flags may have one dash. Google's --credentials_file, --use_developer_key and
    --developer_key_file are accepted and ignored, since the emulator needs no key.
    """
    handler: logging.Handler = logging.StreamHandler()
    if log_output_file is not None:
        handler = RotatingFileHandler(log_output_file, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES)
    logging.basicConfig(format=_LOG_FORMAT, level=logging.INFO, handlers=[handler])
    puller = Puller(api, SimpleNamespace(**given))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=puller.stopped.set).start())
    puller.run()


class Puller:
    """Leases tasks and looks after the programs that work on them."""

    def __init__(self, api: TaskQueueApi, flags: SimpleNamespace) -> None:
        self._api = api
        self._flags = flags
        self._running: dict[str, Program] = {}
        self.stopped = threading.Event()
        """When it is set, `run` ends the programs and releases their tasks."""
        self._leased = 0
        """Number of tasks of the last lease."""
        self._leased_at = self._no_lease_before = 0.0
        self._first_end: float | None = None
        """When the first program since the last lease ended."""

    def run(self) -> None:
        """Work until stopped; with --exit_when_empty, until no task is left."""
        flags = self._flags
        try:
            while not self.stopped.is_set():
                if self._may_lease():
                    self._lease()
                    if flags.exit_when_empty and not self._running and not self._leased:
                        return
                # Leases are to be extended in time.
                pause = min(flags.sleep_before_next_poll_secs, flags.lease_secs / 4)
                wait = self._no_lease_before - monotonic()
                self.stopped.wait(pause if self._running else max(wait, 0.0))
                for name, program in list(self._running.items()):
                    if not program.poll(self._api):
                        del self._running[name]
                        self._first_end = self._first_end or monotonic()
        finally:
            for program in self._running.values():
                program.abandon(self._api)

    def _may_lease(self) -> bool:
        now, flags, running = monotonic(), self._flags, len(self._running)
        deleted = max(self._leased - running, 0)
        calls_take = deleted / (flags.taskapi_requests_per_sec or math.inf)
        if now < max(self._no_lease_before, self._leased_at + calls_take):
            return False
        waited = now - (self._first_end or now)
        waited_enough: bool = waited > flags.timeout_secs_for_next_lease_request
        has_room: bool = running < flags.num_tasks
        return has_room and (running <= flags.min_running_tasks or waited_enough)

    def _lease(self) -> None:
        """Lease as many tasks as there is room for, and start their programs.

        A failing server is asked again after a pause, unless this was the last thing to do.
        """
        self._leased, self._first_end = 0, None
        flags = self._flags
        room = flags.num_tasks - len(self._running)
        try:
            response = self._api.lease(lease_secs=flags.lease_secs, num_tasks=room, tag=flags.tag)
        except ApiError as error:
            if flags.exit_when_empty and not self._running:
                raise
            _log.error("no task could be leased: %s", error.message)
            response = {}
        tasks = response.get("items", [])
        self._leased, self._leased_at = len(tasks), monotonic()
        if not tasks:
            self._no_lease_before = self._leased_at + flags.sleep_interval_secs
        for task in tasks:
            name = task["id"]
            if running := self._running.get(name):
                running.set_lease(task)  # its lease had run out
                continue
            try:
                self._running[name] = Program(flags, task)
            except (OSError, ValueError) as error:
                _log.error("task %s: the program cannot be started: %s", name, error)
