"""Rules on what a right file leads to: limits on queues, what a deployment leaves out."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.findings import Severity
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import LENIENT, Rule
from pullqueue.config.rules.push import rates
from pullqueue.config.rules.retries import retries
from pullqueue.config.text import shorten
from pullqueue.config.view import QueueView, View

MAX_QUEUES_FREE = 10
MAX_QUEUES = 100
HIGH_RATE = 20.0


class PullRetryLimitDrops(Rule):
    """The retry limit of a pull queue is 0 or 1.

    On a pull queue the limit counts leases. With 1, a worker that dies or is late once loses the
    task for good; with 0, the first lease is the last thing that happens to it.

    Bad:
        queue:
        - name: jobs
          mode: pull
          retry_parameters:
            task_retry_limit: 1

    Good:
        queue:
        - name: jobs
          mode: pull
          retry_parameters:
            task_retry_limit: 7

    Source: documentation of pull queues.
    """

    code = "QY501"
    name = "pull-retry-limit-drops"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report limits that leave no second try."""
        for queue, retry in retries(view):
            entry = retry.get("task_retry_limit")
            if entry is None or queue.mode != "pull" or entry.integer not in {0, 1}:
                continue
            message = (
                f"with a retry limit of {entry.integer}, a task whose lease runs out once is "
                "deleted: raise it, or leave it out"
            )
            mode = queue.get("mode")
            labels = ((mode.place, "the queue is a pull queue"),) if mode else ()
            yield Report(at=entry.place, message=message, path=entry.path, labels=labels)


def _not_default(view: View) -> list[QueueView]:
    names: set[str] = set()
    queues = []
    for queue in view.queues:
        if queue.name is not None and queue.name != "default" and queue.name not in names:
            names.add(queue.name)
            queues.append(queue)
    return queues


class TooManyQueuesFree(Rule):
    """More than 10 queues beside `default`.

    An application without billing cannot deploy them.

    Bad:
        queue:
        - {name: q1, mode: pull}
        - {name: q2, mode: pull}
        - {name: q3, mode: pull}
        - {name: q4, mode: pull}
        - {name: q5, mode: pull}
        - {name: q6, mode: pull}
        - {name: q7, mode: pull}
        - {name: q8, mode: pull}
        - {name: q9, mode: pull}
        - {name: q10, mode: pull}
        - {name: q11, mode: pull}

    Good:
        queue:
        - {name: q1, mode: pull}

    Source: documentation; the server's answer: "Must be fewer than or equal to 10".
    """

    code = "QY502"
    name = "too-many-queues-free"
    severity = Severity.INFO

    def check(self, view: View) -> Iterator[Report]:
        """Report the eleventh queue, unless there are too many for any application."""
        queues = _not_default(view)
        if MAX_QUEUES_FREE < len(queues) <= MAX_QUEUES:
            queue = queues[MAX_QUEUES_FREE]
            message = (
                f"{len(queues)} queues beside `default`: an application without billing has at "
                f"most {MAX_QUEUES_FREE}"
            )
            yield Report(at=queue.title_place, message=message, path=queue.path)


class TooManyQueues(Rule):
    """More than 100 queues beside `default`.

    Bad:
        queue:
        - {name: q1, mode: pull}
        # and a hundred more

    Good:
        queue:
        - {name: q1, mode: pull}

    Source: documentation.
    """

    code = "QY503"
    name = "too-many-queues"
    levels = LENIENT

    def check(self, view: View) -> Iterator[Report]:
        """Report the first queue that is one too many."""
        queues = _not_default(view)
        if len(queues) > MAX_QUEUES:
            queue = queues[MAX_QUEUES]
            message = (
                f"{len(queues)} queues beside `default`: an application has at most {MAX_QUEUES}"
            )
            yield Report(at=queue.title_place, message=message, path=queue.path)


class BothLimits(Rule):
    """A retry limit and an age limit stand together.

    A task is given up only when both are passed, not when one is.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_retry_limit: 7
            task_age_limit: 2d

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_age_limit: 2d

    Source: documentation.
    """

    code = "QY506"
    name = "both-limits"
    severity = Severity.INFO
    opt_in = True

    def check(self, view: View) -> Iterator[Report]:
        """Report the age limit beside a retry limit."""
        for queue, retry in retries(view):
            age, limit = retry.get("task_age_limit"), retry.get("task_retry_limit")
            if age is not None and limit is not None and queue.mode != "pull":
                message = "a task is given up only when both limits are passed"
                labels = ((limit.key_place, "the other limit is here"),)
                yield Report(at=age.key_place, message=message, path=age.path, labels=labels)


class BucketSizeDefault(Rule):
    """A high rate with the default bucket of 5.

    A bucket of 5 tasks smooths bursts to the rate; Google recommends a fifth of the rate. Reported
    from 20 tasks per second.

    Bad:
        queue:
        - name: mail
          rate: 100/s

    Good:
        queue:
        - name: mail
          rate: 100/s
          bucket_size: 20

    Source: documentation of processing rates.
    """

    code = "QY508"
    name = "bucket-size-default"
    severity = Severity.INFO
    opt_in = True

    def check(self, view: View) -> Iterator[Report]:
        """Report high rates without a bucket size."""
        sized = {queue.path for queue in view.queues if queue.get("bucket_size")}
        for entry, per_second in rates(view):
            if per_second > HIGH_RATE and entry.path.rpartition(".")[0] not in sized:
                message = (
                    f"`{shorten(entry.text or '')}` starts at most 5 tasks at once: set "
                    f"`bucket_size: {round(per_second / 5)}`, or as many as may start together"
                )
                yield Report(at=entry.place, message=message, path=entry.path)
