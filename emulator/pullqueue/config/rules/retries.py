"""Rules on `retry_parameters`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pullqueue.config.edits import replace_scalar
from pullqueue.config.findings import Fix, Severity
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.rules.push import correction, or_did_you_mean, scalars_of, seen_hint
from pullqueue.config.spelling import meant_age_limit
from pullqueue.config.text import shorten
from pullqueue.config.values import parse_age_limit
from pullqueue.config.view import Entry, QueueView, Section, View

MAX_INT32 = 2**31 - 1
_AGE = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[smhd]")


def retries(view: View) -> Iterator[tuple[QueueView, Section]]:
    """Give each queue's `retry_parameters`."""
    for queue in view.queues:
        if queue.retry is not None:
            yield queue, queue.retry


class RetryLimitRange(Rule):
    """`task_retry_limit` is negative or over 2147483647.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_retry_limit: -1

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_retry_limit: 7

    Source: the Python SDK: "must not be less than zero"; a larger number fails in its stub.
    """

    code = "QY216"
    name = "retry-limit-range"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report retry limits out of range."""
        for violation, node in scalars_of(view, self.name):
            message = (
                f"`{shorten(node.text)}` is no retry limit: write 0 to {MAX_INT32}, "
                "or leave it out for no limit"
            )
            yield Report(at=violation.place, message=message, path=violation.where)


class AgeLimitFormat(Rule):
    """`task_age_limit` is not a number and a unit.

    The units are `s`, `m`, `h` and `d`, in lower case; one number and one unit.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_age_limit: 1w

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_age_limit: 7d

    Source: the Python SDK's queueinfo; gcloud fails on `1_0s`, `nans` and `infd`.
    """

    code = "QY217"
    name = "age-limit-format"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report age limits that cannot be read."""
        for violation, node in scalars_of(view, self.name):
            meant = meant_age_limit(node.text)
            advice = "write a number and one of s, m, h, d, such as `2d`"
            yield Report(
                at=violation.place,
                message=f'"{shorten(node.text)}" is no age limit: {or_did_you_mean(advice, meant)}',
                path=violation.where,
                hint=seen_hint(node),
                fix=correction(node, meant),
            )


def _age_limits(view: View) -> Iterator[tuple[Entry, str]]:
    """The age limits whose spelling is right, whatever their number."""
    for _, retry in retries(view):
        entry = retry.get("task_age_limit")
        if entry is not None and entry.text is not None and _AGE.fullmatch(entry.text):
            yield entry, entry.text


class AgeLimitRange(Rule):
    """`task_age_limit` is less than a second.

    It is cut off to whole seconds, and 0 is refused.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_age_limit: 0.5s

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_age_limit: 1s

    Source: the Python SDK's checks before a deployment.
    """

    code = "QY218"
    name = "age-limit-range"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report age limits of no whole second, and endless ones."""
        for entry, text in _age_limits(view):
            seconds = parse_age_limit(text)
            if not seconds:
                message = f'"{shorten(text)}" is cut off to 0 seconds: write at least `1s`'
                if seconds is None:
                    message = f'"{shorten(text)}" is too long: write a number of days, as `30d`'
                yield Report(at=entry.place, message=message, path=entry.path)


class AgeLimitExponent(Rule):
    """`task_age_limit` has an exponent.

    Google's library reads it; gcloud fails on it with a Python traceback.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_age_limit: 1e1d

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_age_limit: 10d

    Source: gcloud's deployment of queues, run.
    """

    code = "QY219"
    name = "age-limit-exponent"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report exponents, with the number written out."""
        for entry, text in _age_limits(view):
            seconds = parse_age_limit(text)
            if "e" in text.lower() and seconds and entry.scalar:
                plain = f"{seconds // 86_400}d" if seconds % 86_400 == 0 else f"{seconds}s"
                edit = replace_scalar(entry.scalar, plain)
                yield Report(
                    at=entry.place,
                    message=f'the exponent of "{shorten(text)}" makes gcloud fail: '
                    f"write `{shorten(plain)}`",
                    path=entry.path,
                    fix=Fix(title=f"write `{shorten(plain)}`", edits=(edit,), safe=True),
                )
