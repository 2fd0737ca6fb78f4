"""Operations on the entities that apps have in the datastore: they are only read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from pullqueue.api.errors import ApiError
from pullqueue.observe.entities import LISTED, CountedKind, Entity
from pullqueue.resources.operations import operation
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Model, about
from pullqueue.text import quoted

if TYPE_CHECKING:
    from pullqueue.services.hosting import Services

_DATASTORE = "datastore_v3"


class EntityQuery(Model):
    """Which entities are listed."""

    kind: str
    app: Annotated[str, about("Needed if several apps have the kind.")] = ""
    namespace: str = ""
    limit: Annotated[int, Meta(ge=1, le=LISTED)] = 100


class Entities(Model):
    """Entities of one kind."""

    kind: CountedKind
    entities: list[Entity]


@operation("GET", "/kinds", key="kinds")
def list_kinds(state: ServerState) -> list[CountedKind]:
    """List the kinds of entities that apps have in the datastore, with their numbers."""
    return _source(state).count_kinds()


@operation("GET", "/entities")
def list_entities(state: ServerState, query: EntityQuery) -> Entities:
    """List the first entities of a kind, by key."""
    source = _source(state)
    kinds = [
        kind
        for kind in source.count_kinds()
        if kind.kind == query.kind
        and kind.namespace == query.namespace
        and query.app in ("", kind.app)
    ]
    if not kinds:
        raise ApiError(f"there is no entity of kind {quoted(query.kind)}", status=404)
    if len(kinds) > 1:
        apps = ", ".join(quoted(kind.app) for kind in kinds)
        raise ApiError.parameter(f"several apps have this kind: pass app, one of {apps}", "app")
    [kind] = kinds
    return Entities(kind=kind, entities=source.list_entities(kind, query.limit))


def _source(state: ServerState) -> Services:
    services = state.services
    if services is None or _DATASTORE not in services.names:
        raise ApiError(f"this server has no datastore: name {_DATASTORE} in --services", status=404)
    return services
