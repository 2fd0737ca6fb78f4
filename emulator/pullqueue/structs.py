"""What JSON of the emulator's own is made of: schema, validation and encoding in one.

Times are ISO 8601 in UTC, and where a caller may have to send them back exactly, also whole
microseconds since the epoch.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from datetime import datetime
from typing import Annotated, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field, inspect

from pullqueue.clock import from_usec
from pullqueue.pickled import describe_pickle

_T = TypeVar("_T")
Maybe: TypeAlias = _T | UnsetType
"""A field that may be absent; it cannot be null."""
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Signed64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


def about(description: str) -> Meta:
    """Return the description of a field, for its annotation."""
    return Meta(description=description)


class Model(Struct, forbid_unknown_fields=True):
    """An object with these fields and no others."""


class Bytes(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """Bytes, or the first of them: as text where they are UTF-8, and as base64."""

    size: Count = field(name="bytes")
    truncated: bool
    text: str | None
    data: bytes = field(name="base64")
    call: Annotated[
        Maybe[str], about("The deferred call that they are: the function, and types of arguments.")
    ] = UNSET

    @classmethod
    def of(cls, data: bytes, limit: int | None = None, *, total: int | None = None) -> Bytes:
        """Return the first `limit` bytes of data, or all; `total` is its size if it was cut."""
        size = len(data) if total is None else total
        shown = data if limit is None else data[:limit]
        truncated = len(shown) < size
        try:
            # The cut may have gone through a character.
            text = getincrementaldecoder("utf-8")().decode(shown, final=not truncated)
        except UnicodeDecodeError:
            text = None
        call = describe_pickle(data)
        return cls(size=size, truncated=truncated, text=text, data=shown, call=call or UNSET)


def given(value: Maybe[_T]) -> _T | None:
    """Return a field, or None where it is absent."""
    return None if isinstance(value, UnsetType) else value


def iso(value: datetime | None) -> str | None:
    """Return a time as text, or None."""
    return None if value is None else value.isoformat()


def iso_usec(usec: int | None) -> str | None:
    """Return a time in microseconds since the epoch as text, or None."""
    return None if usec is None else from_usec(usec).isoformat()


def list_choices(kind: object) -> list[str]:
    """Return the texts that a type permits; none if it permits others."""
    return _texts(inspect.type_info(kind))


def _texts(kind: inspect.Type) -> list[str]:
    match kind:
        case inspect.Metadata(type=inner):
            return _texts(inner)
        case inspect.UnionType(types=kinds):
            return [text for each in kinds for text in _texts(each)]
        case inspect.EnumType(cls=cls):
            return [str(member.value) for member in cls]
        case inspect.LiteralType(values=values):
            return sorted(map(str, values), key=str.swapcase)  # calls before methods of APIs
        case _:
            return []
