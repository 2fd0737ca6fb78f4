"""`pullqueue convert`: convert a queue.xml of the Java SDK to queue.yaml."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pullqueue.cli.lint import UnusableFileError, usable_files
from pullqueue.config.text import escaped

_DROPPED = 1


@click.command
@click.argument("queue_xml", metavar="QUEUE_XML")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File to write [standard output]."
)
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
@click.pass_context
@usable_files()
def convert(ctx: click.Context, queue_xml: str, *, output: Path | None, force: bool) -> None:
    """Convert a queue.xml (`-` is standard input) to queue.yaml.

    What is dropped is reported on standard error, and so is what production would refuse in the
    result. Exit status: 0 everything was converted and is right, 1 something was dropped or is
    wrong, 2 the file cannot be read or written.
    """
    from pullqueue.config import files  # noqa: PLC0415 - only a run needs it
    from pullqueue.config.check import check  # noqa: PLC0415 - the same
    from pullqueue.config.findings import Severity  # noqa: PLC0415 - the same
    from pullqueue.config.settings import MAX_BYTES, Settings  # noqa: PLC0415 - the same
    from pullqueue.lint.queue_xml import QueueXmlError, convert_xml  # noqa: PLC0415 - the same

    if output and output.exists() and not force:
        raise click.UsageError(f'"{escaped(str(output))}" exists: pass --force to replace it')
    data = sys.stdin.buffer.read(MAX_BYTES + 1) if queue_xml == "-" else files.read_bytes(queue_xml)
    try:
        text, dropped = convert_xml(data)
    except QueueXmlError as error:
        raise UnusableFileError(f"{escaped(queue_xml)}: {error}") from None
    for message in dropped:
        click.echo(f"{escaped(queue_xml)}:{message}", err=True)
    name = str(output) if output else "queue.yaml"
    findings = check(text, file=name, settings=Settings(at_least=Severity.WARNING)).findings
    for finding in findings:
        click.echo(str(finding), err=True)
    if output is None:
        click.echo(text.encode(), nl=False)
    else:
        try:
            files.replace_file(output, text.encode())
        except OSError as error:
            raise files.unwritable(output, error) from None
    wrong = [finding for finding in findings if finding.severity is Severity.ERROR]
    ctx.exit(_DROPPED if dropped or wrong else 0)
