"""Commands on a server as a whole: wait, deliver, reload, reset, snapshot, clock and others."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic

import click
import msgspec

from pullqueue.cli._client import Client, FailedError, RefusedError, queue_path
from pullqueue.cli._options import (
    DURATION_ADVICE,
    Duration,
    complete_queue,
    is_passed,
    parse_seconds,
    server_options,
    since_option,
    yes_option,
)
from pullqueue.cli._output import (
    STDIN,
    Table,
    confirm,
    note,
    read_content,
    say,
    show,
    when,
    write_bytes,
)
from pullqueue.cli._port_file import ServerOfFile
from pullqueue.cli._words import Group
from pullqueue.cli.connection import Json
from pullqueue.config.files import replace_file
from pullqueue.errors import ConfigFileError
from pullqueue.push.addresses import KEPT
from pullqueue.resources.snapshot_diff import Snapshot, compare_snapshots, read_snapshot
from pullqueue.tasks import count_tasks
from pullqueue.text import counted, format_size, format_span

_PAUSE_SECONDS = 0.1
_MIN_SECONDS = 1.0
_MAX_SECONDS = 60.0
"""Minimum and maximum time of one request of `wait`."""
_SUMMED = ("expired", "due", "delivered", "failed", "exhausted")
"""Numbers of a step of the clock that are added up over several steps."""
_NOW = ("sending", "waiting")
"""Numbers of a step that are true at its end."""
_NEGATIVE = {"ignore_unknown_options": True}
"""Makes `-5s` an argument, about which a message can be written."""

_file_argument = click.argument("file", type=click.Path(path_type=Path))


@click.command
@click.argument("addresses", metavar="[TARGET=]URL", nargs=-1)
@click.option("--keep", is_flag=True, help="Keep push tasks: deliver them nowhere.")
@server_options
def deliver(*, addresses: tuple[str, ...], keep: bool, client: Client) -> None:
    """Deliver push tasks to other addresses from now on.

    A TARGET is the name of a service, or an origin such as https://api.example.com. Attempts under
    way go on. `pullqueue server` shows the addresses.
    """
    if bool(addresses) == keep:
        raise click.UsageError("pass addresses, such as http://localhost:8080, or --keep")
    answer = client.post("/push_to", push_to=addresses)
    where = ", ".join(answer["push_to"])
    show(answer, f"push tasks are delivered to {where}" if where else f"push tasks are {KEPT}")


@click.command
@click.option(
    "--empty",
    "queues",
    multiple=True,
    metavar="QUEUE",
    shell_complete=complete_queue,
    help="Wait until this queue has no task, leased or not; repeatable.",
)
@click.option(
    "--timeout",
    type=Duration(0),
    default=30.0,
    help="Maximum time to wait, in seconds or such as 2min; 0 checks once.",
)
@click.option(
    "--port-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Wait for the server that was started with this --port-file, on this machine, and fail as "
    "soon as it has ended. Its address is 127.0.0.1, unless --url is passed.",
)
@server_options
def wait(
    *, queues: tuple[str, ...], timeout: float, port_file: Path | None, client: Client
) -> None:
    """Wait until the server is ready, or until queues are empty.

    The exit status is 1 if that takes longer than --timeout, 3 if the server of --port-file has
    ended. A queue without tasks can have exhausted ones, whose work was not done: their number is
    printed on standard error, and does not change the exit status.
    """
    end = monotonic() + timeout
    pause = threading.Event()
    server = ServerOfFile(port_file) if port_file else None
    while True:
        url, missing = server.look() if server else (client.url, None)
        exhausted: list[str] = []
        if url is not None:
            # A client that waits no longer for a response than there is time.
            left = min(max(end - monotonic(), _MIN_SECONDS), _MAX_SECONDS)
            url = client.url if is_passed("client") else url
            with closing(Client(url, timeout=left)) as polled:
                missing, exhausted = _missing(polled, queues)
            if missing is None and server:
                server.look()  # another may have responded in its place
        if missing is None:
            for line in exhausted:
                note(line)
            return
        if monotonic() >= end:
            raise click.ClickException(f"after {timeout:.15g} s, {missing}")
        pause.wait(_PAUSE_SECONDS)


def _missing(client: Client, queues: tuple[str, ...]) -> tuple[str | None, list[str]]:
    """Return what to wait for (None: nothing), and which of the queues have exhausted tasks."""
    exhausted = []
    try:
        client.get("/ready")
        for queue in queues:
            numbers = client.get(queue_path(queue))["queue"]
            if numbers["tasks"]:
                left = count_tasks(numbers["tasks"])
                busy = "running" if numbers["mode"] == "push" else "leased"
                return f'queue "{queue}" has {left}, {numbers[busy]} of them {busy}', []
            if numbers["exhausted"]:
                exhausted.append(
                    f'queue "{queue}" is empty; exhausted tasks: {numbers["exhausted"]} (see '
                    f"`pullqueue tasks list {queue} --state exhausted`)"
                )
    except FailedError as error:
        return error.message, []
    return None, exhausted


@click.command
@server_options
def reload(*, client: Client) -> None:
    """Reload queue.yaml; a file that is not valid changes nothing."""
    answer = client.post("/reload")
    fields = {"added": "added", "changed": "changed", "disabled": "removed"}
    lines = [
        f"{verb}: {', '.join(answer[field])}" for verb, field in fields.items() if answer[field]
    ]
    if answer["total_storage_limit"]:
        lines.append("changed: total_storage_limit")
    show(answer, *(lines or ["nothing changed"]))


@click.command
@click.option(
    "--keep-queues", is_flag=True, help="Keep queues created at run time, as by CreateQueue."
)
@click.option(
    "--services",
    is_flag=True,
    help="Delete the data of App Engine's other services, too: entities, blobs, memcache.",
)
@yes_option
@server_options
def reset(*, keep_queues: bool, services: bool, yes: bool, client: Client) -> None:
    """Delete all tasks, history and faults (asks for confirmation).

    Push tasks, recorded requests and queues created at run time (as by CreateQueue of Cloud Tasks)
    are deleted, too; names of deleted tasks can be used again. The queues of queue.yaml, their
    settings and the clock are not changed.
    """
    if not yes:
        faults, tasks = client.get("/faults")["faults"], _stored_tasks(client)
        lost = [count_tasks(tasks)] if tasks else []
        lost += [counted(len(faults), "fault")] if faults else []
        lost += ["all entities and blobs"] if services else []
        if lost:
            confirm(f"Delete everything, including {' and '.join(lost)}?")
    answer = client.post("/reset", keep_queues=keep_queues, services=services)
    also = ", and the data of App Engine's other services" if services else ""
    show(answer, f"everything is deleted: {count_tasks(answer['deleted'])}{also}")


def _stored_tasks(client: Client) -> int:
    queues = client.get("/queues")["queues"]
    return sum(queue["tasks"] + queue["exhausted"] for queue in queues)


@click.command
@server_options
def server(*, client: Client) -> None:
    """Show where the server listens, and how it was started."""
    answer = client.get("/server")
    facts = {
        "url": answer["url"],
        "gRPC": answer["grpc"] or "off",
        "store": answer["store"],
        "auth": answer["auth"],
        "project": answer["project"] or "any",
        "file": answer["file"],
        "profile": answer["profile"] or "none",
        "clock": "manual" if answer["manual_clock"] else "system",
        "push tasks": ", ".join(answer["push_to"]) or KEPT,
        "cron": counted(answer["cron_jobs"], "job") if answer["cron_jobs"] else "off",
        "services": ", ".join(answer["services"]) or "none",
        "data": answer["data"] or "in memory",
        "up": format_span(answer["uptime_seconds"]),
        "version": f"{answer['version']} (Python {answer['python']})",
    }
    show(answer, *(f"{name:<11} {value}" for name, value in facts.items()))


def _counts(tasks: int, exhausted: int) -> str:
    return f"{count_tasks(tasks)}{f' and {exhausted} exhausted' if exhausted else ''}"


@click.command
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, help="Maximum number.")
@since_option
@server_options
def activity(*, limit: int, since: str | None, client: Client) -> None:
    """List what operators did and what failed, the latest first.

    Operators pause, purge, set faults, move the clock and the like, by commands, the console, the
    control routes and Cloud Tasks. Requests, calls and attempts that fail in the same way are one
    line, until somebody does something, or for a minute none fails. Exhausted tasks are counted by
    the minute. `pullqueue requests` lists each request.

    A reset deletes none of it but exhausted tasks. Actions on a server that was stopped are in its
    log only.
    """
    answer = client.get("/activity", limit=limit, since=since)
    rows = [
        [when(each["time"]), each["text"], each["interface"] or "", each["client"]]
        for each in answer["activity"]
    ]
    head = ("TIME (UTC)", "WHAT", "INTERFACE", "CLIENT")
    empty = f"nothing has happened since {since or 'the server started'}"
    show(answer, Table(head, rows, empty, ("CLIENT", "WHAT"), ("INTERFACE",)))


@click.group(cls=Group)
def snapshot() -> None:
    """Save the contents of all queues to a file, and load it.

    Tasks, leases, reserved names, exhausted tasks, and how many tasks were leased in the last hour
    are saved; the history of the tasks, and what is counted from it, are not.
    """


@snapshot.command
@_file_argument
@click.option("--force", is_flag=True, help="Replace any file, not just a snapshot.")
@server_options
def save(*, file: Path, force: bool, client: Client) -> None:
    """Save to FILE, or to standard output (-).

    A new FILE can be read by its owner only. Entities and other data of App Engine's services are
    not saved: start the server with --data to keep them.
    """
    if not force:
        _check_replaceable(file, "a snapshot", _is_snapshot)
    data = client.read("GET", "/snapshot")
    if str(file) == STDIN:
        write_bytes(data)
        return
    try:
        saved = msgspec.json.decode(data, type=Snapshot).queues.values()
    except (ValueError, RecursionError):
        raise FailedError(f"the response of {client.url} is not a snapshot") from None
    counts = _counts(
        sum(len(queue.tasks) for queue in saved), sum(len(queue.exhausted) for queue in saved)
    )
    _write(data, file, f"{counts}, {format_size(len(data))}")


@snapshot.command
@_file_argument
@click.option(
    "--shift",
    is_flag=True,
    help="Move all times by the time between the snapshot and now; leases keep what remains.",
)
@yes_option
@server_options
def load(*, file: Path, shift: bool, yes: bool, client: Client) -> None:
    """Load FILE, or standard input (-).

    It replaces the contents of all queues, and asks for confirmation if they have any.
    """
    data = read_content(file)
    try:
        # Any other file is refused, whatever the answer is.
        if not yes and _is(_is_snapshot, data) and (tasks := _stored_tasks(client)):
            confirm(f"Replace everything, including {count_tasks(tasks)}?")
        if sys.stderr.isatty():
            note(f"Loading {file} ({format_size(len(data))})...")
        answer = client.call("PUT", "/snapshot", data, shift="true" if shift else None)
    except KeyboardInterrupt:
        note(
            "interrupted: once the server has the whole file it loads it nevertheless; "
            "`pullqueue queues` shows what it has"
        )
        raise
    except RefusedError as error:
        message = f"{file} cannot be loaded: {error.message}"
        if isinstance(error, FailedError):
            raise FailedError(message) from None
        raise RefusedError(f"{message}; nothing was changed") from None
    show(answer, f"{_counts(answer['tasks'], answer['exhausted'])} loaded")
    if answer["warning"]:
        say(f"warning: {answer['warning']} (--shift)", err=True)


@snapshot.command
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="[B]", required=False, type=click.Path(path_type=Path))
@click.option("--limit", type=click.IntRange(0), default=20, help="Tasks listed of each queue.")
@server_options
def diff(*, before: Path, after: Path | None, limit: int, client: Client) -> None:
    """Compare the snapshots A and B, or A and the running server.

    Tasks of B are ADDED (+), or GONE (-) of A: deleted or exhausted; CHANGED tasks (~) are named
    with the fields that differ. EXHAUSTED tasks (!) are those that A has not. The exit status is 0
    in any case.
    """
    old = read_snapshot(read_content(before), str(before))
    data = client.read("GET", "/snapshot") if after is None else read_content(after)
    diffs = compare_snapshots(old, read_snapshot(data, str(after or client.url)))
    rows = [
        [each.queue, len(each.added), len(each.gone), len(each.changed), len(each.exhausted)]
        for each in diffs
    ]
    head = ("QUEUE", "ADDED", "GONE", "CHANGED", "EXHAUSTED")
    show(
        {"queues": msgspec.to_builtins(diffs)},
        Table(head, rows, "no task differs", ["QUEUE"]),
        *(line for each in diffs for line in each.lines(limit, " (--limit)")),
    )


@click.group(cls=Group, invoke_without_command=True)
@server_options
@click.pass_context
def clock(ctx: click.Context, *, client: Client) -> None:
    """Show the server's time, or move it.

    Only the time of a server that was started with --clock manual can be moved.
    """
    if ctx.invoked_subcommand is None:
        _show_clock(client.get("/clock"))


_deliver_option = click.option(
    "--deliver",
    is_flag=True,
    help="Deliver push tasks while the time passes, at the rates and with the retries "
    "of their queues.",
)


@clock.command(context_settings=_NEGATIVE)
@click.argument("by")
@_deliver_option
@server_options
def advance(*, by: str, deliver: bool, client: Client) -> None:
    """Move the clock forward BY a time span.

    BY is a number of seconds, or a time span such as 10min, 2h or 7d. What that did is listed by
    queue: leases that EXPIRED, tasks that became DUE, attempts that were DELIVERED or FAILED,
    EXHAUSTED tasks, and push tasks that can be sent now (SENDING) or are WAITING. A line below says
    what they wait for.
    """
    seconds = parse_seconds(by)
    if seconds is None or by.startswith("-") or not math.isfinite(seconds):
        problem = ", and a clock never goes back" if by.startswith("-") else ""
        raise click.UsageError(f'BY is "{by}"{problem}: {DURATION_ADVICE}')
    _move(client, deliver=deliver, advance=seconds)


@clock.command("move-to", context_settings=_NEGATIVE)
@click.argument("move_to", metavar="TIME")
@_deliver_option
@server_options
def move_to(*, move_to: str, deliver: bool, client: Client) -> None:
    """Move the clock forward to a TIME such as 2026-01-01T00:00:00Z."""
    _move(client, deliver=deliver, move_to=move_to)


def _move(client: Client, *, deliver: bool, **target: object) -> None:
    """Move the clock, in several steps where delivery takes long, and show what that did."""
    answer = client.post("/clock", deliver=deliver, **target)
    total = {step["queue"]: step for step in answer["steps"]}
    while not answer["reached"]:
        note(f"{when(answer['now'])}: delivering, until {when(answer['target'])}")
        answer = client.post("/clock", deliver=deliver, move_to=answer["target"])
        for step in answer["steps"]:
            before = total.get(step["queue"], {})
            summed = {name: before.get(name, 0) + step[name] for name in _SUMMED}
            total[step["queue"]] = {**step, **summed}
    _show_step({**answer, "steps": list(total.values())})


def _show_clock(answer: Json, *more: Table) -> None:
    show(answer, f"{answer['now']}  ({'manual' if answer['manual'] else 'system'} clock)", *more)


def _show_step(answer: Json) -> None:
    rows = [[step[name] for name in ("queue", *_SUMMED, *_NOW)] for step in answer["steps"]]
    head = [name.upper() for name in ("queue", *_SUMMED, *_NOW)]
    left_out = ("EXPIRED", "DUE")
    _show_clock(answer, *([Table(head, rows, "", ["QUEUE"], left_out)] if rows else []))
    for step in answer["steps"]:
        if step["text"]:
            note(f"{step['queue']}: {step['text']}")


@click.command
@click.argument("email")
@server_options
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=STDIN,
    help="File to write; - is standard output.",
)
@click.option("--force", is_flag=True, help="Replace any file, not just a key of pullqueue's.")
def credentials(*, email: str, client: Client, output: Path, force: bool) -> None:
    """Write the key file of the service account EMAIL.

    The running server creates the key and issues tokens for it until it stops. Use the file like
    one downloaded from Google: with google-auth, or as GOOGLE_APPLICATION_CREDENTIALS.
    """
    if not force:
        _check_replaceable(output, "a key of pullqueue's", _is_key)
    key = json.dumps(client.post("/credentials", email=email), indent=2)
    _write(f"{key}\n".encode(), output, f"the key of {email}")


def _check_replaceable(file: Path, what: str, is_one: Callable[[Json], bool]) -> None:
    """Check that a file is not there, is empty, or is one that this command wrote before."""
    try:
        if str(file) == STDIN or not file.exists() or (file.is_file() and not file.stat().st_size):
            return
        replaceable = file.is_file() and _is(is_one, read_content(file))
    except (OSError, ConfigFileError):  # of the look at it, or of reading it
        replaceable = False
    if not replaceable:
        raise click.ClickException(
            f'"{file}" exists, and is not {what}: name another file, or replace it with --force'
        )


def _is(is_one: Callable[[Json], bool], data: bytes) -> bool:
    """Return whether data are a JSON object of a kind."""
    try:
        return is_one(json.loads(data))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def _is_snapshot(content: Json) -> bool:
    return str(content["format"]).startswith("pullqueue-snapshot/")


def _is_key(content: Json) -> bool:
    # Ids of Google's keys are hexadecimal; those here are signed, after a dot.
    return "." in content["private_key_id"]


def _write(data: bytes, file: Path, what: str) -> None:
    """Write what a server answered to standard output (-), or a file for its owner alone."""
    if str(file) == STDIN:
        write_bytes(data)
        return
    replace_file(file, data, private=True)
    show({"file": str(file), "bytes": len(data)}, f"{file}: {what}")
