"""Partial responses: `fields=kind,items(id,tag)` gives those fields and no others."""

from __future__ import annotations

import re
from typing import TypeAlias

from pullqueue.api import schema
from pullqueue.api.answers import Json
from pullqueue.api.errors import ApiError
from pullqueue.api.messages import INVALID_SELECTION

Fields: TypeAlias = dict[str, "Fields"]
"""Names of fields and what is chosen below each; an empty choice means everything."""

_TOKEN = re.compile(r"[,/()]|[^,/()]+")


def known_fields(version: str, method_id: str) -> Fields:
    """Give every field of a method's answer, as the discovery document has them."""
    resource, _, name = method_id.partition(".")
    method = schema.resources(version)[resource]["methods"][name]
    return _fields_of(method.get("response", {}), schema.schemas(version))


def selection(text: str, known: Fields) -> Fields:
    """Read a selector.

    Raises:
        ApiError: it is malformed, or names a field that no answer of the method has.
    """
    return _Selector(text).read(known)


def chosen(value: Json, fields: Fields) -> Json:
    """Give the chosen fields of an answer."""
    if not fields:
        return value
    return {name: _below(item, fields[name]) for name, item in value.items() if name in fields}


def _below(value: object, fields: Fields) -> object:
    if isinstance(value, dict):
        return chosen(value, fields)
    if isinstance(value, list) and fields:
        return [_below(item, fields) for item in value]
    return value


def _fields_of(shape: Json, schemas: Json) -> Fields:
    if "$ref" in shape:
        return _fields_of(schemas[shape["$ref"]], schemas)
    if "items" in shape:
        return _fields_of(shape["items"], schemas)
    properties = shape.get("properties", {})
    return {name: _fields_of(below, schemas) for name, below in properties.items()}


class _Selector:
    """Reads `a,b/c,items(id,tag),items/*`.

    It never goes deeper than the fields it knows, so that brackets in thousands do no harm.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._position = 0

    def read(self, known: Fields) -> Fields:
        """Read the whole selector."""
        fields = self._read_list(known)
        if self._position < len(self._tokens):
            raise self._invalid(self._tokens[self._position])
        return fields

    def _read_list(self, known: Fields) -> Fields:
        fields: Fields = {}
        self._read_path(known, fields)
        while self._skip(","):
            self._read_path(known, fields)
        return fields

    def _read_path(self, known: Fields, fields: Fields) -> None:
        name = self._next()
        begin = self._position
        if name != "*":
            if name not in known:
                raise self._invalid(name)
            _add(fields, name, self._read_below(known[name]))
            return
        deeper = self._peek() in ("/", "(")
        names = [each for each in known if known[each] or not deeper]
        if not names:
            raise self._invalid(name)
        for each in names:
            self._position = begin
            _add(fields, each, self._read_below(known[each]))

    def _read_below(self, known: Fields) -> Fields:
        if self._skip("/"):
            fields: Fields = {}
            self._read_path(known, fields)
            return fields
        if self._skip("("):
            fields = self._read_list(known)
            if not self._skip(")"):
                raise self._invalid(self._text)
            return fields
        return {}

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token.strip()

    def _skip(self, token: str) -> bool:
        found = self._peek() == token
        self._position += found
        return found

    def _invalid(self, part: str) -> ApiError:
        # Where the selector ends too soon, no part of it is wrong.
        named = part[:200] or self._text[-200:]
        return ApiError.parameter(INVALID_SELECTION.format(part=named), "fields")


def _add(fields: Fields, name: str, below: Fields) -> None:
    before = fields.get(name)
    if before is None:
        fields[name] = below
    elif not before or not below:
        fields[name] = {}
    else:
        for each, deeper in below.items():
            _add(before, each, deeper)
