"""The shape of a file: what the JSON Schema says of its data, as faults of the catalogue's rules.

The data that are validated are those App Engine would see: a value is turned into the type its
key needs, as App Engine's library does it, before the schema looks at it.
"""

from __future__ import annotations

from typing import NamedTuple

from pullqueue.config.nodes import Mapping, Node, Pair, Scalar, Sequence
from pullqueue.config.reports import Place
from pullqueue.config.schema import Json, Schema, SchemaError, conforms, queue_schema, schema_errors
from pullqueue.config.values import as_boolean, as_integer, as_number

_FORMATS = {
    "name": "name-format",
    "mode": "mode-value",
    "rate": "rate-format",
    "target": "target-format",
    "task_age_limit": "age-limit-format",
    "total_storage_limit": "storage-limit-format",
    "application": "application-format",
    "resume_paused_queues": "resume-paused-value",
    "bucket_size": "integer-format",
    "max_concurrent_requests": "integer-format",
    "task_retry_limit": "integer-format",
    "max_doublings": "integer-format",
    "min_backoff_seconds": "backoff-format",
    "max_backoff_seconds": "backoff-format",
}
_RANGES = {
    "bucket_size": "bucket-size-range",
    "max_concurrent_requests": "max-concurrent-range",
    "task_retry_limit": "retry-limit-range",
    "max_doublings": "doublings-range",
    "min_backoff_seconds": "backoff-range",
    "max_backoff_seconds": "backoff-range",
}
_ON_PULL = {
    "rate": "rate-on-pull",
    "bucket_size": "bucket-size-on-pull",
    "max_concurrent_requests": "max-concurrent-on-pull",
    "target": "target-on-pull",
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

    @property
    def place(self) -> Place:
        """The value's place, or the key's where nothing is written."""
        node = self.key if self.node.start == self.node.end and self.key else self.node
        return Place(node.start, node.end)

    @property
    def key_place(self) -> Place:
        """The key's place, or the value's where there is no key."""
        node = self.key or self.node
        return Place(node.start, node.end)


class StrangeKey(NamedTuple):
    """A key that the schema does not know in its place."""

    mapping: Mapping
    pair: Pair
    path: tuple[str | int, ...]

    @property
    def name(self) -> str:
        """The key."""
        return self.pair.key.text

    @property
    def where(self) -> str:
        """The path as messages and findings show it."""
        return path_text(self.path)

    @property
    def place(self) -> Place:
        """The key's place."""
        return Place(self.pair.key.start, self.pair.key.end)


class Shape(NamedTuple):
    """What the schema objects to in a file."""

    violations: dict[str, list[Violation]]
    """By the rule they stand for."""
    unknown_keys: list[StrangeKey]


def path_text(path: tuple[str | int, ...]) -> str:
    """Write a path as `queue[0].rate`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def check_shape(root: Mapping) -> Shape:
    """Validate a file's data and give what is wrong."""
    schema = queue_schema()
    instance = as_json(root, schema)
    shape = Shape({}, [])
    if conforms(instance, schema):
        return shape
    for error in schema_errors(instance, schema):
        node, key = _locate(root, error.path)
        if error.keyword == "additionalProperties" and isinstance(node, Mapping):
            shape.unknown_keys.extend(_unknown_keys(node, schema, error.path))
        elif not (isinstance(node, Scalar) and node.opaque):
            rule = _rule_of(error, node)
            shape.violations.setdefault(rule, []).append(Violation(node, key, error.path))
    return shape


def as_json(node: Node, schema: Schema) -> Json:
    """Give a node as data of the types the schema asks for, where App Engine would convert."""
    if isinstance(node, Mapping):
        properties = schema.get("properties", {})
        return {
            pair.key.text: as_json(pair.value, properties.get(pair.key.text, {}))
            for pair in node.pairs
        }
    if isinstance(node, Sequence):
        return [as_json(item, schema.get("items", {})) for item in node.items]
    return None if node.is_null else _scalar_json(node, schema)


def _scalar_json(scalar: Scalar, schema: Schema) -> Json:
    types = schema.get("type", ())
    converted: Json = None
    if "integer" in types:
        converted = as_integer(scalar)
    elif "number" in types:
        converted = as_number(scalar)
    elif "boolean" in types:
        converted = as_boolean(scalar)
    return scalar.seen if converted is None else converted


def _locate(root: Mapping, path: tuple[str | int, ...]) -> tuple[Node, Scalar | None]:
    """Follow a path that the root's own data gave."""
    node: Node = root
    key: Scalar | None = None
    for part in path:
        if isinstance(node, Sequence):
            node, key = node.items[int(part)], None
        else:
            pairs = node.pairs if isinstance(node, Mapping) else []
            key, node = next(pair for pair in pairs if pair.key.text == part)
    return node, key


def _known_keys(schema: Schema, path: tuple[str | int, ...]) -> set[str]:
    for part in path:
        schema = schema["items"] if isinstance(part, int) else schema["properties"][part]
    return set(schema["properties"])


def _unknown_keys(
    mapping: Mapping, schema: Schema, path: tuple[str | int, ...]
) -> list[StrangeKey]:
    known = _known_keys(schema, path)
    return [
        StrangeKey(mapping, pair, (*path, pair.key.text))
        for pair in mapping.pairs
        if pair.key.text not in known and not pair.key.opaque
    ]


def _rule_of(error: SchemaError, node: Node) -> str:
    name = error.path[-1] if error.path and isinstance(error.path[-1], str) else ""
    if error.keyword in {"required", "not"}:
        return "push-without-rate" if error.branch else "missing-name"
    if error.branch:
        return _ON_PULL.get(name, "retry-field-on-pull")
    if name == "name" and isinstance(node, Scalar) and node.is_null:
        return "missing-name"
    if error.keyword == "maxLength":
        return "name-length"
    if error.keyword in {"minimum", "maximum"}:
        return _RANGES[name]
    return _FORMATS.get(name, "wrong-type") if _is_set(node) else "wrong-type"


def _is_set(node: Node) -> bool:
    return isinstance(node, Scalar) and not node.is_null
