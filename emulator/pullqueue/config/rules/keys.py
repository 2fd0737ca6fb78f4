"""Rules on keys: which there are, where they belong, what kind of value they take."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config import dialects
from pullqueue.config.edits import delete_pair, rename_key
from pullqueue.config.findings import Edit, Fix, Severity
from pullqueue.config.nodes import Mapping, Scalar, Sequence, describe, shorten
from pullqueue.config.reports import Place, Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.schema import queue_schema
from pullqueue.config.shape import Violation
from pullqueue.config.view import Section, View

_EXAMPLES = {
    "rate": "rate: 5/s",
    "bucket_size": "bucket_size: 40",
    "max_concurrent_requests": "max_concurrent_requests: 10",
    "task_retry_limit": "task_retry_limit: 7",
    "task_age_limit": "task_age_limit: 2d",
    "min_backoff_seconds": "min_backoff_seconds: 10",
    "max_backoff_seconds": "max_backoff_seconds: 200",
}
_JAVA_TOP = ("application", "resume_paused_queues")


class UnknownKey(Rule):
    """A key that queue.yaml does not have.

    App Engine refuses the file. The names of queue.xml (`bucket-size`) and of the Cloud Tasks
    API (`max_dispatches_per_second`) are not those of queue.yaml. The Java SDK's reader knows
    neither `acl` nor `application` nor `resume_paused_queues`.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          bucket-size: 5

    Good:
        queue:
        - name: mail
          rate: 5/s
          bucket_size: 5

    Source: the Python SDK: "Unexpected attribute".
    """

    code = "QY101"
    name = "unknown-key"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report unknown keys with the key that was most likely meant."""
        for violation in view.violations.get("unknown-key", ()):
            if _home(violation) is None:
                yield _unknown(violation)
        if view.settings.profile == "java":
            yield from _unknown_to_java(view)


def _home(violation: Violation) -> str | None:
    """Where a misplaced key belongs, if it is one."""
    return dialects.level_with(str(violation.path[-1]))


def _unknown(violation: Violation) -> Report:
    key = str(violation.path[-1])
    level = dialects.level_of(violation.path)
    meant = dialects.corrected(key, level)
    message = f"`{shorten(key)}` is not a key {dialects.LEVEL_NAMES[level]}"
    fix = None
    if meant is not None:
        message += f": did you mean `{meant}`?"
        fix = _rename_fix(violation, meant)
    elif own := dialects.CLOUD_TASKS.get(key):
        message += f", but of the Cloud Tasks API: use `{own}`"
    else:
        known = ", ".join(f"`{name}`" for name in sorted(dialects.keys_at(level)))
        message += f": there are {known}"
    return Report(
        at=violation.key_place,
        message=message,
        path=violation.where,
        hint=_hint(key, level),
        fix=fix,
    )


def _rename_fix(violation: Violation, meant: str) -> Fix | None:
    mapping, key = violation.node, violation.key
    if key is None or not isinstance(mapping, Mapping):
        return None
    if any(pair.key.text == meant for pair in mapping.pairs):
        return None
    return Fix(title=f"rename it to `{meant}`", edits=(rename_key(key, meant),))


def _hint(key: str, level: str) -> str | None:
    if key.startswith("-"):
        if key[1:] in dialects.keys_at(level):
            return "remove the dash: what stands below it is the list"
        return f"a space is missing after the dash: write `- {key[1:]}:`"
    if key in dialects.CLOUD_TASKS:
        own = dialects.CLOUD_TASKS[key]
        home = dialects.LEVEL_NAMES[dialects.level_with(own) or ""]
        return f"queue.yaml has `{own}` {home}, such as `{_EXAMPLES[own]}`"
    if level == dialects.GRANT:
        return "`user_email` may lease and delete, `writer_email` may insert"
    return next((hint for sign, hint in _SIGNS.items() if sign in key), None)


_SIGNS = {
    ":": "a space is missing after the colon",
    "-": "names with hyphens are those of queue.xml; `pullqueue convert` translates a file",
}


def _unknown_to_java(view: View) -> Iterator[Report]:
    sections: list[tuple[Section, str]] = [(view.top, key) for key in _JAVA_TOP]
    sections += [(queue, "acl") for queue in view.queues]
    for section, key in sections:
        if entry := section.entries.get(key):
            message = f"the Java SDK's reader of queue.yaml has no `{key}`"
            yield Report(at=entry.key_place, message=message, path=entry.path)


