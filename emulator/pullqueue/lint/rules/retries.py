"""Rules on `retry_parameters`: limits and backoffs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pullqueue.config.findings import Report, Severity
from pullqueue.config.model import DEFAULT_MAX_BACKOFF_SECONDS, DEFAULT_MIN_BACKOFF_SECONDS
from pullqueue.config.schema import RETRY, find_keys, schema_at
from pullqueue.config.shape import advice_in
from pullqueue.config.values import (
    is_age_limit,
    is_deployable_age,
    parse_age_limit,
    suggested_age_limit,
    suggested_seconds,
)
from pullqueue.config.view import Entry, Section, View
from pullqueue.limits import DAY_SECONDS
from pullqueue.lint.rules.base import (
    GCLOUD_ONLY,
    SAFE,
    UNSAFE,
    Rule,
    out_of_range,
    write_fix,
    wrong_values,
)
from pullqueue.text import counted, shorten

_SLACK = 30


@Rule("QY216", loadable=False)
def retry_range(view: View) -> Iterable[Report]:
    """A number of `retry_parameters` is negative or too large.

    `task_retry_limit` and `max_doublings` have a maximum of 2147483647.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_retry_limit: -1

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
            task_retry_limit: 7
            min_backoff_seconds: 1

    Source: the Python SDK: "must not be less than zero"; a larger number fails in its stub.
    """
    return out_of_range(view, retry_range)


@Rule("QY217", loadable=False, fixes=(UNSAFE,))
def age_limit_format(view: View) -> Iterable[Report]:
    """`task_age_limit` is not a number and a unit.

    The units are `s`, `m`, `h` and `d`, in lower case; one number and one unit. `1 d`, `+1d` and
    `1_0s`, which Google's library accepts, are refused in all profiles.

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
    return wrong_values(view, age_limit_format, suggested_age_limit, unless=is_age_limit)


def _age_limits(view: View) -> Iterator[tuple[Entry, str]]:
    """The age limits whose format is right, whatever their number."""
    for _, retry in view.retries:
        entry = retry.get("task_age_limit")
        if entry is not None and entry.text is not None and is_age_limit(entry.text):
            yield entry, entry.text


@Rule("QY218", loadable=False)
def age_limit_range(view: View) -> Iterator[Report]:
    """`task_age_limit` is less than a second.

    It is truncated to whole seconds, and 0 is refused.

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
    _, limit = advice_in(schema_at((*RETRY, "task_age_limit")))
    for entry, text in _age_limits(view):
        seconds = parse_age_limit(text)
        if not seconds:
            message = f"task_age_limit is {shorten(text)}; {limit}"
            if seconds is None:
                message = f"task_age_limit is {shorten(text)}, not a finite time: use `30d` or less"
            yield entry.report(message)


@Rule("QY219", levels=GCLOUD_ONLY, fixes=(SAFE,))
def age_limit_exponent(view: View) -> Iterator[Report]:
    """`task_age_limit` has an exponent, or no digit after its dot.

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
    for entry, text in _age_limits(view):
        seconds = parse_age_limit(text)
        if seconds and entry.scalar and not is_deployable_age(text):
            plain = f"{seconds // DAY_SECONDS}d" if seconds % DAY_SECONDS == 0 else f"{seconds}s"
            message = f"task_age_limit `{shorten(text)}` makes gcloud fail: write `{plain}`"
            fix = write_fix(entry.scalar, plain, safe=True)
            yield entry.report(message, fix=fix)


@Rule("QY220", loadable=False, fixes=(UNSAFE,))
def backoff_format(view: View) -> Iterator[Report]:
    """A backoff is not a finite number of seconds.

    Without a unit. `.nan`, `.inf` and truth values, which Google's library accepts, mean nothing
    and are refused in all profiles.

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
    yield from wrong_values(view, backoff_format, suggested_seconds)
    for _, retry in view.retries:
        for entry in retry.some(*find_keys("number", RETRY)):
            if entry.scalar and entry.number is None:  # that a format is wrong is reported above
                yield entry.report(f"{entry.key.text} is {entry.shown}: use a finite number")


def _backoffs(view: View) -> Iterator[tuple[Section, Entry | None, Entry | None]]:
    for queue, retry in view.retries:
        if queue.mode != "pull":
            yield retry, retry.get("min_backoff_seconds"), retry.get("max_backoff_seconds")


@Rule("QY222")
def backoff_order(view: View) -> Iterator[Report]:
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
    for _, shortest, longest in _backoffs(view):
        if shortest is None or longest is None:
            continue
        low, high = shortest.number, longest.number
        if low is not None and high is not None and low > high >= 0:
            message = (
                f"min_backoff_seconds ({shortest.shown}) is greater than "
                f"max_backoff_seconds ({longest.shown}): swap them"
            )
            labels = ((longest.place, "max_backoff_seconds is here"),)
            yield shortest.report(message, labels=labels)


@Rule("QY223", severity=Severity.INFO, once=True)
def backoff_implied(view: View) -> Iterator[Report]:
    """One backoff is set beyond the default of the other.

    The default is changed to the same value, so that every backoff has the same length.

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
    for _, shortest, longest in _backoffs(view):
        if shortest and not longest and (shortest.number or 0) > DEFAULT_MAX_BACKOFF_SECONDS:
            yield _implied(shortest, "max_backoff_seconds", "3600")
        elif longest and not shortest and 0 < (longest.number or 0) < DEFAULT_MIN_BACKOFF_SECONDS:
            yield _implied(longest, "min_backoff_seconds", "0.1")


def _implied(entry: Entry, other: str, default: str) -> Report:
    message = (
        f"{other} is not set and becomes {entry.shown} too, since its default "
        f"({default}) contradicts this value: set both"
    )
    return entry.report(message)


@Rule("QY225", severity=Severity.INFO, once=True)
def doublings_pointless(view: View) -> Iterator[Report]:
    """`max_doublings` is far more than it takes to reach the longest backoff.

    Reported where the longest backoff is reached at least 30 doublings earlier: such a number is
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
    for retry, shortest, longest in _backoffs(view):
        entry = retry.get("max_doublings")
        low = shortest.number if shortest else DEFAULT_MIN_BACKOFF_SECONDS
        high = longest.number if longest else DEFAULT_MAX_BACKOFF_SECONDS
        if entry is None or low is None or high is None or low <= 0 or high < low:
            continue
        needed = 0
        while low < high:
            low, needed = low * 2, needed + 1
        if (entry.integer or 0) > needed + _SLACK:
            message = (
                f"max_doublings is {entry.shown}, but the longest backoff is reached "
                f"after {counted(needed, 'doubling')}: write a smaller number"
            )
            yield entry.report(message)
