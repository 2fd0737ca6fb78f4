"""Rules on what a right file leads to: limits, deployment, and a move away from pull queues."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.findings import Report, Severity
from pullqueue.config.view import QueueNode, View
from pullqueue.lint.rules.base import LENIENT, Levels, Rule
from pullqueue.lint.rules.rates import find_rates
from pullqueue.text import shorten

_MAX_QUEUES_FREE = 10
_MAX_QUEUES = 100
_HIGH_RATE = 20.0
_IN_MIGRATION: Levels = {"migration": Severity.INFO}


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


@Rule("QY502", severity=Severity.INFO, opt_in=True, once=True)
def too_many_queues_free(view: View) -> Iterator[Report]:
    """More than 10 queues besides `default`.

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

    Source: documentation; the server's message: "Must be fewer than or equal to 10".
    """
    queues = _not_default(view)
    if _MAX_QUEUES_FREE < len(queues) <= _MAX_QUEUES:
        queue = queues[_MAX_QUEUES_FREE]
        message = (
            f"{len(queues)} queues besides `default`; the maximum without billing is "
            f"{_MAX_QUEUES_FREE}"
        )
        yield Report(at=queue.title_place, message=message, path=queue.path)


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


@Rule("QY504", severity=Severity.INFO, levels=_IN_MIGRATION, opt_in=True, once=True)
def key_not_deployed(view: View) -> Iterator[Report]:
    """`acl` and `total_storage_limit` are not deployed by current versions of gcloud.

    They write queues through the Cloud Tasks API, which has no such fields. What an older
    deployment has set is kept.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@my-app.iam.gserviceaccount.com

    Bad:
        total_storage_limit: 120M
        queue:
        - name: mail
          rate: 5/s

    Good:
        queue:
        - name: jobs
          mode: pull

    Source: gcloud's deployment of queues.
    """
    entries = [*view.top.some("total_storage_limit")]
    entries += [entry for queue in view.pull_queues for entry in queue.some("acl")]
    for entry in entries:
        message = f"`{entry.key.text}` is not deployed by current versions of gcloud"
        if entry.key.text == "acl":
            message += ": grant access with IAM roles instead"
        yield entry.report_key(message)


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


@Rule("QY507", severity=Severity.INFO, levels=_IN_MIGRATION, opt_in=True, once=True)
def pull_to_pubsub(view: View) -> Iterator[Report]:
    """A pull queue cannot be moved to Cloud Tasks.

    Google's advice is to move pull queues to Pub/Sub, before push queues are moved to Cloud
    Tasks. Pub/Sub has neither leases by tag nor names that keep a task from being added twice,
    nor a deletion by name.

    Bad:
        queue:
        - name: jobs
          mode: pull

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: Google's guide to migrating pull queues.
    """
    for queue in view.pull_queues:
        message = (
            f"{queue.title} is a pull queue, which Cloud Tasks does not have: move it to Pub/Sub, "
            "which has no leases by tag and no unique task names"
        )
        yield queue.entries["mode"].report(message)


@Rule("QY508", severity=Severity.INFO, opt_in=True, once=True)
def bucket_size_default(view: View) -> Iterator[Report]:
    """A high rate with the default bucket of 5.

    A bucket of 5 tasks smooths bursts to the rate; Google recommends a fifth of the rate. Reported
    above 20 tasks per second.

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
    sized = {queue.path for queue in view.queues if queue.get("bucket_size")}
    for entry, per_second in find_rates(view):
        if per_second > _HIGH_RATE and entry.path[:-1] not in sized:
            message = (
                f"a rate of {entry.shown} starts at most 5 tasks at once: set "
                f"`bucket_size: {round(per_second / 5)}`, or as many as may start together"
            )
            yield entry.report(message)


@Rule("QY509", severity=Severity.WARNING)
def queue_removed(view: View) -> Iterator[Report]:
    """A queue of an earlier version of the file was removed.

    The next deployment pauses it (before gcloud 332, it was disabled): its tasks are kept, and
    nobody can reach them. Needs `--against`.

    Bad (against mail and jobs):
        queue:
        - name: mail
          rate: 5/s

    Good (against mail):
        queue:
        - name: mail
          rate: 5/s

    Source: documentation.
    """
    names = {queue.name for queue in view.queues} | {"default"}
    removed = [name for name in view.settings.previous_modes if name not in names]
    if removed:
        entry = view.top.entries.get("queue")
        listed = ", ".join(f'"{shorten(name)}"' for name in removed)
        message = (
            f"removed: {listed}; a deployment stops a removed queue and its tasks cannot be "
            "reached: empty it first, or keep it"
        )
        at = entry.key_place if entry else view.top.place
        yield Report(at=at, message=message, path=("queue",))


@Rule("QY510")
def mode_changed(view: View) -> Iterator[Report]:
    """A queue of an earlier version of the file has another mode.

    From the deployment on, adds of the other kind fail: a task with a URL is refused by a pull
    queue, one with `method="PULL"` by a push queue. Tasks that wait in the queue stay there.
    Needs `--against`.

    Bad (against mail):
        queue:
        - name: mail
          mode: pull

    Good (against mail):
        queue:
        - name: mail
          rate: 5/s
        - name: mail-pull
          mode: pull

    Source: the SDK's errors INVALID_QUEUE_MODE and InvalidQueueModeError.
    """
    for queue in view.queues:
        before = view.settings.previous_modes.get(queue.name or "")
        if before is None or queue.mode in (None, before):
            continue
        message = (
            f"{queue.title} was a {before} queue and is now a {queue.mode} queue: add the "
            f"{queue.mode} queue under a new name, and remove this one when it is empty"
        )
        entry = queue.get("mode") or queue.get("rate")
        at = entry.place if entry else queue.title_place
        yield Report(at, message, (*queue.path, "mode"))
