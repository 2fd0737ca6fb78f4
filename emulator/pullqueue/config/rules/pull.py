"""Rules on what belongs to push queues or to pull queues only."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.dialects import QUEUE, keys_at, stands_for
from pullqueue.config.edits import delete_pair, insert_after
from pullqueue.config.findings import Edit, Fix, Severity
from pullqueue.config.nodes import Mapping, Pair, Scalar
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import LENIENT, Rule
from pullqueue.config.view import QueueView, Section, View


class _OnPull(Rule):
    """A key of push queues on a pull queue."""

    levels = LENIENT

    def check(self, view: View) -> Iterator[Report]:
        """Report the key, with the place that makes the queue a pull queue."""
        for violation in view.violations.get(self.name, ()):
            queue = view.queue_at[violation.path[1]]
            key = str(violation.path[-1])
            edit = _removal(view, queue, key)
            yield Report(
                at=violation.key_place,
                message=f"a pull queue has no `{key}`: remove it, or make this a push queue",
                path=violation.where,
                labels=((queue.entries["mode"].place, "the queue is a pull queue"),),
                fix=Fix(title=f"remove `{key}`", edits=(edit,), safe=True) if edit else None,
            )


def _removal(view: View, queue: QueueView, key: str) -> Edit | None:
    """Remove the key; with it `retry_parameters`, where nothing else stands below that."""
    if key in queue.entries:
        return delete_pair(view.source, queue.node, queue.entries[key].key)
    retry = queue.entries["retry_parameters"]
    section = Section(retry.value, "") if isinstance(retry.value, Mapping) else queue
    if len(section.entries) == 1:
        return delete_pair(view.source, queue.node, retry.key)
    return delete_pair(view.source, section.node, section.entries[key].key)


class RateOnPull(_OnPull):
    """`rate` on a pull queue.

    Workers lease at their own pace. Production refuses the file; Google's Python library only
    writes a warning to its log.

    Bad:
        queue:
        - name: jobs
          mode: pull
          rate: 5/s

    Good:
        queue:
        - name: jobs
          mode: pull

    Source: gcloud: "must not be specified for pull-based queue".
    """

    code = "QY301"
    name = "rate-on-pull"


class BucketSizeOnPull(_OnPull):
    """`bucket_size` on a pull queue.

    Production refuses the file.

    Bad:
        queue:
        - name: jobs
          mode: pull
          bucket_size: 5

    Good:
        queue:
        - name: jobs
          mode: pull

    Source: gcloud's checks before a deployment.
    """

    code = "QY302"
    name = "bucket-size-on-pull"


class MaxConcurrentOnPull(_OnPull):
    """`max_concurrent_requests` on a pull queue.

    Production refuses the file.

    Bad:
        queue:
        - name: jobs
          mode: pull
          max_concurrent_requests: 5

    Good:
        queue:
        - name: jobs
          mode: pull

    Source: gcloud's checks before a deployment.
    """

    code = "QY303"
    name = "max-concurrent-on-pull"


class TargetOnPull(_OnPull):
    """`target` on a pull queue.

    Production refuses the file.

    Bad:
        queue:
        - name: jobs
          mode: pull
          target: worker

    Good:
        queue:
        - name: jobs
          mode: pull

    Source: gcloud's checks before a deployment; the Java SDK does not object.
    """

    code = "QY304"
    name = "target-on-pull"
    levels = {"sdk": Severity.WARNING, "java": None}  # noqa: RUF012 - read only


class RetryFieldOnPull(_OnPull):
    """An age limit, a backoff or doublings on a pull queue.

    Of `retry_parameters`, a pull queue knows `task_retry_limit` only. Production refuses the
    others.

    Bad:
        queue:
        - name: jobs
          mode: pull
          retry_parameters:
            task_retry_limit: 7
            task_age_limit: 1d

    Good:
        queue:
        - name: jobs
          mode: pull
          retry_parameters:
            task_retry_limit: 7

    Source: gcloud's checks before a deployment.
    """

    code = "QY305"
    name = "retry-field-on-pull"


class AclOnPush(Rule):
    """`acl` on a push queue.

    It has no effect: only tasks of pull queues are reached over REST.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          acl:
          - user_email: worker@example.com

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: documentation.
    """

    code = "QY306"
    name = "acl-on-push"
    severity = Severity.WARNING
    levels = {"java": None}  # noqa: RUF012 - read only

    def check(self, view: View) -> Iterator[Report]:
        """Report the key, unless the queue looks like a pull queue without its mode."""
        for queue in view.queues:
            entry = queue.get("acl")
            if entry is None or queue.mode != "push" or _looks_like_pull(queue):
                continue
            edit = delete_pair(view.source, queue.node, entry.key)
            yield Report(
                at=entry.key_place,
                message="`acl` has no effect on a push queue: remove it, or write `mode: pull`",
                path=entry.path,
                fix=Fix(title="remove `acl`", edits=(edit,)) if edit else None,
            )


_PUSH_KEYS = ("rate", "bucket_size", "max_concurrent_requests", "target")


def _looks_like_pull(queue: QueueView) -> bool:
    """Whether a queue has grants, and nothing that a push queue would have."""
    return (
        "acl" in queue.entries
        and "mode" not in queue.entries
        and not any(queue.get(key) for key in _PUSH_KEYS)
    )


def stands_in(section: Section, key: str) -> bool:
    """Tell whether an unknown key is there that was most likely meant for this one."""
    known = keys_at(QUEUE)
    unknown = [name for name in section.entries if name not in known]
    return any(stands_for(name, QUEUE) == key for name in unknown)


class PushWithoutRate(Rule):
    """A push queue without a rate.

    Production refuses the file. Google's Python library takes 5/s and writes a warning to its
    log. A queue is a push queue unless the file says `mode: pull`.

    Bad:
        queue:
        - name: mail

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: gcloud: "Refill rate must be specified for push-based queue".
    """

    code = "QY307"
    name = "push-without-rate"
    levels = LENIENT

    def check(self, view: View) -> Iterator[Report]:
        """Report the queue's name, or a `rate:` with nothing behind it."""
        for violation in view.violations.get(self.name, ()):
            queue = view.queue_at[violation.path[1]]
            if stands_in(queue, "rate"):
                continue
            at = violation.key_place if violation.path[-1] == "rate" else queue.title_place
            pull = _looks_like_pull(queue)
            message = f"{queue.title} pushes and has no `rate`: write one, as `rate: 5/s`"
            if pull:
                message = (
                    f"{queue.title} has an `acl` and no `rate`, as a pull queue has: "
                    "write `mode: pull`"
                )
            fix = _add_line(view, queue, "mode: pull" if pull else "rate: 5/s")
            yield Report(at=at, message=message, path=violation.where, fix=fix)


def _add_line(view: View, queue: QueueView, line: str) -> Fix | None:
    name = queue.entries.get("name")
    if name is None or queue.node.flow or "rate" in queue.entries:
        return None
    if not isinstance(name.value, Scalar):
        return None
    edit = insert_after(view.source, Pair(name.key, name.value), line)
    return Fix(title=f"add `{line}`", edits=(edit,))
