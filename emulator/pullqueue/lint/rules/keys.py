"""Rules on keys: which there are, where they belong, what kind of value they take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from pullqueue.config.document import Mapping, Pair, Path, Scalar, Sequence, describe
from pullqueue.config.edits import delete_pair, insert_after, rename_key
from pullqueue.config.findings import Edit, Fix, Report, Severity
from pullqueue.config.schema import (
    ACL_ENTRY,
    CLOUD_TASKS,
    LEVEL_NAMES,
    QUEUE,
    RETRY,
    TOP,
    find_level,
    keys_at,
    level_with,
    meant_key,
    schema_at,
)
from pullqueue.config.shape import UnknownKey, Violation
from pullqueue.config.values import parse_age_limit
from pullqueue.config.view import Section, View
from pullqueue.lint.rules.base import UNSAFE, Rule, edit_fix
from pullqueue.text import shorten

_JAVA_TOP = ("application", "resume_paused_queues")
_UNLIMITED = {"task_retry_limit": ("-1", "unlimited"), "task_age_limit": ("0", "0s")}
"""The values of the Cloud Tasks API for what is not limited, by the keys of queue.yaml."""
_SIGNS = {
    ":": "a space is missing after the colon",
    "-": "keys with hyphens are those of queue.xml; `pullqueue convert` converts a file",
}


@Rule("QY101", loadable=False, fixes=(UNSAFE,))
def unknown_key(view: View) -> Iterator[Report]:
    """A key that queue.yaml does not have.

    App Engine refuses the file. The names of queue.xml (`bucket-size`) and of the Cloud Tasks
    API (`max_dispatches_per_second`) are not those of queue.yaml. The Java SDK's reader has
    no `acl`, `application` or `resume_paused_queues`.

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
    for unknown in view.shape.unknown_keys:
        if level_with(unknown.name) is None:
            yield _unknown(unknown)
    if view.settings.profile == "java":
        sections: list[tuple[Section, str]] = [(view.top, key) for key in _JAVA_TOP]
        sections += [(queue, "acl") for queue in view.queues]
        for section, key in sections:
            if entry := section.entries.get(key):
                message = f"`{key}` is not supported by the Java SDK's reader: remove it"
                yield entry.report_key(message)


def _unknown(unknown: UnknownKey) -> Report:
    key, level = unknown.name, find_level(unknown.path)
    message = f"`{shorten(key)}` is not a key {LEVEL_NAMES[level]}"
    fix = None
    if meant := meant_key(key, level):
        message += f": did you mean `{meant}`?"
        if unknown.mapping.pair(meant) is None:
            fix = edit_fix(f"rename it to `{meant}`", rename_key(unknown.pair.key, meant))
    elif own := CLOUD_TASKS.get(key):
        advice = _cloud_tasks_advice(unknown, own)
        message = f"`{key}` is a name of the Cloud Tasks API: {advice}"
    elif meant := meant_key(key):
        message += f": did you mean `{meant}` {LEVEL_NAMES[level_with(meant) or TOP]}?"
    else:
        message += f": the keys are {', '.join(f'`{name}`' for name in sorted(keys_at(level)))}"
    return Report(
        at=unknown.pair.key.place,
        message=message,
        path=unknown.path,
        hint=_hint(key, level),
        fix=fix,
    )


def _cloud_tasks_advice(unknown: UnknownKey, own: str) -> str:
    """Return what to write in place of a name of the Cloud Tasks API and its value."""
    value = unknown.pair.value
    text = value.text if isinstance(value, Scalar) else ""
    if text in _UNLIMITED.get(own, ()):
        return f"remove it, since without `{own}` there is no limit"
    level = level_with(own) or TOP
    if written := _written(own, text):
        return f"use `{own}: {written}` {LEVEL_NAMES[level]}"
    (example, *_) = schema_at((*level, own))["examples"]
    return f"use `{own}` {LEVEL_NAMES[level]}, for example `{example}`"


def _written(own: str, text: str) -> str | None:
    """Return a value of the Cloud Tasks API as queue.yaml has it; None if it is not valid there."""
    if own == "task_retry_limit":  # it does not count the first attempt
        return str(int(text) - 1) if re.fullmatch(r"0*[1-9][0-9]{0,5}", text) else None
    number = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)s?", text)
    if number is None:
        return None
    if own == "task_age_limit":
        return f"{number[1]}s" if parse_age_limit(f"{number[1]}s") else None
    return f"{number[1]}/s" if own == "rate" else number[1]


