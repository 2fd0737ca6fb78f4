"""Google's stub of the datastore, made safe for several clients, and for the end of its process."""

from __future__ import annotations

import itertools
import random
import warnings
from heapq import nsmallest
from typing import Any, TypeAlias

from pullqueue.observe.entities import CountedKind, Entity
from pullqueue.sdk import DATASTORE
from pullqueue.sdk.imports import apiproxy_errors, full_app_id
from pullqueue.services.indexes import CompositeIndexes
from pullqueue.services.journal import Journal, StoredEntity
from pullqueue.text import quoted, shorten

with warnings.catch_warnings(action="ignore"):
    from google.appengine.api import datastore_errors, datastore_file_stub, datastore_types
    from google.appengine.datastore import datastore_pb, datastore_stub_util
    from google.appengine.datastore import entity_bytes_pb2 as entity_pb

_MAX_TRANSACTIONS = 1000
"""Maximum number of open ones; the oldest is rolled back, as its app has ended, perhaps."""
_MAX_CURSORS = 1000
"""Maximum number of queries that can be continued; an app may never read the rest of one."""
_MAX_QUERIES = 1000
"""How many queries the stub may remember, for an index.yaml that nobody asks for."""

_VALUE_CHARACTERS = 500
"""Maximum length of a value that is shown."""

Path: TypeAlias = list[tuple[str, bool, int, str]]
"""Kind, whether it has a name, id, and name, of each element of a key."""

_ID_SPACES = (datastore_stub_util.SEQUENTIAL, datastore_stub_util.SCATTERED)


class _Recorded:
    """A policy of Google's stub that hands what has committed to the journal."""

    def _OnCommit(self, txn: Any) -> None:
        txn._txn_manager.record(txn)
        super()._OnCommit(txn)  # type: ignore[misc]  # of the policy that is mixed in


class _Strong(_Recorded, datastore_stub_util.MasterSlaveConsistencyPolicy):  # type: ignore[misc]
    """Applies a transaction when it commits."""


class _Eventual(_Recorded, datastore_stub_util.PseudoRandomHRConsistencyPolicy):  # type: ignore[misc]
    """Applies half of the transactions only when a later query, or a get, needs them."""


