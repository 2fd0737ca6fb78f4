"""What of a JSON request is not valid, in the words of the JSON parser of Google's front end.

The texts are recorded ones (firebase-tools#4730, cloud-foundation-fabric#1770), and those that the
same parser answers for other APIs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError

from pullqueue.cloudtasks.errors import BAD_REQUEST, CloudTasksError
from pullqueue.cloudtasks.messages import Message

_PAYLOAD: Final = "Invalid JSON payload received."
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}").fullmatch
_SHOWN: Final = 20
"""How many characters of a text that is not JSON are shown on each side of the fault."""
_BYTE = re.compile(r"\(byte (\d+)\)")
_PROBLEMS: Final = {
    "google.protobuf.Duration": "Illegal duration format; duration must end with 's'",
    "google.protobuf.Timestamp": "Invalid time format",
}
"""What the parser says of some types, after the name of the field."""
_TYPES: Final = {
    FieldDescriptor.TYPE_BOOL: "TYPE_BOOL",
    FieldDescriptor.TYPE_BYTES: "TYPE_BYTES",
    FieldDescriptor.TYPE_DOUBLE: "TYPE_DOUBLE",
    FieldDescriptor.TYPE_FLOAT: "TYPE_FLOAT",
    FieldDescriptor.TYPE_INT32: "TYPE_INT32",
    FieldDescriptor.TYPE_INT64: "TYPE_INT64",
    FieldDescriptor.TYPE_STRING: "TYPE_STRING",
}


class Violation(NamedTuple):
    """One thing that is not valid, and the field that it is about."""

    field: str
    description: str


def parse_values(values: Mapping[str, Any], message: Message) -> None:
    """Fill a message from JSON.

    Raises:
        CloudTasksError: INVALID_ARGUMENT, with each field that is not valid.
    """
    found = [*_violations(values, message.DESCRIPTOR, type(message), "")]
    if found:
        raise refusal(*found)
    try:
        ParseDict(values, message)
    except Exception as error:  # noqa: BLE001 - it raises many kinds for odd values, SystemError too
        raise refusal(Violation("", f"{_PAYLOAD} {error!s:.500}")) from None


def refusal(*violations: Violation) -> CloudTasksError:
    """Return the error for what is not valid."""
    listed = [{name: text for name, text in each._asdict().items() if text} for each in violations]
    return CloudTasksError(
        "\n".join(each.description for each in violations),
        details=[{"@type": BAD_REQUEST, "fieldViolations": listed}],
    )


def not_json(data: bytes, problem: str) -> CloudTasksError:
    """Return the error for a body that is not JSON, of which `problem` names the byte."""
    text, place = data.decode("utf-8", "replace"), _BYTE.search(problem)
    at = min(int(place[1]) if place else len(text), len(text))
    begin = max(at - _SHOWN, 0)
    what = "Unexpected token." if at < len(text) else "Unexpected end of string."
    shown = text[begin : at + _SHOWN].replace("\n", " ")
    return refusal(Violation("", f"{_PAYLOAD} {what}\n{shown}\n{' ' * (at - begin)}^"))


def not_an_object() -> CloudTasksError:
    """Return the error for a body of JSON that is not an object."""
    return refusal(Violation("", f'{_PAYLOAD} Unknown name "": Root element must be a message.'))


def unknown_parameter(name: str) -> CloudTasksError:
    """Return the error for a query parameter that is not a field of the request."""
    return refusal(
        Violation(
            "",
            f'{_PAYLOAD} Unknown name "{name:.100}": Cannot bind query parameter. Field '
            f"'{name:.100}' could not be found in request message.",
        )
    )


def _violations(
    values: Mapping[str, Any],
    descriptor: Any,  # noqa: ANN401 - of a class made at run time
    message_type: type[Message],
    path: str,
) -> Iterator[Violation]:
    for name, value in values.items():
        field = descriptor.fields_by_camelcase_name.get(name) or descriptor.fields_by_name.get(name)
        if field is None:
            yield _unknown_name(name, path, "Cannot find field.")
            continue
        inner = f"{path}.{field.name}" if path else field.name
        if isinstance(value, list) and not field.is_repeated:
            problem = "Proto field is not repeating, cannot start list."
            yield _unknown_name(name, path, problem)
        elif _is_plain(field) and isinstance(value, dict):
            nested = type(getattr(message_type(), field.name))
            yield from _violations(value, field.message_type, nested, inner)
        elif not _is_valid(name, value, field, message_type):
            yield from _invalid_values(field, value, inner)


def _invalid_values(field: Any, value: object, path: str) -> Iterator[Violation]:  # noqa: ANN401 - created at run time
    """Yield what is wrong with the value of a field: with which one of a map."""
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry and isinstance(value, dict):
        entry = kind.fields_by_name["value"]
        for number, each in enumerate(value.values()):
            if not isinstance(each, str):  # all maps of this API have text
                place = f"{path}[{number}].value"
                yield Violation(place, f"Invalid value at '{place}' {_problem(entry, each)}")
        return
    yield Violation(path, f"Invalid value at '{path}' {_problem(field, value)}")


def _unknown_name(name: str, path: str, problem: str) -> Violation:
    place = f" at '{path}'" if path else ""
    return Violation(path, f'{_PAYLOAD} Unknown name "{name:.100}"{place}: {problem}')


def _is_plain(field: Any) -> bool:  # noqa: ANN401 - created at run time
    """Return whether a field is one message whose JSON is an object of its fields."""
    kind = field.message_type
    return bool(
        kind is not None
        and not field.is_repeated
        and not kind.full_name.startswith("google.protobuf.")
    )


def _is_valid(name: str, value: object, field: Any, message_type: type[Message]) -> bool:  # noqa: ANN401 - as above
    if field.type == field.TYPE_BYTES and isinstance(value, str) and not _BASE64(value):
        return False  # ParseDict skips what is not base64
    try:
        ParseDict({name: value}, message_type())
    except (ParseError, TypeError, ValueError, AttributeError, SystemError):
        return False
    return True


def _problem(field: Any, value: object) -> str:  # noqa: ANN401 - as above
    """Return the type of a field, and what is wrong with a value."""
    shown = json.dumps(value, ensure_ascii=False)[:200]
    kind = field.message_type or field.enum_type
    if kind is None:
        if isinstance(value, dict):
            shown = "Starting an object on a scalar field"
        elif field.type == field.TYPE_BYTES and isinstance(value, str):
            shown = f"Base64 decoding failed for {shown}"
        return f"({_TYPES[field.type]}), {shown}"
    if kind.full_name in _PROBLEMS and isinstance(value, str):
        shown = f"Field '{field.camelcase_name}', {_PROBLEMS[kind.full_name]}"
    return f"(type.googleapis.com/{kind.full_name}), {shown}"
