"""Intercepting the calls that an app makes to bundled services other than task queues.

Within `intercepted` the stubs of Google's testbed answer each call in the thread that makes it, at
once. Otherwise they answer in threads of a pool, so that two runs of the same code would differ.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn, TypeAlias, cast
from unittest.mock import patch

from pullqueue.sdk import CALL, DATASTORE
from pullqueue.sdk.imports import apiproxy_errors, apiproxy_rpc, apiproxy_stub_map
from pullqueue.sdk.services import registered_stubs
from pullqueue.text import counted, decode_name, did_you_mean, quoted

_TIMEOUT = 5
"""The code of the datastore's errors; its module is imported only by apps that use it."""
_SDK = "google.appengine."
_EXAMPLE = "google.appengine.runtime.apiproxy_errors.DeadlineExceededError"

Intercept: TypeAlias = Callable[["ServiceCall", Callable[[], object]], object]
"""Takes a call and what carries it out, which returns the exception of a call that failed, or None;
what `Intercept` raises is raised where the call is made.
"""


class ServiceCall:
    """One call to a bundled service."""

    __slots__ = ("failure", "is_lost", "method", "request", "service")

    def __init__(self, service: str, method: str, request: Any) -> None:
        self.service = service
        self.method = method
        self.request = request
        self.failure: Exception | None = None
        """What the app gets instead of a result."""
        self.is_lost = False
        """True if only the result is lost: the call is carried out nevertheless."""

    def fail(self, error: object = None, *, is_lost: bool = False) -> None:
        """Make the call fail when it is carried out; `is_lost`: after that.

        `error` is an error of the SDK, or the class of one; None is a timeout.

        Raises:
            TypeError: it is not.
        """
        self.failure = make_service_error(self.service, error)
        self.is_lost = is_lost

    def __str__(self) -> str:
        describe = _DETAILS.get(self.service)
        details = describe(self.request) if describe else ""
        return " ".join(filter(None, (f"{self.service}.{self.method}", details)))


def make_service_error(service: str, source: object) -> Exception:
    """Return the error with which a call to a service fails, of an error or of its class.

    An error of the datastore's own classes becomes the code from which the SDK makes it, so that
    it passes through ndb as production's does. None is a timeout.

    Raises:
        TypeError: it is not an error of App Engine's SDK.
    """
    details = "injected by a fault"
    if source is None:
        if service == DATASTORE:
            return _application_error(_TIMEOUT, details)
        return cast("Exception", apiproxy_errors.DeadlineExceededError(details))
    kind = source if isinstance(source, type) else type(source)
    if not (issubclass(kind, Exception) and kind.__module__.startswith(_SDK)):
        raise TypeError(
            f"{quoted(source)} is not an error of App Engine's SDK: use one, such as {_EXAMPLE}"
        )
    code = _datastore_code(kind)
    if code is not None:
        return _application_error(code, details if source is kind else str(source))
    if source is not kind:
        return cast("Exception", source)
    if kind is apiproxy_errors.ApplicationError:
        raise TypeError("ApplicationError has a code: pass an error, ApplicationError(CODE)")
    return kind(details)


def _application_error(code: int, details: str) -> Exception:
    return cast("Exception", apiproxy_errors.ApplicationError(code, details))


def _datastore_code(kind: type[Exception]) -> int | None:
    """Return the code of a class of the datastore's errors; None: it is another."""
    rpc: Any = sys.modules.get("google.appengine.datastore.datastore_rpc")
    classes: dict[int, type[Exception]] = getattr(rpc, "_DATASTORE_EXCEPTION_CLASSES", {})
    return next((code for code, known in classes.items() if known is kind), None)


_intercepts: tuple[Intercept, ...] = ()
_lock = threading.Lock()


@contextmanager
def intercepted(intercept: Intercept) -> Iterator[None]:
    """Pass each call in the block to `intercept`; blocks may end in any order."""
    global _intercepts  # noqa: PLW0603 - one for the process, as what is patched
    with _lock:
        if not _intercepts:
            _patch.start()
        _intercepts = (*_intercepts, intercept)
    try:
        yield
    finally:
        with _lock:
            _intercepts = tuple(each for each in _intercepts if each is not intercept)
            if not _intercepts:
                _patch.stop()


def _make_call(rpc: Any) -> None:
    done: Future[None] = Future()
    rpc._state = apiproxy_rpc.RPC.RUNNING
    rpc.future = done
    call = ServiceCall(rpc.package, rpc.call, rpc.request)

    def carry_out() -> object:
        if call.failure is not None and not call.is_lost:
            rpc.stub = _FailingStub(call.failure)
        rpc._SendRequestAndFinish()
        if call.is_lost:
            rpc._exception = call.failure
        return rpc.exception  # which is raised where the app asks for the result

    call_next: Callable[[], object] = carry_out
    for intercept in _intercepts:
        call_next = partial(intercept, call, call_next)
    call_next()
    done.set_result(None)


