"""The published JSON Schema of queue.yaml."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

Schema = dict[str, Any]

_DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@cache
def queue_schema() -> Schema:
    """Return the schema of queue.yaml."""
    schema: Schema = json.loads(schema_bytes())
    return schema


def schema_bytes() -> bytes:
    """Return the schema of queue.yaml as it is published."""
    return package_data("queue.schema.json")


def package_data(name: str) -> bytes:
    """Return a file of the package of schemas."""
    return files("pullqueue_schemas").joinpath(name).read_bytes()


def draft_7() -> str:
    """Return the schema in draft 7: it uses no keyword that meant something else there."""
    return schema_bytes().decode().replace(_DRAFT_2020, _DRAFT_7)
