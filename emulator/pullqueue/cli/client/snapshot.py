"""`pullqueue snapshot`: save the contents of all queues, load and compare them."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from pullqueue.cli._output import STDIN, Table, confirm, note, read_content, say, show, write_bytes
from pullqueue.cli._words import Group
from pullqueue.cli.client import Client, FailedError, RefusedError
from pullqueue.cli.client._files import check_replaceable, is_json, write_private
from pullqueue.cli.client._options import count_stored, server_options, yes_option
from pullqueue.cli.client.connection import Json
from pullqueue.resources.snapshot_diff import Snapshot, compare_snapshots, read_snapshot
from pullqueue.tasks import count_tasks
from pullqueue.text import format_size

_file_argument = click.argument("file", type=click.Path(path_type=Path))


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
        check_replaceable(file, "a snapshot", _is_snapshot)
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
    write_private(data, file, f"{counts}, {format_size(len(data))}")


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
        if not yes and is_json(_is_snapshot, data) and (tasks := count_stored(client)):
            confirm(f"Replace everything, including {count_tasks(tasks)}?")
        if sys.stderr.isatty():
            note(f"Loading {file} ({format_size(len(data))})...")
        answer = client.call("PUT", "/snapshot", data, shift="true" if shift else None)
    except KeyboardInterrupt:
        note(
            "interrupted: once the server has the whole file it loads it nevertheless; "
            f"{client.command('queues')} shows what it has"
        )
        raise
    except RefusedError as error:
        message = f"{file} cannot be loaded: {error.message}"
        if isinstance(error, FailedError):
            raise FailedError(message) from None
        read_snapshot(data, str(file))  # a file that is not one has a message of its own
        raise RefusedError(f"{message}; nothing was changed") from None
    show(answer, f"{_counts(answer['tasks'], answer['exhausted'])} loaded")
    if answer["warning"]:
        say(f"warning: {answer['warning']} (--shift)", err=True)


@snapshot.command
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="[B]", required=False, type=click.Path(path_type=Path))
@click.option("--limit", type=click.IntRange(0), default=5, help="Tasks that are named in a row.")
@server_options
def diff(*, before: Path, after: Path | None, limit: int, client: Client) -> None:
    """Compare the snapshots A and B, or A and the running server.

    Added tasks are only in B, gone ones only in A: they were deleted or exhausted. Changed tasks
    are named with the fields that differ. Exhausted tasks are those that are exhausted in B only.
    The exit status is always 0.
    """
    old = read_snapshot(read_content(before), str(before))
    data = client.read("GET", "/snapshot") if after is None else read_content(after)
    found = compare_snapshots(old, read_snapshot(data, str(after or client.url)))
    rows = [[each.queue, each.change, len(each.tasks), each.names(limit)] for each in found]
    table = Table(("QUEUE", "CHANGE", "TASKS", "NAMES"), rows, "no task differs", ["NAMES"])
    show({"differences": msgspec.to_builtins(found)}, table)


def _is_snapshot(content: Json) -> bool:
    return str(content["format"]).startswith("pullqueue-snapshot/")


def _counts(tasks: int, exhausted: int) -> str:
    return f"{count_tasks(tasks)}{f' and {exhausted} exhausted' if exhausted else ''}"
