"""Rules on `target`, on the values of the top level, and on what YAML reads as something else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pullqueue.config.document import Scalar
from pullqueue.config.edits import delete_pair
from pullqueue.config.findings import Report, Severity
from pullqueue.config.schema import QUEUE, RETRY, TOP, find_keys, schema_at, text_keys, value_kinds
from pullqueue.config.values import parse_storage_limit, suggested_storage_limit
from pullqueue.config.view import Entry, QueueNode, View
from pullqueue.lint.rules.base import SAFE, UNSAFE, Rule, edit_fix, write_fix, wrong_values
from pullqueue.text import shorten

_KINDS = {"int": "a number", "float": "a number", "bool": "a truth value", "timestamp": "a date"}


def _retry_entries(queue: QueueNode, *keys: str) -> Iterator[Entry]:
    if queue.retry:
        yield from queue.retry.some(*keys)


def _converted(queue: QueueNode, *kinds: str) -> Iterator[Entry]:
    """Yield the entries of a queue, and of its retries, whose values are of some kinds."""
    for kind in kinds:
        yield from queue.some(*find_keys(kind, QUEUE))
        yield from _retry_entries(queue, *find_keys(kind, RETRY))


@Rule("QY205", severity=Severity.WARNING, fixes=(SAFE, UNSAFE))
def implicit_type(view: View) -> Iterator[Report]:
    """YAML 1.1 reads a text as something else.

    App Engine reads YAML 1.1, where `0123` is 83, `yes` and `y` are true, `12:30` is 750 and
    `1.10` is 1.1; other tools read YAML 1.2, where they are not. In quotes it is a text in both.

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
    texts = [*view.top.some(*text_keys(TOP))]
    texts += [entry for queue in view.queues for entry in queue.some(*text_keys(QUEUE))]
    for entry in texts:
        scalar = entry.scalar
        if (
            scalar
            and scalar.kind != "str"
            and (entry.text != scalar.text or entry.key.text == "name")
        ):
            yield entry
    for queue in view.queues:
        for entry in _retry_entries(queue, *find_keys("number", RETRY)):
            scalar = entry.scalar
            if scalar and scalar.kind == "int" and entry.text != scalar.text.removeprefix("+"):
                yield entry


def _implicit(entry: Entry, scalar: Scalar) -> Report:
    text, effective = shorten(scalar.text), shorten(scalar.effective_text)
    if text == effective:
        message = f"`{text}` is {_KINDS[scalar.kind]} in YAML: put it in quotes"
        fix = write_fix(scalar, f'"{scalar.text}"', safe=True)
    elif value_kinds().get(entry.key.text) == "number":
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
    for violation, node in view.wrong_scalars(integer_format.code):
        message = f'invalid {violation.name} "{shorten(node.text)}": {violation.advice}'
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
        for entry in _converted(queue, "integer"):
            scalar, integer = entry.scalar, entry.integer
            if scalar is None or integer is None or scalar.style:
                continue
            if scalar.text.removeprefix("+") != str(integer):
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
    for entry, default in find_zeros(view):
        message = (
            f"`{entry.key.text}: {entry.text}` is deployed as {default}, the default: "
            "write another number, or remove the key"
        )
        yield entry.report(message)


def find_zeros(view: View) -> Iterator[tuple[Entry, object]]:
    """Yield what is 0 on a push queue, where a deployment reads a default, and that default."""
    for queue in view.queues:
        if queue.mode == "pull":
            continue
        for entry in _converted(queue, "integer", "number"):
            level = QUEUE if len(entry.path) == len(QUEUE) + 1 else RETRY
            default = schema_at((*level, entry.key.text)).get("default")
            if entry.number == 0 and default is not None:
                yield entry, default


