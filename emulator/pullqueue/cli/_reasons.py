"""Why a file or a stream cannot be used, in one line."""

from __future__ import annotations

from pathlib import Path

import click


def reason_of(error: BaseException) -> str:
    """Give what the system says of an error, as it stands within a sentence."""
    text = getattr(error, "strerror", None) or str(error)
    return f"{text[:1].lower()}{text[1:]}"


def unwritable(path: Path, error: OSError) -> click.ClickException:
    """Give the refusal for a file that cannot be written."""
    return click.ClickException(f"cannot write {str(path)!r}: {reason_of(error)}")
