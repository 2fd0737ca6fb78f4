"""`pullqueue credentials`: a service account's key file, for clients that want one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import click

_ENVIRONMENT = "PULLQUEUE_EMULATOR_HOST"
_DEFAULT_HOST = "127.0.0.1:8124"
_TIMEOUT_SECONDS = 30
_ONLY_THE_OWNER = 0o600


@click.command
@click.argument("email")
@click.option(
    "--url",
    help=f"The server's address; if not given, that of ${_ENVIRONMENT} or http://{_DEFAULT_HOST}.",
)
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
    key = _ask(url or f"http://{os.environ.get(_ENVIRONMENT, _DEFAULT_HOST)}", email)
    if output is None:
        click.echo(key, nl=False)
        return
    try:
        _write(output, key)
    except OSError as error:
        raise click.ClickException(f"cannot write {str(output)!r}: {error.strerror}") from None


def _ask(url: str, email: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"--url is {url!r}: give an address such as http://{_DEFAULT_HOST}")
    body = json.dumps({"email": email}).encode()
    request = Request(f"{url.rstrip('/')}/_emulator/credentials", body)  # noqa: S310 - checked
    try:
        with urlopen(request, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310 - checked
            return str(response.read().decode())
    except HTTPError as error:
        raise click.ClickException(_reason(error)) from None
    except (URLError, OSError, ValueError) as error:
        raise click.ClickException(
            f"no pullqueue answers at {url} ({error}): start one with `pullqueue serve --auth acl`"
        ) from None


def _reason(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read())["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.url} is no pullqueue: it answers {error.code} {error.reason}"


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _ONLY_THE_OWNER)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
