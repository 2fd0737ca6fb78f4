"""The published JSON Schema of queue.yaml, and where data do not conform to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.protocols import Validator

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Schema = dict[str, Any]

_DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"


class SchemaError(NamedTuple):
    """One way in which data do not conform."""

    path: tuple[str | int, ...]
    """From the root to the value concerned."""
    keyword: str
    """The keyword of the schema that is not satisfied."""
    branch: str
    """`then` or `else` where a condition of the schema asks for it, else empty."""


@cache
def queue_schema() -> Schema:
    """Return the schema of queue.yaml."""
    schema: Schema = json.loads(schema_bytes())
    return schema


def schema_bytes() -> bytes:
    """Return the schema of queue.yaml as it is published."""
    return package_data("queue.schema.json")


def package_data(name: str) -> bytes:
    """Return a file of the package of schemas."""
    return files("pullqueue_schemas").joinpath(name).read_bytes()


def draft_7() -> str:
    """Return the schema in draft 7: it uses no keyword that meant something else there."""
    return schema_bytes().decode().replace(_DRAFT_2020, _DRAFT_7)


def schema_errors(instance: Json) -> list[SchemaError]:
    """Return every way in which data do not conform to the schema of queue.yaml."""
    return [
        SchemaError(
            tuple(error.absolute_path),
            str(error.validator),
            next((part for part in error.absolute_schema_path if part in {"then", "else"}), ""),
        )
        for error in _validator().iter_errors(instance)
    ]


@cache
def _validator() -> Validator:
    """Return a validator that reads patterns as JSON Schema has it (ECMA-262).

    There `$` is the very end of the text; in Python it also matches before a line break.
    """

    def pattern(_: Validator, expected: str, instance: Json, __: Schema) -> Iterator[Exception]:
        if isinstance(instance, str) and not re.search(expected.replace("$", r"\Z"), instance):
            yield ValidationError("does not match")

    kind: type[Validator] = validators.extend(Draft202012Validator, {"pattern": pattern})  # type: ignore[no-untyped-call]
    return kind(queue_schema())
