"""Rules on the comments and settings that hide findings."""

from __future__ import annotations

from pullqueue.config.findings import Severity
from pullqueue.config.rules.base import Rule


class UnusedIgnore(Rule):
    """An ignore comment hides nothing.

    The fault it was written for is gone, or stands on another line; or it is a fault that leaves
    nothing to read, such as one of syntax or of a number's format, which no comment can hide.

    Bad:
        queue:
        - name: jobs
          mode: pull  # queue-lint: ignore[rate-on-pull]

    Good:
        queue:
        - name: jobs
          mode: pull

    Source: a convention of this program's own.
    """

    code = "QY900"
    name = "unused-ignore"
    severity = Severity.WARNING
    hideable = False


class UnknownRule(Rule):
    """An ignore comment or a setting names a rule that does not exist.

    Bad:
        queue:
        - name: mail
          rate: 5/s  # queue-lint: ignore[rate-on-pul]

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: a convention of this program's own.
    """

    code = "QY901"
    name = "unknown-rule"
    hideable = False
