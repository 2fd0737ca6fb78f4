"""The one place in which the calls to a queue can be intercepted, whichever interface they use.

Tools for tests add interceptors that make calls fail, delay or count them; the queue itself knows
nothing of them. Without interceptors, a call costs one extra check. Interfaces state here who makes
a call and how long the caller waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

from pullqueue.errors import is_expected_error

if TYPE_CHECKING:
    from pullqueue.engine.queue import Queue

__tracebackhide__ = is_expected_error

_Q = TypeVar("_Q", bound="Queue")
_P = ParamSpec("_P")
_R = TypeVar("_R")

VERBS = (
    "add",
    "lease_tasks",
    "lease_tasks_by_tag",
    "modify_task_lease",
    "delete_tasks",
    "purge",
    "fetch_statistics",
    "get_task",
    "list_tasks",
    "attempt",
)
"""The calls that can be intercepted, by the names that users of the API know; an attempt is the
request by which a push task is sent.
"""

LEASE_VERBS = frozenset({"lease_tasks", "lease_tasks_by_tag"})

_VERB_OF_METHOD = {
    "insert": "add",
    "lease": "lease_tasks",
    "modify_lease": "modify_task_lease",
    "acknowledge": "delete_tasks",
}
"""The methods of `Queue` whose calls have another verb; the verbs are the SDK's."""


class Caller(NamedTuple):
    """Who makes the current call."""

    client: str
    """What the client calls itself (User-Agent), or its interface."""
    port: str | None = None
    """The port of a client of a server, which identifies its connection; None if this thread calls,
    through an interface that needs no server.
    """


class ConnectionCut(BaseException):
    """ends a call without a response: the server closes the connection of its caller"""

    def __init__(self, port: str) -> None:
        super().__init__(f"the connection from port {port} was cut")


class QueueCall(NamedTuple):
    """One call on its way to a queue."""

    queue: Queue
    method: str
    """The queue's method through which all such calls go, such as `lease`."""
    arguments: tuple[object, ...]
    options: Mapping[str, object]

    @property
    def verb(self) -> str:
        """The name by which the users of the API know the call: one of `VERBS`."""
        if self.options.get("group_by_tag"):
            return "lease_tasks_by_tag"
        return _VERB_OF_METHOD.get(self.method, self.method)

    @property
    def deadline_usec(self) -> int | None:
        """How long the caller waits for the result, in microseconds; None: forever."""
        return _deadline_usec.get()


Interceptor = Callable[[QueueCall, Callable[[], object]], object]
"""Takes a call and `call_next`, which carries the call out.

It may call that function or not, or twice; it returns its result, or another, or raises.
"""

_bypassing: ContextVar[bool] = ContextVar("bypassing", default=False)
_deadline_usec: ContextVar[int | None] = ContextVar("deadline_usec", default=None)
_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


@contextmanager
def bypass_interceptors() -> Iterator[None]:
    """Make the calls in the block bypass interceptors: they are the test's own, not the app's."""
    token = _bypassing.set(True)
    try:
        yield
    finally:
        _bypassing.reset(token)


@contextmanager
def call_deadline(usec: int) -> Iterator[None]:
    """Set the deadline of the calls in the block, in microseconds from when each is made."""
    token = _deadline_usec.set(usec)
    try:
        yield
    finally:
        _deadline_usec.reset(token)


@contextmanager
def called_by(caller: Caller) -> Iterator[None]:
    """Make the calls in the block those of a client."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def current_caller() -> Caller | None:
    """Return who makes the current call; None if this thread does, in Python."""
    return _caller.get()


class Interceptors:
    """The interceptors of one emulator, the one added last first."""

    def __init__(self) -> None:
        self._all: tuple[tuple[Interceptor, bool], ...] = ()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Interceptor]:
        return (interceptor for interceptor, _ in self._all)

    def add(self, interceptor: Interceptor, *, bypassed: bool = True) -> None:
        """Add an interceptor, to be called before those that were added earlier.

        Unless `bypassed`, it sees the calls inside `bypass_interceptors` as well.
        """
        with self._lock:
            self._all = ((interceptor, bypassed), *self._all)

    def remove(self, interceptor: Interceptor) -> None:
        """Remove an interceptor; nothing happens if it was not added."""
        with self._lock:
            self._all = tuple(entry for entry in self._all if entry[0] is not interceptor)

    @contextmanager
    def installed(self, interceptor: Interceptor, *, bypassed: bool = True) -> Iterator[None]:
        """Add an interceptor for the length of a block."""
        self.add(interceptor, bypassed=bypassed)
        try:
            yield
        finally:
            self.remove(interceptor)

    def intercept(self, call: QueueCall, call_next: Callable[[], object]) -> object:
        """Carry a call out through all interceptors and return its result."""
        bypassing = _bypassing.get()
        for interceptor, bypassed in reversed(self._all):
            if not (bypassing and bypassed):
                call_next = partial(interceptor, call, call_next)
        return call_next()


def interceptable(method: Callable[Concatenate[_Q, _P], _R]) -> Callable[Concatenate[_Q, _P], _R]:
    """Decorate a method of `Queue` whose calls go through the interceptors of its emulator."""

    @wraps(method)
    def call(queue: _Q, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not queue.interceptors:
            return method(queue, *args, **kwargs)
        intercepted = QueueCall(queue, method.__name__, args, kwargs)
        call_next = partial(method, queue, *args, **kwargs)
        return cast("_R", queue.interceptors.intercept(intercepted, call_next))

    return call
