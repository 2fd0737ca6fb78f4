"""Keys people write instead of the format's own, and what they should have written."""

from __future__ import annotations

from pullqueue.config.schema import Schema, queue_schema

TOP = ""
QUEUE = "queue[]"
RETRY = "queue[].retry_parameters"
GRANT = "queue[].acl[]"

LEVEL_NAMES = {
    TOP: "at the top level",
    QUEUE: "in an entry of `queue`",
    RETRY: "under `retry_parameters`",
    GRANT: "in an entry of `acl`",
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
"""Names of the Cloud Tasks API, and their like in queue.yaml."""

_SAME_VALUE = frozenset({"max_burst_size", "max_concurrent_dispatches"})


def level_of(path: tuple[str | int, ...]) -> str:
    """Name the level of the format at which a key of this path stands."""
    parts = ["[]" if isinstance(part, int) else f".{part}" for part in path[:-1]]
    return "".join(parts).removeprefix(".")


def keys_at(level: str) -> list[str]:
    """Give the keys of a level, in the schema's order."""
    return list(_schema_at(level)["properties"])


def level_with(key: str) -> str | None:
    """Give the level a key of the format belongs to, None for a key it does not have."""
    return next((level for level in LEVEL_NAMES if key in keys_at(level)), None)


def _schema_at(level: str) -> Schema:
    schema = queue_schema()
    for part in level.split(".") if level else []:
        schema = schema["properties"][part.removesuffix("[]")]
        if part.endswith("[]"):
            schema = schema["items"]
    return schema


def corrected(key: str, level: str) -> str | None:
    """Give the key of this level that was most likely meant, with the same kind of value."""
    known = keys_at(level)
    snake = _snake(key)
    if snake in known:
        return snake
    if key in _SAME_VALUE and CLOUD_TASKS[key] in known:
        return CLOUD_TASKS[key]
    import difflib  # noqa: PLC0415 - only a file with an unknown key pays for it

    close = difflib.get_close_matches(snake, known, n=1, cutoff=0.7)
    return close[0] if close else None


def stands_for(key: str, level: str) -> str | None:
    """Give the key of this level that an unknown one is most likely there for."""
    own = CLOUD_TASKS.get(key)
    return own if own in keys_at(level) else corrected(key, level)


def _snake(key: str) -> str:
    """Turn the spellings of queue.xml (`bucket-size`) and of Java (`bucketSize`) into ours."""
    spread = "".join(f"_{char.lower()}" if char.isupper() else char for char in key)
    return spread.strip("- _").replace("-", "_")
