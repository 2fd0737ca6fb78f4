"""Rules on the format and range of values."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.edits import delete_pair
from pullqueue.config.findings import Report, Severity
from pullqueue.config.rules.base import (
    LENIENT,
    SAFE,
    UNSAFE,
    Rule,
    edit_fix,
    write_fix,
    wrong_values,
)
from pullqueue.config.text import shorten
from pullqueue.config.values import (
    is_age_limit,
    parse_age_limit,
    parse_rate,
    parse_storage_limit,
    suggested_age_limit,
    suggested_rate,
    suggested_seconds,
    suggested_storage_limit,
)
from pullqueue.config.view import Entry, Section, View

_MAX_RATE = 500
_MAX_CONCURRENT = 5000
_MAX_INT32 = 2**31 - 1
_RANGES = {
    "bucket_size": (0, 500),
    "task_retry_limit": (0, _MAX_INT32),
    "max_doublings": (0, _MAX_INT32),
    "min_backoff_seconds": (0, None),
    "max_backoff_seconds": (0, None),
}
"""The values that App Engine accepts; None: no maximum."""
_DEFAULT_MIN_BACKOFF = 0.1
_DEFAULT_MAX_BACKOFF = 3600.0
_SLACK = 30


def _out_of_range(view: View, rule: str) -> Iterator[Report]:
    for violation, node in view.wrong_scalars(rule):
        low, high = _RANGES[violation.name]
        negative = node.text.lstrip().startswith("-")
        limit = f"the minimum is {low}" if negative or high is None else f"the maximum is {high}"
        message = f"{violation.name} is {shorten(node.text)}; {limit}"
        yield violation.report(message)


@Rule("QY208", loadable=False, fixes=(UNSAFE,))
def rate_format(view: View) -> Iterator[Report]:
    """`rate` is not a number, a slash and a unit.

    The units are `s`, `m`, `h` and `d`, in lower case and without spaces. No sign, no exponent,
    a digit before the dot.

    Bad:
        queue:
        - name: mail
          rate: 1/min

    Good:
        queue:
        - name: mail
          rate: 1/m

    Source: the Python SDK's pattern for rates.
    """
    advice = "use a number, a slash and s, m, h or d, for example `5/s`"
    yield from wrong_values(view, "rate-format", advice, suggested_rate)


def rates(view: View) -> Iterator[tuple[Entry, float]]:
    """Yield the rates that can be read, in tasks per second, except those on pull queues."""
    for queue in view.queues:
        entry = queue.get("rate")
        rate = parse_rate(entry.text or "") if entry and queue.mode != "pull" else None
        if entry and rate:
            yield entry, rate.per_second


@Rule("QY209", levels=LENIENT)
def rate_too_high(view: View) -> Iterator[Report]:
    """`rate` is over 500 tasks per second.

    Bad:
        queue:
        - name: mail
          rate: 30001/m

    Good:
        queue:
        - name: mail
          rate: 500/s

    Source: gcloud's checks before a deployment; documentation.
    """
    for entry, per_second in rates(view):
        if per_second > _MAX_RATE:
            message = f"rate is {shorten(entry.text or '')}; the maximum is {_MAX_RATE}/s"
            yield entry.report(message)


@Rule("QY210", severity=Severity.WARNING, fixes=(SAFE,))
def rate_bare_zero(view: View) -> Iterator[Report]:
    """`rate: 0` has no unit.

    Google's library accepts it, and gcloud fails on it with a Python traceback.

    Bad:
        queue:
        - name: mail
          rate: 0

    Good:
        queue:
        - name: mail
          rate: 0/s

    Source: gcloud's deployment of queues.
    """
    for entry, _ in rates(view):
        if entry.text == "0" and entry.scalar:
            message = "`rate: 0` without a unit makes gcloud fail: write `0/s`"
            fix = write_fix(entry.scalar, "0/s", safe=True)
            yield entry.report(message, fix=fix)


@Rule("QY211", severity=Severity.INFO, once=True)
def queue_paused(view: View) -> Iterator[Report]:
    """The rate is zero: the queue is paused.

    Tasks can be added, and none runs.

    Bad:
        queue:
        - name: mail
          rate: 0/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: documentation.
    """
    for entry, per_second in rates(view):
        if per_second == 0 and entry.text != "0":
            message = "a rate of zero pauses the queue: tasks wait until the rate is raised"
            yield entry.report(message)


@Rule("QY212", levels=LENIENT)
def bucket_size_range(view: View) -> Iterator[Report]:
    """`bucket_size` is below 0 or over 500.

    Bad:
        queue:
        - name: mail
          rate: 500/s
          bucket_size: 1000

    Good:
        queue:
        - name: mail
          rate: 500/s
          bucket_size: 500

    Source: gcloud's checks before a deployment; documentation.
    """
    yield from _out_of_range(view, "bucket-size-range")


@Rule("QY213", severity=Severity.WARNING)
def max_concurrent_range(view: View) -> Iterator[Report]:
    """`max_concurrent_requests` is below 1 or over 5000.

    The deployment uses the nearest number in this range, without a message.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          max_concurrent_requests: 5001

    Good:
        queue:
        - name: mail
          rate: 5/s
          max_concurrent_requests: 5000

    Source: gcloud's deployment of queues.
    """
    for queue in view.queues:
        entry = queue.get("max_concurrent_requests")
        number = entry.integer if entry else None
        if entry and number is not None and not 0 <= number <= _MAX_CONCURRENT:
            limit = "minimum is 1" if number < 0 else f"maximum is {_MAX_CONCURRENT}"
            text = shorten(entry.text or "")
            message = f"max_concurrent_requests is {text}; the {limit}, and is deployed instead"
            yield entry.report(message)


@Rule("QY216", loadable=False)
def retry_range(view: View) -> Iterator[Report]:
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
    yield from _out_of_range(view, "retry-range")


@Rule("QY217", loadable=False, fixes=(UNSAFE,))
def age_limit_format(view: View) -> Iterator[Report]:
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
    advice = "use a number and s, m, h or d, for example `2d`"
    yield from wrong_values(view, "age-limit-format", advice, suggested_age_limit)


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
    for entry, text in _age_limits(view):
        seconds = parse_age_limit(text)
        if not seconds:
            message = f"task_age_limit is {shorten(text)}; the minimum is 1s"
            if seconds is None:
                message = f"task_age_limit is {shorten(text)}, not a finite time: use `30d` or less"
            yield entry.report(message)


@Rule("QY219", severity=Severity.WARNING, fixes=(SAFE,))
def age_limit_exponent(view: View) -> Iterator[Report]:
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
    for entry, text in _age_limits(view):
        seconds = parse_age_limit(text)
        if "e" in text.lower() and seconds and entry.scalar:
            plain = f"{seconds // 86_400}d" if seconds % 86_400 == 0 else f"{seconds}s"
            message = f"the exponent in `{text}` makes gcloud fail: write `{shorten(plain)}`"
            fix = write_fix(entry.scalar, plain, safe=True)
            yield entry.report(message, fix=fix)


@Rule("QY220", loadable=False, fixes=(UNSAFE,))
def backoff_format(view: View) -> Iterator[Report]:
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
    advice = "use a number without a unit, for example `10` or `0.5`"
    yield from wrong_values(view, "backoff-format", advice, suggested_seconds)


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
        low, high = _number(shortest), _number(longest)
        if shortest and longest and low is not None and high is not None and low > high >= 0:
            message = (
                f"min_backoff_seconds ({shorten(shortest.text or '')}) is greater than "
                f"max_backoff_seconds ({shorten(longest.text or '')}): swap them"
            )
            labels = ((longest.place, "max_backoff_seconds is here"),)
            yield shortest.report(message, labels=labels)


def _number(entry: Entry | None) -> float | None:
    return entry.number if entry else None


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
        if shortest and not longest and (shortest.number or 0) > _DEFAULT_MAX_BACKOFF:
            yield _implied(shortest, "max_backoff_seconds", "3600")
        elif longest and not shortest and 0 < (longest.number or 0) < _DEFAULT_MIN_BACKOFF:
            yield _implied(longest, "min_backoff_seconds", "0.1")


def _implied(entry: Entry, other: str, default: str) -> Report:
    message = (
        f"{other} is not set and becomes {shorten(entry.text or '')} too, since its default "
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
        low = shortest.number if shortest else _DEFAULT_MIN_BACKOFF
        high = longest.number if longest else _DEFAULT_MAX_BACKOFF
        if entry is None or low is None or high is None or low <= 0 or high < low:
            continue
        needed = 0
        while low < high:
            low, needed = low * 2, needed + 1
        if (entry.integer or 0) > needed + _SLACK:
            message = (
                f"max_doublings is {shorten(entry.text or '')}, but the longest backoff is reached "
                f"after {needed} doublings: write a smaller number"
            )
            yield entry.report(message)


@Rule("QY226", loadable=False)
def target_format(view: View) -> Iterator[Report]:
    """`target` is neither a service nor a version and a service.

    Lower-case letters, digits and hyphens, no hyphen at the beginning; a version has up to 100
    characters, a service up to 63. Three parts (`instance.version.service`) are refused.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          target: task_module

    Good:
        queue:
        - name: mail
          rate: 5/s
          target: v2.task-module

    Source: the Python SDK's pattern for targets.
    """
    advice = "use `service` or `version.service` in lower-case letters, digits and hyphens"
    for report in wrong_values(view, "target-format", advice):
        text = view.source.text[report.at.start : report.at.end]
        hint = report.hint
        if "/" in text:
            hint = "a target is a name, not an address"
        elif text.count(".") > 1:
            hint = "an instance cannot be named: remove the part before the version"
        yield report._replace(hint=hint)


@Rule("QY227", loadable=False, fixes=(UNSAFE,))
def storage_limit_format(view: View) -> Iterator[Report]:
    """`total_storage_limit` is not a number with B, K, M, G or T.

    Upper case, no second letter; multiples of 1024. Without a letter it counts bytes and must be
    whole.

    Bad:
        total_storage_limit: 120MB
        queue:
        - name: mail
          rate: 5/s

    Good:
        total_storage_limit: 120M
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's pattern and its translation.
    """
    advice = "use a number and B, K, M, G or T, for example `120M`"
    yield from wrong_values(view, "storage-limit-format", advice, suggested_storage_limit)
    entry = view.top.get("total_storage_limit")
    if view.violations("storage-limit-format") or entry is None or entry.text is None:
        return
    if parse_storage_limit(entry.text) is None:
        message = f"total_storage_limit {shorten(entry.text)} is too large: use for example `120M`"
        yield entry.report(message)


@Rule("QY228", severity=Severity.WARNING)
def storage_limit_zero(view: View) -> Iterator[Report]:
    """`total_storage_limit` is zero.

    No task can be added.

    Bad:
        total_storage_limit: 0
        queue:
        - name: mail
          rate: 5/s

    Good:
        total_storage_limit: 120M
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's translation.
    """
    entry = view.top.get("total_storage_limit")
    if entry and entry.text is not None and parse_storage_limit(entry.text) == 0:
        message = "a total_storage_limit of zero refuses every task: raise it, or remove the key"
        yield entry.report(message)


_WORDS = dict.fromkeys(("true", "yes", "on"), "true") | dict.fromkeys(
    ("false", "no", "off"), "false"
)


@Rule("QY229", loadable=False, fixes=(SAFE,))
def resume_paused_value(view: View) -> Iterator[Report]:
    """`resume_paused_queues` is not true or false.

    Without quotes: `"false"` in quotes is a text, and refused.

    Bad:
        resume_paused_queues: "false"
        queue:
        - name: mail
          rate: 5/s

    Good:
        resume_paused_queues: false
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's queueinfo, run.
    """
    for violation, node in view.wrong_scalars("resume-paused-value"):
        message = f'invalid resume_paused_queues "{shorten(node.text)}": use `true` or `false`'
        word = _WORDS.get(node.text.strip().lower()) if node.style in {"'", '"'} else None
        if word:
            message = f'resume_paused_queues is the text "{node.text}": remove the quotes'
        fix = write_fix(node, word, safe=True) if word else None
        yield violation.report(message, fix=fix)


@Rule("QY230", loadable=False)
def application_format(view: View) -> Iterator[Report]:
    """`application` is not a project id.

    Lower-case letters, digits and hyphens; before it perhaps a partition (`s~`) and a domain
    (`example.com:`).

    Bad:
        application: My_App
        queue:
        - name: mail
          rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's pattern for applications.
    """
    advice = "use a project id, or remove the key, which has no effect"
    yield from wrong_values(view, "application-format", advice)


@Rule("QY231", severity=Severity.INFO, levels={"java": None}, once=True, fixes=(UNSAFE,))
def application_ignored(view: View) -> Iterator[Report]:
    """`application` has no effect.

    The deployment sets the project.

    Bad:
        application: my-app
        queue:
        - name: mail
          rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: gcloud's deployment of queues.
    """
    entry = view.top.get("application")
    if entry is not None and not view.violations("application-format"):
        fix = edit_fix("remove `application`", delete_pair(view.source, view.root, entry.key))
        message = "`application` has no effect, the deployment sets the project: remove it"
        yield entry.report_key(message, fix=fix)
