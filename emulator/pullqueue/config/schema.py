"""The published JSON Schema of queue.yaml, and whether data conform to it.

Most files are right, and to see that takes a few microseconds; only a file that is not right
needs the errors of jsonschema, whose import alone costs more than everything else in a lint run.
Both read the same schema. Patterns are read as JSON Schema has it (ECMA-262): `$` is the very end
of the text.
"""

from __future__ import annotations

import json
import math
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Schema = dict[str, Any]
Expected = Any
"""What stands behind a keyword; its type depends on the keyword."""

_DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"
_ANNOTATIONS = frozenset(
    {"$schema", "$id", "title", "description", "default", "examples", "deprecated", "then", "else"}
)
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


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
    """Give the schema of queue.yaml."""
    schema: Schema = json.loads(schema_bytes())
    return schema


def schema_bytes() -> bytes:
    """Give the schema of queue.yaml as it is published."""
    return package_data("queue.schema.json")


def package_data(name: str) -> bytes:
    """Give a file of the package of schemas."""
    data = pkgutil.get_data("pullqueue_schemas", name)
    if data is None:  # pragma: no cover - only a loader that cannot give data says None
        raise FileNotFoundError(name)
    return data


def draft_7() -> str:
    """Give the schema in draft 7: it uses nothing that was another thing there."""
    return schema_bytes().decode().replace(_DRAFT_2020, _DRAFT_7)


def conforms(instance: Json, schema: Schema) -> bool:
    """Tell whether data conform to a schema; False for a schema with other keywords than ours."""
    return all(
        keyword in _ANNOTATIONS
        or (keyword in _KEYWORDS and _KEYWORDS[keyword](expected, instance, schema))
        for keyword, expected in schema.items()
    )


def _type(expected: Expected, instance: Json, _: Schema) -> bool:
    names = [expected] if isinstance(expected, str) else expected
    if isinstance(instance, bool):
        return "boolean" in names
    return any(isinstance(instance, _TYPES[name]) for name in names)


def _if(expected: Expected, instance: Json, schema: Schema) -> bool:
    branch = "then" if conforms(instance, expected) else "else"
    return conforms(instance, schema.get(branch, {}))


def _properties(expected: Expected, instance: Json, _: Schema) -> bool:
    return not isinstance(instance, dict) or all(
        conforms(value, expected[name]) for name, value in instance.items() if name in expected
    )


def _additional(expected: Expected, instance: Json, schema: Schema) -> bool:
    if not isinstance(instance, dict):
        return True
    return expected is False and instance.keys() <= schema["properties"].keys()


def _required(expected: Expected, instance: Json, _: Schema) -> bool:
    return not isinstance(instance, dict) or all(name in instance for name in expected)


def _items(expected: Expected, instance: Json, _: Schema) -> bool:
    return not isinstance(instance, list) or all(conforms(item, expected) for item in instance)


def _matches(expected: Expected, instance: Json, _: Schema) -> bool:
    return not isinstance(instance, str) or bool(_pattern(expected).search(instance))


def _short_enough(expected: Expected, instance: Json, _: Schema) -> bool:
    return not isinstance(instance, str) or len(instance) <= expected


def _within(_: Expected, instance: Json, schema: Schema) -> bool:
    if isinstance(instance, bool) or not isinstance(instance, int | float):
        return True
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    return bool(low <= instance <= high)


_KEYWORDS: dict[str, Callable[[Expected, Json, Schema], bool]] = {
    "type": _type,
    "enum": lambda expected, instance, _: instance in expected,
    "const": lambda expected, instance, _: bool(instance == expected),
    "not": lambda expected, instance, _: not conforms(instance, expected),
    "if": _if,
    "properties": _properties,
    "additionalProperties": _additional,
    "required": _required,
    "items": _items,
    "pattern": _matches,
    "maxLength": _short_enough,
    "minimum": _within,
    "maximum": _within,
}


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\$$", r"\\Z", pattern))


def schema_errors(instance: Json, schema: Schema) -> list[SchemaError]:
    """Give every way in which data do not conform, found by jsonschema."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - see the top of this module

    checked = _validator(Draft202012Validator)
    return [
        SchemaError(
            tuple(error.absolute_path),
            str(error.validator),
            next((part for part in error.absolute_schema_path if part in {"then", "else"}), ""),
        )
        for error in checked(schema).iter_errors(instance)
    ]


@cache
def _validator(base: type[Validator]) -> type[Validator]:
    from jsonschema import ValidationError, validators  # noqa: PLC0415 - the same

    def pattern(_: Validator, expected: str, instance: Json, __: Schema) -> Iterator[Exception]:
        if not _matches(expected, instance, {}):
            yield ValidationError("does not match")

    extended: type[Validator] = validators.extend(base, {"pattern": pattern})  # type: ignore[no-untyped-call]
    return extended
