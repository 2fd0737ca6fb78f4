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
    """A value, or a key, that the schema does not allow."""

    node: Node
    """The value concerned; for a missing or unknown key the mapping."""
    parent: Mapping | None
    """The mapping that holds the value, None for the root and for items of a list."""
    key: Scalar | None
    """The key concerned: the value's, or the one that is unknown."""
    path: tuple[str | int, ...]
    keyword: str

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


def path_text(path: tuple[str | int, ...]) -> str:
    """Write a path as `queue[0].rate`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def violations(root: Mapping) -> dict[str, list[Violation]]:
    """Validate a file's data and give what is wrong, by the rule it stands for."""
    schema = queue_schema()
    instance = as_json(root, schema)
    if conforms(instance, schema):
        return {}
    by_rule: dict[str, list[Violation]] = {}
    for error in schema_errors(instance, schema):
        for rule, violation in _classify(error, root, schema):
            by_rule.setdefault(rule, []).append(violation)
    return by_rule


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


def _classify(error: SchemaError, root: Mapping, schema: Schema) -> list[tuple[str, Violation]]:
    node, parent, pair = _locate(root, error.path)
    violation = Violation(node, parent, pair.key if pair else None, error.path, error.keyword)
    if error.keyword == "additionalProperties" and isinstance(node, Mapping):
        return _unknown_keys(violation, node, _known_keys(schema, error.path))
    if isinstance(node, Scalar) and node.opaque:
        return []
    rule = _rule_of(error, violation)
    return [(rule, violation)] if rule else []


def _locate(root: Mapping, path: tuple[str | int, ...]) -> tuple[Node, Mapping | None, Pair | None]:
    node: Node = root
    parent: Mapping | None = None
    pair: Pair | None = None
    for part in path:
        if isinstance(node, Sequence) and isinstance(part, int):
            parent, pair, node = None, None, node.items[part]
        elif isinstance(node, Mapping):
            parent = node
            pair = next(pair for pair in node.pairs if pair.key.text == part)
            node = pair.value
    return node, parent, pair


def _known_keys(schema: Schema, path: tuple[str | int, ...]) -> set[str]:
    for part in path:
        schema = schema["items"] if isinstance(part, int) else schema["properties"][part]
    return set(schema["properties"])


def _unknown_keys(
    violation: Violation, mapping: Mapping, known: set[str]
) -> list[tuple[str, Violation]]:
    return [
        ("unknown-key", violation._replace(key=pair.key, path=(*violation.path, pair.key.text)))
        for pair in mapping.pairs
        if pair.key.text not in known and not pair.key.opaque
    ]


def _rule_of(error: SchemaError, violation: Violation) -> str | None:
    name = error.path[-1] if error.path and isinstance(error.path[-1], str) else ""
    if error.keyword in {"required", "not"}:
        return "push-without-rate" if error.branch else "missing-name"
    if error.branch:
        return _ON_PULL.get(name, "retry-field-on-pull")
    if isinstance(violation.node, Scalar) and violation.node.is_null and name == "name":
        return "missing-name"
    if error.keyword == "maxLength":
        return "name-length"
    if error.keyword in {"minimum", "maximum"}:
        return _RANGES[name]
    return _FORMATS.get(name, "wrong-type") if _is_set(violation.node) else "wrong-type"


def _is_set(node: Node) -> bool:
    return isinstance(node, Scalar) and not node.is_null