class MisplacedKey(Rule):
    """A key of the format stands at the wrong level.

    `task_retry_limit` belongs under `retry_parameters`, `total_storage_limit` at the top level,
    `rate` in an entry of `queue`.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          task_retry_limit: 3

    Good:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:
            task_retry_limit: 3

    Source: the Python SDK: "Unexpected attribute".
    """

    code = "QY102"
    name = "misplaced-key"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report keys that belong elsewhere, and where."""
        for violation in view.violations.get("unknown-key", ()):
            home = _home(violation)
            if home is None:
                continue
            message = (
                f"`{violation.path[-1]}` does not stand "
                f"{dialects.LEVEL_NAMES[dialects.level_of(violation.path)]}: "
                f"it belongs {dialects.LEVEL_NAMES[home]}"
            )
            fix = _move_fix(view, violation, home)
            yield Report(at=violation.key_place, message=message, path=violation.where, fix=fix)


def _move_fix(view: View, violation: Violation, home: str) -> Fix | None:
    """Move a retry key of a queue under `retry_parameters`."""
    mapping, key = violation.node, violation.key
    if home != dialects.RETRY or key is None or not isinstance(mapping, Mapping) or mapping.flow:
        return None
    if dialects.level_of(violation.path) != dialects.QUEUE:
        return None
    pair = next(pair for pair in mapping.pairs if pair.key is key)
    if not isinstance(pair.value, Scalar) or pair.value.style in {"|", ">"}:
        return None
    retry = Section(mapping, "").entries.get("retry_parameters")
    edits = _move_edits(view, mapping, key, retry.value if retry else None)
    return Fix(title="move it under `retry_parameters`", edits=edits) if edits else None


def _move_edits(
    view: View, mapping: Mapping, key: Scalar, retry: object
) -> tuple[Edit, ...] | None:
    text = view.source.text
    pair = next(pair for pair in mapping.pairs if pair.key is key)
    content = text[key.start : max(pair.value.end, key.end)]
    newline = "\r\n" if "\r\n" in text else "\n"
    if retry is None:
        column = key.start - view.source.line_span(key.start)[0]
        opening = f"retry_parameters:{newline}{' ' * (column + 2)}"
        return (Edit(key.start, key.start, opening),)
    if not isinstance(retry, Mapping) or retry.flow or not retry.pairs:
        return None
    if any(known.key.text == key.text for known in retry.pairs):
        return None
    removal = delete_pair(view.source, mapping, key)
    if removal is None:
        return None
    first = retry.pairs[0].key.start
    indent = " " * (first - view.source.line_span(first)[0])
    return (Edit(first, first, f"{content}{newline}{indent}"), removal)


class MissingName(Rule):
    """A queue has no name.

    Bad:
        queue:
        - rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK: "Missing required value [name]".
    """

    code = "QY103"
    name = "missing-name"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report queues without a name, or with nothing behind `name:`."""
        for violation in view.violations.get("missing-name", ()):
            at = violation.key_place
            if violation.key is None and isinstance(violation.node, Mapping):
                section = Section(violation.node, "")
                at = section.place
                if _is_misspelt(section):
                    continue
            message = "the queue has no name: give it one, as `name: mail-queue`"
            yield Report(at=at, message=message, path=violation.where)


def _is_misspelt(section: Section) -> bool:
    known = dialects.keys_at(dialects.QUEUE)
    unknown = [key for key in section.entries if key not in known]
    return any(dialects.corrected(key, dialects.QUEUE) == "name" for key in unknown)


class WrongType(Rule):
    """A list, a mapping or a single value stands where another of them belongs.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - worker@example.com

    Good:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@example.com

    Source: the Python SDK's queueinfo. A list in the place of an address it takes for `[]`.
    """

    code = "QY104"
    name = "wrong-type"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report values of the wrong kind."""
        for violation in view.violations.get("wrong-type", ()):
            wanted = _wanted(violation.path)
            what = describe(violation.node)
            message = f"{what} stands where {wanted} belongs"
            yield Report(
                at=violation.place,
                message=message,
                path=violation.where,
                hint=_type_hint(violation),
            )


def _wanted(path: tuple[str | int, ...]) -> str:
    schema = queue_schema()
    for part in path:
        schema = schema["items"] if isinstance(part, int) else schema["properties"][part]
    types = schema.get("type", "string")
    if "object" in types:
        return f"a mapping with {_first_keys(list(schema['properties']))}"
    return "a list" if "array" in types else "a single value"


def _first_keys(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names[:2])


def _type_hint(violation: Violation) -> str | None:
    node = violation.node
    last = violation.path[-1] if violation.path else ""
    if isinstance(node, Scalar) and ":" in node.text and " " not in node.text.split(":")[0]:
        return "a space is missing after the colon: write `key: value`"
    if isinstance(last, int) and isinstance(node, Scalar) and "acl" in violation.path:
        return "write `- user_email: ADDRESS` (may lease) or `- writer_email: ADDRESS` (may insert)"
    if isinstance(node, Mapping) and last in {"queue", "acl"}:
        return "put a dash and a space before the first key of each entry"
    if isinstance(node, Sequence) and last == "retry_parameters":
        return "the keys of `retry_parameters` have no dashes"
    return None


class NullValue(Rule):
    """A key has no value.

    It means "not set", as if the key were not there; seldom what was meant.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          retry_parameters:

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's queueinfo, run.
    """

    code = "QY105"
    name = "null-value"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report keys without a value, unless a rule of their own speaks of them."""
        yield from _nulls(view, view.top, frozenset({"queue"}))
        for queue in view.queues:
            spoken_of = {"name", "rate"} if queue.mode == "push" else {"name"}
            yield from _nulls(view, queue, frozenset(spoken_of))
            if queue.retry:
                yield from _nulls(view, queue.retry, frozenset())
            for grant in queue.grants:
                yield from _nulls(view, grant, frozenset())


def _nulls(view: View, section: Section, spoken_of: frozenset[str]) -> Iterator[Report]:
    for name, entry in section.entries.items():
        if not entry.is_null or name in spoken_of or dialects.level_with(name) is None:
            continue
        edit = delete_pair(view.source, section.node, entry.key)
        fix = Fix(title=f"remove `{name}`", edits=(edit,)) if edit else None
        yield Report(
            at=Place(entry.key.start, entry.key.end),
            message=f"`{name}` has no value and means nothing: give it one, or remove the key",
            path=entry.path,
            fix=fix,
        )
