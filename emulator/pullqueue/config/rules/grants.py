"""Rules on the single entries of `acl`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pullqueue.config.edits import delete_item, delete_pair, split_pair
from pullqueue.config.findings import Edit, Fix, Severity
from pullqueue.config.nodes import Mapping, Sequence
from pullqueue.config.reports import Report
from pullqueue.config.rules.acl import GRANTS, pull_queues
from pullqueue.config.rules.base import Rule
from pullqueue.config.text import shorten
from pullqueue.config.view import Entry, QueueView, Section, View

_EMAIL = re.compile(r"[^\s@<>(),;:\"]+@[^\s@<>(),;:\"]+\.[^\s@<>(),;:\"]+")


def _grants(view: View) -> Iterator[tuple[QueueView, Section, str, Entry]]:
    """Every address in the lists of pull queues, with what it grants."""
    for queue in pull_queues(view):
        for section in queue.grants:
            for key in GRANTS:
                entry = section.get(key)
                if entry is not None and entry.text is not None:
                    yield queue, section, key, entry


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
        for queue in pull_queues(view):
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
