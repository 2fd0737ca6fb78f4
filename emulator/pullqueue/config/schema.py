"""The published JSON Schema of queue.yaml."""

from __future__ import annotations

import json
from functools import cache
from pkgutil import get_data
from typing import Any

Schema = dict[str, Any]

_PUSH_ONLY = "push-only"
_DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@cache
def queue_schema() -> Schema:
    """Return the schema of queue.yaml, with the rules of the linter."""
    schema: Schema = json.loads(package_data("queue.schema.json"))
    return schema


def package_data(name: str) -> bytes:
    """Return a file of the package of schemas."""
    return get_data("pullqueue_schemas", name) or b""


def published(*, draft: str = "2020-12") -> str:
    """Return the schema for editors and validators, in draft `2020-12` or `7`.

    It has no keyword of our own, and each `errorMessage` names its key. No keyword of it meant
    something else in draft 7.
    """
    schema = _published_part(queue_schema(), "")
    schema["$schema"] = _DRAFT_7 if draft == "7" else _DRAFT_2020
    del schema["$comment"], schema["$defs"][_PUSH_ONLY]
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _published_part(part: Any, key: str) -> Any:  # noqa: ANN401 - a part of the schema
    if isinstance(part, list):
        return [_published_part(each, "") for each in part]
    if not isinstance(part, dict):
        return part
    if part == {"$ref": f"#/$defs/{_PUSH_ONLY}"}:
        push_only = _published_part(queue_schema()["$defs"][_PUSH_ONLY], "")
        return push_only | {"errorMessage": f"`{key}` is {push_only['errorMessage']}"}
    return {name: _published_part(each, name) for name, each in part.items() if name[:2] != "x-"}
