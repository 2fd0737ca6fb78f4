"""Rules on `acl`: who may use a pull queue over REST."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pullqueue.config.document import Path, Sequence
from pullqueue.config.edits import delete_item, delete_pair, split_pair
from pullqueue.config.findings import Edit, Fix, Report, Severity
from pullqueue.config.view import Entry, QueueNode, Section, View
from pullqueue.lint.rules.base import SAFE, UNSAFE, Rule, edit_fix
from pullqueue.text import is_email, shorten

_KEYS = ("user_email", "writer_email")
_PLACEHOLDER = (
    r"@(?:.+\.)?(?:example(?:\.(?:com|org|net|edu))?|(?:your|my)?-?domain\.com)$"
    r"|\.(?:example|test|invalid)$"
    r"|\byour\b|\byour(?=[-_.]?(?:e?mail|name|address|account|project|app|domain|company))"
    r"|project[-_]?id\b|placeholder|change[-_.]?me"
)


def _addresses(view: View) -> Iterator[tuple[QueueNode, Section, Entry]]:
    """Yield every address in the lists of pull queues, with its queue and its entry of the list."""
    for queue in view.pull_queues:
        for section in queue.acl_entries:
            for entry in section.some(*_KEYS):
                if entry.text is not None:
                    yield queue, section, entry


@Rule("QY401", severity=Severity.WARNING)
def acl_email_format(view: View) -> Iterator[Report]:
    """An `acl` entry is not an e-mail address.

    App Engine's library accepts any text, so that a placeholder left in the file, or the number
    of an account, is not noticed and nobody has access.

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
          - user_email: worker@my-app.iam.gserviceaccount.com

    Source: the Python SDK checks nothing; placeholders were seen in public repositories.
    """
    for _, _, entry in _addresses(view):
        if not is_email(entry.text or ""):
            key = entry.key.text
            message = (
                f'invalid {key} "{entry.shown}": use an e-mail address, for example '
                "`worker@my-app.iam.gserviceaccount.com`"
            )
            yield entry.report(message)


@Rule("QY402", severity=Severity.WARNING, fixes=(UNSAFE,))
def acl_empty(view: View) -> Iterator[Report]:
    """An `acl`, or an entry of it, is empty.

    It does not grant access to anybody.

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
    for queue in view.pull_queues:
        acl = queue.get("acl")
        if acl is None or not isinstance(acl.value, Sequence):
            continue
        if not acl.value.items:
            fix = edit_fix("remove `acl`", delete_pair(view.source, queue.node, acl.key))
            message = "the acl is empty: add `- user_email: ADDRESS`, or remove it"
            yield acl.report(message, fix=fix)
        for section in queue.acl_entries:
            if not section.node.pairs:
                removal = delete_item(view.source, acl.value, section.node)
                fix = edit_fix("remove the entry", removal)
                message = "the acl entry is empty: add `user_email` or `writer_email`"
                yield Report(at=section.place, message=message, path=section.path, fix=fix)


@Rule("QY403", severity=Severity.WARNING, fixes=(UNSAFE,))
def acl_duplicate(view: View) -> Iterator[Report]:
    """One address is in the `acl` twice with the same key.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@my-app.iam.gserviceaccount.com
          - user_email: worker@my-app.iam.gserviceaccount.com

    Good:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@my-app.iam.gserviceaccount.com

    Source: advice of this program; App Engine accepts it.
    """
    first: dict[tuple[Path, str, str | None], Entry] = {}
    for queue, section, entry in _addresses(view):
        other = first.setdefault((queue.path, entry.key.text, entry.text), entry)
        if other is not entry:
            message = f'duplicate {entry.key.text} "{entry.shown}": remove one'
            labels = ((other.place, "the first is here"),)
            fix = edit_fix("remove the second", _removal(view, queue, section, entry))
            yield entry.report(message, labels=labels, fix=fix)


def _removal(view: View, queue: QueueNode, section: Section, entry: Entry) -> Edit | None:
    acl = queue.entries["acl"].value
    if len(section.node.pairs) == 1 and isinstance(acl, Sequence):
        return delete_item(view.source, acl, section.node)
    return delete_pair(view.source, section.node, entry.key)


