"""The shape of a file: what the JSON Schema says of its data, as faults of the rules.

The data that are validated are those App Engine would see: a value is converted to the type its
key needs, as App Engine's library does it, before it is validated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pullqueue.config.dialects import (
    BACKOFFS,
    INTEGERS,
    RETRY_INTEGERS,
    keys_at,
    level_of,
    path_text,
)
from pullqueue.config.document import Mapping, Node, Pair, Place, Scalar, Sequence, place_of
from pullqueue.config.findings import Fix, Report
from pullqueue.config.schema import Json, SchemaError, schema_errors
from pullqueue.config.values import (
    as_boolean,
    as_integer,
    as_number,
    is_age_limit,
    parse_rate,
)

_CONVERTERS: dict[str, Callable[[Scalar], float | None]] = {
    **dict.fromkeys((*INTEGERS, *RETRY_INTEGERS), as_integer),
    **dict.fromkeys(BACKOFFS, as_number),
    "resume_paused_queues": as_boolean,
}
_FORMATS = {
    "name": "name-format",
    "mode": "mode-value",
    "rate": "rate-format",
    "target": "target-format",
    "task_age_limit": "age-limit-format",
    "total_storage_limit": "storage-limit-format",
    "application": "application-format",
    "resume_paused_queues": "resume-paused-value",
    **dict.fromkeys((*INTEGERS, *RETRY_INTEGERS), "integer-format"),
    **dict.fromkeys(BACKOFFS, "backoff-format"),
}


class Violation(NamedTuple):
    """A value that the schema does not allow, or a mapping that lacks a key."""

    node: Node
    """The value, or the mapping."""
    key: Scalar | None
    """The value's key; None for the root and for items of a list."""
    path: tuple[str | int, ...]

    @property
    def where(self) -> str:
        """The path as messages and findings show it."""
        return path_text(self.path)

    def report(self, message: str, *, hint: str | None = None, fix: Fix | None = None) -> Report:
        """Return a report on the value."""
        return Report(self.place, message, self.where, hint=hint, fix=fix)

    @property
    def name(self) -> str:
        """The key that the path ends with; empty for an item of a list."""
        return self.path[-1] if self.path and isinstance(self.path[-1], str) else ""

    @property
    def place(self) -> Place:
        """The value's place, or the key's where nothing is written."""
        return self.key_place if self.node.start == self.node.end else place_of(self.node)

    @property
    def key_place(self) -> Place:
        """The key's place, or the value's where there is no key."""
        return place_of(self.key or self.node)


class UnknownKey(NamedTuple):
    """A key that the schema does not have in its place."""

    mapping: Mapping
    pair: Pair
    path: tuple[str | int, ...]

    @property
    def name(self) -> str:
        """The key."""
        return self.pair.key.text


class Shape(NamedTuple):
    """What the schema objects to in a file."""

    violations: dict[str, list[Violation]]
    """By the rule they belong to."""
    unknown_keys: list[UnknownKey]


def check_shape(root: Mapping) -> Shape:
    """Validate a file's data and return what is wrong."""
    shape = Shape({}, [])
    for error in schema_errors(_as_json(root)):
        node, key = _locate(root, error.path)
        if error.keyword == "additionalProperties" and isinstance(node, Mapping):
            shape.unknown_keys.extend(_unknown_keys(node, error.path))
        elif not (isinstance(node, Scalar) and node.opaque):
            violation = Violation(node, key, error.path)
            shape.violations.setdefault(_rule_of(error, violation), []).append(violation)
    return shape


def _as_json(node: Node, key: str = "") -> Json:
    """Return a node as data of the types that App Engine would convert it to."""
    if isinstance(node, Mapping):
        return {pair.key.text: _as_json(pair.value, pair.key.text) for pair in node.pairs}
    if isinstance(node, Sequence):
        return [_as_json(item) for item in node.items]
    if node.is_null:
        return None
    converted = _CONVERTERS[key](node) if key in _CONVERTERS else None
    return node.effective_text if converted is None else converted


def _locate(root: Mapping, path: tuple[str | int, ...]) -> tuple[Node, Scalar | None]:
    """Follow a path of the root's own data."""
    node: Node = root
    key: Scalar | None = None
    for part in path:
        if isinstance(node, Sequence):
            node, key = node.items[int(part)], None
        else:
            pairs = node.pairs if isinstance(node, Mapping) else []
            key, node = next(pair for pair in pairs if pair.key.text == part)
    return node, key


def _unknown_keys(mapping: Mapping, path: tuple[str | int, ...]) -> list[UnknownKey]:
    known = keys_at(level_of((*path, "")))
    return [
        UnknownKey(mapping, pair, (*path, pair.key.text))
        for pair in mapping.pairs
        if pair.key.text not in known and not pair.key.opaque
    ]


def _rule_of(error: SchemaError, violation: Violation) -> str:
    """Return the rule that a violation belongs to."""
    name, node = violation.name, violation.node
    if error.keyword in {"required", "not"}:
        return "push-without-rate" if error.branch else "missing-name"
    if error.branch and name != "retry_parameters":
        return "push-key-on-pull"
    if isinstance(node, Scalar) and not node.is_null:
        return _rule_of_value(name, error.keyword, node.effective_text)
    if name == "name" and isinstance(node, Scalar):
        return "missing-name"
    return "too-many-queues" if error.keyword == "maxItems" else "wrong-type"


def _rule_of_value(name: str, keyword: str, text: str) -> str:
    if keyword in {"minimum", "maximum"}:
        return "bucket-size-range" if name == "bucket_size" else "retry-range"
    if name == "rate" and parse_rate(text):
        return "rate-too-high"
    if name == "task_age_limit" and is_age_limit(text):
        return "age-limit-range"
    return _FORMATS.get(name, "wrong-type")
