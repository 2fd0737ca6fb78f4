"""The shape of a file: where its tree does not conform to the JSON Schema.

The tree itself is validated: each value is of the type that App Engine would convert it to, and
each violation has its node, and the code of the rule that the schema names for it. The keywords are
those that this schema has: to import a library for all of them takes longer than to check a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeGuard

from pullqueue.config.dialects import value_kinds
from pullqueue.config.document import (
    Mapping,
    Node,
    Pair,
    Path,
    Place,
    Scalar,
    ScalarValue,
)
from pullqueue.config.findings import Fix, Report
from pullqueue.config.schema import Schema, queue_schema
from pullqueue.config.values import as_boolean, as_integer, as_number

CONVERTERS: dict[str, Callable[[Scalar], float | None]] = {
    "integer": as_integer,
    "number": as_number,
    "boolean": as_boolean,
}
"""How App Engine converts values, by the kind that the schema has for them."""


def advice_in(schema: Schema) -> tuple[str, str]:
    """Return what a part of the schema says to do: the format of a value, and its limit."""
    advice, _, limit = schema["errorMessage"].partition("; ")
    return advice, limit


class Violation(NamedTuple):
    """A value that the schema does not allow, or a mapping that lacks a key."""

    node: Node
    """The value, or the mapping."""
    key: Scalar | None
    """The value's key; None for the root and for items of a list."""
    path: Path
    keyword: str
    """The keyword of the schema that is not satisfied."""
    schema: Schema
    """The part of the schema with that keyword."""

    @property
    def codes(self) -> list[str]:
        """The codes of the rules that may report it: which one does depends on the value."""
        rules = queue_schema()["x-rules"] | self.schema.get("x-rules", {})
        codes: str | list[str] = rules[self.keyword]
        return [codes] if isinstance(codes, str) else codes

    @property
    def advice(self) -> str:
        """What the schema says to do: the format of the value."""
        return advice_in(self.schema)[0]

    @property
    def limit(self) -> str:
        """The limit that the schema adds to the format."""
        return advice_in(self.schema)[1]

    def report(self, message: str, *, hint: str | None = None, fix: Fix | None = None) -> Report:
        """Return a report on the value."""
        return Report(self.place, message, self.path, hint=hint, fix=fix)

    @property
    def name(self) -> str:
        """The key that the path ends with; empty for an item of a list."""
        return self.path[-1] if self.path and isinstance(self.path[-1], str) else ""

    @property
    def place(self) -> Place:
        """The value's place, or the key's where nothing is written."""
        return self.key_place if self.node.start == self.node.end else self.node.place

    @property
    def key_place(self) -> Place:
        """The key's place, or the value's where there is no key."""
        return (self.key or self.node).place


class UnknownKey(NamedTuple):
    """A key that the schema does not have in its place."""

    mapping: Mapping
    pair: Pair
    path: Path

    @property
    def name(self) -> str:
        """The text of the key."""
        return self.pair.key.text


class Shape(NamedTuple):
    """What the schema objects to in a file."""

    violations: dict[str, list[Violation]]
    """By the code of their rule."""
    unknown_keys: list[UnknownKey]


def check_shape(root: Mapping) -> Shape:
    """Validate a file's tree and return what is wrong."""
    shape = Shape({}, [])
    for found in _violations(_Value(root), queue_schema()):
        if found.keyword == "additionalProperties" and isinstance(found.node, Mapping):
            shape.unknown_keys.extend(
                UnknownKey(found.node, pair, (*found.path, pair.key.text))
                for pair in found.node.pairs
                if pair.key.text not in found.schema["properties"] and not pair.key.opaque
            )
        elif not (isinstance(found.node, Scalar) and found.node.opaque):
            for code in found.codes:
                shape.violations.setdefault(code, []).append(found)
    return shape


