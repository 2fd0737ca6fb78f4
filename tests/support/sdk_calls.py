"""Pull tasks of the SDK, and calls to its service that its client does not make."""

from __future__ import annotations

from typing import Any

from pullqueue.sdk.imports import apiproxy_stub_map, messages, taskqueue


def pull(payload: Any = b"work", **options: Any) -> Any:
    """Make a pull task."""
    return taskqueue.Task(payload=payload, method="PULL", **options)


def call(method: str, **fields: Any) -> Any:
    """Make a call by its name and return its response."""
    response = getattr(messages, f"TaskQueue{method}Response")()
    request = getattr(messages, f"TaskQueue{method}Request")(**fields)
    apiproxy_stub_map.MakeSyncCall("taskqueue", method, request, response)
    return response
