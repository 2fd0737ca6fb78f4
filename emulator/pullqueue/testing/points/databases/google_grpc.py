"""Calls to Google's Datastore and Firestore: those of `grpc`, by the types of their requests.

`google.cloud.ndb`, `google.cloud.datastore` and `google.cloud.firestore` make them, by channels
that can have been made before the test: so the classes that implement the interfaces of `grpc`
for calls are decorated, which it documents as `UnaryUnaryMultiCallable` and
`UnaryStreamMultiCallable`. A call is carried out until all responses are there. Not seen are calls
of `grpc.aio` and over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial, wraps
from typing import Any

import grpc
from google.api_core.exceptions import from_grpc_error

from pullqueue.testing.patching import Patches
from pullqueue.testing.points.databases.calls import DatabaseCall, intercept, is_observed
from pullqueue.testing.points.footprint import Footprint, Path

_PACKAGES = {"google.datastore.v1": "Datastore", "google.firestore.v1": "Firestore"}

_PASSED = -1.0
"""A timeout: the call fails with DEADLINE_EXCEEDED, which no client tries again by itself."""
_FROM = 2
"""The number of the field for the collections of a query, whose name is a keyword in Python."""


def _describe(request: Any, fail: Callable[[], object]) -> DatabaseCall | None:
    """Return the call that a request makes; None: it is not one to a database."""
    kind = type(request)
    message = kind.pb(request) if hasattr(kind, "pb") else request
    name = getattr(getattr(message, "DESCRIPTOR", None), "full_name", "")
    package, _, type_name = name.rpartition(".")
    database = _PACKAGES.get(package)
    if database is None:
        return None
    method = type_name.removesuffix("Request")
    find_used = _USED.get(name)
    used = (find_used and find_used(message)) or Footprint(writes=frozenset({(database,)}))
    kinds = dict.fromkeys(path[1] for path in sorted(used.reads | used.writes) if path[1:])
    return DatabaseCall(
        database=database,
        statement=" ".join([method, ", ".join(kinds)]).rstrip(),
        find_footprint=lambda: used,
        fail=fail,
        undoes=method == "Rollback",
    )


def _reads(database: str, paths: Iterable[Path | None]) -> Footprint:
    known = frozenset(path or (database,) for path in paths)
    return Footprint(reads=known)


def _datastore_key(key: Any) -> Path:
    return ("Datastore", key.path[-1].kind, key.SerializeToString(deterministic=True).hex())


def _datastore_query(query: Any) -> Path | None:
    """Return the kind that a query reads, if it is known."""
    return ("Datastore", query.kind[0].name) if len(query.kind) == 1 else None


def _lookup(request: Any) -> Footprint:
    is_snapshot = request.read_options.WhichOneof("consistency_type") == "new_transaction"
    keys = map(_datastore_key, request.keys)
    return _reads("Datastore", [None] if is_snapshot else keys)


def _run_query(request: Any) -> Footprint:
    is_known = request.WhichOneof("query_type") == "query"
    is_plain = request.read_options.WhichOneof("consistency_type") in (None, "read_consistency")
    query = _datastore_query(request.query) if is_known and is_plain else None
    return _reads("Datastore", [query])


def _datastore_commit(request: Any) -> Footprint | None:
    """Return what is written; what a transaction has read matters, too, and is not known here."""
    if request.WhichOneof("transaction_selector") is not None:
        return None
    written: set[Path] = set()
    for mutation in request.mutations:
        kind = mutation.WhichOneof("operation")
        key = mutation.delete if kind == "delete" else getattr(mutation, kind).key
        last = key.path[-1]
        is_complete = last.WhichOneof("id_type") is not None
        written.add(_datastore_key(key) if is_complete else ("Datastore", last.kind))
    return Footprint(writes=frozenset(written))


def _firestore_document(name: str) -> Path:
    return ("Firestore", name.split("/")[-2], name)


def _get_documents(request: Any) -> Footprint:
    is_snapshot = request.WhichOneof("consistency_selector") == "new_transaction"
    documents = map(_firestore_document, request.documents)
    return _reads("Firestore", [None] if is_snapshot else documents)


def _firestore_query(request: Any) -> Footprint:
    query = request.structured_query
    sources = getattr(query, query.DESCRIPTOR.fields_by_number[_FROM].name)
    is_known = len(sources) == 1 and request.WhichOneof("consistency_selector") is None
    path: Path | None = ("Firestore", sources[0].collection_id) if is_known else None
    return _reads("Firestore", [path])


def _firestore_commit(request: Any) -> Footprint | None:
    if request.transaction:
        return None
    names = {
        "update": lambda write: write.update.name,
        "delete": lambda write: write.delete,
        "transform": lambda write: write.transform.document,
    }
    kinds = [(write, write.WhichOneof("operation")) for write in request.writes]
    if any(kind not in names for _, kind in kinds):
        return None
    paths = (_firestore_document(names[kind](write)) for write, kind in kinds)
    return Footprint(writes=frozenset(paths))


_USED: dict[str, Callable[[Any], Footprint | None]] = {
    "google.datastore.v1.BeginTransactionRequest": lambda _: _reads("Datastore", [None]),
    "google.datastore.v1.CommitRequest": _datastore_commit,
    "google.datastore.v1.LookupRequest": _lookup,
    "google.datastore.v1.RunQueryRequest": _run_query,
    "google.firestore.v1.BatchGetDocumentsRequest": _get_documents,
    "google.firestore.v1.BeginTransactionRequest": lambda _: _reads("Firestore", [None]),
    "google.firestore.v1.CommitRequest": _firestore_commit,
    "google.firestore.v1.RunQueryRequest": _firestore_query,
}
"""What calls read and write, by the types of their requests; None: everything."""


class _Responses:
    """The responses of a call, which were all received; an error is raised after them."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._received: list[Any] = []
        self.error: grpc.RpcError | None = None
        try:
            self._received.extend(call)
        except grpc.RpcError as error:
            self.error = error
        self._responses = self._later()

    def _later(self) -> Iterator[Any]:
        yield from self._received
        if self.error is not None:
            raise self.error

    def __iter__(self) -> Iterator[Any]:
        return self._responses

    def __next__(self) -> Any:
        return next(self._responses)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


