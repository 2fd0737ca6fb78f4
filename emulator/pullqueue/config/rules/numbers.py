"""Rules on values that YAML or App Engine read as others than they look like."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.dialects import BACKOFFS, INTEGERS, RETRY_INTEGERS
from pullqueue.config.document import Scalar
from pullqueue.config.findings import Report, Severity
from pullqueue.config.rules.base import SAFE, UNSAFE, Rule, write_fix
from pullqueue.config.text import shorten
from pullqueue.config.view import Entry, QueueView, View

_KINDS = {"int": "a number", "float": "a number", "bool": "a truth value", "timestamp": "a date"}
_DEFAULTS = {
    "bucket_size": "5",
    "max_concurrent_requests": "1000",
    "min_backoff_seconds": "0.1",
    "max_backoff_seconds": "3600",
    "max_doublings": "16",
}


def _retry_entries(queue: QueueView, *keys: str) -> Iterator[Entry]:
    if queue.retry:
        yield from queue.retry.some(*keys)


@Rule("QY205", severity=Severity.WARNING, fixes=(SAFE, UNSAFE))
def implicit_type(view: View) -> Iterator[Report]:
    """YAML 1.1 reads a text as something else.

    App Engine reads YAML 1.1, where `0123` is 83, `yes` is true, `12:30` is 750 and `1.10` is
    1.1; other tools read YAML 1.2, where they are not. In quotes it is a text in both.

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
    refused = {
        violation.node.start
        for violations in view.shape.violations.values()
        for violation in violations
    }
    for entry in _readable_as_others(view):
        if entry.scalar and entry.scalar.start not in refused and not entry.scalar.style:
            yield _implicit(entry, entry.scalar)


def _readable_as_others(view: View) -> Iterator[Entry]:
    """Yield values that are read as another text, or as the same text by accident (names)."""
    texts = [*view.top.some("total_storage_limit", "application")]
    texts += [entry for queue in view.queues for entry in queue.some("name", "target")]
    for entry in texts:
        scalar = entry.scalar
        if scalar and scalar.kind != "str" and (entry.text != scalar.text or _is_name(entry)):
            yield entry
    for queue in view.queues:
        for entry in _retry_entries(queue, *BACKOFFS):
            scalar = entry.scalar
            if scalar and scalar.kind == "int" and entry.text != scalar.text.lstrip("+"):
                yield entry


def _is_name(entry: Entry) -> bool:
    return entry.key.text == "name"


def _implicit(entry: Entry, scalar: Scalar) -> Report:
    text, effective = shorten(scalar.text), shorten(scalar.effective_text)
    if text == effective:
        message = f"`{text}` is {_KINDS[scalar.kind]} in YAML: put it in quotes"
        fix = write_fix(scalar, f'"{scalar.text}"', safe=True)
    elif entry.key.text in BACKOFFS:
        message = f"App Engine reads `{text}` as {effective}: write the intended number"
        fix = write_fix(scalar, scalar.effective_text, safe=True)
    else:
        message = f"App Engine reads `{text}` as {effective}: put it in quotes"
        fix = write_fix(scalar, f'"{scalar.text}"')
    return entry.report(message, fix=fix)


@Rule("QY214", loadable=False)
def integer_format(view: View) -> Iterator[Report]:
    """A number of queue.yaml is not a whole number.

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
    for violation, node in view.wrong_scalars("integer-format"):
        message = (
            f'invalid {violation.name} "{shorten(node.text)}": use a whole number, for example `10`'
        )
        hint = None
        if node.kind == "float":
            hint = "some YAML readers read it as a number, others as text"
        yield violation.report(message, hint=hint)


@Rule("QY215", severity=Severity.WARNING, fixes=(SAFE,))
def integer_coerced(view: View) -> Iterator[Report]:
    """A whole number is read as another one than is written.

    App Engine truncates fractions (`5.7` is 5), reads truth values as numbers (`yes` is 1), and
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
    for queue in view.queues:
        for entry in (*queue.some(*INTEGERS), *_retry_entries(queue, *RETRY_INTEGERS)):
            scalar, integer = entry.scalar, entry.integer
            if scalar is None or integer is None or scalar.style:
                continue
            if scalar.text.lstrip("+") != str(integer):
                text, number = shorten(scalar.text), shorten(str(integer))
                message = f"App Engine reads `{text}` as {number}: write the intended number"
                fix = write_fix(scalar, str(integer), safe=True)
                yield entry.report(message, fix=fix)


@Rule("QY232", severity=Severity.WARNING, levels={"sdk": None, "java": None}, once=True)
def zero_becomes_default(view: View) -> Iterator[Report]:
    """A zero that the deployment replaces by the default.

    gcloud reads zero as "not set": `max_doublings: 0` is deployed as 16,
    `min_backoff_seconds: 0` as 0.1, `max_concurrent_requests: 0` as 1000 and `bucket_size: 0`
    as 5. Only `task_retry_limit: 0` is kept.

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
    for queue in view.queues:
        if queue.mode == "pull":
            continue
        retries = _retry_entries(queue, *BACKOFFS, "max_doublings")
        for entry in (*queue.some(*INTEGERS), *retries):
            if entry.number == 0:
                default = _DEFAULTS[entry.key.text]
                message = (
                    f"`{entry.key.text}: {entry.text}` is deployed as {default}, the default: "
                    "write another number, or remove the key"
                )
                yield entry.report(message)
