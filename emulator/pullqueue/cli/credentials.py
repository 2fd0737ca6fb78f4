"""`pullqueue credentials`: a service account's key file, for clients that want one."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pullqueue.cli._client import Client
from pullqueue.cli._output import url_option
from pullqueue.cli._reasons import unwritable
from pullqueue.config.files import replace_file


@click.command
@click.argument("email")
@url_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write; standard output, if not given.",
)
@click.option("--force", is_flag=True, help="Overwrite any file, not just keys made here.")
def credentials(*, email: str, url: str | None, output: Path | None, force: bool) -> None:
    """Write the key file of a service account called EMAIL.

    The running server makes the key and gives tokens for it, until it is stopped; one with a
    --secret-file, also when it runs again. Use the file as any that was downloaded from Google:
    with google-auth, or as GOOGLE_APPLICATION_CREDENTIALS.
    """
    if output is not None and not force:
        _check_replaceable(output)
    body = json.dumps({"email": email}).encode()
    with Client(url).open("POST", "/credentials", body=body) as answer:
        key = answer.read().decode()
    if output is None:
        click.echo(key, nl=False)
        return
    try:
        replace_file(output, key.encode(), private=True)
    except OSError as error:
        raise unwritable(output, error) from None
    click.echo(f"{output}: the key of {email}")


def _check_replaceable(path: Path) -> None:
    """Refuse to overwrite what could be somebody's only copy of something.

    Raises:
        ClickException: the file has content, and is no key that a pullqueue made.
    """
    if path.exists() and not _is_replaceable(path):
        raise click.ClickException(
            f"{str(path)!r} is there, and is no key that pullqueue made: name another file, or "
            "overwrite it with --force"
        )


def _is_replaceable(path: Path) -> bool:
    """Tell whether a file is empty, or a key whose server and id are a pullqueue's."""
    try:
        text = path.read_text("utf-8") if path.is_file() else "other"
        if not text:
            return True
        key = json.loads(text)
        root = str(key["token_uri"]).removesuffix("token")
        # Ids of Google's keys are hexadecimal; those of a pullqueue's are signed, behind a point.
        return key["auth_uri"] == f"{root}auth" and "." in key["private_key_id"]
    except (OSError, ValueError, LookupError, TypeError):
        return False
