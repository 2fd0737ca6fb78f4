"""Rules on names and modes of queues."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.findings import Severity
from pullqueue.config.nodes import Scalar
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import LENIENT, Rule
from pullqueue.config.rules.push import correction, or_did_you_mean, scalars_of, seen_hint
from pullqueue.config.text import shorten
from pullqueue.config.view import Entry, QueueView, View

_LONGEST = 499
"""The longest name that Google's Python library lets pass."""
MODES = ("pull", "push")


class NameFormat(Rule):
    """A name has characters other than letters, digits and hyphens, or none at all.

    The underscore is the fault most often made in queue.yaml.

    Bad:
        queue:
        - name: notify_send
          rate: 5/s

    Good:
        queue:
        - name: notify-send
          rate: 5/s

    Source: the Python SDK's pattern for names; it also lets pass an empty name and a line break
    at the end, with which no task can be added.
    """

    code = "QY201"
    name = "name-format"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report names that are not made of letters, digits and hyphens."""
        for violation, node in scalars_of(view, self.name):
            message = f'"{shorten(node.text)}" is no name for a queue: use letters, digits and `-`'
            if not node.seen:
                message = "the name is empty: use letters, digits and `-`"
            yield Report(
                at=violation.place, message=message, path=violation.where, hint=_name_hint(node)
            )
        for queue, entry in _named(view):
            if len(queue.name or "") > _LONGEST:
                message = f"the name has {len(queue.name or '')} characters: a name has at most 100"
                yield Report(at=entry.place, message=message, path=entry.path)


def _name_hint(node: Scalar) -> str | None:
    if "\n" in node.text:
        return "the name ends in a line break"
    if ":" in node.text and not node.style:
        return "a space is missing after a colon: the lines were read as one value"
    if "_" in node.text:
        return f'such as "{shorten(node.text.replace("_", "-"))}"; the code must name it alike'
    return seen_hint(node)


class NameLength(Rule):
    r"""A name is longer than 100 characters.

    gcloud and Google's Python library let it pass; App Engine's own API refuses to use such a
    queue, and the Java SDK refuses the file.

    Bad:
        queue:
        - rate: 5/s
          name: "a-name-of-more-than-one-hundred-characters-\
            a-name-of-more-than-one-hundred-characters-\
            a-name-of-more-than-one-hundred-characters"

    Good:
        queue:
        - name: a-name
          rate: 5/s

    Source: documentation; `taskqueue.Queue` of the Python SDK.
    """

    code = "QY202"
    name = "name-length"
    severity = Severity.WARNING
    levels = {"java": Severity.ERROR}  # noqa: RUF012 - read only

    def check(self, view: View) -> Iterator[Report]:
        """Report names over 100 characters."""
        for violation, node in scalars_of(view, self.name):
            if len(node.seen) <= _LONGEST:
                message = (
                    f'"{shorten(node.seen, limit=30)}" has {len(node.seen)} characters: '
                    "a name has at most 100"
                )
                yield Report(at=violation.place, message=message, path=violation.where)


class DuplicateQueueName(Rule):
    """Two queues have one name.

    Google's Python library and gcloud keep the last one without a word; the Java SDK refuses
    the file.

    Bad:
        queue:
        - name: mail
          rate: 5/s
        - name: mail
          rate: 1/s

    Good:
        queue:
        - name: mail
          rate: 1/s

    Source: the Python SDK and gcloud, run; documentation: names are unique.
    """

    code = "QY203"
    name = "duplicate-queue-name"
    levels = LENIENT

    def check(self, view: View) -> Iterator[Report]:
        """Report the second and every later queue of a name."""
        first: dict[str, Entry] = {}
        for queue, entry in _named(view):
            name = queue.name or ""
            other = first.setdefault(name, entry)
            if other is not entry:
                yield Report(
                    at=entry.place,
                    message=f'a queue named "{shorten(name)}" is there already: '
                    "rename or remove one of them",
                    path=entry.path,
                    labels=((other.place, "the first is here"),),
                )


def _named(view: View) -> Iterator[tuple[QueueView, Entry]]:
    for queue in view.queues:
        entry = queue.get("name")
        if entry is not None and entry.text is not None:
            yield queue, entry


class SimilarQueueName(Rule):
    """Two names differ in upper and lower case only.

    They are two queues, and easily taken for one another.

    Bad:
        queue:
        - name: mail
          rate: 5/s
        - name: Mail
          rate: 1/s

    Good:
        queue:
        - name: mail
          rate: 5/s
        - name: mail-slow
          rate: 1/s

    Source: a courtesy; App Engine does not object.
    """

    code = "QY204"
    name = "similar-queue-name"
    severity = Severity.INFO

    def check(self, view: View) -> Iterator[Report]:
        """Report a name that was met in other letters before."""
        first: dict[str, tuple[str, Entry]] = {}
        for queue, entry in _named(view):
            name = queue.name or ""
            other_name, other = first.setdefault(name.lower(), (name, entry))
            if other_name != name:
                yield Report(
                    at=entry.place,
                    message=f'"{shorten(name)}" differs from "{shorten(other_name)}" '
                    "in upper and lower case only",
                    path=entry.path,
                    labels=((other.place, "the other is here"),),
                )


class ModeValue(Rule):
    """`mode` is neither `push` nor `pull`.

    Lower case counts. YAML 1.1 reads `no` and `off` as false.

    Bad:
        queue:
        - name: jobs
          mode: PULL

    Good:
        queue:
        - name: jobs
          mode: pull

    Source: the Python SDK's queueinfo.
    """

    code = "QY206"
    name = "mode-value"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report other modes, with the one most likely meant."""
        for violation, node in scalars_of(view, self.name):
            meant = _meant_mode(node.text)
            advice = or_did_you_mean("write `pull` or `push`", meant)
            yield Report(
                at=violation.place,
                message=f'"{shorten(node.text)}" is no mode: {advice}',
                path=violation.where,
                hint=seen_hint(node),
                fix=correction(node, meant),
            )


def _meant_mode(text: str) -> str | None:
    import difflib  # noqa: PLC0415 - only a file with such a fault pays for it

    close = difflib.get_close_matches(text.strip().lower(), MODES, n=1, cutoff=0.7)
    return close[0] if close else None


class DefaultQueuePull(Rule):
    """The queue `default` is made a pull queue.

    App Engine's library permits it. Cloud Tasks wants a queue of that name to push.

    Bad:
        queue:
        - name: default
          mode: pull

    Good:
        queue:
        - name: jobs
          mode: pull

    Source: documentation of Cloud Tasks.
    """

    code = "QY207"
    name = "default-queue-pull"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report a `default` with `mode: pull`."""
        for queue in view.queues:
            entry = queue.get("mode")
            if queue.name == "default" and queue.mode == "pull" and entry is not None:
                message = "`default` is a pull queue: give pull tasks a queue of another name"
                yield Report(at=entry.place, message=message, path=entry.path)
