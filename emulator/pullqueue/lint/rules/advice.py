"""Rules on what a right file leads to: limits, and tasks that are deleted."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.findings import Report, Severity
from pullqueue.config.view import QueueNode, View
from pullqueue.lint.rules.base import LENIENT, Rule

_MAX_QUEUES = 100


@Rule("QY501", severity=Severity.WARNING)
def pull_retry_limit_drops(view: View) -> Iterator[Report]:
    """The retry limit of a pull queue is 0 or 1.

    On a pull queue the limit counts leases. With 1, a worker that crashes or is late once loses
    the task for good; with 0, the first lease deletes it.

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
    for queue, retry in view.retries:
        entry = retry.get("task_retry_limit")
        if entry is not None and queue.mode == "pull" and entry.integer in {0, 1}:
            message = (
                f"task_retry_limit is {entry.integer}: a task whose lease expires once is deleted; "
                "raise the limit, or remove it"
            )
            labels = ((queue.entries["mode"].place, "the queue is a pull queue"),)
            yield entry.report(message, labels=labels)


def _not_default(view: View) -> list[QueueNode]:
    queues = {queue.name: queue for queue in reversed(view.queues)}
    return [queue for name, queue in reversed(queues.items()) if name not in {None, "default"}]


@Rule("QY503", levels=LENIENT)
def too_many_queues(view: View) -> Iterator[Report]:
    """More than 100 queues besides `default`.

    Bad:
        queue:
        - {name: q1, mode: pull}
        # and a hundred more

    Good:
        queue:
        - {name: q1, mode: pull}

    Source: documentation.
    """
    queues = _not_default(view)
    if len(queues) > _MAX_QUEUES:
        queue = queues[_MAX_QUEUES]
        message = f"{len(queues)} queues besides `default`; the maximum is {_MAX_QUEUES}"
        yield Report(at=queue.title_place, message=message, path=queue.path)


@Rule("QY506", severity=Severity.INFO, once=True)
def both_limits(view: View) -> Iterator[Report]:
    """A retry limit and an age limit are set together.

    A task is deleted only when both are reached, not when one is: this one may be retried for
    longer than either limit says.

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

    Source: Google's reference of queue.yaml; the API of Cloud Tasks says the same.
    """
    for queue, retry in view.retries:
        both = [*retry.some("task_age_limit", "task_retry_limit")]
        if len(both) == 2 and queue.mode != "pull":
            age, limit = both
            message = (
                "a task is deleted only when it has reached both task_retry_limit and "
                "task_age_limit: set the one that you mean"
            )
            labels = ((limit.key_place, "the other limit is here"),)
            yield Report(at=age.key_place, message=message, path=age.path, labels=labels)
