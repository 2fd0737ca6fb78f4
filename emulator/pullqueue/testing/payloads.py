"""Payloads that are compared by what they mean."""

from __future__ import annotations

import json
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class json_payload:  # noqa: N801 - reads as a function, prints as a value
    """Equals a payload that is this value in JSON, however it is written.

        assert_added(queue, payload=json_payload({"order": 7}))

    With `partial`, objects may have more keys than those given, at any depth.
    """

    def __init__(self, expected: Json, *, partial: bool = False) -> None:
        self._expected = expected
        self._partial = partial

    def __eq__(self, other: object) -> bool:
        if isinstance(other, json_payload):
            return (self._expected, self._partial) == (other._expected, other._partial)
        if not isinstance(other, bytes | str):
            return NotImplemented
        try:
            actual = json.loads(other)
        except ValueError:
            return False
        return _same(self._expected, actual, partial=self._partial)

    __hash__ = None  # type: ignore[assignment] # equal to things whose hashes differ

    def __repr__(self) -> str:
        partial = ", partial=True" if self._partial else ""
        return f"json_payload({self._expected!r}{partial})"


def _same(expected: Json, actual: Json, *, partial: bool) -> bool:
    if isinstance(expected, dict) and isinstance(actual, dict):
        if not partial and expected.keys() != actual.keys():
            return False
        return all(
            k in actual and _same(v, actual[k], partial=partial) for k, v in expected.items()
        )
    if isinstance(expected, list) and isinstance(actual, list):
        same_length = len(expected) == len(actual)
        return same_length and all(
            _same(e, a, partial=partial) for e, a in zip(expected, actual, strict=True)
        )
    # True == 1 in Python, but not in JSON.
    return isinstance(expected, bool) == isinstance(actual, bool) and expected == actual
