"""Rules on `acl`: who may use a pull queue over REST."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pullqueue.config.edits import delete_item, delete_pair, split_pair
from pullqueue.config.findings import Edit, Fix, Severity
from pullqueue.config.nodes import Mapping, Sequence, shorten
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.view import Entry, QueueView, Section, View

GRANTS = ("user_email", "writer_email")

_EMAIL = re.compile(r"[^\s@<>(),;:\"]+@[^\s@<>(),;:\"]+\.[^\s@<>(),;:\"]+")


def _grants(view: View) -> Iterator[tuple[QueueView, Section, str, Entry]]:
    """Every address in the lists of pull queues, with what it grants."""
    for queue in _pull_queues(view):
        for section in queue.grants:
            for key in GRANTS:
                entry = section.get(key)
                if entry is not None and entry.text is not None:
                    yield queue, section, key, entry


def _pull_queues(view: View) -> Iterator[QueueView]:
    return (queue for queue in view.queues if queue.mode == "pull")


class AclEmailFormat(Rule):
    """A grant is no e-mail address.

    App Engine's library accepts any text, so that a placeholder left in the file, or the number
    of an account, goes unseen and nobody gets in.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: <<Compute Engine email>>

    Good:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@example.com

    Source: the Python SDK checks nothing; placeholders were seen in public repositories.
    """

    code = "QY401"
    name = "acl-email-format"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report addresses without an `@` and a domain."""
        for _, _, key, entry in _grants(view):
            text = entry.text or ""
            if not _EMAIL.fullmatch(text):
                message = (
                    f'"{shorten(text)}" is no e-mail address: `{key}` takes one, such as '
                    "`worker@example.com`"
                )
                yield Report(at=entry.place, message=message, path=entry.path)


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
        for queue in _pull_queues(view):
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


class AclDuplicate(Rule):
    """One address is granted the same thing twice.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@example.com
          - user_email: worker@example.com

    Good:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@example.com

    Source: a courtesy; App Engine does not object.
    """

    code = "QY403"
    name = "acl-duplicate"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report the second grant and every later one."""
        first: dict[tuple[str, str, str | None], Entry] = {}
        for queue, section, key, entry in _grants(view):
            other = first.setdefault((queue.path, key, entry.text), entry)
            if other is entry:
                continue
            edit = _removal(view, queue, section, entry)
            yield Report(
                at=entry.place,
                message=f'"{shorten(entry.text or "")}" has this grant already: remove one',
                path=entry.path,
                labels=((other.place, "the first is here"),),
                fix=Fix(title="remove the second", edits=(edit,), safe=True) if edit else None,
            )


def _removal(view: View, queue: QueueView, section: Section, entry: Entry) -> Edit | None:
    acl = queue.entries["acl"].value
    if len(section.node.pairs) == 1 and isinstance(acl, Sequence):
        return delete_item(view.source, acl, section.node)
    return delete_pair(view.source, section.node, entry.key)


class AclTwoKeys(Rule):
    """One entry grants both things.

    Google's Java tools keep only one of two keys of an entry; write two entries.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@example.com
            writer_email: feeder@example.com

    Good:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@example.com
          - writer_email: feeder@example.com

    Source: the Java SDK's translators of queues.
    """

    code = "QY404"
    name = "acl-two-keys"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report entries with two keys."""
        for queue in _pull_queues(view):
            for grant in queue.grants:
                user, writer = (grant.get(key) for key in GRANTS)
                if user is None or writer is None:
                    continue
                edit = _split(view, grant.node)
                yield Report(
                    at=grant.place,
                    message="two grants in one entry, of which some tools keep one: write two "
                    "entries",
                    path=grant.path,
                    labels=((max(user, writer, key=_start).key_place, "the second is here"),),
                    fix=Fix(title="split the entry", edits=(edit,), safe=True) if edit else None,
                )


def _start(entry: Entry) -> int:
    return entry.key.start


def _split(view: View, node: Mapping) -> Edit | None:
    return split_pair(view.source, node) if len(node.pairs) == len(GRANTS) else None


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
        for queue in _pull_queues(view):
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
        for queue in _pull_queues(view):
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
        for queue in _pull_queues(view):
            if queue.get("acl") is None:
                message = f"over REST, everyone is refused at {queue.title}: give it an `acl`"
                yield Report(at=queue.title_place, message=message, path=queue.path)
