"""The published schema: valid, and fit for editors. What it refuses: see test_lint_cases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
from jsonschema import Draft7Validator, Draft202012Validator
from tables import each_row

from pullqueue.config.schema import QUEUE, keys_at, published, queue_schema
from pullqueue.config.settings import Settings
from pullqueue.lint.check import check

Schema = dict[str, Any]


def test_schema_is_valid_in_both_drafts() -> None:
    """By the meta-schema that it names, and without keywords of the linter."""
    for name, draft in (("2020-12", Draft202012Validator), ("7", Draft7Validator)):
        schema = json.loads(published(draft=name))
        assert jsonschema.validators.validator_for(schema) is draft
        draft.check_schema(schema)
        assert not {"x-rules", "$comment"} & keywords_of(schema)
    assert "x-rules" in keywords_of(queue_schema())


def parts(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield a schema, and those of its keys and items, with their paths."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from parts(part, f"{path}.{name}")
    if "items" in schema:
        yield from parts(schema["items"], f"{path}[]")


PARTS = dict(parts(queue_schema()))


@each_row("path", PARTS)
def test_every_part_is_fit_for_editors(path: str) -> None:
    """Each key has a title and a description, each value an example, a default or a choice."""
    part = PARTS[path]
    assert part.get("title")
    assert part.get("description")
    assert part.keys() & {"properties", "items", "examples", "default", "enum"}


@each_row("path", PARTS)
def test_examples_and_defaults_conform(path: str) -> None:
    """What the schema shows as an example, or has as a default, is right by it."""
    part = PARTS[path]
    shown = [*part.get("examples", []), *([part["default"]] if "default" in part else [])]
    validator = Draft202012Validator(part | {"$defs": queue_schema()["$defs"]})
    assert [value for value in shown if not validator.is_valid(value)] == []


def keywords_of(part: Any) -> set[str]:
    """Return the names of all keys in a part of a document."""
    if isinstance(part, list):
        return set().union(*map(keywords_of, part))
    return {*part}.union(*map(keywords_of, part.values())) if isinstance(part, dict) else set()


@each_row("key", [key for key in keys_at(QUEUE) if "pattern" in PARTS[f".queue[].{key}"]])
def test_a_rule_reports_what_a_pattern_refuses(key: str) -> None:
    """A code in `x-rules` is that of a rule whose function reports the violations of this key."""
    entry = {"name": "mail", "rate": "5/s", key: "é " * 300}
    content = json.dumps({"queue": [entry]})
    findings = check(content, file="queue.yaml", settings=Settings()).findings

    assert [finding for finding in findings if finding.path == ("queue", 0, key)], (
        f"no rule of lint/rules reports it by its code in x-rules: {PARTS[f'.queue[].{key}']}"
    )


def test_the_published_schema_names_the_key_that_a_pull_queue_lacks() -> None:
    keys = json.loads(published())["properties"]["queue"]["items"]["then"]["properties"]

    assert keys["rate"]["errorMessage"] == (
        "`rate` is not allowed on a pull queue: remove it, or set `mode: push`"
    )
    assert keys["retry_parameters"]["properties"]["max_doublings"]["errorMessage"].startswith(
        "`max_doublings` is not allowed on a pull queue"
    )