class _Value:
    """A node as the schema sees it."""

    __slots__ = ("data", "key", "node", "path")

    def __init__(self, node: Node, key: Scalar | None = None, path: Path = ()) -> None:
        """Convert a value, and what is in a mapping or a list."""
        self.node, self.key, self.path = node, key, path
        self.data: ScalarValue | dict[str, _Value] | list[_Value]
        """What App Engine makes of a single value; what is in a mapping by its keys."""
        if isinstance(node, Scalar):
            self.data = _converted(node, key)
        elif isinstance(node, Mapping):
            pairs = ((pair.key, pair.value) for pair in node.pairs)
            self.data = {key.text: _Value(value, key, (*path, key.text)) for key, value in pairs}
        else:
            items = enumerate(node.items)
            self.data = [_Value(item, None, (*path, index)) for index, item in items]


def _converted(node: Scalar, key: Scalar | None) -> ScalarValue:
    kind = value_kinds().get(key.text) if key else None
    converted: ScalarValue = CONVERTERS[kind](node) if kind else None
    return node.effective_text if converted is None and not node.is_null else converted


def _violations(value: _Value, schema: Schema) -> Iterator[Violation]:
    """Yield what a value, and all that is in it, violates in a part of the schema."""
    for keyword, expected in schema.items():
        if (assertion := ASSERTIONS.get(keyword)) and not assertion(value, expected, schema):
            yield Violation(value.node, value.key, value.path, keyword, schema)
        elif applicator := APPLICATORS.get(keyword):
            for each, part in applicator(value, expected, schema):
                yield from _violations(each, part)


def _is_valid(value: _Value, schema: Schema) -> bool:
    return next(_violations(value, schema), None) is None


def _is_number(data: object) -> TypeGuard[float]:
    return isinstance(data, int | float) and not isinstance(data, bool)


def _is_integer(data: object) -> bool:
    return _is_number(data) and float(data).is_integer()


_TYPES: dict[str, Callable[[object], bool]] = {
    "array": lambda data: isinstance(data, list),
    "boolean": lambda data: isinstance(data, bool),
    "integer": _is_integer,
    "null": lambda data: data is None,
    "number": _is_number,
    "object": lambda data: isinstance(data, dict),
    "string": lambda data: isinstance(data, str),
}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of JSON Schema (ECMA-262).

    There `$` is the very end of the text; in Python it also matches before a line break.
    """
    return re.compile(pattern.replace("$", r"\Z"))


ASSERTIONS: dict[str, Callable[[_Value, Any, Schema], object]] = {
    "additionalProperties": lambda value, _, schema: (
        not isinstance(value.data, dict) or value.data.keys() <= schema["properties"].keys()
    ),
    "const": lambda value, expected, _: value.data == expected,
    "enum": lambda value, expected, _: value.data in expected,
    "maxItems": lambda value, most, _: not isinstance(value.data, list) or len(value.data) <= most,
    "maximum": lambda value, most, _: not _is_number(value.data) or value.data <= most,
    "minimum": lambda value, least, _: not _is_number(value.data) or value.data >= least,
    "not": lambda value, part, _: not _is_valid(value, part),
    "pattern": lambda value, pattern, _: (
        not isinstance(value.data, str) or _compiled(pattern).search(value.data)
    ),
    "required": lambda value, keys, _: (
        not isinstance(value.data, dict) or value.data.keys() >= {*keys}
    ),
    "type": lambda value, names, _: any(
        _TYPES[name](value.data) for name in ([names] if isinstance(names, str) else names)
    ),
}
"""The keywords that a value satisfies or not: functions of it, the keyword's value, and the part of
the schema."""
APPLICATORS: dict[str, Callable[[_Value, Any, Schema], Iterable[tuple[_Value, Schema]]]] = {
    "$ref": lambda value, name, _: [(value, queue_schema()["$defs"][name.rpartition("/")[2]])],
    "allOf": lambda value, parts, _: [(value, part) for part in parts],
    "if": lambda value, test, schema: [
        (value, schema.get("then" if _is_valid(value, test) else "else", {}))
    ],
    "items": lambda value, part, _: (
        [(item, part) for item in value.data] if isinstance(value.data, list) else ()
    ),
    "properties": lambda value, parts, _: (
        [(value.data[key], part) for key, part in parts.items() if key in value.data]
        if isinstance(value.data, dict)
        else ()
    ),
}
"""The keywords that lead to other parts of the schema, and the values that those are for."""
