"""The published schema: valid, and fit for editors."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullqueue.config.schema import draft_7, queue_schema, schema_bytes

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

KEYS = sorted(
    {
        *queue_schema()["properties"],
        *queue_schema()["properties"]["queue"]["items"]["properties"],
        "user_email",
        "task_retry_limit",
        "task_age_limit",
        "min_backoff_seconds",
        "unknown",
    }
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 6000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["pull", "push", "mail", "a_b", "5/s", "5/s\n", "1/min", "0", "120M", "2d", "v2.worker"]
    ),
    st.sampled_from(["a" * 100, "a" * 101, "", "1e1d", "X"]),
)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=20,
)
RETRY = st.dictionaries(st.sampled_from(KEYS), SCALARS)
QUEUES = st.fixed_dictionaries(
    {"name": SCALARS},
    optional={
        "mode": SCALARS,
        "rate": SCALARS,
        "bucket_size": SCALARS,
        "target": SCALARS,
        "retry_parameters": RETRY | SCALARS,
        "acl": st.lists(RETRY | SCALARS, max_size=2) | SCALARS,
    },
)
FILES = st.fixed_dictionaries(
    {"queue": st.lists(QUEUES, max_size=3) | DATA}, optional={"total_storage_limit": SCALARS}
)


@pytest.mark.parametrize("draft", ["2020-12", "7"])
def test_schema_is_valid_in_both_drafts(draft: str) -> None:
    """The published schema is one by its own meta-schema."""
    if draft == "7":
        schema = json.loads(draft_7())
        assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
        jsonschema.Draft7Validator.check_schema(schema)
    else:
        jsonschema.Draft202012Validator.check_schema(json.loads(schema_bytes()))


@given(FILES)
def test_drafts_agree(data: Json) -> None:
    """The schema says the same in draft 7 as in draft 2020-12."""
    seven = jsonschema.Draft7Validator(json.loads(draft_7())).is_valid(data)
    assert seven == jsonschema.Draft202012Validator(queue_schema()).is_valid(data)


def test_every_part_is_fit_for_editors() -> None:
    """Each key has a title and a description, each value an example, a default or a choice."""

    def walk(schema: dict[str, Json], path: str) -> None:
        assert schema.get("title"), path
        assert schema.get("description"), path
        properties = schema.get("properties")
        items = schema.get("items")
        if isinstance(properties, dict):
            for name, part in properties.items():
                assert isinstance(part, dict)
                walk(part, f"{path}.{name}")
        elif isinstance(items, dict):
            walk(items, f"{path}[]")
        else:
            assert schema.keys() & {"examples", "default", "enum"}, path

    walk(queue_schema(), "")


def test_examples_and_defaults_conform() -> None:
    """What the schema shows as an example, or has as a default, is right by it."""

    def walk(schema: dict[str, Json]) -> None:
        examples = schema.get("examples", [])
        assert isinstance(examples, list)
        whole = schema | {"$defs": queue_schema()["$defs"]}
        conforms = jsonschema.Draft202012Validator(whole).is_valid
        assert all(conforms(example) for example in examples)
        assert "default" not in schema or conforms(schema["default"])
        for part in (*_parts(schema.get("properties")), schema.get("items")):
            if isinstance(part, dict):
                walk(part)

    walk(queue_schema())


def _parts(properties: Json) -> list[Json]:
    return list(properties.values()) if isinstance(properties, dict) else []
