"""The two commands of Google's guide to pull queues, `gtaskqueue` and `gtaskqueue_puller`.

They speak `taskqueue/v1beta2` and nothing else, so that they work against any server of it.
"""

from __future__ import annotations

import json
import logging
import math
import shlex
import shutil
import signal
import subprocess
import threading
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from logging.handlers import RotatingFileHandler
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import click

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_ADDRESS
from pullqueue.cli._options import checked, is_passed, parsed
from pullqueue.cli._words import Group
from pullqueue.cli.client import Client, RefusedError
from pullqueue.cli.client.connection import Json, server_url

_LOG_FORMAT = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"
_OWN = "[pullqueue's own]"
"""Marks the flags that Google's commands did not have."""
_CONTEXT = {"help_option_names": ["-h", "--help"], "show_default": True}
_EPILOG = """All flags may have one dash. Those for Google's keys, --credentials_file,
--developer_key_file and --use_developer_key, are ignored."""

_log = logging.getLogger("pullqueue.gtaskqueue")


class _FlagsCommand(click.Command):
    """A command whose flags may have one dash, as in Google's: `-lease_secs=30`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse flags with one dash as flags with two."""
        flags = {name for each in self.get_params(ctx) for name in each.opts + each.secondary_opts}
        with_two = [f"-{arg}" if f"-{arg.partition('=')[0]}" in flags else arg for arg in args]
        return super().parse_args(ctx, with_two)


class _FlagsGroup(_FlagsCommand, Group):
    """A group of such commands."""

    command_class = _FlagsCommand


class _TaskQueueApi:
    """One queue over REST, which the flags name."""

    def __init__(self, flags: Mapping[str, Any]) -> None:
        self._flags = flags
        project, queue = quote(flags["project_name"], safe="~:"), quote(flags["taskqueue_name"], "")
        self._root = f"/taskqueue/{flags['service_version']}/projects/{project}/taskqueues/{queue}"
        url, token = flags["api_host"], flags["access_token"]
        self._client = Client(url, root=self._root, token=token, option="--api_host")

    def lease(self, num_tasks: int) -> Json:
        """Lease tasks as --lease_secs and --tag say."""
        query = {"leaseSecs": self._flags["lease_secs"], "numTasks": num_tasks}
        if self._flags["tag"] is not None:
            query |= {"groupByTag": "true", "tag": self._flags["tag"]}
        return self.call("POST", "tasks", "lease", **query)

    def call(self, verb: str, *names: str, body: object = None, **query: object) -> Json:
        """Call a method by the names below the queue; a ClickException says what fails."""
        path = "".join(f"/{quote(name, safe='')}" for name in names)
        path += f"?{urlencode(query)}" if query else ""
        text, url = json.dumps(body), f"{self._client.url}{self._root}{path}"
        if self._flags["dump_request"]:
            click.echo(f"--request-start--\n{verb} {url}\n{text}\n--request-end--")
        _log.debug("%s %s", verb, url)
        try:
            with closing(self._client):  # it may be long until the next call
                data = self._client.read(verb, path, text.encode() if body else None)
                return self._client.parse(data or b"{}")
        except RefusedError as error:
            raise click.ClickException(error.message) from None  # with the exit status of Google's


def _flag(names: str, default: object, text: str, kind: Any = None, **more: Any) -> click.Option:
    """Return a flag, without a default if that is None; `more` are parameters of click's option."""
    if default is not None:
        more["default"] = default
    return click.Option(names.split(), help=text, type=kind, **more)


_COUNT = click.IntRange(0)
_LEASE_SECS = _flag("--lease_secs", 30, "Lease duration in seconds.", _COUNT)
_TAG = _flag("--tag", None, f"Lease only tasks with this tag. {_OWN}")
_HOST = {"envvar": ADDRESS_VARIABLE, "show_envvar": True, "callback": server_url}
_TOKEN = {"envvar": "GTASKQUEUE_ACCESS_TOKEN", "show_envvar": True}
_IGNORED = {"hidden": True, "expose_value": False}


