"""`pullqueue cron`: the cron jobs of a running server."""

from __future__ import annotations

import threading

import click

from pullqueue.cli._output import Table, show, when
from pullqueue.cli._words import Group
from pullqueue.cli.client import Client
from pullqueue.cli.client._options import server_options
from pullqueue.cli.client.connection import Json
from pullqueue.error_codes import EXIT_REFUSED
from pullqueue.tasks import result_text

_POLL_SECONDS = 0.05
_HEAD = ("NUMBER", "JOB", "URL", "SCHEDULE", "NEXT (UTC)", "LAST (UTC)", "RESULT")


@click.group(cls=Group)
def cron() -> None:
    """List the cron jobs of the server, or run one.

    They are those of the file that its option --cron names.
    """


@cron.command("list")
@server_options
def list_(*, client: Client) -> None:
    """List the jobs, with their next and last runs, as `cron` alone does."""
    answer = client.get("/cron")
    rows = map(_row, answer["jobs"])
    show(answer, Table(_HEAD, rows, "no cron jobs", cut=["JOB", "URL", "SCHEDULE", "RESULT"]))


@cron.command
@click.argument("job")
@click.option("--no-wait", is_flag=True, help="Do not wait for the end of the run.")
@server_options
def run(*, job: str, no_wait: bool, client: Client) -> int:
    """Run a JOB now, past its schedule: its description, URL or number.

    Wait for the end of the run, and show its status. The exit status is 1 if the run fails, or if
    the job is running already.
    """
    answer = client.post("/cron/run", job=job)
    if not answer["started"]:
        show(answer, "the job is running already")
        return EXIT_REFUSED
    if no_wait:
        show(answer, "started")
        return 0
    ended = _end_of_run(client, answer["number"])
    last = ended["last"]
    succeeded = not last["reason"]
    result = result_text(last["status"], last["reason"])
    text = f"{'succeeded' if succeeded else 'failed'}: {result}"
    if ended["retries"]:
        text += f"; is repeated at {when(ended['next'])}"
    show({**answer, "job": ended}, text)
    return 0 if succeeded else EXIT_REFUSED


def _end_of_run(client: Client, number: int) -> Json:
    pause = threading.Event()
    while True:
        jobs: dict[int, Json] = {job["number"]: job for job in client.get("/cron")["jobs"]}
        if not jobs[number]["running"]:
            return jobs[number]
        pause.wait(_POLL_SECONDS)


def _row(job: Json) -> list[object]:
    last = job["last"]
    result = last and result_text(last["status"], last["reason"])
    zone = "" if job["timezone"] == "UTC" else f" ({job['timezone']})"
    return [
        job["number"],
        job["name"],
        job["url"],
        f"{job['schedule']}{zone}",
        "running" if job["running"] else when(job["next"]),
        "-" if last is None else when(last["started"]),
        f"{result or '-'}{', is repeated' if job['retries'] else ''}",
    ]
