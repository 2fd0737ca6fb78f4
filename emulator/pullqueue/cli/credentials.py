"""`pullqueue credentials`: a service account's key file, for clients that want one."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pullqueue.cli._client import Client
from pullqueue.cli._output import url_option
from pullqueue.cli._reasons import unwritable
from pullqueue.cli._secret import write_privately


@click.command
@click.argument("email")
@url_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write; standard output, if not given.",
)
def credentials(*, email: str, url: str | None, output: Path | None) -> None:
    """Write the key file of a service account called EMAIL.

    The running server makes the key and gives tokens for it, until it is stopped; one with a
    --secret-file, also when it runs again. Use the file as any that was downloaded from Google:
    with google-auth, or as GOOGLE_APPLICATION_CREDENTIALS.
    """
    body = json.dumps({"email": email}).encode()
    with Client(url).open("POST", "/credentials", body=body) as answer:
        key = answer.read().decode()
    if output is None:
        click.echo(key, nl=False)
        return
    try:
        output.unlink(missing_ok=True)
        write_privately(output, key)
    except OSError as error:
        raise unwritable(output, error) from None
