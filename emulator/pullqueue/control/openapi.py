"""The OpenAPI document of the control routes, made from the table of operations."""

from __future__ import annotations

from functools import cache

import pullqueue
from pullqueue.api.encoding import Json
from pullqueue.control.operations import Operation
from pullqueue.control.schemas import ANYTHING, COMPONENTS, TEXT, component, record
from pullqueue.control.table import OPERATIONS

PATH = "/openapi.json"


@cache
def document() -> Json:
    """Give the document."""
    paths: Json = {}
    for operation in OPERATIONS.values():
        paths.setdefault(operation.path, {})[operation.verb.lower()] = _operation(operation)
    paths |= _TOKEN_PATHS
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
        "components": {"schemas": dict(COMPONENTS)},
    }


def _operation(operation: Operation) -> Json:
    described: Json = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": TEXT}
                for name in operation.path_parameters
            ),
            *(
                {
                    "name": parameter.name,
                    "in": "query",
                    "description": parameter.description,
                    "schema": parameter.schema,
                }
                for parameter in operation.parameters
            ),
        ],
        "responses": {
            "200": _content("What was asked for", operation.content_type, operation.answer),
            "default": _content("A refusal", "application/json", component("Error")),
        },
    }
    if operation.id == "getReady":
        described["responses"]["503"] = _content(
            "Not ready, and why", operation.content_type, operation.answer
        )
    if operation.body is not None:
        body = {"schema": operation.body}
        described["requestBody"] = {"required": True, "content": {"application/json": body}}
    return described


def _content(description: str, content_type: str, schema: object) -> Json:
    kind = content_type.partition(";")[0]
    return {"description": description, "content": {kind: {"schema": schema}}}


_REFUSAL = _content("A refusal", "application/json", component("Error"))
_TOKEN_PATHS: Json = {
    "/token": {
        "get": {
            "operationId": "getToken",
            "summary": "Give an access token for an e-mail address, where the acl is enforced",
            "parameters": [
                {"name": "email", "in": "query", "required": True, "schema": TEXT},
                {
                    "name": "scope",
                    "in": "query",
                    "description": "Scopes, with blanks between them; all of taskqueue if absent.",
                    "schema": TEXT,
                },
            ],
            "responses": {
                "200": _content("The token", "application/json", ANYTHING),
                "default": _REFUSAL,
            },
        }
    },
    "/credentials": {
        "post": {
            "operationId": "makeCredentials",
            "summary": "Make the key file of a service account, for this machine only",
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": record(email=TEXT)}},
            },
            "responses": {
                "200": _content("The key file", "application/json", ANYTHING),
                "default": _REFUSAL,
            },
        }
    },
}
"""Routes that belong to authorization and take part in no operation of the console."""
