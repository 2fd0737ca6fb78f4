"""Rules on the kinds of values: lists, mappings, single values, none."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config import dialects
from pullqueue.config.edits import delete_pair
from pullqueue.config.findings import Fix, Severity
from pullqueue.config.nodes import Mapping, Scalar, Sequence, describe
from pullqueue.config.reports import Place, Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.schema import queue_schema
from pullqueue.config.shape import Violation
from pullqueue.config.view import Section, View


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
