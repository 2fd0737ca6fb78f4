"""The command `pullqueue plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pullqueue.cli._output import say
from pullqueue.cli._words import Choice
from pullqueue.error_codes import EXIT_REFUSED

if TYPE_CHECKING:
    from pullqueue.lint.deployment import QueueState

_EXIT_CHANGES = 2
_MAX_DEPLOYED_BYTES = 64 * 1_048_576


@click.command
@click.argument("file", metavar="[FILE]", default="queue.yaml")
@click.option(
    "--deployed",
    metavar="JSON",
    help="Compare with the queues in this file: the output of `gcloud tasks queues list "
    "--format=json`.",
)
@click.option(
    "--against", metavar="REV|FILE", help="Compare with a git revision, or with another file."
)
@click.option(
    "--detailed-exitcode", is_flag=True, help="Exit with 2 if the deployment would do something."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--format",
    "output_format",
    type=Choice(["text", "json", "github", "gitlab"]),
    default="text",
    help="Output format; github and gitlab are Markdown for a comment.",
)
def plan(
    *,
    file: str,
    deployed: str | None,
    against: str | None,
    detailed_exitcode: bool,
    as_json: bool,
    output_format: str,
) -> int:
    """Show what a deployment of queue.yaml would change.

    FILE is queue.yaml by default. Values are compared as they are deployed: a default that is
    written out is not a change. Exit status: 0 done, 1 the file is not valid, or a queue has
    another mode, which breaks it, 2 (with --detailed-exitcode) something would change, 3 a file
    cannot be read.
    """
    from pullqueue.config.files import read_project_file  # noqa: PLC0415 - only a run needs it
    from pullqueue.config.loading import load_content  # noqa: PLC0415 - the same
    from pullqueue.lint.plan import make_plan  # noqa: PLC0415 - the same
    from pullqueue.lint.plan_report import REPORTERS  # noqa: PLC0415 - the same

    if (deployed is None) == (against is None):
        raise click.UsageError("pass --deployed or --against, one of them")
    config = load_content(read_project_file(file), file=file, profile="gcloud")
    states = _deployed(deployed) if deployed is not None else _earlier(file, against or "")
    what = deployed if deployed is not None else against
    made = make_plan(config, states)
    title = f"What a deployment of {file} changes, compared with {what}"
    report = REPORTERS["json" if as_json else output_format](made, title=title)
    click.echo(report.encode(errors="replace"), nl=False)
    if made.is_refused:
        return EXIT_REFUSED
    return _EXIT_CHANGES if detailed_exitcode and made.has_changes else 0


def _deployed(file: str) -> dict[str, QueueState]:
    from pullqueue.config.files import read_project_file  # noqa: PLC0415 - only a run needs it
    from pullqueue.lint.plan import DeployedError, read_deployed  # noqa: PLC0415 - the same

    try:
        data = read_project_file(file, max_bytes=_MAX_DEPLOYED_BYTES)
        return read_deployed(data, file=file)
    except DeployedError as error:
        raise click.ClickException(str(error)) from None


def _earlier(file: str, name: str) -> dict[str, QueueState]:
    from pullqueue.config.loading import load_content  # noqa: PLC0415 - only a run needs it
    from pullqueue.lint.errors import InvalidOptionError  # noqa: PLC0415 - the same
    from pullqueue.lint.git import Earlier  # noqa: PLC0415 - the same
    from pullqueue.lint.plan import states_of  # noqa: PLC0415 - the same

    try:
        data = Earlier(name, Path.cwd()).content(Path(file))
    except InvalidOptionError as error:
        raise click.ClickException(str(error)) from None
    if not data:
        say(f'pullqueue: "{file}" is not in "{name}": everything is new', err=True)
        return {}
    return states_of(load_content(data, file=f"{name}:{file}", profile="gcloud"))
