"""The entities of apps, as the emulator's own routes and the console show them: read only."""

from __future__ import annotations

from typing import Annotated, Final

from pullqueue.structs import Count, Model, about

LISTED: Final = 1_000
"""Maximum number of entities in one list."""


class CountedKind(Model):
    """A kind and the number of its entities."""

    app: Annotated[str, about("Application id, such as `dev~my-app`.")]
    namespace: Annotated[str, about("Empty: the default one.")]
    kind: str
    entities: Count


class Entity(Model):
    """An entity."""

    key: Annotated[str, about('Its path, such as `Order "tea" / Line 1`.')]
    properties: Annotated[dict[str, str], about("Values as text, of which the beginning is shown.")]
