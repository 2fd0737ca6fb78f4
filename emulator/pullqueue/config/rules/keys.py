"""Rules on keys: which there are, where they belong, what kind of value they take."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config import dialects
from pullqueue.config.edits import delete_pair, rename_key
from pullqueue.config.findings import Edit, Fix
from pullqueue.config.nodes import Mapping, Pair, Scalar
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.shape import StrangeKey
from pullqueue.config.source import Source
from pullqueue.config.text import shorten
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
        for unknown in view.shape.unknown_keys:
            if dialects.level_with(unknown.name) is None:
                yield _unknown(unknown)
        if view.settings.profile == "java":
            yield from _unknown_to_java(view)


def _unknown(unknown: StrangeKey) -> Report:
    key = unknown.name
    level = dialects.level_of(unknown.path)
    meant = dialects.corrected(key, level)
    message = f"`{shorten(key)}` is not a key {dialects.LEVEL_NAMES[level]}"
    fix = None
    if meant is not None:
        message += f": did you mean `{meant}`?"
        fix = _rename_fix(unknown, meant)
    elif own := dialects.CLOUD_TASKS.get(key):
        message += f", but of the Cloud Tasks API: use `{own}`"
    else:
        known = ", ".join(f"`{name}`" for name in sorted(dialects.keys_at(level)))
        message += f": there are {known}"
    return Report(
        at=unknown.place, message=message, path=unknown.where, hint=_hint(key, level), fix=fix
    )


def _rename_fix(unknown: StrangeKey, meant: str) -> Fix | None:
    if any(pair.key.text == meant for pair in unknown.mapping.pairs):
        return None
    return Fix(title=f"rename it to `{meant}`", edits=(rename_key(unknown.pair.key, meant),))


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
        for unknown in view.shape.unknown_keys:
            home = dialects.level_with(unknown.name)
            if home is None:
                continue
            message = (
                f"`{unknown.name}` does not stand "
                f"{dialects.LEVEL_NAMES[dialects.level_of(unknown.path)]}: "
                f"it belongs {dialects.LEVEL_NAMES[home]}"
            )
            fix = _move_fix(view, unknown, home)
            yield Report(at=unknown.place, message=message, path=unknown.where, fix=fix)


def _move_fix(view: View, unknown: StrangeKey, home: str) -> Fix | None:
    """Move a retry key of a queue under `retry_parameters`, and one of the top level there."""
    mapping, pair = unknown.mapping, unknown.pair
    if dialects.level_of(unknown.path) != dialects.QUEUE or mapping.flow:
        return None
    if not isinstance(pair.value, Scalar) or pair.value.style in {"|", ">"}:
        return None
    if home == dialects.TOP:
        return _raised(view, mapping, pair)
    if home != dialects.RETRY:
        return None
    retry = Section(mapping, "").entries.get("retry_parameters")
    edits = _moved(view.source, pair) if retry is None else _merged(view.source, mapping, pair)
    return Fix(title="move it under `retry_parameters`", edits=edits) if edits else None


def _raised(view: View, mapping: Mapping, pair: Pair) -> Fix | None:
    """Move a key above the first of the top level."""
    removal = delete_pair(view.source, mapping, pair.key)
    if removal is None or pair.key.text in view.top.entries:
        return None
    first = view.root.pairs[0].key.start
    content = view.source.text[pair.key.start : max(pair.value.end, pair.key.end)]
    column = first - view.source.line_span(first)[0]
    line = f"{content}{view.source.newline}{' ' * column}"
    return Fix(title="move it to the top level", edits=(Edit(first, first, line), removal))


def _moved(source: Source, pair: Pair) -> tuple[Edit, ...]:
    """Put `retry_parameters:` above a key, and the key one level deeper."""
    column = pair.key.start - source.line_span(pair.key.start)[0]
    opening = f"retry_parameters:{source.newline}{' ' * (column + 2)}"
    return (Edit(pair.key.start, pair.key.start, opening),)


def _merged(source: Source, mapping: Mapping, pair: Pair) -> tuple[Edit, ...]:
    """Move a key under the `retry_parameters` that are there; nothing if that is not simple."""
    retry = next(other.value for other in mapping.pairs if other.key.text == "retry_parameters")
    removal = delete_pair(source, mapping, pair.key)
    if not isinstance(retry, Mapping) or retry.flow or removal is None:
        return ()
    if any(known.key.text == pair.key.text for known in retry.pairs):
        return ()
    first = retry.pairs[0].key.start
    content = source.text[pair.key.start : max(pair.value.end, pair.key.end)]
    indent = " " * (first - source.line_span(first)[0])
    return (Edit(first, first, f"{content}{source.newline}{indent}"), removal)


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
