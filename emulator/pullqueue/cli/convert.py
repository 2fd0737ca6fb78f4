"""The command `pullqueue convert`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pullqueue.cli._options import checked
from pullqueue.cli._output import read_config, say
from pullqueue.cli._words import Choice
from pullqueue.error_codes import EXIT_REFUSED

if TYPE_CHECKING:
    from pullqueue.lint.convert import Remark

_TARGETS = ("gcloud", "terraform", "json")
_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z0-9][a-z0-9-]*")
_LOCATION = re.compile(r"[a-z0-9][a-z0-9-]*")
_PERMITTED = "use lower-case letters, digits and hyphens"


@click.command
@click.argument("file", metavar="FILE")
@click.option(
    "--to",
    type=Choice(_TARGETS),
    help="What to convert a queue.yaml to: a shell script, Terraform, or queues as JSON.",
)
@click.option(
    "--project",
    callback=checked(_PROJECT.fullmatch, f"project id: {_PERMITTED}"),
    help="With --to: id of the Google Cloud project.",
)
@click.option(
    "--location",
    callback=checked(_LOCATION.fullmatch, f"location: {_PERMITTED}"),
    help="With --to: region, such as us-central1.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write. Default: standard output.",
)
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def convert(
    *,
    file: str,
    to: str | None,
    project: str | None,
    location: str | None,
    output: Path | None,
    force: bool,
) -> int:
    """Convert queue.xml or queue.yaml to another format.

    A queue.xml becomes a queue.yaml; with --to, the push queues of a queue.yaml become queues of
    Cloud Tasks.

    FILE `-` is standard input. `--to gcloud` writes a shell script that creates or updates the
    queues, `--to terraform` a resource for each, `--to json` what `gcloud tasks queues list
    --format=json` prints. Report on standard error what is not carried over, by its line, and
    what production would refuse. Exit status: 0 everything was converted and is valid, 1
    something was not carried over or is not valid, or the output file exists, 3 a file cannot be
    read or written.
    """
    from pullqueue.config import files

    if to is None and (project or location):
        raise click.UsageError("--project and --location need --to")
    if output and output.is_dir():
        raise click.UsageError(f'"{output}" is a folder: pass the path of the file to write')
    if output and output.exists() and not force:
        raise click.ClickException(f'"{output}" exists: pass --force to replace it')
    data = read_config(file)
    if to:
        text, is_whole = _from_yaml(data, file, to, project or "", location or "")
    else:
        text, is_whole = _from_xml(data, file)
    if output is None:
        click.echo(text.encode(), nl=False)
    else:
        files.replace_project_file(output, text.encode())
    return 0 if is_whole else EXIT_REFUSED


def _from_xml(data: bytes, file: str) -> tuple[str, bool]:
    """Return a queue.xml as queue.yaml, and whether all of it was converted and is valid."""
    from pullqueue.config.findings import Severity
    from pullqueue.config.settings import Settings
    from pullqueue.lint.check import check
    from pullqueue.lint.queue_xml import QueueXmlError, convert_xml

    try:
        done = convert_xml(data)
    except QueueXmlError as error:
        advice = ""
        if file.endswith((".yaml", ".yml")):
            advice = f" (to convert a queue.yaml, pass --to {', '.join(_TARGETS)})"
        raise click.ClickException(f"{file}: {error}{advice}") from None
    _report(file, done.dropped)
    settings = Settings(at_least=Severity.WARNING)
    findings = check(done.text, file=file, settings=settings).findings
    for finding in findings:
        line, column = done.places[finding.line - 1]
        click.echo(str(finding._replace(line=line, column=column)), err=True)
    wrong = [finding for finding in findings if finding.severity is Severity.ERROR]
    return done.text, not (done.dropped or wrong)


def _from_yaml(data: bytes, file: str, to: str, project: str, location: str) -> tuple[str, bool]:
    """Return a queue.yaml in another form, and whether all of it was carried over."""
    from pullqueue.lint.convert import Place, convert_view
    from pullqueue.lint.loading import load_view

    view = load_view(data, file=file, profile="gcloud")
    text, remarks = convert_view(view, to=to, place=Place(project, location))
    _report(file, remarks)
    return text, not any(remark.is_loss for remark in remarks)


def _report(file: str, remarks: Iterable[Remark]) -> None:
    for remark in remarks:
        prefix = "" if remark.is_loss else "note: "
        say(f"{file}:{remark.line}:{remark.column}: {prefix}{remark.message}", err=True)
