"""The published JSON Schema of queue.yaml, its keys, and what people write instead of them."""

from __future__ import annotations

import json
from functools import cache
from pkgutil import get_data
from typing import Any

from pullqueue.config.document import Path
from pullqueue.text import closest, to_snake_case

Schema = dict[str, Any]

_PUSH_ONLY = "push-only"
_DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"

TOP: Path = ()
QUEUE: Path = ("queue", 0)
RETRY: Path = (*QUEUE, "retry_parameters")
ACL_ENTRY: Path = (*QUEUE, "acl", 0)

LEVEL_NAMES = {
    TOP: "at the top level",
    QUEUE: "in an entry of `queue`",
    RETRY: "under `retry_parameters`",
    ACL_ENTRY: "in an entry of `acl`",
}

CLOUD_TASKS = {
    "max_dispatches_per_second": "rate",
    "max_burst_size": "bucket_size",
    "max_concurrent_dispatches": "max_concurrent_requests",
    "max_attempts": "task_retry_limit",
    "max_retry_duration": "task_age_limit",
    "max_retry_duration_seconds": "task_age_limit",
    "min_backoff": "min_backoff_seconds",
    "max_backoff": "max_backoff_seconds",
}
"""Names of the Cloud Tasks API, and the keys of queue.yaml with that meaning."""

_SAME_VALUE = {
    "max_burst_size": "bucket_size",
    "max_concurrent_dispatches": "max_concurrent_requests",
    "retry_limit": "task_retry_limit",
    "task_limit_retry": "task_retry_limit",
    "max_retries": "task_retry_limit",
    "age_limit": "task_age_limit",
}
"""Other names, and the keys that take the same value."""


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


def find_level(path: Path) -> Path:
    """Return the level of the format that a key of this path is at."""
    return tuple(0 if isinstance(part, int) else part for part in path[:-1])


def schema_at(path: Path) -> Schema:
    """Return the part of the schema that a path leads to."""
    schema = queue_schema()
    for part in path:
        schema = schema["items"] if isinstance(part, int) else schema["properties"][part]
    return schema


@cache
def value_kinds() -> dict[str, str]:
    """Return the keys whose values App Engine converts: to `integer`, `number` or `boolean`."""
    definitions = queue_schema()["$defs"]
    kinds: dict[str, str] = {}
    for level in LEVEL_NAMES:
        for key in keys_at(level):
            part = schema_at((*level, key))
            named = [definitions[each["$ref"].rpartition("/")[2]] for each in part.get("allOf", ())]
            for each in (part, *named):
                if "x-value" in each:
                    kinds[key] = each["x-value"]
    return kinds


def find_keys(kind: str, level: Path) -> list[str]:
    """Return the keys of a level whose values are of a kind."""
    return [key for key in keys_at(level) if value_kinds().get(key) == kind]


@cache
def text_keys(level: Path) -> list[str]:
    """Return the keys of a level whose values are texts."""
    return [
        key
        for key in keys_at(level)
        if "string" in schema_at((*level, key)).get("type", ()) and key not in value_kinds()
    ]


@cache
def push_keys() -> list[str]:
    """Return the keys of a queue that a pull queue cannot have."""
    parts = schema_at(QUEUE)["then"]["properties"].items()
    return [key for key, part in parts if "$ref" in part]


@cache
def keys_at(level: Path) -> list[str]:
    """Return the keys of a level, in the schema's order."""
    return list(schema_at(level)["properties"])


@cache
def all_keys() -> frozenset[str]:
    """Return the keys of all levels."""
    return frozenset(key for level in LEVEL_NAMES for key in keys_at(level))


def level_with(key: str) -> Path | None:
    """Return the level a key of the format belongs to, None for a key it does not have."""
    return next((level for level in LEVEL_NAMES if key in keys_at(level)), None)


def meant_key(key: str, level: Path | None = None) -> str | None:
    """Return the key that a misspelt one is most likely meant to be, with the same kind of value.

    With a level only of its keys, else of all keys.
    """
    known = all_keys() if level is None else keys_at(level)
    # `bucket_size` for `bucket-size` (queue.xml), `bucketSize` (Java) and `BUCKET_SIZE`.
    snake = to_snake_case(key.lower() if key.isupper() else key).strip("- _").replace("-", "_")
    if snake in known:
        return snake
    if (same := _SAME_VALUE.get(snake)) in known:
        return same
    return closest(snake, sorted(known))
