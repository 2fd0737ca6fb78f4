"""`pullqueue credentials`: a service account's key file, for clients that want one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from pullqueue.cli._client import Client
from pullqueue.cli._output import url_option

_ONLY_THE_OWNER = 0o600


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

    The running server makes the key and gives tokens for it, until it is stopped. Use the file as
    any that was downloaded from Google: with google-auth, or as GOOGLE_APPLICATION_CREDENTIALS.
    """
    body = json.dumps({"email": email}).encode()
    with Client(url).open("POST", "/credentials", body=body) as answer:
        key = answer.read().decode()
    if output is None:
        click.echo(key, nl=False)
        return
    try:
        _write(output, key)
    except OSError as error:
        raise click.ClickException(f"cannot write {str(output)!r}: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _ONLY_THE_OWNER)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
