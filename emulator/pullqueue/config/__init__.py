"""queue.yaml: read, checked, and given as data."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pullqueue.config.model import QueueConfig

__all__ = ["load", "loads"]


def load(path: str | PathLike[str], *, profile: str = "gcloud") -> QueueConfig:
    """Read a queue.yaml.

    `profile` selects the rules: `gcloud` (the default) refuses what production refuses,
    `sdk` is as lenient as Google's Python library; `java`, `rest` and `migration` are those of
    the linter.

    Raises:
        InvalidQueueConfigError: the file is not valid; `problems` contains all errors.
        ConfigFileError: the file cannot be read.
    """
    from pullqueue.config.files import read_bytes  # noqa: PLC0415 - importing must stay cheap

    return loads(read_bytes(path), file=str(path), profile=profile)


def loads(text: str | bytes, *, file: str = "queue.yaml", profile: str = "gcloud") -> QueueConfig:
    """Read the content of a queue.yaml; `file` is its name in messages.

    Raises:
        InvalidQueueConfigError: the content is not valid; `problems` contains all errors.
        ValueError: the profile does not exist.
    """
    from pullqueue.lint.loading import build_config, load_view  # noqa: PLC0415 - as above

    return build_config(load_view(text, file=file, profile=profile))
