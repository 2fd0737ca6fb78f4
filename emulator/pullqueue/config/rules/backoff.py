"""Rules on the pauses between retries."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.findings import Severity
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.rules.push import correction, or_did_you_mean, scalars_of, seen_hint
from pullqueue.config.rules.retries import retries
from pullqueue.config.spelling import meant_seconds
from pullqueue.config.text import shorten
from pullqueue.config.view import Entry, Section, View

DEFAULT_MIN_BACKOFF = 0.1
DEFAULT_MAX_BACKOFF = 3600.0
_SLACK = 30


class BackoffFormat(Rule):
    """A backoff is not a finite number of seconds.

    Without a unit; `.nan`, `.inf` and truth values are accepted by Google's library and mean
    nothing.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            min_backoff_seconds: 10s

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            min_backoff_seconds: 10

    Source: the Python SDK's queueinfo, run.
    """

    code = "QY220"
    name = "backoff-format"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report backoffs that are no number."""
        for violation, node in scalars_of(view, self.name):
            meant = meant_seconds(node.text)
            advice = "write digits only, such as `10` or `0.5`"
            yield Report(
                at=violation.place,
                message=f'"{shorten(node.text)}" is no number of seconds: '
                f"{or_did_you_mean(advice, meant)}",
                path=violation.where,
                hint=seen_hint(node),
                fix=correction(node, meant),
            )


class BackoffRange(Rule):
    """A backoff is negative.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            min_backoff_seconds: -1

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            min_backoff_seconds: 1

    Source: the Python SDK's checks before a deployment.
    """

    code = "QY221"
    name = "backoff-range"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report negative backoffs."""
        for violation, node in scalars_of(view, self.name):
            message = f"`{shorten(node.text)}` is no pause: a backoff is 0 or more seconds"
            yield Report(at=violation.place, message=message, path=violation.where)


def _backoffs(view: View) -> Iterator[tuple[Entry | None, Entry | None]]:
    for queue, retry in retries(view):
        if queue.mode != "pull":
            yield retry.get("min_backoff_seconds"), retry.get("max_backoff_seconds")


class BackoffOrder(Rule):
    """`min_backoff_seconds` is greater than `max_backoff_seconds`.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            min_backoff_seconds: 60
            max_backoff_seconds: 10

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            min_backoff_seconds: 10
            max_backoff_seconds: 60

    Source: the Python SDK's checks before a deployment.
    """

    code = "QY222"
    name = "backoff-order"

    def check(self, view: View) -> Iterator[Report]:
        """Report pairs in the wrong order."""
        for shortest, longest in _backoffs(view):
            if shortest is None or longest is None:
                continue
            low, high = shortest.number, longest.number
            if low is not None and high is not None and low > high >= 0:
                yield Report(
                    at=shortest.place,
                    message=f"the shortest pause ({shorten(shortest.text or '')} s) is longer than "
                    f"the longest ({shorten(longest.text or '')} s): exchange them",
                    path=shortest.path,
                    labels=((longest.place, "the longest is here"),),
                )


class BackoffImplied(Rule):
    """One backoff is set beyond the default of the other.

    The default is moved to the same value, so that every pause is of one length.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            min_backoff_seconds: 7200

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            min_backoff_seconds: 7200
            max_backoff_seconds: 14400

    Source: the Python SDK's translation of retry parameters.
    """

    code = "QY223"
    name = "backoff-implied"
    severity = Severity.INFO

    def check(self, view: View) -> Iterator[Report]:
        """Report a lone backoff that contradicts the other's default."""
        for shortest, longest in _backoffs(view):
            if shortest and not longest and (shortest.number or 0) > DEFAULT_MAX_BACKOFF:
                yield _implied(shortest, "max_backoff_seconds", "3600")
            elif longest and not shortest:
                number = longest.number
                if number is not None and 0 < number < DEFAULT_MIN_BACKOFF:
                    yield _implied(longest, "min_backoff_seconds", "0.1")


def _implied(entry: Entry, other: str, default: str) -> Report:
    message = (
        f"`{other}` is not set and becomes {shorten(entry.text or '')} too, since its default "
        f"({default}) contradicts this: set both"
    )
    return Report(at=entry.place, message=message, path=entry.path)


class DoublingsRange(Rule):
    """`max_doublings` is negative, or over 2147483647.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            max_doublings: -1

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            max_doublings: 3

    Source: the Python SDK's checks before a deployment.
    """

    code = "QY224"
    name = "doublings-range"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report doublings out of range."""
        for violation, node in scalars_of(view, self.name):
            message = f"`{shorten(node.text)}` is no number of doublings: write 0 or more"
            yield Report(at=violation.place, message=message, path=violation.where)


class DoublingsPointless(Rule):
    """`max_doublings` is far more than it takes to reach the longest pause.

    Reported where the longest pause is reached at least 30 doublings earlier: such a number is
    meant for something else.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            min_backoff_seconds: 1
            max_backoff_seconds: 60
            max_doublings: 99999

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            min_backoff_seconds: 1
            max_backoff_seconds: 60
            max_doublings: 6

    Source: documentation of backoff; numbers like this were seen in public repositories.
    """

    code = "QY225"
    name = "doublings-pointless"
    severity = Severity.INFO

    def check(self, view: View) -> Iterator[Report]:
        """Report doublings that never come to pass."""
        for queue, retry in retries(view):
            entry = retry.get("max_doublings")
            if entry is None or queue.mode == "pull":
                continue
            needed = _doublings_needed(retry)
            integer = entry.integer
            if integer is not None and needed is not None and integer > needed + _SLACK:
                yield Report(
                    at=entry.place,
                    message=f"the longest pause is reached after {needed} doublings: "
                    f"{shorten(entry.text or '')} are never made",
                    path=entry.path,
                )


def _doublings_needed(retry: Section) -> int | None:
    shortest, longest = retry.get("min_backoff_seconds"), retry.get("max_backoff_seconds")
    low = shortest.number if shortest else DEFAULT_MIN_BACKOFF
    high = longest.number if longest else DEFAULT_MAX_BACKOFF
    if low is None or high is None or low <= 0 or high < low:
        return None
    needed = 0
    while low < high:
        low, needed = low * 2, needed + 1
    return needed
