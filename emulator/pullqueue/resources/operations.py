"""Operations: a handler is registered with its verb and path, its signature is its schema.

    @operation("POST", "/queues/{queue}/lease")
    def lease_tasks(state: ServerState, queue: str, body: LeaseRequest) -> LeasedTasks: ...

Parameters in braces are texts of the path. `query` and `body` are msgspec structs: what does not
match them is refused. With a `key`, the result is sent as this member of an object. The first
sentence of the docstring is the summary in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeVar, get_type_hints

import msgspec

from pullqueue.api.encoding import JSON_TYPE, Json
from pullqueue.api.errors import ApiError
from pullqueue.api.requests import not_json
from pullqueue.structs import Model, list_choices
from pullqueue.text import quoted

_P = ParamSpec("_P")
_R = TypeVar("_R")
_M = TypeVar("_M", bound=Model)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation."""

    id: str
    verb: str
    path: str
    """After `/_emulator`, with parameters in braces."""
    summary: str
    handle: Callable[..., Any]
    query: type[Model] | None
    body: type[Model] | None
    result: type
    key: str
    content_type: str
    examples: Mapping[str, Json]
    """Bodies, by what they ask for."""


OPERATIONS: Final[list[Operation]] = []
"""Every operation, once the modules of the handlers are imported."""


def operation(
    verb: str,
    path: str,
    *,
    key: str = "",
    content_type: str = JSON_TYPE,
    examples: Mapping[str, Json] = MappingProxyType({}),
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Register a handler as an operation; its id is its name in camel case."""

    def register(handle: Callable[_P, _R]) -> Callable[_P, _R]:
        hints = get_type_hints(handle, include_extras=True)
        first, *more = handle.__name__.split("_")
        registered = Operation(
            id="".join([first, *(word.title() for word in more)]),
            verb=verb,
            path=path,
            summary=(handle.__doc__ or "").partition(".\n")[0].rstrip("."),
            handle=handle,
            query=hints.get("query"),
            body=hints.get("body"),
            result=hints["return"],
            key=key,
            content_type=content_type,
            examples=examples,
        )
        OPERATIONS.append(registered)
        return handle

    return register


def parse_arguments(operation: Operation, query: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Return the arguments of a handler that are not in the path.

    Raises:
        ApiError: one is not valid, or not known.
    """
    arguments: dict[str, Any] = {}
    if operation.query is not None:
        arguments["query"] = parse_query(query, operation.query)
    elif query:
        raise _unknown_parameter(next(iter(query)), ())
    if operation.body is not None:
        arguments["body"] = parse_body(body, operation.body)
    return arguments


def parse_query(query: Mapping[str, str], model: type[_M]) -> _M:
    """Convert texts to the types of a model; raise an ApiError if one is not valid or known."""
    for name in query:
        if name not in model.__struct_fields__:
            raise _unknown_parameter(name, sorted(model.__struct_fields__))
    for field in msgspec.structs.fields(model):
        if field.required and field.name not in query:
            raise ApiError.parameter(f"the parameter {quoted(field.name)} is missing", field.name)
    try:
        return msgspec.convert(query, model, strict=False)
    except msgspec.ValidationError as error:
        raise _not_valid(error, "the query", model) from None


def parse_body(body: bytes | Json, model: type[_M]) -> _M:
    """Convert JSON, or a form's fields, to a model.

    Raises:
        ApiError: it is not JSON, or a field is not valid, or not known.
    """
    try:
        if isinstance(body, bytes):
            return msgspec.json.decode(body.strip() or b"{}", type=model)
        return msgspec.convert(body, model, strict=False)  # forms have numbers as text
    except msgspec.ValidationError as error:
        raise _not_valid(error, "the body", model) from None
    except (ValueError, RecursionError) as error:
        raise ApiError(not_json(error), reason="parseError") from None


def _not_valid(error: msgspec.ValidationError, whole: str, model: type[Model]) -> ApiError:
    """Return the error for what msgspec refuses, in its words, with the place."""
    what, _, place = str(error).partition(" - at ")
    location = place.strip("`$.")
    types = {field.encode_name: field.type for field in msgspec.structs.fields(model)}
    # A part of a field is not among them, and a field can have other values than texts.
    choices = list_choices(types[location]) if location in types else []
    advice = (
        f"use one of {', '.join(choices)}" if choices else "/_emulator/openapi.json has the schema"
    )
    message = f"{location or whole} is not valid: {what} ({advice})"
    return ApiError(message, reason="invalidParameter", location=location or None)


def _unknown_parameter(name: str, known: Sequence[str]) -> ApiError:
    takes = f"this route takes {', '.join(known)}" if known else "this route takes none"
    return ApiError.parameter(f"there is no parameter {quoted(name)}: {takes}", name)
