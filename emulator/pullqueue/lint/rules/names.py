"""Rules on names and modes of queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pullqueue.config.document import Scalar
from pullqueue.config.findings import Report, Severity
from pullqueue.config.values import suggested_mode
from pullqueue.config.view import Entry, QueueNode, View
from pullqueue.limits import QUEUE_NAME_CHARACTERS
from pullqueue.lint.rules.base import LENIENT, UNSAFE, Rule, effective_hint, wrong_values
from pullqueue.text import shorten


@Rule("QY201", loadable=False)
def name_format(view: View) -> Iterator[Report]:
    """A name has characters other than letters, digits and hyphens, or none at all.

    The underscore is the most frequent error in queue.yaml.

    Bad:
        queue:
        - name: notify_send
          rate: 5/s

    Good:
        queue:
        - name: notify-send
          rate: 5/s

    Source: the Python SDK's pattern for names, which permits up to 499 characters; it also accepts
    an empty name and a line break at the end, with which no task can be added.
    """
    for violation, node in view.wrong_scalars(name_format.code):
        text = node.effective_text
        message = f'invalid queue name "{shorten(node.text)}": {violation.advice}'
        if len(text) > QUEUE_NAME_CHARACTERS:
            message = (
                f"queue name has {len(text)} characters; the maximum is {QUEUE_NAME_CHARACTERS}"
            )
        hint = _name_hint(node)
        yield violation.report(message, hint=hint)


def _name_hint(node: Scalar) -> str | None:
    if "\n" in node.text:
        return "the name ends in a line break"
    if ":" in node.text and not node.style:
        return "a space is missing after a colon: the lines were read as one value"
    if "_" in node.text:
        suggested = shorten(node.text.replace("_", "-"))
        return f'for example "{suggested}"; change it in the code too'
    return effective_hint(node)


@Rule("QY202", severity=Severity.WARNING, levels={"java": Severity.ERROR})
def name_length(view: View) -> Iterator[Report]:
    r"""A name is longer than 100 characters.

    gcloud and Google's Python library accept it; App Engine's own API refuses to use such a
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
    wrong = {violation.path for violation in view.violations(name_format.code)}
    for queue, entry in _named(view):
        length = len(queue.name or "")
        if length > QUEUE_NAME_CHARACTERS and entry.path not in wrong:
            message = f"queue name has {length} characters; the maximum is {QUEUE_NAME_CHARACTERS}"
            yield entry.report(message)


@Rule("QY203", levels=LENIENT)
def duplicate_queue_name(view: View) -> Iterator[Report]:
    """Two queues have the same name.

    Google's Python library and gcloud keep the last one without a message; the Java SDK refuses
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
    first: dict[str, Entry] = {}
    for queue, entry in _named(view):
        name = queue.name or ""
        other = first.setdefault(name, entry)
        if other is not entry:
            message = f'duplicate queue name "{shorten(name)}": rename or remove one of them'
            yield entry.report(message, labels=((other.place, "the first is here"),))


def _named(view: View) -> Iterator[tuple[QueueNode, Entry]]:
    for queue in view.queues:
        entry = queue.get("name")
        if entry is not None and entry.text is not None:
            yield queue, entry


@Rule("QY204", severity=Severity.INFO, once=True)
def similar_queue_name(view: View) -> Iterator[Report]:
    """Two names differ in upper and lower case only.

    They are two queues, and easily confused.

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

    Source: advice of this program; App Engine accepts it.
    """
    first: dict[str, tuple[str, Entry]] = {}
    for queue, entry in _named(view):
        name = queue.name or ""
        other_name, other = first.setdefault(name.lower(), (name, entry))
        if other_name != name:
            message = (
                f'queue names "{shorten(name)}" and "{shorten(other_name)}" differ in '
                "upper and lower case only"
            )
            yield entry.report(message, labels=((other.place, "the other is here"),))


@Rule("QY206", loadable=False, fixes=(UNSAFE,))
def mode_value(view: View) -> Iterable[Report]:
    """`mode` is neither `push` nor `pull`.

    Upper case is not accepted. YAML 1.1 reads `no` and `off` as false.

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
    return wrong_values(view, mode_value, suggested_mode)


@Rule("QY207", severity=Severity.WARNING)
def default_queue_pull(view: View) -> Iterator[Report]:
    """The queue `default` is a pull queue.

    App Engine's library permits it. Cloud Tasks requires a queue of that name to be a push queue.

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
    for queue in view.pull_queues:
        if queue.name == "default":
            message = "`default` must be a push queue: use another name for the pull queue"
            yield Report(
                at=queue.entries["mode"].place, message=message, path=(*queue.path, "mode")
            )
