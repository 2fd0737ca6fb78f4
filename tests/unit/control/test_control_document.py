"""The OpenAPI document of the control routes."""

from __future__ import annotations

from collections.abc import Mapping

from control_client import ControlClient
from openapi_spec_validator import validate

from pullqueue import Emulator
from pullqueue.control.messages import _ADVICE
from pullqueue.control.table import OPERATIONS
from pullqueue.server.app import create_app

THE_DOCUMENT = "/_emulator/openapi.json"
_SILENT = {"default", "description", "format", "items", "properties"}
"""What a schema has beside the words that can refuse a value."""


def test_the_document_is_valid(control: ControlClient) -> None:
    """It keeps to OpenAPI 3.1."""
    validate(control.document)


def test_every_route_is_described(control: ControlClient, emulator: Emulator) -> None:
    """The document has all routes of the server, and no other."""
    served = {
        (verb, rule.rule.removeprefix("/_emulator").replace("<", "{").replace(">", "}"))
        for rule in create_app(emulator).url_map.iter_rules()
        if rule.rule.startswith("/_emulator") and rule.rule != THE_DOCUMENT
        for verb in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    described = {
        (verb.upper(), path) for path, verbs in control.document["paths"].items() for verb in verbs
    }

    assert described == served


def test_operations_have_names_of_their_own(control: ControlClient) -> None:
    """Each operation id stands once, so that clients can be generated."""
    ids = [
        operation["operationId"]
        for verbs in control.document["paths"].values()
        for operation in verbs.values()
    ]

    assert len(set(ids)) == len(ids)


def _keywords(schema: object) -> set[str]:
    """Give the words of a schema that can refuse a value."""
    if isinstance(schema, list | tuple):
        return set().union(*map(_keywords, schema))
    if not isinstance(schema, Mapping) or not schema:
        return set()
    fields = schema.get("properties", {})
    return (set(schema) - _SILENT).union(
        *map(_keywords, fields.values()), _keywords(schema.get("items", {}))
    )


def test_every_refusal_has_words() -> None:
    """Whatever a schema can refuse, there is something to say about it."""
    schemas = [
        schema
        for operation in OPERATIONS.values()
        for schema in (operation.body, *(each.schema for each in operation.parameters))
        if not operation.reads_body
    ]

    assert _keywords(schemas) <= {*_ADVICE, "required", "additionalProperties"}
