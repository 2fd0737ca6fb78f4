"""The way from the console to the server: the operations of the control routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from pullqueue.api.encoding import Json
from pullqueue.control.operations import call
from pullqueue.control.state import ServerState


def ask(
    state: ServerState,
    operation_id: str,
    /,
    query: Mapping[str, str] | None = None,
    body: Json | None = None,
    **path: str,
) -> Json:
    """Carry out an operation in process and return its result.

    Raises:
        PullQueueError: it is refused.
    """
    result = call(state, operation_id, path=path, query=query, body=body or {})
    return cast("Json", msgspec.to_builtins(result))  # no page asks for text