class _FailingStub:
    """Carries nothing out."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def MakeSyncCall(self, *_: object) -> NoReturn:
        """Raise the error."""
        raise self._error


_patch = patch.object(apiproxy_rpc.RPC, "_MakeCallImpl", _make_call)


def check_service_call(name: str, error: object) -> None:
    """Check a call such as `datastore_v3.Commit`: its service has a stub, which knows it.

    `error` is one with which it is to fail; None is the default.

    Raises:
        ValueError: it has no stub, or the stub does not know the call.
        TypeError: it is not an error of App Engine's SDK.
    """
    service, _, method = name.partition(".")
    stub = registered_stubs().get(service)
    if stub is None:
        raise ValueError(
            f"{quoted(name)} is of a service that has no stub in this test: set it up first, with "
            f"pullqueue_sdk and pullqueue_services = {service}, or with the SDK's testbed"
        )
    known = sorted(n.removeprefix(CALL) for n in dir(stub) if n.startswith(CALL))
    if known and method not in known:
        calls = [f"{service}.{each}" for each in known]
        raise ValueError(f"there is no call {quoted(name)}: {did_you_mean(name, calls)}")
    make_service_error(service, error)


def flush_memcache(*, only_locks: bool = False) -> None:
    """Delete what the app has stored in memcache, if that is Google's stub in this process.

    With `only_locks` ndb's locks: a write leaves one on the entity for 32 seconds. No call is made,
    on which a fault could trigger.
    """
    stubs = sys.modules.get("google.appengine.api.memcache.memcache_stub")
    stub = apiproxy_stub_map.apiproxy.GetStub("memcache")
    if stubs is None or not isinstance(stub, stubs.MemcacheServiceStub):
        return
    if not only_locks:
        stub.Clear()
        return
    for entries in stub._the_cache.values():
        for key, entry in list(entries.items()):
            if key.startswith(b"NDB") and entry.value == b"0":
                stub._lru.Remove(entries.pop(key))


def clear_cache() -> None:
    """Clear what ndb has cached in this thread, as at the beginning of each request."""
    tasklets = sys.modules.get("google.appengine.ext.ndb.tasklets")
    if tasklets is not None and apiproxy_stub_map.apiproxy.GetStub(DATASTORE) is not None:
        tasklets.get_context().clear_cache()


def finish_calls() -> None:
    """Carry out what ndb still has to do in this thread."""
    tasklets = sys.modules.get("google.appengine.ext.ndb.tasklets")
    if tasklets is not None and vars(tasklets)["_state"].all_pending:
        tasklets.eventloop.run()


def end_request() -> bool:
    """Drop what ndb still has to do for a request of this thread, as at its end in production.

    Return whether these are writes; what fills memcache after a read may be lost, too. The policies
    of the context are those of the next request, too, since tests set them.
    """
    tasklets: Any = sys.modules.get("google.appengine.ext.ndb.tasklets")
    state = tasklets and vars(tasklets)["_state"]
    generators = list(state.all_generators) if state else []
    if not state or not state.all_pending or any(each.gi_running for each in generators):
        clear_cache()  # what runs is a tasklet of the test, which sends the request
        return False
    writes = any(
        each.gi_frame
        and each.gi_frame.f_globals.get("__name__") == "google.appengine.ext.ndb.context"
        and each.gi_code.co_name in ("put", "delete", "transaction")
        for each in generators
    )
    old = tasklets.get_context()
    drop_requests()
    new = tasklets.get_context()
    for policy in ("cache", "memcache", "memcache_timeout", "datastore"):
        getattr(new, f"set_{policy}_policy")(getattr(old, f"get_{policy}_policy")())
    return writes


def drop_requests() -> None:
    """Drop what ndb keeps in this thread of requests that were killed.

    That are tasklets, calls that were not made yet, and the context with its cache. What tasklets
    do while they are closed can raise; each is closed once.
    """
    tasklets = sys.modules.get("google.appengine.ext.ndb.tasklets")
    if tasklets is None:
        return
    state = vars(tasklets)["_state"]
    while True:
        try:
            state.reset("")
        except BaseException:  # noqa: BLE001, S112 - of a tasklet that cannot go on
            continue
        return


def _datastore_details(request: Any) -> str:
    if hasattr(request, "entity"):
        return _of_kinds("entity", "entities", (each.key for each in request.entity))
    if hasattr(request, "key"):
        return _of_kinds("key", "keys", request.key)
    kind = getattr(request, "kind", b"")
    return f"of kind {decode_name(kind)}" if kind else ""


def _of_kinds(one: str, many: str, keys: Iterable[Any]) -> str:
    kinds = Counter(decode_name(key.path.element[-1].type) for key in keys)
    count = kinds.total()
    return f"{count} {one if count == 1 else many} of kind {', '.join(kinds)}" if count else ""


def _memcache_details(request: Any) -> str:
    keys = getattr(request, "key", None)
    if isinstance(keys, bytes | str):
        return f"key {decode_name(keys)}"
    count = len(getattr(request, "item", keys) or ())
    return counted(count, "key") if count else ""


_DETAILS: dict[str, Callable[[Any], str]] = {
    DATASTORE: _datastore_details,
    "memcache": _memcache_details,
    "urlfetch": lambda request: decode_name(request.Url),
}
