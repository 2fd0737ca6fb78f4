"""`pullqueue convert`: a queue.xml of the Java SDK as queue.yaml."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pullqueue.cli._reasons import unwritable
from pullqueue.config.text import escaped

_LOST = 1
_UNREADABLE = 2


@click.command
@click.argument("queue_xml", metavar="QUEUE_XML")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write here, not to standard output."
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.pass_context
def convert(ctx: click.Context, queue_xml: str, *, output: Path | None, force: bool) -> None:
    """Turn a queue.xml (`-` is standard input) into a queue.yaml.

    What cannot be kept is told on standard error, and so is what production would refuse in the
    result. Exit status: 0 everything was kept and is right, 1 something was not, 2 the file
    cannot be read.
    """
    from pullqueue.config.check import check  # noqa: PLC0415 - only a run needs it
    from pullqueue.config.files import read_bytes, replace_file  # noqa: PLC0415 - the same
    from pullqueue.config.findings import Severity  # noqa: PLC0415 - the same
    from pullqueue.config.settings import Settings  # noqa: PLC0415 - the same
    from pullqueue.lint.queue_xml import QueueXmlError, convert_xml  # noqa: PLC0415 - the same

    data = sys.stdin.buffer.read() if queue_xml == "-" else read_bytes(queue_xml)
    try:
        text, lost = convert_xml(data)
    except QueueXmlError as error:
        click.echo(f"pullqueue: {escaped(queue_xml)}: {error}", err=True)
        ctx.exit(_UNREADABLE)
    for message in lost:
        click.echo(f"{escaped(queue_xml)}:{message}", err=True)
    name = str(output) if output else "queue.yaml"
    findings = check(text, file=name, settings=Settings(at_least=Severity.WARNING)).findings
    for finding in findings:
        click.echo(str(finding), err=True)
    if output is None:
        click.echo(text.encode(), nl=False)
    elif output.exists() and not force:
        raise click.UsageError(f'"{output}" is there already: write --force to write over it')
    else:
        try:
            replace_file(output, text.encode())
        except OSError as error:
            raise unwritable(output, error) from None
    wrong = [finding for finding in findings if finding.severity is Severity.ERROR]
    ctx.exit(_LOST if lost or wrong else 0)
