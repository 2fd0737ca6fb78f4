"""The counter of `visits` in Datastore and Firestore, by Google's clients over gRPC.

Google's emulators are programs of their own; the server here has what the clients call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core.exceptions import GatewayTimeout
from google.cloud.datastore_v1.types import datastore
from google.cloud.firestore_v1.types import firestore
from visits import Open, Visits


class Records:
    """What is stored, by key, with versions, and the transactions that are open."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.versions: dict[str, int] = {}
        self.open: dict[bytes, dict[str, int]] = {}
        """What each transaction has read."""
        self._lock = threading.Lock()
        self._numbers = iter(range(1, 1_000_000))

    def begin(self) -> bytes:
        name = b"transaction %d" % next(self._numbers)
        self.open[name] = {}
        return name

    def read(self, key: str, transaction: bytes) -> Any:
        with self._lock:
            if transaction:
                self.open[transaction].setdefault(key, self.versions.get(key, 0))
            return self.values.get(key)

    def commit(self, changes: Iterable[tuple[str, Any]], transaction: bytes, context: Any) -> None:
        with self._lock:
            read = self.open.pop(transaction, {}) if transaction else {}
            if any(self.versions.get(key, 0) != version for key, version in read.items()):
                context.abort(grpc.StatusCode.ABORTED, "too much contention")
            for key, value in changes:
                self.versions[key] = self.versions.get(key, 0) + 1
                if value is None:
                    self.values.pop(key, None)
                else:
                    self.values[key] = value

    def roll_back(self, transaction: bytes) -> None:
        self.open.pop(transaction, None)


class Datastore:
    """`google.datastore.v1.Datastore`."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._ids = iter(range(1, 1_000_000))

    def lookup(self, request: Any, _: object) -> Any:
        response = datastore.LookupResponse.pb(datastore.LookupResponse())
        for key in request.keys:
            entity = self._records.read(text(key), request.read_options.transaction)
            result = (response.missing if entity is None else response.found).add()
            if entity is None:
                result.entity.key.CopyFrom(key)
            else:
                result.entity.CopyFrom(entity)
        return response

    def run_query(self, request: Any, _: object) -> Any:
        response = datastore.RunQueryResponse.pb(datastore.RunQueryResponse())
        kind = request.query.kind[0].name
        for key, entity in sorted(self._records.values.items()):
            if entity.key.path[-1].kind == kind:
                self._records.read(key, request.read_options.transaction)
                response.batch.entity_results.add().entity.CopyFrom(entity)
        response.batch.entity_result_type = 1
        response.batch.more_results = 3
        return response

    def begin_transaction(self, _: Any, __: object) -> Any:
        return datastore.BeginTransactionResponse.pb(
            datastore.BeginTransactionResponse(transaction=self._records.begin())
        )

    def rollback(self, request: Any, _: object) -> Any:
        self._records.roll_back(request.transaction)
        return datastore.RollbackResponse.pb(datastore.RollbackResponse())

    def commit(self, request: Any, context: object) -> Any:
        response = datastore.CommitResponse.pb(datastore.CommitResponse())
        changes: list[tuple[str, Any]] = []
        for mutation in request.mutations:
            kind = mutation.WhichOneof("operation")
            result = response.mutation_results.add()
            if kind == "delete":
                changes.append((text(mutation.delete), None))
                continue
            entity = getattr(mutation, kind)
            if entity.key.path[-1].WhichOneof("id_type") is None:
                entity.key.path[-1].id = next(self._ids)
                result.key.CopyFrom(entity.key)
            changes.append((text(entity.key), entity))
        self._records.commit(changes, request.transaction, context)
        return response


def text(key: Any) -> str:
    """Return the key of an entity as text."""
    return str(key.SerializeToString(deterministic=True).hex())


class Firestore:
    """`google.firestore.v1.Firestore`."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def begin_transaction(self, _: Any, __: object) -> Any:
        return firestore.BeginTransactionResponse.pb(
            firestore.BeginTransactionResponse(transaction=self._records.begin())
        )

    def rollback(self, request: Any, _: object) -> Any:
        from google.protobuf.empty_pb2 import Empty  # noqa: PLC0415 - of the response only

        self._records.roll_back(request.transaction)
        return Empty()

    def batch_get_documents(self, request: Any, _: object) -> Iterator[Any]:
        for name in request.documents:
            response = firestore.BatchGetDocumentsResponse.pb(firestore.BatchGetDocumentsResponse())
            response.read_time.GetCurrentTime()
            document = self._records.read(name, request.transaction)
            if document is None:
                response.missing = name
            else:
                response.found.CopyFrom(document)
            yield response

    def run_query(self, request: Any, _: object) -> Iterator[Any]:
        collection = request.structured_query.from_[0].collection_id
        for name, document in sorted(self._records.values.items()):
            if name.split("/")[-2] == collection:
                response = firestore.RunQueryResponse.pb(firestore.RunQueryResponse())
                response.read_time.GetCurrentTime()
                response.document.CopyFrom(document)
                yield response

    def commit(self, request: Any, context: object) -> Any:
        response = firestore.CommitResponse.pb(firestore.CommitResponse())
        response.commit_time.GetCurrentTime()
        changes: list[tuple[str, Any]] = []
        for write in request.writes:
            response.write_results.add().update_time.GetCurrentTime()
            if write.WhichOneof("operation") == "delete":
                changes.append((write.delete, None))
            else:
                write.update.create_time.GetCurrentTime()
                write.update.update_time.GetCurrentTime()
                changes.append((write.update.name, write.update))
        self._records.commit(changes, request.transaction, context)
        return response


