"""Rules on `acl`: who may use a pull queue over REST."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.edits import delete_item, delete_pair
from pullqueue.config.findings import Fix, Severity
from pullqueue.config.nodes import Sequence
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.view import QueueView, View

GRANTS = ("user_email", "writer_email")


def pull_queues(view: View) -> Iterator[QueueView]:
    """Give the queues whose tasks are reached over REST."""
    return (queue for queue in view.queues if queue.mode == "pull")


class AclEmpty(Rule):
    """An `acl`, or an entry of it, is empty.

    It grants nothing.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl: []

    Good:
        queue:
        - name: jobs
          mode: pull

    Source: the Python SDK, run.
    """

    code = "QY402"
    name = "acl-empty"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report empty lists and empty entries."""
        for queue in pull_queues(view):
            acl = queue.get("acl")
            if acl is None or not isinstance(acl.value, Sequence):
                continue
            if not acl.value.items:
                edit = delete_pair(view.source, queue.node, acl.key)
                fix = Fix(title="remove `acl`", edits=(edit,)) if edit else None
                message = "the list grants nothing: add `- user_email: ADDRESS`, or remove it"
                yield Report(at=acl.place, message=message, path=acl.path, fix=fix)
            yield from _empty_entries(view, queue, acl.value)


def _empty_entries(view: View, queue: QueueView, acl: Sequence) -> Iterator[Report]:
    for grant in queue.grants:
        if not grant.node.pairs:
            edit = delete_item(view.source, acl, grant.node)
            fix = Fix(title="remove the entry", edits=(edit,)) if edit else None
            message = "the entry grants nothing: give it a `user_email` or a `writer_email`"
            yield Report(at=grant.place, message=message, path=grant.path, fix=fix)


class AclWriterOnly(Rule):
    """The `acl` lets some insert, and nobody lease.

    An address that inserts and leases stands in the list twice.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - writer_email: worker@example.com

    Good:
        queue:
        - name: jobs
          mode: pull
          acl:
          - writer_email: worker@example.com
          - user_email: worker@example.com

    Source: documentation of `acl`.
    """

    code = "QY405"
    name = "acl-writer-only"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report lists without a `user_email`."""
        for queue in pull_queues(view):
            if _granted(view, queue) == {"writer_email"}:
                message = "nobody may lease over REST: add `- user_email: ADDRESS`"
                acl = queue.entries["acl"]
                yield Report(at=acl.key_place, message=message, path=acl.path)


def _granted(view: View, queue: QueueView) -> set[str]:
    """What a list grants; nothing is known where a key stands twice."""
    if view.found.of("duplicate-key"):
        return set()
    return {key for grant in queue.grants for key in GRANTS if key in grant.entries}


class AclNoWriter(Rule):
    """The `acl` lets some lease, and nobody insert over REST.

    Right where the tasks come from the application itself, which needs no grant.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@example.com

    Good:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@example.com
          - writer_email: worker@example.com

    Source: documentation of `acl`.
    """

    code = "QY406"
    name = "acl-no-writer"
    severity = Severity.INFO

    def check(self, view: View) -> Iterator[Report]:
        """Report lists without a `writer_email`."""
        for queue in pull_queues(view):
            if _granted(view, queue) == {"user_email"}:
                message = (
                    "nobody may insert over REST: fine if the application adds the tasks, else "
                    "add `- writer_email: ADDRESS`"
                )
                acl = queue.entries["acl"]
                yield Report(at=acl.key_place, message=message, path=acl.path)


class AclMissing(Rule):
    """A pull queue without an `acl`, used over REST.

    Over REST, everyone is refused then. Calls from inside the application need no grant, so that
    most pull queues have none; looked for in the profile `rest` only.

    Bad (profile rest):
        queue:
        - name: jobs
          mode: pull

    Good (profile rest):
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@example.com

    Source: documentation of `acl`.
    """

    code = "QY407"
    name = "acl-missing"
    severity = Severity.INFO
    opt_in = True
    levels = {"rest": Severity.INFO}  # noqa: RUF012 - read only

    def check(self, view: View) -> Iterator[Report]:
        """Report pull queues without a list."""
        for queue in pull_queues(view):
            if queue.get("acl") is None:
                message = f"over REST, everyone is refused at {queue.title}: give it an `acl`"
                yield Report(at=queue.title_place, message=message, path=queue.path)
