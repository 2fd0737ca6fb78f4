"""Rules on how YAML and App Engine read values: numbers and texts that become others."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.edits import replace_scalar
from pullqueue.config.findings import Fix, Severity
from pullqueue.config.nodes import Scalar
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.rules.push import scalars_of
from pullqueue.config.text import shorten
from pullqueue.config.view import Entry, QueueView, Section, View

_INTEGERS = ("bucket_size", "max_concurrent_requests")
_RETRY_INTEGERS = ("task_retry_limit", "max_doublings")
_RETRY_NUMBERS = ("min_backoff_seconds", "max_backoff_seconds")


class ImplicitType(Rule):
    """YAML 1.1 reads a text as something else.

    App Engine reads YAML 1.1, where `0123` is 83, `yes` is true, `12:30` is 750 and `1.10` is
    1.1; other tools read YAML 1.2, where they are not. Quotes make a text of it in both.

    Bad:
        queue:
        - name: 0123
          rate: 5/s

    Good:
        queue:
        - name: "0123"
          rate: 5/s

    Source: YAML 1.1's types; the Python SDK, run.
    """

    code = "QY205"
    name = "implicit-type"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report texts, and numbers in another base, that are not what they look like."""
        refused = {
            violation.node.start for found in view.violations.values() for violation in found
        }
        for entry, scalar in _candidates(view):
            if scalar.start not in refused and not scalar.style:
                yield _implicit(entry, scalar)


def _candidates(view: View) -> Iterator[tuple[Entry, Scalar]]:
    """Values that are read as another text, or as the same text by accident (names)."""
    for entry in _texts(view):
        scalar = entry.scalar
        if scalar is None or scalar.kind == "str":
            continue
        if scalar.seen != scalar.text or entry.key.text == "name":
            yield entry, scalar
    for queue in view.queues:
        for entry in _entries(queue.retry, _RETRY_NUMBERS):
            scalar = entry.scalar
            if scalar and scalar.kind == "int" and scalar.seen != scalar.text.lstrip("+"):
                yield entry, scalar


def _texts(view: View) -> Iterator[Entry]:
    yield from _entries(view.top, ("total_storage_limit", "application"))
    for queue in view.queues:
        yield from _entries(queue, ("name", "target"))


def _entries(section: Section | None, keys: tuple[str, ...]) -> Iterator[Entry]:
    for key in keys if section else ():
        entry = section.get(key) if section else None
        if entry is not None:
            yield entry


def _implicit(entry: Entry, scalar: Scalar) -> Report:
    same = scalar.seen == scalar.text
    numeric = entry.key.text in _RETRY_NUMBERS
    kind = {"int": "a number", "float": "a number", "bool": "a truth value"}.get(
        scalar.kind, "a date"
    )
    if same:
        message = f"`{shorten(scalar.text)}` is {kind} to YAML: put it in quotes"
    else:
        advice = "write the number that is meant"
        if not numeric:
            advice = "put it in quotes, or write what is meant"
        message = f"App Engine reads `{shorten(scalar.text)}` as {shorten(scalar.seen)}: {advice}"
    written = scalar.seen if numeric else f'"{scalar.text}"'
    fix = Fix(
        title=f"write `{shorten(written)}`",
        edits=(replace_scalar(scalar, written),),
        safe=same or numeric,
    )
    return Report(at=entry.place, message=message, path=entry.path, fix=fix)


class IntegerFormat(Rule):
    """A number of queue.yaml is no whole number.

    An exponent is refused too: YAML readers do not agree whether `1e2` is a number.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          bucket_size: ten

    Good:
        queue:
        - name: mail
          rate: 5/s
          bucket_size: 10

    Source: the Python SDK: "could not be converted to type int".
    """

    code = "QY214"
    name = "integer-format"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report values that cannot be read as a whole number."""
        for violation, node in scalars_of(view, self.name):
            message = f'"{shorten(node.text)}" is no whole number: write digits only, such as `10`'
            hint = None
            if node.kind == "float":
                hint = "some readers of YAML take it for a number, others for text"
            yield Report(at=violation.place, message=message, path=violation.where, hint=hint)


class IntegerCoerced(Rule):
    """A whole number is read as another one than is written.

    App Engine cuts off fractions (`5.7` is 5), takes truth values for numbers (`yes` is 1), and
    YAML 1.1 reads `010` as 8 and `1:30` as 90.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          bucket_size: 010

    Good:
        queue:
        - name: mail
          rate: 5/s
          bucket_size: 8

    Source: the Python SDK's `int()`; YAML 1.1's types.
    """

    code = "QY215"
    name = "integer-coerced"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report numbers whose spelling is not that of the number App Engine sees."""
        for queue in view.queues:
            for entry in _integers(queue):
                scalar, integer = entry.scalar, entry.integer
                if scalar is None or integer is None or scalar.style:
                    continue
                if scalar.text.lstrip("+") == str(integer):
                    continue
                edit = replace_scalar(scalar, str(integer))
                yield Report(
                    at=entry.place,
                    message=f"App Engine reads `{shorten(scalar.text)}` as "
                    f"{shorten(str(integer))}: write the number that is meant",
                    path=entry.path,
                    fix=Fix(title=f"write `{shorten(str(integer))}`", edits=(edit,), safe=True),
                )


def _integers(queue: QueueView) -> Iterator[Entry]:
    yield from _entries(queue, _INTEGERS)
    yield from _entries(queue.retry, _RETRY_INTEGERS)


class ZeroBecomesDefault(Rule):
    """A zero that the deployment replaces by the default.

    gcloud takes zero for "not set": `max_doublings: 0` is deployed as 16,
    `min_backoff_seconds: 0` as 0.1, `max_concurrent_requests: 0` as 1000 and `bucket_size: 0`
    as 5. Only `task_retry_limit: 0` stays.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          bucket_size: 0

    Good:
        queue:
        - name: mail
          rate: 5/s
          bucket_size: 1

    Source: gcloud's deployment of queues.
    """

    code = "QY232"
    name = "zero-becomes-default"
    severity = Severity.WARNING
    levels = {"sdk": None, "java": None}  # noqa: RUF012 - read only

    def check(self, view: View) -> Iterator[Report]:
        """Report zeros that will not be deployed."""
        for queue in view.queues:
            if queue.mode == "pull":
                continue
            entries = [*_entries(queue, _INTEGERS)]
            entries += _entries(queue.retry, (*_RETRY_NUMBERS, "max_doublings"))
            for entry in entries:
                if entry.number == 0:
                    default = DEFAULTS[entry.key.text]
                    yield Report(
                        at=entry.place,
                        message=f"`{entry.key.text}: {entry.text}` is deployed as the default, "
                        f"{default}: write another number, or leave the key out",
                        path=entry.path,
                    )


DEFAULTS = {
    "bucket_size": "5",
    "max_concurrent_requests": "1000",
    "min_backoff_seconds": "0.1",
    "max_backoff_seconds": "3600",
    "max_doublings": "16",
}
