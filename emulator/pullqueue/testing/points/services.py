"""What calls to bundled services read and write: those to the datastore and to memcache.

A datastore has entities, and the groups by which transactions find conflicts. A transaction sees
its groups as they were at its first call to each, and nothing of it is seen until its commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pullqueue.testing.points.footprint import EVERYTHING, NOTHING, Footprint, Path
from pullqueue.text import decode_name

if TYPE_CHECKING:
    from pullqueue.sdk.rpcs import ServiceCall

_ALL: Path = ("datastore_v3",)
_ENTITIES: Path = (*_ALL, "entities")
_GROUPS: Path = (*_ALL, "groups")


class ServiceFootprints:
    """Finds what calls to services read and write, and knows what transactions have used."""

    def __init__(self) -> None:
        self._used: dict[bytes, Footprint] = {}
        """By transaction: what its commit reads and writes."""

    def of(self, call: ServiceCall) -> Footprint:
        """Return what a call reads and writes; the calls of a transaction are passed in order."""
        method, request = f"{call.service}.{call.method}", call.request
        if method == "datastore_v3.Commit":
            return self._used.get(request.SerializeToString(deterministic=True), NOTHING)
        used = _USED[method](request) if method in _USED else EVERYTHING
        if method not in _IN_TRANSACTIONS or not request.HasField("transaction"):
            return used
        name = request.transaction.SerializeToString(deterministic=True)
        self._used[name] = self._used.get(name, NOTHING) | used
        # Until the commit nothing is seen of it, and it sees its groups as they are now; but an
        # entity without an id gets one.
        ids = frozenset(path for path in used.writes if path[1] == "entities" and len(path) == 3)
        return Footprint(used.reads | used.writes, ids)


def _entity(key: Any) -> Path:
    """Return the path of an entity; of all of its kind if its key has no id yet."""
    last = key.path.element[-1]
    kind = (*_ENTITIES, decode_name(last.type))
    is_complete = last.HasField("id") or last.HasField("name")
    return (*kind, key.SerializeToString(deterministic=True).hex()) if is_complete else kind


def _group(key: Any) -> Path:
    first = key.path.element[0]
    names = key.name_space, first.type, str(first.id), first.name
    return (*_GROUPS, "/".join(map(decode_name, names)))


def _keys(keys: Iterable[Any]) -> frozenset[Path]:
    return frozenset(find(key) for key in keys for find in (_entity, _group))


def _get(request: Any) -> Footprint:
    if request.HasField("transaction"):
        return Footprint(reads=_keys(request.key))
    return Footprint(reads=frozenset(map(_entity, request.key)))


def _query(request: Any) -> Footprint:
    has_kind = request.HasField("kind") and not request.HasField("transaction")
    kind = (*_ENTITIES, decode_name(request.kind))
    return Footprint(reads=frozenset({kind if has_kind else _ALL}))


def _cached(request: Any, keys: Iterable[Any]) -> frozenset[Path]:
    space = decode_name(request.name_space)
    return frozenset(("memcache", space, decode_name(key)) for key in keys)


def _cache_change(request: Any) -> Footprint:
    return Footprint(writes=_cached(request, [item.key for item in request.item]))


_IN_TRANSACTIONS: dict[str, Callable[[Any], Footprint]] = {
    "datastore_v3.Delete": lambda request: Footprint(writes=_keys(request.key)),
    "datastore_v3.Get": _get,
    "datastore_v3.Put": lambda request: Footprint(writes=_keys(e.key for e in request.entity)),
    "datastore_v3.RunQuery": _query,
}
_USED = _IN_TRANSACTIONS | {
    "datastore_v3.BeginTransaction": lambda _: NOTHING,
    "datastore_v3.Rollback": lambda _: NOTHING,
    "memcache.Delete": _cache_change,
    "memcache.Get": lambda request: Footprint(reads=_cached(request, request.key)),
    "memcache.Increment": lambda request: Footprint(writes=_cached(request, [request.key])),
    "memcache.Set": _cache_change,
}
"""Of another call nothing is known."""
