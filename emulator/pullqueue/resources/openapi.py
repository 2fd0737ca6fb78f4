"""The OpenAPI document of the control routes, generated from the operations."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated

import msgspec
from msgspec import UNSET, field

import pullqueue
from pullqueue.api.encoding import Json
from pullqueue.resources.operations import OPERATIONS, Operation
from pullqueue.structs import Count, Maybe, Model, about

PATH = "/openapi.json"
_REFERENCE = "#/components/schemas/{name}"


class ErrorDetail(Model):
    """Why a request was refused."""

    domain: str
    reason: str
    message: str
    location_type: Maybe[str] = field(name="locationType", default=UNSET)
    location: Maybe[str] = UNSET


class Advice(Model):
    """What was wrong and what to do, where the message is a text of production."""

    type: Annotated[str, about("google.rpc.LocalizedMessage")] = field(name="@type")
    locale: str
    message: str


class ErrorEnvelope(Model):
    """The error of a request."""

    errors: list[ErrorDetail]
    code: Count
    message: str
    details: Maybe[list[Advice]] = UNSET
    status: Annotated[Maybe[str], about("A code of google.rpc.Code.")] = UNSET


class Error(Model):
    """The body of a response with an error."""

    error: ErrorEnvelope


@cache
def document() -> Json:
    """Return the document."""
    # Whatever module was imported first.
    operations = sorted(OPERATIONS, key=lambda operation: operation.path)
    bodies = [each.body for each in operations if each.body is not None]
    types = list(dict.fromkeys([Error, *(each.result for each in operations), *bodies]))
    queries = list(dict.fromkeys(each.query for each in operations if each.query is not None))
    schemas, components = msgspec.json.schema_components(
        [*types, *queries], ref_template=_REFERENCE
    )
    _, sent = msgspec.json.schema_components([*bodies, *queries], ref_template=_REFERENCE)
    for name, schema in components.items():
        if name not in sent:
            _require_all(schema)
    build_schema = dict(zip([*types, *queries], schemas, strict=True))
    for query in queries:  # no body: each of its fields is a parameter
        build_schema[query] = components.pop(query.__name__)
    paths: Json = {}
    for operation in operations:
        described = _operation(operation, build_schema)
        paths.setdefault(operation.path, {})[operation.verb.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pullqueue control routes",
            "version": pullqueue.__version__,
            "description": "Routes of the emulator itself. Browsers must send the console's "
            "token in X-Pullqueue-Token with each change; other clients need no token.",
        },
        "servers": [{"url": "/_emulator"}],
        "paths": paths,
        "components": {"schemas": components},
    }


_PROJECT: Json = {
    "name": "project",
    "in": "query",
    "required": False,
    "description": "The project that is meant. Default: the server's own.",
    "schema": {"type": "string"},
}


def _require_all(schema: Json) -> None:
    """Require the fields of a response that have defaults: they are always sent."""
    properties = schema.get("properties", {})
    with_default = [name for name, field in properties.items() if "default" in field]
    for name in with_default:
        del properties[name]["default"]
    if with_default:
        chosen = {*schema["required"], *with_default}
        schema["required"] = [name for name in properties if name in chosen]


def _operation(operation: Operation, build_schema: dict[type, Json]) -> Json:
    result = build_schema[operation.result]
    if operation.key:
        result = {
            "type": "object",
            "properties": {operation.key: result},
            "required": [operation.key],
            "additionalProperties": False,
        }
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    parameters += _query_parameters(build_schema[operation.query]) if operation.query else []
    if not operation.path.startswith("/projects"):
        parameters.append(_PROJECT)
    described: Json = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            "200": _content("The result", operation.content_type, result),
            "default": _content("An error", "application/json", build_schema[Error]),
        },
    }
    if operation.id == "getReady":
        described["responses"]["503"] = _content("Not ready", operation.content_type, result)
    if operation.body is not None:
        content: Json = {"schema": build_schema[operation.body]}
        if operation.examples:
            named = operation.examples.items()
            content["examples"] = {name: {"value": value} for name, value in named}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    return described


def _query_parameters(schema: Json) -> list[Json]:
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema["required"],
            "description": described.get("description", ""),
            "schema": {key: each for key, each in described.items() if key != "description"},
        }
        for name, described in schema["properties"].items()
    ]


def _content(description: str, content_type: str, schema: Json) -> Json:
    kind = content_type.partition(";")[0]
    return {"description": description, "content": {kind: {"schema": schema}}}
