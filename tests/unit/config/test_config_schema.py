"""The published schema: valid, and fit for editors. What it refuses: see test_lint_cases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from pullqueue.config.schema import draft_7, queue_schema, schema_bytes

Schema = dict[str, Any]


def test_schema_is_valid_in_both_drafts() -> None:
    """The published schema is one by the meta-schema that it names."""
    for text, draft in ((schema_bytes(), Draft202012Validator), (draft_7(), Draft7Validator)):
        schema = json.loads(text)
        assert jsonschema.validators.validator_for(schema) is draft
        draft.check_schema(schema)


def parts(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield a schema, and those of its keys and items, with their paths."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from parts(part, f"{path}.{name}")
    if "items" in schema:
        yield from parts(schema["items"], f"{path}[]")


PARTS = dict(parts(queue_schema()))


@pytest.mark.parametrize("path", PARTS)
def test_every_part_is_fit_for_editors(path: str) -> None:
    """Each key has a title and a description, each value an example, a default or a choice."""
    part = PARTS[path]
    assert part.get("title")
    assert part.get("description")
    assert part.keys() & {"properties", "items", "examples", "default", "enum"}


@pytest.mark.parametrize("path", PARTS)
def test_examples_and_defaults_conform(path: str) -> None:
    """What the schema shows as an example, or has as a default, is right by it."""
    part = PARTS[path]
    shown = [*part.get("examples", []), *([part["default"]] if "default" in part else [])]
    validator = Draft202012Validator(part | {"$defs": queue_schema()["$defs"]})
    assert [value for value in shown if not validator.is_valid(value)] == []