def _queue_flags(queue: str) -> list[click.Option]:
    """Return the flags of a `_TaskQueueApi`, and those it ignores; `queue` is a default."""
    return [
        _flag("--project_name --project", "default", "Application id."),
        _flag("--taskqueue_name", queue, "Queue."),
        _flag("--service_version", "v1beta2", "API version.", click.Choice(["v1beta1", "v1beta2"])),
        _flag("--api_host", DEFAULT_ADDRESS, "Server, as URL or HOST:PORT.", **_HOST),
        _flag("--access_token", None, f"Bearer token, if the server needs one. {_OWN}", **_TOKEN),
        _flag("--dump_request/--nodump_request", None, "Print every request with its body."),
        _flag("--credentials_file --developer_key_file", None, "", **_IGNORED),
        _flag("--use_developer_key/--nouse_developer_key", None, "", **_IGNORED),
    ]


_LEVELS = click.Choice(["DEBUG", "INFO", "WARNING", "CRITICAL"])
_LEVEL_HELP = "What to log on standard error; DEBUG: every call; default: WARNING."
_LEVEL = {"callback": parsed(lambda level: logging.basicConfig(level=level)), "expose_value": False}
_FLAGS = [_flag("--log_level", None, _LEVEL_HELP, _LEVELS, **_LEVEL), *_queue_flags("myqueue")]
_TASK_NAME = _flag("--task_name", None, "Task.", required=True, callback=checked(len, "task name"))
_STATS = _flag("--get_stats/--noget_stats", None, "Show its statistics, too.")
_MOST = _flag("--num_tasks", 1, "Maximum number of tasks.", click.IntRange(1))
_SHOWN = _flag("--payload_size_to_display", 2**21, "Base64 characters of payloads to show.", _COUNT)
_MAX_DELETE = _flag("--max_delete", 100, "Maximum number of tasks.", _COUNT)


@click.group(cls=_FlagsGroup, context_settings=_CONTEXT, params=[*_FLAGS], epilog=_EPILOG)
@click.version_option(package_name="pullqueue")
def gtaskqueue(**flags: object) -> None:
    """List, lease and delete the tasks of a pull queue over REST.

    The flags below may follow the command as well.
    """
    given = {name: value for name, value in flags.items() if is_passed(name)}
    click.get_current_context().default_map = dict.fromkeys(gtaskqueue.commands, given)


@gtaskqueue.command("help")
@click.argument("command", required=False)
def help_(*, command: str | None) -> None:
    """Show what a command does, and its flags."""
    gtaskqueue.main([command, "--help"] if command else ["--help"], "gtaskqueue")


@gtaskqueue.command(params=[_STATS, *_FLAGS])
def getqueue(*, get_stats: bool, **flags: Any) -> None:
    """Show the queue."""
    _show(_TaskQueueApi(flags).call("GET", getStats=str(get_stats).lower()))


@gtaskqueue.command(params=_FLAGS)
def listtasks(**flags: Any) -> None:
    """List the first hundred tasks, without their payloads."""
    _show(_TaskQueueApi(flags).call("GET", "tasks"))


@gtaskqueue.command(params=[_TASK_NAME, *_FLAGS])
def gettask(*, task_name: str, **flags: Any) -> None:
    """Show one task."""
    _show(_TaskQueueApi(flags).call("GET", "tasks", task_name))


@gtaskqueue.command(params=[_LEASE_SECS, _MOST, _SHOWN, _TAG, *_FLAGS])
def leasetask(*, num_tasks: int, payload_size_to_display: int, **flags: Any) -> None:
    """Lease tasks and show them with their payloads."""
    leased = _TaskQueueApi(flags).lease(num_tasks)
    for task in leased.get("items", []):
        payload = task.get("payloadBase64", "")
        hidden = len(payload) - payload_size_to_display
        if hidden > 0:
            task["payloadBase64"] = f"{payload[:-hidden]}({hidden} more bytes)"
    _show(leased)


@gtaskqueue.command(params=[_TASK_NAME, *_FLAGS])
def deletetask(*, task_name: str, **flags: Any) -> None:
    """Delete one task, leased or not."""
    _TaskQueueApi(flags).call("DELETE", "tasks", task_name)


@gtaskqueue.command(params=[_MAX_DELETE, *_FLAGS])
def clear(*, max_delete: int, **flags: Any) -> None:
    """Delete tasks of the queue, one after the other, and count them."""
    api, deleted, before = _TaskQueueApi(flags), 0, -1
    while deleted < max_delete and (tasks := api.call("GET", "tasks").get("items", [])):
        if deleted == before:
            raise click.ClickException(f"none of {len(tasks)} tasks can be deleted")
        before = deleted
        for task in tasks[: max_delete - deleted]:
            click.echo(f"Deleting: {task['id']}")
            with suppress(click.ClickException):  # a worker was quicker
                api.call("DELETE", "tasks", task["id"])
                deleted += 1
    _show({"deleted": deleted})


