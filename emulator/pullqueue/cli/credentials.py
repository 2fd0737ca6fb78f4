"""`pullqueue credentials`: a service account's key file, for clients that want one."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pullqueue.cli._client import Client
from pullqueue.cli._files import unwritable
from pullqueue.cli._options import url_option
from pullqueue.config.files import replace_file


@click.command
@click.argument("email")
@url_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write. Default: standard output.",
)
@click.option(
    "--force", is_flag=True, help="Overwrite any file, not just keys that pullqueue made."
)
def credentials(*, email: str, url: str | None, output: Path | None, force: bool) -> None:
    """Write the key file of the service account EMAIL.

    The running server makes the key and issues tokens for it until it stops; with --secret-file,
    after a restart as well. Use the file like one downloaded from Google: with google-auth, or as
    GOOGLE_APPLICATION_CREDENTIALS.
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
        ClickException: the file has content, and is not a key that a pullqueue made.
    """
    if path.exists() and not _is_replaceable(path):
        raise click.ClickException(
            f"{str(path)!r} exists, and is not a key that pullqueue made: name another file, or "
            "overwrite it with --force"
        )


def _is_replaceable(path: Path) -> bool:
    """Return whether a file is empty, or a key whose server and id are a pullqueue's."""
    try:
        text = path.read_text("utf-8") if path.is_file() else "other"
        if not text:
            return True
        key = json.loads(text)
        root = str(key["token_uri"]).removesuffix("token")
        # Ids of Google's keys are hexadecimal; ours are signed, after a dot.
        return key["auth_uri"] == f"{root}auth" and "." in key["private_key_id"]
    except (OSError, ValueError, LookupError, TypeError):
        return False
