"""Reading and checking in one: what `pullqueue.config.loads` does."""

from __future__ import annotations

from pullqueue.config.build import build
from pullqueue.config.check import check
from pullqueue.config.findings import Severity
from pullqueue.config.model import QueueConfig
from pullqueue.config.profiles import PROFILES
from pullqueue.config.settings import Settings
from pullqueue.errors import InvalidQueueConfigError


def load_content(text: str | bytes, *, file: str, profile: str) -> QueueConfig:
    """Give the configuration in a file's content.

    Raises:
        InvalidQueueConfigError: a rule of severity error is broken.
        ValueError: there is no such profile.
    """
    if profile not in PROFILES:
        raise ValueError(f'there is no profile "{profile}": choose of {", ".join(PROFILES)}')
    settings = Settings(profile=profile, at_least=Severity.ERROR)
    checked = check(text, file=file, settings=settings)
    if checked.findings or checked.view is None:
        raise InvalidQueueConfigError(checked.findings)
    return build(checked.view)
