"""What of a JSON request is not valid, in the words of the JSON parser of Google's front end.

The texts are recorded ones (firebase-tools#4730, cloud-foundation-fabric#1770), and those of the
same parser where it is public: `util/internal` of protobuf 3, and the tests of esp-v2 that use it.
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
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[][{}:,]|[^][{}:,"\s]+', re.DOTALL)
_BYTE = re.compile(r"\(byte (\d+)\)")
_SENTENCES: Final = {
    "expected ':'": "Expected : between key:value pair.",
    "expected ',' or '}'": "Expected , or } after key:value pair.",
    "expected ',' or ']'": "Expected , or ] after array value.",
    "object keys must be strings": "Expected an object key or }.",
    "trailing comma in object": "Expected an object key or }.",
    "codec can't decode": "Encountered non UTF-8 code points.",
    "Invalid UTF-8": "Encountered non UTF-8 code points.",  # since msgspec 0.23
    "out of range": "Unable to parse number.",
    "trailing characters": "Parsing terminated before end of input.",
}
"""What the parser says of what is not JSON, by a part of the text of ours."""
_UNEXPECTED: Final = "Unexpected token."
_DURATION_LIMITS: Final = "Duration value exceeds limits"
_INVALID_TEXT: Final = {
    "duration": re.compile(r"\.\d{10}"),
    "timestamp": re.compile(r"[+-](2[4-9]|[3-9]\d|\d\d:[6-9]\d)[:\d]*$"),
}
"""What ParseDict takes and the parser does not: more than nanoseconds, an offset of a day."""
_MESSAGES: Final = {
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.FieldMask": "field mask",
}
"""What the parser calls the messages that are text in JSON."""
_TYPES: Final = {
    getattr(FieldDescriptor, name): name
    for name in dir(FieldDescriptor)
    if name.startswith("TYPE_")
}
"""The names of types, by their numbers."""


class Violation(NamedTuple):
    """One thing that is not valid, and the field that it is about."""

    field: str
    description: str


def parse_values(values: Mapping[str, Any], message: Message) -> None:
    """Fill a message from JSON.

    Raises:
        CloudTasksError: INVALID_ARGUMENT, with each field that is not valid.
    """
    try:
        found = [*_violations(values, message.DESCRIPTOR, type(message))]
    except RecursionError as error:  # of a value that is nested too deep to be shown
        raise _bad_payload(str(error)) from None
    if found:
        raise refusal(*found)
    try:
        ParseDict(values, message)
    except Exception as error:  # noqa: BLE001 - it raises many kinds for odd values, SystemError too
        raise _bad_payload(f"{error!s:.500}") from None


def refusal(*violations: Violation) -> CloudTasksError:
    """Return the error for what is not valid."""
    listed = [{name: text for name, text in each._asdict().items() if text} for each in violations]
    return CloudTasksError(
        "\n".join(each.description for each in violations),
        details=[{"@type": BAD_REQUEST, "fieldViolations": listed}],
    )


def _bad_payload(problem: str) -> CloudTasksError:
    return refusal(Violation("", f"{_PAYLOAD} {problem}"))


def not_json(data: bytes, problem: str) -> CloudTasksError:
    """Return the error for a body that is not JSON, of which `problem` names the byte."""
    text, place = data.decode(errors="replace"), _BYTE.search(problem)
    what = next((each for part, each in _SENTENCES.items() if part in problem), _UNEXPECTED)
    if place is None:
        # What has no place ends too early, or is too deep to be read to its end.
        return _bad_payload(f"{_describe_end(text)}\n\n^" if what == _UNEXPECTED else what)
    # Of characters that follow the end, this is the second.
    at = int(place[1]) - ("trailing characters" in problem)
    begin = max(at - _SHOWN, 0)
    shown = text[begin : at + _SHOWN]
    return _bad_payload(f"{what}\n{shown}\n{' ' * (at - begin)}^")


def _describe_end(text: str) -> str:
    """Return what the parser says of a text that ends too early: what it expects next.

    One that is too deep may have any brackets after that.
    """
    outer: list[str] = []
    tokens = _TOKEN.findall(text)
    for part in tokens:
        if part in ("{", "["):
            outer.append(part)
        elif part in ("}", "]"):
            del outer[-1:]
        elif part in (":", ",") and outer[-1:] != ["["]:
            outer[-1:] = [part]  # where an object is
    last = tokens[-1]
    if last.startswith('"') and (last == '"' or not last.endswith('"')):
        return "Closing quote expected in string."
    if not outer or last == ":":
        expected = "a value."
    elif outer[-1] == "[":
        is_value = last in ("[", ",")
        expected = "a value or ] within an array." if is_value else ", or ] after array value."
    elif last in ("{", ","):
        expected = "an object key or }."
    else:
        is_pair = outer[-1] == ":"
        expected = ", or } after key:value pair." if is_pair else ": between key:value pair."
    return f"Unexpected end of string. Expected {expected}"


def not_an_object() -> CloudTasksError:
    """Return the error for a body of JSON that is not an object."""
    return _bad_payload('Unknown name "": Root element must be a message.')


def unknown_parameter(name: str) -> CloudTasksError:
    """Return the error for a query parameter that is not a field of the request."""
    return _bad_payload(
        f'Unknown name "{name:.100}": Cannot bind query parameter. Field '
        f"'{name:.100}' could not be found in request message."
    )


def _violations(
    values: Mapping[str, Any], descriptor: Any, message_type: type[Message], path: str = ""
) -> Iterator[Violation]:
    oneofs: set[str] = set()
    for name, value in values.items():
        field = descriptor.fields_by_camelcase_name.get(name) or descriptor.fields_by_name.get(name)
        if field is None:
            yield _unknown_name(name, path, "Cannot find field.")
            continue
        if value is not None and (oneof := field.containing_oneof) is not None:
            if oneof.name in oneofs:
                yield _second_of(oneof.name, name, path)
                continue
            oneofs.add(oneof.name)
        inner = f"{path}.{field.name}" if path else field.name
        if isinstance(value, list) and not field.is_repeated:
            problem = "Proto field is not repeating, cannot start list."
            yield _unknown_name(name, path, problem)
        elif _is_plain(field) and isinstance(value, dict):
            nested = type(getattr(message_type(), field.name))
            yield from _violations(value, field.message_type, nested, inner)
        elif isinstance(value, list) and _is_list_of_messages(field):
            nested = type(getattr(message_type(), field.name).add())
            for number, each in enumerate(value):
                yield from _violations_of_item(each, field, nested, f"{inner}[{number}]")
        elif not _is_valid(name, value, field, message_type):
            yield from _invalid_values(field, value, inner)


def _violations_of_item(
    item: object, field: Any, message_type: type[Message], path: str
) -> Iterator[Violation]:
    if isinstance(item, dict):
        yield from _violations(item, field.message_type, message_type, path)
    else:
        yield Violation(path, f"Invalid value at '{path}' {_problem(field, item)}")


def _invalid_values(field: Any, value: object, path: str) -> Iterator[Violation]:
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


def _second_of(oneof: str, name: str, path: str) -> Violation:
    """Return what is wrong with a second field of those of which a message has one."""
    problem = f"oneof field '{oneof}' is already set. Cannot set '{name}'"
    return Violation(path, f"Invalid value at '{path}' (oneof), {problem}")


def _unknown_name(name: str, path: str, problem: str) -> Violation:
    place = f" at '{path}'" if path else ""
    return Violation(path, f'{_PAYLOAD} Unknown name "{name:.100}"{place}: {problem}')


def _is_list_of_messages(field: Any) -> bool:
    kind = field.message_type
    return bool(field.is_repeated and kind is not None and not kind.GetOptions().map_entry)


def _is_plain(field: Any) -> bool:
    """Return whether a field is one message whose JSON is an object of its fields."""
    kind = field.message_type
    return bool(
        kind is not None
        and not field.is_repeated
        and not kind.full_name.startswith("google.protobuf.")
    )


def _is_valid(name: str, value: object, field: Any, message_type: type[Message]) -> bool:
    # ParseDict skips what is not base64, and reads true as an enum.
    if isinstance(value, str):
        if field.type == field.TYPE_BYTES and not _BASE64(value):
            return False
        kind = field.message_type
        called = kind and _MESSAGES.get(kind.full_name)
        if called in _INVALID_TEXT and _INVALID_TEXT[called].search(value):
            return False
    elif isinstance(value, bool) and field.enum_type is not None:
        return False
    try:
        ParseDict({name: value}, message_type())
    except (ParseError, TypeError, ValueError, AttributeError, SystemError):
        return False
    return True


def _problem(field: Any, value: object) -> str:
    """Return the type of a field, and what is wrong with a value."""
    shown = json.dumps(value, ensure_ascii=False)[:200]
    kind = field.message_type or field.enum_type
    if kind is None:
        if isinstance(value, dict):
            shown = "Starting an object on a scalar field"
        elif field.type == field.TYPE_BYTES and isinstance(value, str):
            shown = f"Base64 decoding failed for {shown}"
        return f"({_TYPES[field.type]}), {shown}"
    if field.is_repeated and isinstance(value, list):
        return f"(Map), Cannot bind a list to map for field '{field.name}'."
    called = _MESSAGES.get(kind.full_name)
    if called and isinstance(value, str):
        shown = f"Field '{field.camelcase_name}', {_text_problem(called, value)}"
    elif called and not isinstance(value, dict):
        shown = f"Field '{field.camelcase_name}', Invalid data type for {called}, value is {shown}"
    return f"(type.googleapis.com/{kind.full_name}), {shown}"


def _text_problem(called: str, text: str) -> str:
    if called == "timestamp":
        return f"Invalid time format: {text:.100}"
    if called == "field mask":
        return f"Invalid field mask: {text:.100}"
    if not text.endswith("s"):
        return "Illegal duration format; duration must end with 's'"
    seconds, _, nanos = text[:-1].removeprefix("-").partition(".")
    if not seconds.isdecimal():
        return "Invalid duration format, failed to parse seconds"
    if nanos and not nanos.isdecimal():
        return "Invalid duration format, failed to parse nano seconds"
    return _DURATION_LIMITS
