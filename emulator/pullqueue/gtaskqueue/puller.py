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
from dataclasses import dataclass
from http.client import HTTPException
from logging.handlers import RotatingFileHandler
from pathlib import Path
from time import monotonic
from typing import Any, Self
from urllib.parse import quote
from urllib.request import Request, urlopen

import click

from pullqueue.cli.connection import Json
from pullqueue.gtaskqueue.command import (
    CONTEXT,
    OWN,
    ApiError,
    ApiFlags,
    FlagsCommand,
    TaskQueueApi,
    api_flags,
    lease_secs_flag,
)

_TERMINATE_SECONDS = 5
_POST_SECONDS = 60
_LOG_BYTES = 2**20
_LOG_FILES = 5
_LOG_FORMAT = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"

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


def _program(_: click.Context, _option: click.Parameter, text: str) -> list[str]:
    """Return a program and its arguments, split as a shell would split them."""
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise click.BadParameter(f'"{text}": {error}') from None
    if not command or shutil.which(command[0]) is None:
        raise click.BadParameter(f'program "{text}" is not found: check its spelling')
    return command


_SECONDS = click.FloatRange(0)
_POSITIVE_SECONDS = click.FloatRange(0, min_open=True)


@click.command(cls=FlagsCommand, context_settings=CONTEXT)
@lease_secs_flag
@click.option(
    "--num_tasks",
    type=click.IntRange(1, 1000),
    default=10,
    help="Maximum number of programs that run at once.",
)
@click.option(
    "--min_running_tasks",
    type=click.IntRange(0),
    default=0,
    help="Lease more tasks when no more programs than this are running.",
)
@click.option(
    "--timeout_secs_for_next_lease_request",
    type=_SECONDS,
    default=600.0,
    help="Lease more tasks anyway when, since the last lease, a program ended this long ago.",
)
@click.option(
    "--sleep_interval_secs",
    type=_SECONDS,
    default=2.0,
    help="Seconds to wait after a lease without tasks.",
)
@click.option(
    "--sleep_before_next_poll_secs",
    type=_POSITIVE_SECONDS,
    default=2.0,
    help="Seconds after which to look at the running programs again.",
)
@click.option(
    "--taskapi_requests_per_sec",
    type=click.IntRange(1),
    help="Maximum rate of calls: a lease waits where the deletions before it exceed the rate.",
)
@click.option(
    "--executable_binary",
    default="/bin/cat",
    callback=_program,
    help="Program and arguments. The names of two files are added: the first has the payload, the "
    "second is for the output.",
)
@click.option(
    "--output_url", help="URL to post the output to; the task's name is added (.../done?name=)."
)
@click.option(
    "--appengine_access_token_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="File with a bearer token to send with the output (with Google's, one of OAuth 1).",
)
@click.option(
    "--task_timeout_secs",
    type=_POSITIVE_SECONDS,
    default=3600.0,
    help="Seconds after which a program is ended; its task stays in the queue.",
)
@click.option(
    "--log_output_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="File to log to, with older lines in FILE.1 to FILE.5; default: standard error.",
)
@click.option("--tag", help=f"Lease only tasks with this tag. {OWN}")
@click.option("--exit_when_empty/--noexit_when_empty", help=f"End when no task is left. {OWN}")
@api_flags("testpuller")
def gtaskqueue_puller(*, log_output_file: Path | None, **given: Any) -> None:  # noqa: ANN401 - parsed
    """Run a program for each task of a queue.

    A task is deleted when its program has ended with status 0 and its output was posted, if that
    was asked for. While a program runs, its lease is extended. The task of a program that fails is
    leased again when its lease has run out.

    All flags may have one dash. Google's --credentials_file, --use_developer_key and
    --developer_key_file are accepted and ignored, since the emulator needs no key.
    """
    handler: logging.Handler = logging.StreamHandler()
    if log_output_file is not None:
        handler = RotatingFileHandler(log_output_file, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES)
    logging.basicConfig(format=_LOG_FORMAT, level=logging.INFO, handlers=[handler])
    api = TaskQueueApi(**{name: given.pop(name) for name in ApiFlags.__annotations__})
    puller = Puller(api, PullerFlags(**given))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=puller.stop).start())
    puller.run()


class Puller:
    """Leases tasks and looks after the programs that work on them."""

    def __init__(self, api: TaskQueueApi, flags: PullerFlags) -> None:
        self._api = api
        self._flags = flags
        self._running: dict[str, Program] = {}
        self._stopped = threading.Event()
        self._leased = 0
        """Number of tasks of the last lease."""
        self._leased_at = self._no_lease_before = 0.0
        self._first_end: float | None = None
        """When the first program since the last lease ended."""

    def stop(self) -> None:
        """End `run`: programs are ended, and their tasks released."""
        self._stopped.set()

    def run(self) -> None:
        """Work until stopped; with --exit_when_empty, until no task is left."""
        try:
            while not self._stopped.is_set():
                if self._may_lease():
                    self._lease()
                    if self._flags.exit_when_empty and not self._running and not self._leased:
                        return
                self._stopped.wait(self._pause())
                self._poll()
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
        return running < flags.num_tasks and (
            running <= flags.min_running_tasks or waited > flags.timeout_secs_for_next_lease_request
        )

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
            if running := self._running.get(task["id"]):
                running.set_lease(task)  # its lease had run out
            elif program := Program.start(flags, task):
                self._running[task["id"]] = program

    def _pause(self) -> float:
        """Return how long to wait, in seconds: leases are to be extended in time."""
        if self._running:
            return min(self._flags.sleep_before_next_poll_secs, self._flags.lease_secs / 4)
        return max(self._no_lease_before - monotonic(), 0.0)

    def _poll(self) -> None:
        for name, program in list(self._running.items()):
            if not program.poll(self._api):
                del self._running[name]
                self._first_end = self._first_end or monotonic()