def _show(value: Json) -> None:
    click.echo(json.dumps(value, sort_keys=True, indent=2))


class _Program:
    """A program that runs on a leased task."""

    def __init__(self, command: list[str], task: Json) -> None:
        """Start it; an OSError or a ValueError says why that is not possible."""
        self._folder = TemporaryDirectory(prefix="gtaskqueue-")
        payload, self.output = (Path(self._folder.name) / name for name in ("payload", "output"))
        try:
            payload.write_bytes(urlsafe_b64decode(task.get("payloadBase64", "")))
            self.output.touch()
            self.process = subprocess.Popen([*command, payload, self.output])  # noqa: S603 - the user's
        except (OSError, ValueError):
            self._folder.cleanup()
            raise
        self.started = monotonic()
        self.set_lease(task)

    def set_lease(self, task: Json) -> None:
        """Take the task as the lease that was just made returned it."""
        self.task, self.leased = task, monotonic()

    def end(self) -> None:
        """End the program, if it is running, and delete its files."""
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._folder.cleanup()


class _Puller:
    """Leases tasks and looks after the programs that work on them."""

    def __init__(self, flags: SimpleNamespace) -> None:
        self._flags = flags
        self._api = _TaskQueueApi(vars(flags))
        self._running: dict[str, _Program] = {}
        self._next_lease = 0.0  # not before this time
        self._first_end = math.inf  # of a program since the last lease
        self.stopped = threading.Event()

    def run(self) -> None:
        """Work until stopped, then release tasks; with --exit_when_empty, until no task is left."""
        flags = self._flags
        try:
            while not self.stopped.is_set():
                is_empty = self._may_lease() and not self._lease()
                if is_empty and flags.exit_when_empty and not self._running:
                    return
                # Leases are to be extended in time.
                pause = min(flags.sleep_before_next_poll_secs, flags.lease_secs / 4)
                until_lease = max(self._next_lease - monotonic(), 0.0)
                self.stopped.wait(pause if self._running else until_lease)
                for name, program in list(self._running.items()):
                    if self._has_ended(name, program):
                        program.end()
                        del self._running[name]
                        self._first_end = min(self._first_end, monotonic())
                        self._next_lease += 1 / (flags.taskapi_requests_per_sec or math.inf)
        finally:
            for name, program in self._running.items():
                program.end()
                with _logged(name, "not released"):
                    self._change_lease(program, 0)

    def _may_lease(self) -> bool:
        flags, running, now = self._flags, len(self._running), monotonic()
        waited: bool = now - self._first_end > flags.timeout_secs_for_next_lease_request
        may_more: bool = running <= flags.min_running_tasks or waited
        return now >= self._next_lease and running < flags.num_tasks and may_more

    def _lease(self) -> int:
        """Lease as many tasks as there is room for, start their programs, and count them."""
        flags, tasks = self._flags, []
        try:
            tasks = self._api.lease(flags.num_tasks - len(self._running)).get("items", [])
        except click.ClickException as error:
            if flags.exit_when_empty and not self._running:
                raise  # it was the last thing to do
            _log.error("no task could be leased: %s", error.message)
        self._first_end = math.inf
        self._next_lease = monotonic() + (0 if tasks else flags.sleep_interval_secs)
        for task in tasks:
            if running := self._running.get(task["id"]):
                running.set_lease(task)  # its lease had run out
                continue
            with _logged(task["id"], "the program cannot be started"):
                self._running[task["id"]] = _Program(flags.executable_binary, task)
        return len(tasks)

    def _has_ended(self, name: str, program: _Program) -> bool:
        """Return whether a program has ended, or takes too long; finish the task if it is done."""
        flags, status, now = self._flags, program.process.poll(), monotonic()
        if status is None and now - program.started > flags.task_timeout_secs:
            _log.warning("task %s: the program was ended, since it took too long", name)
        elif status is None:
            if now - program.leased >= flags.lease_secs / 2:
                program.leased = now  # of an attempt that fails, too
                with _logged(name, "the lease is not extended"):
                    program.set_lease(self._change_lease(program, flags.lease_secs))
            return False
        elif status:
            _log.warning("task %s: the program ended with status %d", name, status)
        else:
            with _logged(name, "its output cannot be posted"):
                if flags.output_url:
                    self._post(name, program.output.read_bytes())
                with _logged(name, "is done, but not deleted"):
                    self._api.call("DELETE", "tasks", name)
        return True

    def _change_lease(self, program: _Program, seconds: int) -> Json:
        """Make a lease end in so many seconds; 0 releases the task."""
        task = {name: program.task[name] for name in ("id", "leaseTimestamp")}
        body = task | {"queueName": self._flags.taskqueue_name}
        return self._api.call("POST", "tasks", task["id"], body=body, newLeaseSeconds=seconds)

    def _post(self, name: str, output: bytes) -> None:
        headers = {"Content-Type": "byte-array"}  # as Google's
        if token := self._flags.appengine_access_token_file:
            headers["Authorization"] = f"Bearer {token.read_text('utf-8').strip()}"
        request = Request(f"{self._flags.output_url}{quote(name, safe='')}", output, headers)  # noqa: S310 - the user's
        urlopen(request, timeout=60).close()  # noqa: S310 - the user's


