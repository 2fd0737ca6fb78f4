"""Why a value is none that an operation takes: its name, the value, and what to give instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_TYPES: Mapping[str, str] = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "an object",
    "string": "text",
}


def of(error: ValidationError, *, place: str) -> str:
    """Give the sentence for what a schema refuses; `place` is what the whole value is called."""
    name = _name(error) or place
    keyword, schema, value = str(error.validator), _any(error.schema), _any(error.instance)
    if keyword == "required":
        missing = next(field for field in schema["required"] if field not in value)
        return f"{name} has no {missing!r}: give {_known(schema['properties'][missing])}"
    if keyword == "additionalProperties":
        fields = schema["properties"]
        unknown = next(field for field in value if field not in fields)
        return f"{name} has {unknown!r:.100}: give {_one_of(sorted(fields))}"
    return f"{name} is {value!r:.100}: give {_ADVICE[keyword](error.validator_value)}"


def _any(value: object) -> Any:  # noqa: ANN401 - the library leaves open what it is
    return value


def _name(error: ValidationError) -> str:
    """Give where in the body the value stands, as `tasks[0].tag`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path]
    return "".join(parts).removeprefix(".")


def _known(wanted: Mapping[str, Any]) -> str:
    return _one_of(wanted["enum"]) if "enum" in wanted else _TYPES[wanted["type"]]


def _one_of(values: Any) -> str:  # noqa: ANN401 - what schemas list
    return f"one of {', '.join(values)}"


_ADVICE: Mapping[str, Callable[[Any], str]] = {
    "enum": _one_of,
    "exclusiveMinimum": lambda least: f"more than {least}",
    "maximum": lambda most: f"{most} or less",
    "minItems": lambda least: f"{least} or more of them",
    "minimum": lambda least: f"{least} or more",
    "type": _TYPES.__getitem__,
}
"""What to give instead, by the keyword of the schema that refuses."""
