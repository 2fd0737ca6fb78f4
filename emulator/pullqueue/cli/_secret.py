"""The secret that a server signs tokens and keys with, in a file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click

from pullqueue.errors import ConfigFileError

_ONLY_THE_OWNER = 0o600
_OTHERS = 0o077
_FEWEST_CHARACTERS = 32
_BYTES = 32


def secret_of(path: Path) -> str:
    """Read the secret in a file; if there is no file, make one for its owner only.

    Raises:
        ConfigFileError: the file can be neither read nor written, or does not contain one.
    """
    try:
        if not path.exists():
            _make(path)
        secret = path.read_text("utf-8").strip()
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        raise ConfigFileError(f"no secret in {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigFileError(f"no secret in {str(path)!r}: it is not UTF-8") from None
    if len(secret) < _FEWEST_CHARACTERS:
        raise ConfigFileError(
            f"the secret in {str(path)!r} has {len(secret)} characters, and could be guessed: have "
            f"{_FEWEST_CHARACTERS} or more, or remove the file and a new one is made"
        )
    if os.name == "posix" and mode & _OTHERS:
        click.echo(
            f"warning: the secret in {str(path)!r} can be read by other users (mode {mode:04o}): "
            "run `chmod 600` on it",
            err=True,
        )
    return secret


def _make(path: Path) -> None:
    """Make a secret; if several servers do so at once, all use the same one."""
    text = f"{secrets.token_hex(_BYTES)}\n"
    # Whole before it has its name: nobody must find half a secret, now or after a full disk.
    whole = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        write_privately(whole, text)
        try:
            os.link(whole, path)
        except OSError:
            if not path.exists():  # no other server was quicker: there are no links here
                write_privately(path, text)
    finally:
        whole.unlink(missing_ok=True)


def write_privately(path: Path, text: str) -> None:
    """Write a file that only its owner can read.

    Raises:
        FileExistsError: it exists.
        OSError: it cannot be written.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _ONLY_THE_OWNER)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
