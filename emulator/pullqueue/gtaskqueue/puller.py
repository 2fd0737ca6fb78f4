"""`gtaskqueue_puller`: run a program for each task of a queue, several at once."""

from __future__ import annotations

import logging
import math
import shlex
import shutil
import signal
import threading
from logging.handlers import RotatingFileHandler
from pathlib import Path
from time import monotonic
from typing import Any

import click

from pullqueue.gtaskqueue.api import ApiError, ApiFlags, TaskQueueApi
from pullqueue.gtaskqueue.flags import CONTEXT, OWN, FlagsCommand, api_flags, lease_secs_flag
from pullqueue.gtaskqueue.programs import Program, PullerFlags

_LOG_BYTES = 2**20
_LOG_FILES = 5
_LOG_FORMAT = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"

_log = logging.getLogger("pullqueue.puller")


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
