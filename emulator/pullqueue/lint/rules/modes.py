"""Rules on what belongs to push queues or to pull queues only."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.document import Pair
from pullqueue.config.edits import delete_pair, insert_after
from pullqueue.config.findings import Edit, Fix, Report, Severity
from pullqueue.config.schema import QUEUE, push_keys, schema_at
from pullqueue.config.shape import advice_in
from pullqueue.config.view import QueueNode, View
from pullqueue.lint.rules.base import LENIENT, UNSAFE, Rule, edit_fix
from pullqueue.lint.rules.keys import is_explained


@Rule("QY301", levels=LENIENT, fixes=(UNSAFE,))
def push_key_on_pull(view: View) -> Iterator[Report]:
    """A key of push queues on a pull queue.

    Workers lease at their own pace: a pull queue has no `rate`, `bucket_size`,
    `max_concurrent_requests` or `target`, and of `retry_parameters` only `task_retry_limit`.
    Production refuses the file; Google's Python library at most writes a warning to its log. The
    Java SDK accepts a `target`.

    Bad:
        queue:
        - name: jobs
          mode: pull
          rate: 5/s

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

    Source: gcloud: "must not be specified for pull-based queue".
    """
    for violation in view.violations(push_key_on_pull.code):
        queue, key = view.queue_at[violation.path[1]], violation.name
        if key == "target" and view.settings.profile == "java":
            continue
        yield Report(
            at=violation.key_place,
            message=f"`{key}` is {violation.advice}",
            path=violation.path,
            labels=((queue.entries["mode"].place, "the queue is a pull queue"),),
            fix=edit_fix(f"remove `{key}`", _removal(view, queue, key)),
        )


def _removal(view: View, queue: QueueNode, key: str) -> Edit | None:
    """Delete the key; with it `retry_parameters`, where that has no other key."""
    if key in queue.entries or queue.retry is None:
        return delete_pair(view.source, queue.node, queue.entries[key].key)
    if len(queue.retry.entries) == 1:
        retry = queue.entries["retry_parameters"]
        return delete_pair(view.source, queue.node, retry.key)
    return delete_pair(view.source, queue.retry.node, queue.retry.entries[key].key)


@Rule("QY306", severity=Severity.WARNING, levels={"java": None}, fixes=(UNSAFE,))
def acl_on_push(view: View) -> Iterator[Report]:
    """`acl` on a push queue.

    It has no effect: only tasks of pull queues can be used over REST.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          acl:
          - user_email: worker@my-app.iam.gserviceaccount.com

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: documentation.
    """
    for queue in view.queues:
        entry = queue.get("acl")
        if entry is not None and queue.mode == "push" and not _looks_like_pull(queue):
            message = "`acl` has no effect on a push queue: remove it, or set `mode: pull`"
            fix = edit_fix("remove `acl`", delete_pair(view.source, queue.node, entry.key))
            yield entry.report_key(message, fix=fix)


def _looks_like_pull(queue: QueueNode) -> bool:
    """Return whether a queue has an acl, and nothing that a push queue would have."""
    return (
        "acl" in queue.entries
        and "mode" not in queue.entries
        and not any(queue.get(key) for key in push_keys())
    )


@Rule("QY307", levels=LENIENT, fixes=(UNSAFE,))
def push_without_rate(view: View) -> Iterator[Report]:
    """A push queue has no rate.

    Production refuses the file. Google's Python library uses 5/s and writes a warning to its
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
    advice, _ = advice_in(schema_at(QUEUE)["else"]["then"]["properties"]["rate"])
    for violation in view.violations(push_without_rate.code):
        queue = view.queue_at[violation.path[1]]
        if is_explained(queue, "rate") or is_explained(queue, "mode"):
            continue
        at = violation.key_place if violation.name == "rate" else queue.title_place
        message = f"{queue.title} is {advice}"
        line = "rate: 5/s"
        if _looks_like_pull(queue):
            message = f"{queue.title} has an `acl` but no `rate`: add `mode: pull`"
            line = "mode: pull"
        fix = _add_line(view, queue, line)
        yield Report(at=at, message=message, path=violation.path, fix=fix)


def _add_line(view: View, queue: QueueNode, line: str) -> Fix | None:
    name = queue.entries.get("name")
    if name is None or name.scalar is None or queue.node.flow or "rate" in queue.entries:
        return None
    edit = insert_after(view.source, Pair(name.key, name.value), line)
    return edit_fix(f"add `{line}`", edit)