def _received(result: Any) -> Any:
    return result


def _finished(future: Any) -> Any:
    with suppress(grpc.FutureCancelledError):
        future.exception()
    return future


def _error_of(result: Any) -> object:
    if isinstance(result, grpc.Future):
        result = None if result.cancelled() else result.exception()
    error = getattr(result, "error", result)
    return from_grpc_error(error) if isinstance(error, grpc.RpcError) else None  # type: ignore[no-untyped-call]


def _at_point(finish: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what makes a call a point; `finish` waits until it has been carried out."""

    def decorate(call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def call_at_point(multi_callable: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
            results: list[Any] = []
            errors: list[Any] = []

            def carry_out(*args: Any, **kwargs: Any) -> object:
                try:
                    results.append(finish(call(multi_callable, request, *args, **kwargs)))
                except grpc.RpcError as error:
                    errors.append(error)
                return _error_of(*results, *errors)

            # A call whose deadline has passed is not sent.
            fail = partial(carry_out, *[_PASSED, *args[1:]][: len(args)], **kwargs)
            if not args:
                fail.keywords["timeout"] = _PASSED
            described = _describe(request, fail) if is_observed() else None
            if described is None:
                return call(multi_callable, request, *args, **kwargs)
            intercept(described, partial(carry_out, *args, **kwargs))
            if errors:
                raise errors[0]
            return results[0]

        return call_at_point

    return decorate


@Patches
def following(patches: Patches) -> None:
    """Makes calls points, in a block."""
    grpc.insecure_channel("localhost:0").close()  # loads what implements the calls
    for implementation in grpc.UnaryUnaryMultiCallable.__subclasses__():
        for name, finish in (
            ("__call__", _received),
            ("with_call", _received),
            ("future", _finished),
        ):
            patches.decorate(implementation, name, _at_point(finish))
    for implementation in grpc.UnaryStreamMultiCallable.__subclasses__():
        patches.decorate(implementation, "__call__", _at_point(_Responses))
