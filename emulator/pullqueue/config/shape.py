"""The shape of a file: where its tree does not conform to the JSON Schema.

jsonschema validates the tree itself. Each value is of the type that App Engine would convert it
to, and each violation has its node, and the code of the rule that the schema names for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.protocols import Validator

from pullqueue.config.document import (
    Mapping,
    Node,
    Pair,
    Path,
    Place,
    Scalar,
    ScalarValue,
    Sequence,
)
from pullqueue.config.findings import Fix, Report
from pullqueue.config.schema import Schema, queue_schema, value_kinds
from pullqueue.config.values import as_boolean, as_integer, as_number

CONVERTERS: dict[str, Callable[[Scalar], float | None]] = {
    "integer": as_integer,
    "number": as_number,
    "boolean": as_boolean,
}
"""How App Engine converts values, by the kind that the schema has for them."""
_TYPES_OF_SCALARS = ("string", "integer", "number", "boolean", "null")
_KEYWORDS_OF_SCALARS = ("const", "enum", "maximum", "minimum")


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
    for error in validator().iter_errors(_Mapping(root, None)):
        value: Any = error.instance
        schema: Any = error.schema
        node: Node = value.node
        path = tuple(error.absolute_path)
        if error.validator == "additionalProperties" and isinstance(node, Mapping):
            shape.unknown_keys.extend(
                UnknownKey(node, pair, (*path, pair.key.text))
                for pair in node.pairs
                if pair.key.text not in schema["properties"] and not pair.key.opaque
            )
        elif not (isinstance(node, Scalar) and node.opaque):
            found = Violation(node, value.key, path, str(error.validator), schema)
            for code in found.codes:
                shape.violations.setdefault(code, []).append(found)
    return shape


class _Mapping(dict[str, Any]):
    """A mapping, as jsonschema sees it."""

    def __init__(self, node: Mapping, key: Scalar | None) -> None:
        """Convert the values."""
        super().__init__((pair.key.text, _value(pair.value, pair.key)) for pair in node.pairs)
        self.node, self.key = node, key


class _Sequence(list[Any]):
    """A list, as jsonschema sees it."""

    def __init__(self, node: Sequence, key: Scalar | None) -> None:
        """Convert the items."""
        super().__init__(_value(item, None) for item in node.items)
        self.node, self.key = node, key


class _Scalar:
    """A single value, as jsonschema sees it: what App Engine makes of it."""

    __slots__ = ("data", "key", "node")

    def __init__(self, node: Scalar, key: Scalar | None) -> None:
        """Convert the value."""
        self.node, self.key = node, key
        kind = value_kinds().get(key.text) if key else None
        converted: ScalarValue = CONVERTERS[kind](node) if kind else None
        if converted is None and not node.is_null:
            converted = node.effective_text
        self.data = converted


def _value(node: Node, key: Scalar | None) -> _Mapping | _Sequence | _Scalar:
    if isinstance(node, Scalar):
        return _Scalar(node, key)
    return _Mapping(node, key) if isinstance(node, Mapping) else _Sequence(node, key)


@cache
def validator() -> Validator:
    """Return the validator of the published schema, for trees and for JSON."""
    kind: type[Validator] = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator,
        {"pattern": _pattern} | {name: _on_data(name) for name in _KEYWORDS_OF_SCALARS},
        type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many(
            {name: _is_type(name) for name in _TYPES_OF_SCALARS}
        ),
    )
    return kind(queue_schema())


def _data(value: Any) -> Any:  # noqa: ANN401 - a tree's, or JSON
    return value.data if isinstance(value, _Scalar) else value


def _is_type(name: str) -> Callable[..., bool]:
    is_type = Draft202012Validator.TYPE_CHECKER.is_type
    return lambda _, value: is_type(_data(value), name)


def _on_data(keyword: str) -> Callable[..., Any]:
    check = Draft202012Validator.VALIDATORS[keyword]
    return lambda own, expected, value, schema: check(own, expected, _data(value), schema)


def _pattern(_: Validator, expected: str, value: object, __: Schema) -> Iterator[ValidationError]:
    text = _data(value)
    # In JSON Schema (ECMA-262) `$` is the very end; in Python it also matches before a line break.
    if isinstance(text, str) and not re.search(expected.replace("$", r"\Z"), text):
        yield ValidationError("does not match")
