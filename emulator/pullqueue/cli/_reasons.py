"""Why a file or a stream cannot be used, in one line."""

from __future__ import annotations

from pathlib import Path

import click

from pullqueue.config.text import reason_of

__all__ = ["reason_of", "unwritable"]


def unwritable(path: Path, error: OSError) -> click.ClickException:
    """Give the refusal for a file that cannot be written."""
    return click.ClickException(f"cannot write {str(path)!r}: {reason_of(error)}")
