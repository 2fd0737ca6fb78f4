"""Entities of the datastore as they are shown: their keys and values as text."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

from pullqueue.observe.entities import Entity
from pullqueue.text import quoted, shorten

with warnings.catch_warnings(action="ignore"):
    from google.appengine.api import datastore_types
    from google.appengine.datastore import entity_bytes_pb2 as entity_pb

_VALUE_CHARACTERS = 500
"""Maximum length of a value that is shown."""

Path: TypeAlias = list[tuple[str, bool, int, str]]
"""Kind, whether it has a name, id, and name, of each element of a key."""


def path_of(key: Any) -> Path:
    """Return the path of a key; sorted, ids are before names, as in the datastore."""
    return [(each.type, each.HasField("name"), each.id, each.name) for each in key.path.element]


def build_entity(entity: Any) -> Entity:
    """Return what is shown of an `EntityProto`."""
    key = " / ".join(
        f"{kind} {quoted(name) if has_name else number}"
        for kind, has_name, number, name in path_of(entity.key)
    )
    values: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    for each in (*entity.property, *entity.raw_property):
        if each.meaning == entity_pb.Property.EMPTY_LIST:
            lists[each.name] = []
        elif each.multiple:
            lists.setdefault(each.name, []).append(_value_text(each))
        else:
            values[each.name] = _value_text(each)
    values.pop(datastore_types.SCATTER_SPECIAL_PROPERTY, None)  # the datastore's own
    for name, texts in lists.items():
        values[name] = shorten(f"[{', '.join(texts)}]", limit=_VALUE_CHARACTERS)
    return Entity(key=key, properties=dict(sorted(values.items())))


def _value_text(value: Any) -> str:
    try:
        found = datastore_types.FromPropertyPb(value)
    except Exception as error:  # noqa: BLE001 - the SDK refuses values that its client does not send
        return f"({type(error).__name__})"
    return shorten(str(found) if isinstance(found, str) else repr(found), limit=_VALUE_CHARACTERS)
