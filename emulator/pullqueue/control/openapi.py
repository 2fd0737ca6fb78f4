"""The OpenAPI document of the control routes, generated from the operations."""

from __future__ import annotations

from functools import cache

import msgspec
from msgspec import UNSET

import pullqueue
from pullqueue.api.encoding import Json
from pullqueue.control.models import Count, Maybe, Model
from pullqueue.control.operations import OPERATIONS, Operation

PATH = "/openapi.json"
_REFERENCE = "#/components/schemas/{name}"


class ErrorDetail(Model):
    """Why a request was refused."""

    domain: str
    reason: str
    message: str
    locationType: Maybe[str] = UNSET  # noqa: N815 - Google's names
    location: Maybe[str] = UNSET
    debugInfo: Maybe[str] = UNSET  # noqa: N815 - the same


class ErrorEnvelope(Model):
    """The error of a request."""

    errors: list[ErrorDetail]
    code: Count
    message: str


class Error(Model):
    """The body of a response with an error."""

    error: ErrorEnvelope


@cache
def document() -> Json:
    """Return the document."""
    operations = list(OPERATIONS.values())
    models: list[type] = [Error]
    for operation in operations:
        used = (operation.query, operation.body, operation.result)
        models += [model for model in used if model is not None]
    types = list(dict.fromkeys(models))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: Json = {}
    for operation in operations:
        query: Json = components.get(getattr(operation.query, "__name__", ""), {})
        described = _operation(operation, schema_of, query)
        paths.setdefault(operation.path, {})[operation.verb.lower()] = described
    for operation in operations:
        components.pop(getattr(operation.query, "__name__", ""), None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pullqueue control routes",
            "version": pullqueue.__version__,
            "description": "The routes of the emulator's own. Browsers must send the console's "
            "token with each change, in X-Pullqueue-Token; other clients need nothing.",
        },
        "servers": [{"url": "/_emulator"}],
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(operation: Operation, schema_of: dict[type, Json], query: Json) -> Json:
    result = schema_of[operation.result]
    described: Json = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in operation.path_parameters
            ),
            *(
                {
                    "name": name,
                    "in": "query",
                    "required": name in query["required"],
                    "description": schema.get("description", ""),
                    "schema": {key: each for key, each in schema.items() if key != "description"},
                }
                for name, schema in query.get("properties", {}).items()
            ),
        ],
        "responses": {
            "200": _content("The result", operation.content_type, result),
            "default": _content("An error", "application/json", schema_of[Error]),
        },
    }
    if operation.id == "getReady":
        described["responses"]["503"] = _content("Not ready", operation.content_type, result)
    if operation.body is not None:
        schema = {"schema": schema_of[operation.body]}
        described["requestBody"] = {"required": True, "content": {"application/json": schema}}
    return described


def _content(description: str, content_type: str, schema: Json) -> Json:
    kind = content_type.partition(";")[0]
    return {"description": description, "content": {kind: {"schema": schema}}}