def _hint(key: str, level: Path) -> str | None:
    if key.startswith("-"):
        if key[1:] in keys_at(level):
            return "remove the dash: what is below it is the list"
        return f"a space is missing after the dash: write `- {key[1:]}:`"
    if level == ACL_ENTRY:
        return "`user_email` may lease and delete, `writer_email` may insert"
    return next((hint for sign, hint in _SIGNS.items() if sign in key), None)


@Rule("QY102", loadable=False, fixes=(UNSAFE,))
def misplaced_key(view: View) -> Iterator[Report]:
    """A key of the format is at the wrong level.

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
    for unknown in view.shape.unknown_keys:
        home = level_with(unknown.name)
        if home is not None:
            where = LEVEL_NAMES[find_level(unknown.path)]
            todo = f"it belongs {LEVEL_NAMES[home]}"
            if unknown.name == "application":  # which gcloud refuses there, too
                todo = "remove it, since the deployment sets the project"
            yield Report(
                at=unknown.pair.key.place,
                message=f"`{unknown.name}` is not allowed {where}: {todo}",
                path=unknown.path,
                hint=_acl_hint(unknown) if home == ACL_ENTRY else None,
                fix=_move_fix(view, unknown, home),
            )


def _acl_hint(unknown: UnknownKey) -> str:
    if _is_of_acl(Section(unknown.mapping)):
        return "indent it, so that it is an item of the list under `acl`"
    return f"write `- {unknown.name}: ADDRESS` under `acl`"


def _is_of_acl(section: Section) -> bool:
    return bool(section.entries) and section.entries.keys() <= {*keys_at(ACL_ENTRY)}


def _move_fix(view: View, unknown: UnknownKey, home: Path) -> Fix | None:
    """Move a key of a queue under `retry_parameters` or to the top level, where that is simple."""
    mapping, pair = unknown.mapping, unknown.pair
    if unknown.name == "application":
        return edit_fix("remove `application`", delete_pair(view.source, mapping, pair.key))
    is_line = isinstance(pair.value, Scalar) and pair.value.style not in {"|", ">"}
    if not is_line or mapping.flow or find_level(unknown.path) != QUEUE or home not in {TOP, RETRY}:
        return None
    if home == TOP:
        edits = _moved_into(view, view.root, mapping, pair)
        return Fix(title="move it to the top level", edits=edits) if edits else None
    retry = mapping.pair("retry_parameters")
    if retry is None:
        moved = next(each for each in mapping.pairs if level_with(each.key.text) == RETRY)
        if moved is not pair:  # it moves to where the first one is then
            return None
        column = view.source.find_column(pair.key.start)
        opening = f"retry_parameters:{view.source.newline}{' ' * (column + 2)}"
        edits = (Edit(pair.key.start, pair.key.start, opening),)
    elif isinstance(retry.value, Mapping) and not retry.value.flow:
        edits = _moved_into(view, retry.value, mapping, pair)
    else:
        return None
    return Fix(title="move it under `retry_parameters`", edits=edits) if edits else None


def _moved_into(view: View, target: Mapping, mapping: Mapping, pair: Pair) -> tuple[Edit, ...]:
    """Move a pair into another mapping, which must not have its key: to its end, or to the top."""
    removal = delete_pair(view.source, mapping, pair.key)
    if removal is None or target.pair(pair.key.text) is not None:
        return ()
    content = view.source.text[pair.key.start : pair.end]
    if target is not view.root:
        return (insert_after(view.source, target.pairs[-1], content), removal)
    first = target.pairs[0].key.start
    line = f"{content}{view.source.newline}{' ' * view.source.find_column(first)}"
    return (Edit(first, first, line), removal)


@Rule("QY019", severity=Severity.WARNING)
def no_queues(view: View) -> Iterator[Report]:
    """The file has no `queue`.

    Deployed, such a file pauses every queue except `default`. An empty `queue:`, often a template
    for later, is reported with `--strict` only.

    Bad:
        total_storage_limit: 1G

    Good:
        total_storage_limit: 1G
        queue:
        - name: mail
          rate: 5/s

    Source: gcloud's deployment of queues.
    """
    entry = view.top.entries.get("queue")
    advice = "a deployment of this file pauses every queue except `default`"
    if entry is None and not any(pair.key.opaque for pair in view.root.pairs):
        if not view.shape.unknown_keys:
            yield Report(at=view.top.place, message=f"`queue` is missing: {advice}")
    elif (
        entry is not None
        and view.settings.strict
        and (entry.is_null or (isinstance(entry.value, Sequence) and not entry.value.items))
    ):
        yield Report(at=entry.key_place, message=f"`queue` is empty: {advice}", path=("queue",))


@Rule("QY103", loadable=False)
def missing_name(view: View) -> Iterator[Report]:
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
    for violation in view.violations(missing_name.code):
        if violation.name == "name" and not isinstance(violation.node, Scalar):
            continue
        at, hint = violation.key_place, None
        if violation.key is None and isinstance(violation.node, Mapping):
            section = Section(violation.node)
            at = section.place
            if is_explained(section, "name"):
                continue
            above = view.queue_at.get(int(violation.path[-1]) - 1)
            if above and list(above.entries) == ["name"]:
                hint = "if these keys belong to the queue above, remove the dash"
        message = "the queue has no name: add one, for example `name: mail-queue`"
        yield Report(at=at, message=message, path=violation.path, hint=hint)


def is_explained(queue: Section, key: str) -> bool:
    """Return whether the report of another key explains why a queue does not have this one.

    The key is misspelt or under `retry_parameters`, or the entry belongs to an `acl`.
    """
    unknown = [name for name in queue.entries if level_with(name) is None]
    if any((CLOUD_TASKS.get(name) or meant_key(name)) == key for name in unknown):
        return True
    retry = queue.section("retry_parameters")
    if retry is not None and key in retry.entries:
        return True
    return _is_of_acl(queue)


@Rule("QY104", loadable=False)
def wrong_type(view: View) -> Iterator[Report]:
    """A list, a mapping or a single value is used in place of another of them.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - worker@my-app.iam.gserviceaccount.com

    Good:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@my-app.iam.gserviceaccount.com

    Source: the Python SDK's queueinfo. It reads a list in the place of an address as `[]`.
    """
    for violation in view.violations(wrong_type.code):
        if isinstance(violation.node, Scalar) and len(violation.codes) > 1:
            continue  # a single value, which is wrong by the other rule
        what = f"`{violation.name}`" if violation.name else "this entry"
        message = f"{what} is {describe(violation.node)}: it must be {_wanted(violation.path)}"
        hint = _type_hint(violation)
        yield violation.report(message, hint=hint)


def _wanted(path: Path) -> str:
    schema = schema_at(path)
    types = schema.get("type", ())
    if "object" in types:
        return f"a mapping with keys such as `{next(iter(schema['properties']))}`"
    return "a list" if "array" in types else "a single value"


def _type_hint(violation: Violation) -> str | None:
    node = violation.node
    last = violation.path[-1]
    if isinstance(node, Scalar) and ":" in node.text and " " not in node.text.split(":")[0]:
        return "a space is missing after the colon: write `key: value`"
    if isinstance(node, Scalar) and "acl" in violation.path:
        return "write `- user_email: ADDRESS` (may lease) or `- writer_email: ADDRESS` (may insert)"
    if isinstance(node, Scalar) and "queue" in violation.path[-2:]:
        return "write `- name: NAME`, and the other keys of the queue below `name`"
    if isinstance(node, Mapping) and last in {"queue", "acl"}:
        return "put a dash and a space before the first key of each entry"
    if isinstance(node, Sequence) and last == "retry_parameters":
        return "the keys of `retry_parameters` have no dashes"
    return None


@Rule("QY105", severity=Severity.WARNING, fixes=(UNSAFE,))
def null_value(view: View) -> Iterator[Report]:
    """A key has no value.

    It is ignored, as if the key were not there, which is seldom what was meant.

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
    for section, others in _sections(view):
        for name, entry in section.entries.items():
            if entry.is_null and name not in others and level_with(name) is not None:
                message = f"`{name}` has no value and is ignored: set a value, or remove the key"
                removal = delete_pair(view.source, section.node, entry.key)
                fix = edit_fix(f"remove `{name}`", removal)
                yield entry.report_key(message, fix=fix)


def _sections(view: View) -> Iterator[tuple[Section, set[str]]]:
    """Yield every mapping, with the keys whose missing value another rule reports."""
    yield view.top, {"queue"}
    for queue, following in zip_longest(view.queues, view.queues[1:]):
        others = {"name", "rate"} if queue.mode == "push" else {"name"}
        yield queue, others | {"acl"} if following and _is_of_acl(following) else others
        if queue.retry:
            yield queue.retry, set()
        for entry in queue.acl_entries:
            yield entry, set()
