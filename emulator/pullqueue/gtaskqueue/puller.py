"""`gtaskqueue_puller`: run a program for each task of a queue, several at once."""

from __future__ import annotations

import logging
import shlex
import shutil
import signal
import threading
from pathlib import Path

import click

from pullqueue.error_codes import EXIT_USAGE
from pullqueue.gtaskqueue.api import ApiError, TaskQueueApi
from pullqueue.gtaskqueue.options import api_options, lease_secs_option
from pullqueue.gtaskqueue.programs import Order, Program

_LOOK_SECONDS = 0.1
"""How often the programs are looked at."""

_log = logging.getLogger("pullqueue.puller")


class _UnusableError(click.ClickException):
    """a flag names what cannot be used"""

    exit_code = EXIT_USAGE


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@api_options
@lease_secs_option
@click.option(
    "--num_tasks",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="How many programs run at once, at most.",
)
@click.option(
    "--min_running_tasks",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Lease more only when fewer than this are running; 0: whenever there is room.",
)
@click.option(
    "--sleep_interval_secs",
    type=click.FloatRange(0),
    default=2.0,
    show_default=True,
    help="How long to wait after a lease that gave nothing.",
)
@click.option(
    "--executable_binary",
    default="/bin/cat",
    show_default=True,
    help="The program and its arguments; the names of two files follow: one has the payload, into "
    "the other goes the output.",
)
@click.option(
    "--output_url",
    help="Where to post the output; the task's name is put behind it (.../done?name=).",
)
@click.option(
    "--appengine_access_token_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file with the bearer token that goes with the output.",
)
@click.option(
    "--task_timeout_secs",
    type=click.FloatRange(0, min_open=True),
    default=3600.0,
    show_default=True,
    help="When to end a program that takes too long; its task stays in the queue.",
)
@click.option("--tag", help="Only tasks with this tag.")
@click.option("--exit_when_empty", is_flag=True, help="End when there is nothing left to do.")
def gtaskqueue_puller(
    *,
    project: str,
    taskqueue_name: str,
    api_host: str | None,
    access_token: str | None,
    lease_secs: int,
    num_tasks: int,
    min_running_tasks: int,
    sleep_interval_secs: float,
    executable_binary: str,
    output_url: str | None,
    appengine_access_token_file: Path | None,
    task_timeout_secs: float,
    tag: str | None,
    exit_when_empty: bool,
) -> None:
    """Run a program for each task of a queue.

    A task is deleted when its program ends with status 0 and its output was posted, if that was
    asked for. While a program runs, its lease is extended. The task of a program that fails is
    leased again when its lease has run out.
    """
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
    order = Order(
        command=_command(executable_binary),
        lease_secs=lease_secs,
        timeout_seconds=task_timeout_secs,
        output_url=output_url,
        output_token=_token(appengine_access_token_file),
    )
    puller = Puller(
        TaskQueueApi(api_host, project, taskqueue_name, access_token=access_token),
        order,
        at_once=num_tasks,
        refill_below=min_running_tasks or num_tasks,
        pause_seconds=sleep_interval_secs,
        tag=tag,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=puller.stop).start())
    puller.run(until_empty=exit_when_empty)


def _command(text: str) -> list[str]:
    """Give a program and its arguments, as a shell would split them."""
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise _UnusableError(f"--executable_binary is {text!r}: {error}") from None
    if not command or shutil.which(command[0]) is None:
        raise _UnusableError(
            f"--executable_binary is {text!r}, whose program is not found: check its spelling"
        )
    return command


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ApiError(f"cannot read {str(file)!r}: {error}") from None


class Puller:
    """Leases tasks and looks after the programs that work on them."""

    def __init__(
        self,
        api: TaskQueueApi,
        order: Order,
        *,
        at_once: int,
        refill_below: int,
        pause_seconds: float,
        tag: str | None,
    ) -> None:
        self._api = api
        self._order = order
        self._at_once = at_once
        self._refill_below = refill_below
        self._pause_seconds = pause_seconds
        self._tag = tag
        self._running: list[Program] = []
        self._stopped = threading.Event()
        self._looks_until_lease = 0

    def stop(self) -> None:
        """Let `run` end: programs are ended, and their tasks given back."""
        self._stopped.set()

    def run(self, *, until_empty: bool = False) -> None:
        """Work until stopped, or until there is nothing left to do.

        Raises:
            ApiError: it cannot be told whether anything is left, with `until_empty`.
        """
        try:
            while not self._stopped.is_set():
                leased = self._refill(until_empty=until_empty)
                self._running = [each for each in self._running if each.goes_on(self._api)]
                if until_empty and not self._running and leased == 0:
                    return
                self._stopped.wait(_LOOK_SECONDS)
        finally:
            for program in self._running:
                program.give_up(self._api)

    def _refill(self, *, until_empty: bool) -> int | None:
        """Lease as many tasks as there is room for, and tell how many; None: none were asked for.

        A failing server is asked again after the pause, unless this was the last thing to do.
        """
        self._looks_until_lease -= 1
        if len(self._running) >= self._refill_below or self._looks_until_lease >= 0:
            return None
        room = self._at_once - len(self._running)
        try:
            answer = self._api.lease(
                lease_secs=self._order.lease_secs, num_tasks=room, tag=self._tag
            )
        except ApiError as error:
            if until_empty and not self._running:
                raise
            _log.error("no task could be leased: %s", error.message)
            self._looks_until_lease = round(self._pause_seconds / _LOOK_SECONDS)
            return None
        tasks = answer.get("items", [])
        if not tasks:
            self._looks_until_lease = round(self._pause_seconds / _LOOK_SECONDS)
        for task in tasks:
            program = Program.started(self._order, task)
            if program is not None:
                self._running.append(program)
        return len(tasks)
