"""Rules on how fast a push queue runs its tasks: `rate`, `bucket_size` and the like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pullqueue.config.findings import Report, Severity
from pullqueue.config.model import clamp_concurrent_requests
from pullqueue.config.values import parse_rate, suggested_rate
from pullqueue.config.view import Entry, QueueNode, View
from pullqueue.lint.rules.base import (
    GCLOUD_ONLY,
    LENIENT,
    SAFE,
    UNSAFE,
    Rule,
    out_of_range,
    write_fix,
    wrong_values,
)
from pullqueue.text import shorten


@Rule("QY208", loadable=False, fixes=(UNSAFE,))
def rate_format(view: View) -> Iterable[Report]:
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
    return wrong_values(view, rate_format, suggested_rate, unless=parse_rate)


def find_rates(view: View) -> Iterator[tuple[Entry, float]]:
    """Yield the rates that can be read, in tasks per second, except those on pull queues."""
    for queue in view.queues:
        entry = queue.get("rate")
        rate = parse_rate(str(entry.text)) if entry and queue.mode != "pull" else None
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
    for violation, node in view.wrong_scalars(rate_too_high.code):
        text = node.effective_text
        rate = parse_rate(text)
        if rate and rate.count and view.queue_at[violation.path[1]].mode != "pull":
            yield violation.report(f"rate is {shorten(text)}; {violation.limit}")


@Rule("QY210", levels=GCLOUD_ONLY, fixes=(SAFE,))
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

    Source: gcloud's deployment of queues, run.
    """
    for entry, _ in find_rates(view):
        if entry.text == "0" and entry.scalar:
            message = "`rate: 0` without a unit makes gcloud fail: write `0/s`"
            fix = write_fix(entry.scalar, "0/s", safe=True)
            yield entry.report(message, fix=fix)


@Rule("QY211", severity=Severity.INFO, once=True)
def queue_paused(view: View) -> Iterator[Report]:
    """The rate is zero: the queue is paused.

    Tasks can be added, and none runs. gcloud pauses a new queue only if the file has its
    `mode: push`; without it, the next deployment does.

    Bad:
        queue:
        - name: mail
          rate: 0/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: documentation; gcloud's deployment of queues.
    """
    paused = [entry for entry, rate in find_rates(view) if rate == 0 and entry.text != "0"]
    message = "a rate of zero pauses the queue: tasks wait until the rate is raised"
    if not all(view.queue_at[entry.path[1]].get("mode") for entry in paused):
        message += "; gcloud pauses a new queue only if `mode: push` is written"
    yield from (entry.report(message) for entry in paused)


@Rule("QY212", levels=LENIENT)
def bucket_size_range(view: View) -> Iterable[Report]:
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
    return out_of_range(view, bucket_size_range)


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
        if clamped := find_clamped(queue):
            entry, deployed, limit = clamped
            yield entry.report(
                f"max_concurrent_requests is {entry.shown}; the {limit} is {deployed}, and is "
                "deployed instead"
            )


def find_clamped(queue: QueueNode) -> tuple[Entry, int, str] | None:
    """Return a `max_concurrent_requests` beyond a limit, and the limit that a deployment uses."""
    entry = queue.get("max_concurrent_requests")
    number = entry.integer if entry else None
    if not (entry and number) or (deployed := clamp_concurrent_requests(number)) == number:
        return None
    return entry, deployed, "minimum" if number < deployed else "maximum"