class Datastore(datastore_file_stub.DatastoreFileStub):  # type: ignore[misc]  # not typed
    """The entities of all apps, in memory, and in a journal if there is one.

    Its methods are not thread-safe: the caller makes one call at a time.

    Google's stub identifies a transaction by the address of an object, which a later one may have
    again. An app that repeats a request, or names the transaction before, would then roll back or
    commit another app's. Here each has a number of its own, also after a restart.
    """

    def __init__(
        self,
        journal: Journal | None,
        *,
        eventual: bool,
        project: str | None,
        indexes: CompositeIndexes | None,
    ) -> None:
        self._journal = journal
        self._indexes = indexes
        self._project = project and full_app_id.project_id(project)
        self._numbers = itertools.count(random.SystemRandom().getrandbits(60))
        self._changed: dict[str, StoredEntity | None] = {}
        """What is not in the journal yet."""
        self._counters: dict[str, int] = {}
        """The next ids as the journal has them."""
        self._failure: str | None = None
        """Why the journal does not have what the memory has; nothing is read or written then."""
        super().__init__(
            "the app of each request",
            None,
            consistency_policy=_Eventual() if eventual else _Strong(),
            use_atexit=False,
            auto_id_policy=datastore_stub_util.SCATTERED,
        )
        if journal is not None:
            self._load(journal)

    def _load(self, journal: Journal) -> None:
        last: int = self._GetReadTimestamp()
        for data, version in journal.entities():
            metadata = entity_pb.EntityMetadata(updated_version=version)
            entity = entity_pb.EntityProto.FromString(data)
            self._Put(datastore_stub_util.EntityRecord(entity, metadata), insert=False)
            last = max(last, version)
        self._commit_timestamp = last
        self._counters = journal.counters()
        for space, value in self._counters.items():
            self._SetIdCounter(space, value)

    def call(self, method: str, request: Any, response: Any, tasks: list[bytes]) -> list[int]:
        """Make a call; a commit writes `tasks` to the journal, which returns their numbers.

        After a failure to write no call is answered: the journal has the state to go on with.

        Raises:
            apiproxy_errors.Error: the call failed.
        """
        self._check_journal()
        self._app_id = self._checked_app(request)
        if self._indexes is not None and method == "RunQuery":
            self._indexes.check(request)
        try:
            self.MakeSyncCall(DATASTORE, method, request, response)
        except datastore_errors.Error as error:
            raise _bad_request(str(error)) from error
        self._trim()
        return self._write(tasks)

    def _checked_app(self, request: Any) -> str:
        """Return the app of a request, which may use no data but its own, or may name none."""
        app = _find_app(request)
        if app is None:
            return ""
        if app == "":
            raise _bad_request("the application id is empty")
        if self._project is not None and full_app_id.project_id(app) != self._project:
            raise _bad_request(
                f"application id {quoted(app)} is not that of this server, which was started with "
                f"--project {self._project}"
            )
        return app

    def record(self, txn: Any) -> None:
        """Record the changes of a transaction that has committed, for the journal."""
        if self._journal is None:
            return
        for tracker in txn._GetAllTrackers():
            for entity, _ in tracker._put.values():
                version = txn.GetMutationVersion(entity.key)
                stored = StoredEntity(entity.SerializeToString(), version)
                self._changed[_format_key(entity.key)] = stored
            for reference in tracker._delete.values():
                self._changed[_format_key(reference)] = None

    def count_kinds(self) -> list[CountedKind]:
        """Return each kind with the number of its entities, sorted."""
        counts = {place: len(found) for place, found in self._GetAllEntities().items() if found}
        kinds = []
        for (owner, kind), count in sorted(counts.items()):
            app, namespace = datastore_types.DecodeAppIdNamespace(owner)
            kinds.append(CountedKind(app=app, namespace=namespace, kind=kind, entities=count))
        return kinds

    def list_entities(self, kind: CountedKind, limit: int) -> list[Entity]:
        """Return the first entities of a kind, by key."""
        owner = datastore_types.EncodeAppIdNamespace(kind.app, kind.namespace)
        stored = self._GetAllEntities().get((owner, kind.kind), {}).values()
        entities = (each.record.entity for each in stored)
        first = nsmallest(limit, entities, key=lambda each: _path_of(each.key))
        return [_build_entity(entity) for entity in first]

    def _write(self, tasks: list[bytes]) -> list[int]:
        """Write to the journal what has changed."""
        if self._journal is None:
            return []
        counters = {space: self._IdCounter(space) for space in _ID_SPACES}
        changed = dict(counters.items() - self._counters.items())
        if not (self._changed or changed or tasks):
            return []
        try:
            numbers = self._journal.write(self._changed, changed, tasks)
        except self._journal.errors as error:
            self._failure = str(error)
        self._check_journal()
        self._changed, self._counters = {}, counters
        return numbers

    def _check_journal(self) -> None:
        if self._failure is not None:
            raise apiproxy_errors.ApplicationError(
                datastore_pb.Error.INTERNAL_ERROR,
                f"pullqueue cannot write to the folder of --data ({self._failure}): make room, "
                "and start the server again",
            )

    def _trim(self) -> None:
        """Bound what the stub keeps for apps that do not come back for it."""
        while len(self._query_cursors) > _MAX_CURSORS:
            del self._query_cursors[next(iter(self._query_cursors))]
        history = vars(self)["_DatastoreStub__query_history"]
        if len(history) > _MAX_QUERIES:
            history.clear()

    # -- what Google's stub calls ----------------------------------------------------------------

    def BeginTransaction(self, *args: Any, **kwargs: Any) -> Any:
        """Start a transaction with a number that no other one has, or had."""
        started = super().BeginTransaction(*args, **kwargs)
        txn = self._txn_map.pop(started.handle)
        txn.number = started.handle = next(self._numbers)
        self._txn_map[txn.number] = txn
        while len(self._txn_map) > _MAX_TRANSACTIONS:
            next(iter(self._txn_map.values())).Rollback()
        return started

    def _AllocateSequentialIds(
        self, reference: Any, size: int = 1, max_id: int | None = None
    ) -> tuple[int, int]:
        """Allocate ids, as far as there are any."""
        last = max(self._IdCounter(datastore_stub_util.SEQUENTIAL) + size - 1, max_id or 0)
        if last > datastore_stub_util._MAX_SEQUENTIAL_ID:
            raise _bad_request(
                f"id {last} cannot be allocated: the maximum is "
                f"{datastore_stub_util._MAX_SEQUENTIAL_ID}"
            )
        allocated: tuple[int, int] = super()._AllocateSequentialIds(reference, size, max_id)
        return allocated

    def _RemoveTxn(self, txn: Any) -> None:
        self._txn_map.pop(getattr(txn, "number", None), None)

    def Write(self) -> None:
        """Do nothing; Google's method looks through all entity groups after each commit."""


def _format_key(reference: Any) -> str:
    """Return what identifies an entity, whatever runtime has serialized its key."""
    return repr(datastore_types.ReferenceToKeyValue(reference))


def _bad_request(problem: str) -> Exception:
    refusal: Exception = apiproxy_errors.ApplicationError(datastore_pb.Error.BAD_REQUEST, problem)
    return refusal


def _find_app(request: Any) -> str | None:
    """Return the application id of a request; None: there is no place for it.

    Each kind of request has it in another place: in itself, in a key or a cursor.
    """
    for field in ("app", "app_id"):
        if hasattr(request, field):
            return str(getattr(request, field))
    for field in ("key", "entity", "reserve", "model_key", "cursor"):
        found = getattr(request, field, None)
        if found is None or (field in ("model_key", "cursor") and not request.HasField(field)):
            continue
        first = found if hasattr(found, "app") else next(iter(found), None)
        if first is not None:
            return str(first.key.app if field == "entity" else first.app)
    return None


def _path_of(key: Any) -> Path:
    """Return the path of a key; sorted, ids are before names, as in the datastore."""
    return [(each.type, each.HasField("name"), each.id, each.name) for each in key.path.element]


def _build_entity(entity: Any) -> Entity:
    """Return what is shown of an `EntityProto`."""
    key = " / ".join(
        f"{kind} {quoted(name) if has_name else number}"
        for kind, has_name, number, name in _path_of(entity.key)
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
