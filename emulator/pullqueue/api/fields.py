"""Partial responses: `fields=kind,items(id,tag)` returns those fields and no others."""

from __future__ import annotations

import re
from functools import reduce
from typing import TypeAlias

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.api.messages import INVALID_SELECTION

FieldMask: TypeAlias = dict[str, "FieldMask"]
"""Names of fields and what is selected within each; an empty mask means everything."""

_TOKEN = re.compile(r"[,/()]|[^,/()]+")


def fields_in(document: Json, method_id: str) -> FieldMask:
    """Return every field of a method's response, as a discovery document has them."""
    *resources, name = method_id.split(".")
    holder = reduce(lambda outer, each: outer["resources"][each], resources, document)
    return _fields_of(holder["methods"][name].get("response", {}), document["schemas"])


def parse_mask(text: str, known: FieldMask) -> FieldMask:
    """Parse a selector, which must name fields that responses of the method have."""
    return _Parser(text).parse(known)


def apply_mask(value: Json, mask: FieldMask) -> Json:
    """Return the selected fields of a response."""
    if not mask:
        return value
    return {name: _select(item, mask[name]) for name, item in value.items() if name in mask}


def _select(value: object, mask: FieldMask) -> object:
    if isinstance(value, dict):
        return apply_mask(value, mask)
    if isinstance(value, list) and mask:
        return [_select(item, mask) for item in value]
    return value


def _fields_of(described: Json, schemas: Json) -> FieldMask:
    if "$ref" in described:
        return _fields_of(schemas[described["$ref"]], schemas)
    if "items" in described:
        return _fields_of(described["items"], schemas)
    properties = described.get("properties", {})
    return {name: _fields_of(below, schemas) for name, below in properties.items()}


class _Parser:
    """Parses `a,b/c,items(id,tag),items/*`.

    It never descends deeper than the fields it knows: thousands of brackets are harmless.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._position = 0

    def parse(self, known: FieldMask) -> FieldMask:
        """Parse the whole selector."""
        mask = self._parse_list(known)
        if self._position < len(self._tokens):
            raise self._invalid(self._tokens[self._position])
        return mask

    def _parse_list(self, known: FieldMask) -> FieldMask:
        mask: FieldMask = {}
        self._parse_path(known, mask)
        while self._skip(","):
            self._parse_path(known, mask)
        return mask

    def _parse_path(self, known: FieldMask, mask: FieldMask) -> None:
        name = self._next()
        begin = self._position
        if name != "*":
            if name not in known:
                raise self._invalid(name)
            _add(mask, name, self._parse_below(known[name]))
            return
        deeper = self._peek() in ("/", "(")
        names = [each for each in known if known[each] or not deeper]
        if not names:
            raise self._invalid(name)
        for each in names:
            self._position = begin
            _add(mask, each, self._parse_below(known[each]))

    def _parse_below(self, known: FieldMask) -> FieldMask:
        if self._skip("/"):
            mask: FieldMask = {}
            self._parse_path(known, mask)
            return mask
        if self._skip("("):
            mask = self._parse_list(known)
            if not self._skip(")"):
                raise self._invalid(self._text)
            return mask
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
        # Where the selector ends too early, no part of it is wrong.
        named = part[:200] or self._text[-200:]
        return ApiError.parameter(INVALID_SELECTION.format(part=named), "fields")


def _add(mask: FieldMask, name: str, below: FieldMask) -> None:
    before = mask.get(name)
    if before is None:
        mask[name] = below
    elif not before or not below:
        mask[name] = {}
    else:
        for each, deeper in below.items():
            _add(before, each, deeper)