@Rule("QY226", loadable=False)
def target_format(view: View) -> Iterator[Report]:
    """`target` is neither a service nor a version and a service.

    Lower-case letters, digits and hyphens, no hyphen at the beginning; a version has up to 100
    characters, a service up to 63. Three parts (`instance.version.service`) are refused.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          target: task_module

    Good:
        queue:
        - name: mail
          rate: 5/s
          target: v2.task-module

    Source: the Python SDK's pattern for targets.
    """
    for report in wrong_values(view, target_format):
        text = view.source.text[report.at.start : report.at.end]
        hint = report.hint
        if "/" in text:
            hint = "a target is a name, not an address"
        elif text.count(".") > 1:
            hint = "an instance cannot be named: remove the part before the version"
        yield report._replace(hint=hint)


@Rule("QY227", loadable=False, fixes=(UNSAFE,))
def storage_limit_format(view: View) -> Iterator[Report]:
    """`total_storage_limit` is not a number with B, K, M, G or T.

    Upper case, no second letter; multiples of 1024. Without a letter it counts bytes and must be
    whole.

    Bad:
        total_storage_limit: 120MB
        queue:
        - name: mail
          rate: 5/s

    Good:
        total_storage_limit: 120M
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's pattern and its translation.
    """
    yield from wrong_values(view, storage_limit_format, suggested_storage_limit)
    entry = view.top.get("total_storage_limit")
    if view.violations(storage_limit_format.code) or entry is None or entry.text is None:
        return
    if parse_storage_limit(entry.text) is None:
        message = f"total_storage_limit {shorten(entry.text)} is too large: use for example `120M`"
        yield entry.report(message)


@Rule("QY228", severity=Severity.WARNING)
def storage_limit_zero(view: View) -> Iterator[Report]:
    """`total_storage_limit` is zero.

    No task can be added.

    Bad:
        total_storage_limit: 0
        queue:
        - name: mail
          rate: 5/s

    Good:
        total_storage_limit: 120M
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's translation.
    """
    entry = view.top.get("total_storage_limit")
    if entry and entry.text is not None and parse_storage_limit(entry.text) == 0:
        message = "a total_storage_limit of zero refuses every task: raise it, or remove the key"
        yield entry.report(message)


_WORDS = dict.fromkeys(("true", "yes", "on"), "true") | dict.fromkeys(
    ("false", "no", "off"), "false"
)


@Rule("QY229", loadable=False, fixes=(SAFE,))
def resume_paused_value(view: View) -> Iterator[Report]:
    """`resume_paused_queues` is not true or false.

    Without quotes: `"false"` in quotes is a text, and refused.

    Bad:
        resume_paused_queues: "false"
        queue:
        - name: mail
          rate: 5/s

    Good:
        resume_paused_queues: false
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's queueinfo, run.
    """
    for violation, node in view.wrong_scalars(resume_paused_value.code):
        message = f'invalid resume_paused_queues "{shorten(node.text)}": {violation.advice}'
        word = _WORDS.get(node.text.strip().lower()) if node.style in {"'", '"'} else None
        if word:
            message = f'resume_paused_queues is the text "{node.text}": remove the quotes'
        fix = write_fix(node, word, safe=True) if word else None
        yield violation.report(message, fix=fix)


@Rule("QY230", loadable=False)
def application_format(view: View) -> Iterable[Report]:
    """`application` is not a project id.

    Lower-case letters, digits and hyphens; before it perhaps a partition (`s~`) and a domain
    (`example.com:`).

    Bad:
        application: My_App
        queue:
        - name: mail
          rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's pattern for applications.
    """
    return wrong_values(view, application_format)


@Rule("QY231", levels={"sdk": Severity.INFO, "java": None}, fixes=(UNSAFE,))
def application_ignored(view: View) -> Iterator[Report]:
    """`application` is refused by gcloud.

    The deployment sets the project. Google's Python library reads the key and ignores it.

    Bad:
        application: my-app
        queue:
        - name: mail
          rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: gcloud 528, run: "This field is not used by gcloud and must be removed".
    """
    entry = view.top.get("application")
    if entry is not None and not view.violations(application_format.code):
        fix = edit_fix("remove `application`", delete_pair(view.source, view.root, entry.key))
        message = "gcloud refuses `application`, since the deployment sets the project: remove it"
        yield entry.report_key(message, fix=fix)