def handlers(service: str, servicer: object, types: Any, streams: set[str]) -> Any:
    """Return what answers the calls of a service by the methods of an object."""
    methods: dict[str, Any] = {}
    for name in [each for each in vars(type(servicer)) if not each.startswith("_")]:
        method = "".join(word.capitalize() for word in name.split("_"))
        request = getattr(types, f"{method}Request")
        make: Callable[..., Any] = (
            grpc.unary_stream_rpc_method_handler
            if name in streams
            else grpc.unary_unary_rpc_method_handler
        )
        methods[method] = make(
            getattr(servicer, name),
            request_deserializer=request.pb(request()).FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
    return grpc.method_handlers_generic_handler(service, methods)


@contextmanager
def serving_google_databases() -> Iterator[str]:
    """Serve both in the block, and yield the server's `host:port`."""
    with ThreadPoolExecutor(8) as pool:
        server = grpc.server(pool)
        port = server.add_insecure_port("127.0.0.1:0")
        servicers = Datastore(Records()), Firestore(Records())
        streams = {"batch_get_documents", "run_query"}
        server.add_generic_rpc_handlers(
            (
                handlers("google.datastore.v1.Datastore", servicers[0], datastore, set()),
                handlers("google.firestore.v1.Firestore", servicers[1], firestore, streams),
            )
        )
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()


client_of_datastore, client_of_firestore, ndb = (
    import_module(f"google.cloud.{name}") for name in ("datastore", "firestore", "ndb")
)
"""Modules without types."""
Model: Any = ndb.Model


class RacedVisits(Model):  # type: ignore[misc]  # of Any
    value = ndb.IntegerProperty()


class GoogleVisits(Visits):
    name = "Datastore"
    error = GatewayTimeout

    def reset(self) -> None:
        self.store(0)

    def store(self, value: int) -> None:
        raise NotImplementedError

    def sum(self) -> int:
        """Return the sum of all numbers, by a query."""
        raise NotImplementedError

    def write(self) -> None:
        self.store(1)

    def count(self) -> None:
        self.store(self.value() + 1)

    def by_query(self) -> None:
        self.store(self.sum() + 1)


class NdbVisits(GoogleVisits):
    def __init__(self) -> None:
        self._client = ndb.Client(project="p")

    def _context(self) -> Any:
        return self._client.context(cache_policy=False, global_cache=None)

    def value(self) -> int:
        with self._context():
            return int(RacedVisits.get_by_id("all").value)

    def store(self, value: int) -> None:
        with self._context():
            RacedVisits(id="all", value=value).put()

    def sum(self) -> int:
        with self._context():
            return sum(each.value for each in RacedVisits.query())

    @staticmethod
    def _count() -> None:
        row = RacedVisits.get_by_id("all")
        row.value += 1
        row.put()

    def count(self) -> None:
        with self._context():
            self._count()

    def by_transaction(self) -> None:
        with self._context():
            ndb.transaction(self._count, retries=3)


class DatastoreVisits(GoogleVisits):
    def __init__(self) -> None:
        self._client = client_of_datastore.Client(project="p")
        self._key = self._client.key("Visits", "all")

    def value(self) -> int:
        return int(self._client.get(self._key)["value"])

    def store(self, value: int) -> None:
        entity = client_of_datastore.Entity(self._key)
        entity["value"] = value
        self._client.put(entity)

    def sum(self) -> int:
        return sum(each["value"] for each in self._client.query(kind="Visits").fetch())

    def by_transaction(self) -> None:
        for _ in range(3):
            try:
                with self._client.transaction():
                    self.count()
            except Exception as error:
                if type(error).__name__ != "Aborted":
                    raise
            else:
                return


class FirestoreVisits(GoogleVisits):
    name = "Firestore"

    def __init__(self) -> None:
        self._client = client_of_firestore.Client(project="p")
        self._document = self._client.collection("visits").document("all")

    def value(self) -> int:
        return int(self._document.get().get("value"))

    def store(self, value: int) -> None:
        self._document.set({"value": value})

    def sum(self) -> int:
        return sum(each.get("value") for each in self._client.collection("visits").stream())

    def by_transaction(self) -> None:
        def transact(transaction: Any) -> None:
            value = self._document.get(transaction=transaction).get("value")
            transaction.set(self._document, {"value": value + 1})

        client_of_firestore.transactional(transact)(self._client.transaction())


@contextmanager
def serving() -> Iterator[Open]:
    """Make the clients, before the tests, as those of apps."""
    with pytest.MonkeyPatch.context() as patch, serving_google_databases() as address:
        patch.setenv("DATASTORE_EMULATOR_HOST", address)
        patch.setenv("FIRESTORE_EMULATOR_HOST", address)
        made = {"ndb": NdbVisits(), "datastore": DatastoreVisits(), "firestore": FirestoreVisits()}

        @contextmanager
        def opened(variant: str, _: Path) -> Iterator[Visits]:
            yield made[variant]

        yield opened
