"""`pullqueue cron`: the cron jobs of a running server."""

from __future__ import annotations

import click

from pullqueue.cli._client import Client
from pullqueue.cli._options import server_options
from pullqueue.cli._output import Table, show, when
from pullqueue.cli._words import Group
from pullqueue.cli.connection import Json

_HEAD = ("NUMBER", "JOB", "URL", "SCHEDULE", "NEXT (UTC)", "LAST (UTC)", "STATUS")


@click.group(cls=Group, invoke_without_command=True)
@server_options
@click.pass_context
def cron(ctx: click.Context, *, client: Client) -> None:
    """List the cron jobs of the server, or run one.

    They are those of the file that its option --cron names.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, client=client)


@cron.command("list")
@server_options
def list_(*, client: Client) -> None:
    """List the jobs, with their next and last runs, as `cron` alone does."""
    answer = client.get("/cron")
    rows = map(_row, answer["jobs"])
    show(answer, Table(_HEAD, rows, "no cron jobs", cut=["JOB", "URL", "SCHEDULE", "STATUS"]))


@cron.command
@click.argument("job")
@server_options
def run(*, job: str, client: Client) -> None:
    """Run a JOB now, past its schedule: its description, URL or number."""
    answer = client.post("/cron/run", job=job)
    show(answer, "started" if answer["started"] else "the job is running already")


def _row(job: Json) -> list[object]:
    last = job["last"]
    zone = "" if job["timezone"] == "UTC" else f" ({job['timezone']})"
    return [
        job["number"],
        job["name"],
        job["url"],
        f"{job['schedule']}{zone}",
        "running" if job["running"] else when(job["next"]),
        "-" if last is None else when(last["started"]),
        "-" if last is None else _result(job),
    ]


def _result(job: Json) -> str:
    """Return how the last run of a job ended."""
    last = job["last"]
    text = str(last["status"] or "no response")
    text += f": {last['reason']}" if last["reason"] else ""
    return f"{text} (is repeated)" if job["retries"] else text
