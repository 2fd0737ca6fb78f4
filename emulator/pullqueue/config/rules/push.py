"""Rules on the keys of push queues: rate, bucket, concurrency, target."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.edits import replace_scalar
from pullqueue.config.findings import Fix, Severity
from pullqueue.config.nodes import Scalar
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import LENIENT, Rule
from pullqueue.config.shape import Violation
from pullqueue.config.spelling import meant_rate
from pullqueue.config.text import shorten
from pullqueue.config.values import parse_rate
from pullqueue.config.view import Entry, View

MAX_RATE = 500
MAX_BUCKET = 500
MAX_CONCURRENT = 5000


def scalars_of(view: View, rule: str) -> Iterator[tuple[Violation, Scalar]]:
    """Give the single values to which the schema objects by a rule."""
    yield from (
        (violation, violation.node)
        for violation in view.violations.get(rule, ())
        if isinstance(violation.node, Scalar)
    )


def correction(node: Scalar, meant: str | None) -> Fix | None:
    """Make the fix that writes the value most likely meant."""
    if meant is None:
        return None
    return Fix(title=f"write `{meant}`", edits=(replace_scalar(node, meant),))


def or_did_you_mean(advice: str, meant: str | None) -> str:
    """End a message by what was most likely meant, or else by the rule."""
    return f"did you mean `{meant}`?" if meant else advice


def seen_hint(node: Scalar) -> str | None:
    """Tell what App Engine makes of a value that is not what it looks like."""
    return f"App Engine reads it as {shorten(node.seen)}" if node.seen != node.text else None


class RateFormat(Rule):
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

    code = "QY208"
    name = "rate-format"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report rates that cannot be read."""
        for violation, node in scalars_of(view, self.name):
            meant = meant_rate(node.text)
            advice = "write a number, a slash and one of s, m, h, d, such as `5/s`"
            yield Report(
                at=violation.place,
                message=f'"{shorten(node.text)}" is no rate: {or_did_you_mean(advice, meant)}',
                path=violation.where,
                hint=seen_hint(node),
                fix=correction(node, meant),
            )


def rates(view: View) -> Iterator[tuple[Entry, float]]:
    """Give the rates that can be read, in tasks per second, but those on pull queues."""
    for queue in view.queues:
        entry = queue.get("rate")
        if entry is None or entry.text is None or queue.mode == "pull":
            continue
        rate = parse_rate(entry.text)
        if rate is not None:
            yield entry, rate.per_second


class RateTooHigh(Rule):
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

    code = "QY209"
    name = "rate-too-high"
    levels = LENIENT

    def check(self, view: View) -> Iterator[Report]:
        """Report rates over the limit, whatever their unit."""
        for entry, per_second in rates(view):
            if per_second > MAX_RATE:
                yield Report(
                    at=entry.place,
                    message=f'"{shorten(entry.text or "")}" is over {MAX_RATE} tasks per second, '
                    f"the highest rate: write at most `{MAX_RATE}/s`",
                    path=entry.path,
                )


class RateBareZero(Rule):
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

    code = "QY210"
    name = "rate-bare-zero"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report a rate that is nothing but 0."""
        for entry, _ in rates(view):
            if entry.text == "0" and entry.scalar:
                edit = replace_scalar(entry.scalar, "0/s")
                yield Report(
                    at=entry.place,
                    message="`0` without a unit makes gcloud fail: write `0/s`",
                    path=entry.path,
                    fix=Fix(title="write `0/s`", edits=(edit,), safe=True),
                )


class QueuePaused(Rule):
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

    code = "QY211"
    name = "queue-paused"
    severity = Severity.INFO

    def check(self, view: View) -> Iterator[Report]:
        """Report rates of zero with a unit."""
        for entry, per_second in rates(view):
            if per_second == 0 and entry.text != "0":
                message = "a rate of zero pauses the queue: tasks wait until the rate is raised"
                yield Report(at=entry.place, message=message, path=entry.path)


class BucketSizeRange(Rule):
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

    code = "QY212"
    name = "bucket-size-range"
    levels = LENIENT

    def check(self, view: View) -> Iterator[Report]:
        """Report bucket sizes out of range."""
        for violation, node in scalars_of(view, self.name):
            message = f"`{shorten(node.text)}` is no bucket size: write 1 to {MAX_BUCKET}"
            yield Report(at=violation.place, message=message, path=violation.where)


class MaxConcurrentRange(Rule):
    """`max_concurrent_requests` is below 1 or over 5000.

    The deployment takes the nearest number within these limits, without a word.

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

    code = "QY213"
    name = "max-concurrent-range"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report numbers that will be deployed as others."""
        for violation, node in scalars_of(view, self.name):
            limit = 1 if node.text.lstrip('"').startswith("-") else MAX_CONCURRENT
            message = f"`{shorten(node.text)}` is deployed as {limit}: write 1 to {MAX_CONCURRENT}"
            yield Report(at=violation.place, message=message, path=violation.where)


class TargetFormat(Rule):
    """`target` is neither a service nor a version and a service.

    Lower-case letters, digits and hyphens, no hyphen at the front; a version up to 100
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

    code = "QY226"
    name = "target-format"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report targets that name no service."""
        for violation, node in scalars_of(view, self.name):
            message = (
                f'"{shorten(node.seen)}" is no target: write `service` or `version.service` in '
                "lower-case letters, digits and `-`"
            )
            yield Report(
                at=violation.place, message=message, path=violation.where, hint=_target_hint(node)
            )


def _target_hint(node: Scalar) -> str | None:
    if "/" in node.text:
        return "a target is a name, not an address"
    if node.text.count(".") > 1:
        return "an instance cannot be named: leave out the part before the version"
    return seen_hint(node)
