"""The commands on a running server as a whole: what it is, waiting for it, reset and others."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path
from time import monotonic

import click

from pullqueue.cli._options import Duration, is_passed
from pullqueue.cli._output import STDIN, confirm, note, show
from pullqueue.cli._port_file import ServerOfFile
from pullqueue.cli.client import Client, FailedError, NoServerError, queue_path
from pullqueue.cli.client._files import check_replaceable, write_private
from pullqueue.cli.client._options import complete_queue, count_stored, server_options, yes_option
from pullqueue.push.addresses import KEPT
from pullqueue.tasks import count_tasks
from pullqueue.text import counted, format_span

_ENDS_SOONER = "; with --port-file, passed to both, `wait` ends as soon as `serve` has failed"
_PAUSE_SECONDS = 0.1
_MIN_SECONDS = 1.0
_MAX_SECONDS = 60.0
"""Minimum and maximum time of one request of `wait`."""


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


@click.command
@click.argument("addresses", metavar="[TARGET=]URL", nargs=-1)
@click.option("--keep", is_flag=True, help="Keep push tasks: remove all addresses.")
@server_options
def push_to(*, addresses: tuple[str, ...], keep: bool, client: Client) -> None:
    """Set where push tasks are delivered.

    A TARGET is the name of a service, or an origin such as https://api.example.com; its address is
    replaced, or the default one by a URL without a TARGET. The others stay: --keep removes all.
    Attempts under way go on. `pullqueue server` shows the addresses.
    """
    if bool(addresses) == keep:
        raise click.UsageError("pass addresses, such as http://localhost:8080, or --keep")
    answer = client.post("/push_to", push_to=addresses, keep_others=not keep)
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
    default=30,
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
            with closing(Client(url, project=client.project, timeout=left)) as polled:
                missing, exhausted = _missing(polled, queues, "" if server else _ENDS_SOONER)
            if missing is None and server:
                server.look()  # another may have responded in its place
        if missing is None:
            for line in exhausted:
                note(line)
            return
        if monotonic() >= end:
            raise click.ClickException(f"after {timeout:.15g} s, {missing}")
        pause.wait(_PAUSE_SECONDS)


def _missing(client: Client, queues: tuple[str, ...], hint: str) -> tuple[str | None, list[str]]:
    """Return what to wait for (None: nothing), and which of the queues have exhausted tasks.

    `hint` is added to what is missing where no server responds.
    """
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
                command = client.command(f"tasks list {queue} --state exhausted")
                exhausted.append(
                    f'queue "{queue}" is empty; exhausted tasks: {numbers["exhausted"]} '
                    f"(see {command})"
                )
    except FailedError as error:
        return f"{error.message}{hint if isinstance(error, NoServerError) else ''}", []
    return None, exhausted


@click.command
@server_options
def reload(*, client: Client) -> None:
    """Reload queue.yaml; a file that is not valid changes nothing."""
    answer = client.post("/reload")
    changed = [f"{name} ({', '.join(answer['settings'][name])})" for name in answer["changed"]]
    parts = {"added": answer["added"], "changed": changed, "disabled": answer["removed"]}
    lines = [f"{verb}: {', '.join(names)}" for verb, names in parts.items() if names]
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
        faults, tasks = client.get("/faults")["faults"], count_stored(client)
        lost = [count_tasks(tasks)] if tasks else []
        lost += [counted(len(faults), "fault")] if faults else []
        lost += ["all entities and blobs"] if services else []
        if lost:
            confirm(f"Delete everything, including {' and '.join(lost)}?")
    answer = client.post("/reset", keep_queues=keep_queues, services=services)
    also = ", and the data of App Engine's other services" if services else ""
    show(answer, f"everything is deleted: {count_tasks(answer['deleted'])}{also}")


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
        # Ids of Google's keys are hexadecimal; those here are signed, after a dot.
        check_replaceable(output, "a key of pullqueue's", lambda key: "." in key["private_key_id"])
    key = json.dumps(client.post("/credentials", email=email), indent=2)
    write_private(f"{key}\n".encode(), output, f"the key of {email}")