@Rule("QY404", severity=Severity.WARNING, fixes=(SAFE,))
def acl_two_keys(view: View) -> Iterator[Report]:
    """One `acl` entry has both keys.

    Google's Java tools keep only one of two keys of an entry; write two entries.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@my-app.iam.gserviceaccount.com
            writer_email: feeder@my-app.iam.gserviceaccount.com

    Good:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@my-app.iam.gserviceaccount.com
          - writer_email: feeder@my-app.iam.gserviceaccount.com

    Source: the Java SDK's translators of queues.
    """
    for queue in view.pull_queues:
        for section in queue.acl_entries:
            both = [*section.some(*_KEYS)]
            if len(both) < len(_KEYS):
                continue
            edit = split_pair(view.source, section.node) if len(section.node.pairs) == 2 else None
            second = max(both, key=lambda entry: entry.key.start)
            yield Report(
                at=section.place,
                message="the acl entry has two keys, of which some tools keep one: split it",
                path=section.path,
                labels=((second.key_place, "the second is here"),),
                fix=Fix(title="split the entry", edits=(edit,), safe=True) if edit else None,
            )


def _granted(view: View, queue: QueueNode) -> set[str]:
    """Return the keys in a queue's list; nothing is known where a key is defined twice."""
    if "duplicate-key" in view.reports:
        return set()
    return {key for section in queue.acl_entries for key in _KEYS if key in section.entries}


@Rule("QY405", severity=Severity.WARNING)
def acl_writer_only(view: View) -> Iterator[Report]:
    """The `acl` allows accounts to insert tasks, but none to lease them.

    An address that inserts and leases must be in the list twice.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - writer_email: worker@my-app.iam.gserviceaccount.com

    Good:
        queue:
        - name: jobs
          mode: pull
          acl:
          - writer_email: worker@my-app.iam.gserviceaccount.com
          - user_email: worker@my-app.iam.gserviceaccount.com

    Source: documentation of `acl`.
    """
    for queue in view.pull_queues:
        if _granted(view, queue) == {"writer_email"}:
            acl = queue.entries["acl"]
            message = "nobody can lease over REST: add `- user_email: ADDRESS`"
            yield acl.report_key(message)


@Rule("QY406", severity=Severity.INFO, levels={"rest": Severity.INFO}, opt_in=True, once=True)
def acl_no_writer(view: View) -> Iterator[Report]:
    """The `acl` allows accounts to lease tasks over REST, but none to insert them.

    Correct if the tasks come from the application itself, which needs no entry. On in the profile
    `rest` only.

    Bad (profile rest):
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@my-app.iam.gserviceaccount.com

    Good (profile rest):
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@my-app.iam.gserviceaccount.com
          - writer_email: worker@my-app.iam.gserviceaccount.com

    Source: documentation of `acl`.
    """
    for queue in view.pull_queues:
        if _granted(view, queue) == {"user_email"}:
            acl = queue.entries["acl"]
            message = (
                "nobody can insert over REST: add `- writer_email: ADDRESS`, unless only the "
                "application adds tasks"
            )
            yield acl.report_key(message)


@Rule("QY407", severity=Severity.INFO, levels={"rest": Severity.INFO}, opt_in=True, once=True)
def acl_missing(view: View) -> Iterator[Report]:
    """A pull queue that is used over REST has no `acl`.

    Every request over REST is refused then. Calls from inside the application need no entry, so
    that most pull queues have none; on in the profile `rest` only.

    Bad (profile rest):
        queue:
        - name: jobs
          mode: pull

    Good (profile rest):
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@my-app.iam.gserviceaccount.com

    Source: documentation of `acl`.
    """
    for queue in view.pull_queues:
        if queue.get("acl") is None:
            message = f"{queue.title} has no `acl`: every request over REST is refused; add one"
            yield Report(at=queue.title_place, message=message, path=queue.path)


@Rule("QY408", severity=Severity.WARNING, once=True)
def acl_placeholder(view: View) -> Iterator[Report]:
    """An address in an `acl` is a placeholder.

    Addresses in domains reserved for examples, and such as `your-email@gmail.com`, belong to
    nobody.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: your-account@example.com

    Good:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@my-app.iam.gserviceaccount.com

    Source: RFC 2606; placeholders were seen in public repositories.
    """
    for _, _, entry in _addresses(view):
        text = entry.text or ""
        if is_email(text) and re.search(_PLACEHOLDER, text.lower()):
            message = f'"{shorten(text)}" is a placeholder: use the address of an account'
            yield entry.report(message)