@contextmanager
def _logged(name: str, problem: str) -> Iterator[None]:
    """Log what goes wrong with a task, and go on."""
    try:
        yield
    except (click.ClickException, OSError, HTTPException, ValueError) as error:
        _log.warning("task %s: %s: %s", name, problem, error)
        if isinstance(error, HTTPError):
            error.close()  # it is the response, too


def _split(text: str) -> list[str]:
    """Return a program and its arguments, split as a shell would split them."""
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise ValueError(f'"{text}": {error}') from None
    if not command or shutil.which(command[0]) is None:
        raise ValueError(f'program "{text}" is not found: check its spelling')
    return command


_SECONDS, _POSITIVE = click.FloatRange(0), click.FloatRange(0, min_open=True)
_TOKEN_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_LOG_FILE = click.Path(path_type=Path, dir_okay=False, writable=True)
_AGAIN_HELP = "Lease more anyway this long after the first program since the last lease ended."
_RATE_HELP = "Maximum rate of calls: a lease waits where the deletions before it exceed the rate."
_COMMAND_HELP = "Program and arguments. Two file names are added: of the payload, of the output."
_PULLER_FLAGS = [
    _flag("--lease_secs", 30, "Lease duration in seconds.", click.IntRange(1)),
    _flag("--num_tasks", 10, "Maximum number of running programs.", click.IntRange(1, 1000)),
    _flag("--min_running_tasks", 0, "Lease more when no more programs than this run.", _COUNT),
    _flag("--timeout_secs_for_next_lease_request", 600.0, _AGAIN_HELP, _SECONDS),
    _flag("--sleep_interval_secs", 2.0, "Seconds to wait after a lease without tasks.", _SECONDS),
    _flag("--sleep_before_next_poll_secs", 2.0, "Seconds between looks at programs.", _POSITIVE),
    _flag("--taskapi_requests_per_sec", None, _RATE_HELP, click.IntRange(1)),
    _flag("--executable_binary", "/bin/cat", _COMMAND_HELP, callback=parsed(_split)),
    _flag("--output_url", None, "URL to post the output to; the name of the task is added."),
    _flag("--appengine_access_token_file", None, "File with a bearer token for that.", _TOKEN_FILE),
    _flag("--task_timeout_secs", 3600.0, "Seconds after which a program is ended.", _POSITIVE),
    _flag("--log_output_file", None, "File to log to, instead of standard error.", _LOG_FILE),
    _TAG,
    _flag("--exit_when_empty/--noexit_when_empty", None, f"End when no task is left. {_OWN}"),
    *_queue_flags("testpuller"),
]


@click.command(cls=_FlagsCommand, context_settings=_CONTEXT, params=_PULLER_FLAGS, epilog=_EPILOG)
def gtaskqueue_puller(*, log_output_file: Path | None, **flags: Any) -> None:
    """Run a program for each task of a queue.

    A task is deleted when its program has ended with status 0 and its output was posted, if that
    was asked for. While a program runs, its lease is extended. The task of a program that fails or
    is ended is leased again when its lease has run out.
    """
    handler: logging.Handler = logging.StreamHandler()
    if log_output_file is not None:
        handler = RotatingFileHandler(log_output_file, maxBytes=2**20, backupCount=5)
    logging.basicConfig(format=_LOG_FORMAT, level=logging.INFO, handlers=[handler])
    puller = _Puller(SimpleNamespace(**flags))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=puller.stopped.set).start())
    puller.run()
