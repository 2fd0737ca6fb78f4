"""The one place in which the calls to a queue can be intercepted, whichever interface they use.

Tools for tests add interceptors that make calls fail, delay or count them; the queue itself knows
nothing of them. Without interceptors, a call costs one extra check. Interfaces state here who makes
a call and how long the caller waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from pullqueue.engine.events import Interface, Origin
from pullqueue.errors import is_expected_error
from pullqueue.tasks import Task

__tracebackhide__ = is_expected_error

_P = ParamSpec("_P")
_R = TypeVar("_R")
_V = TypeVar("_V")
_Q = TypeVar("_Q", bound="CalledQueue")

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

NAMED_TASKS = 20
"""How many tasks of a request are recorded by name."""

LEASE_VERBS = frozenset({"lease_tasks", "lease_tasks_by_tag"})

_VERB_OF_METHOD = {
    "insert": "add",
    "lease": "lease_tasks",
    "modify_lease": "modify_task_lease",
    "acknowledge": "delete_tasks",
}
"""The functions of `verbs` whose calls have another verb; the verbs are the SDK's."""


@dataclass(slots=True)
class Touched:
    """What the calls of one request are about: the first names of tasks, and how many there are."""

    queue_name: str = ""
    """The queue of the first call; the names are those of its tasks."""
    names: list[str] = field(default_factory=list)
    count: int = 0
    lease_tags: list[str | None] = field(default_factory=list)
    """The tags that its leases asked for; None: any."""
    rate_limited: bool = False
    """Whether a lease got no tasks because of the lease rate."""
    fault: int | None = None
    """The number of the first fault that triggered on one of the calls."""

    def add(self, queue_name: str, tasks: Sequence[Task | str]) -> None:
        """Add the tasks of one call, or their names."""
        self.queue_name = self.queue_name or queue_name
        self.count += len(tasks)
        if queue_name == self.queue_name:
            added = tasks[: NAMED_TASKS - len(self.names)]
            self.names += [task if isinstance(task, str) else task.name for task in added]


class Caller(NamedTuple):
    """Who makes the current call."""

    origin: Origin
    """Interface, client and request, as events record them."""
    port: str | None = None
    """The port of a client of a server, which identifies its connection; None if this thread calls,
    through an interface that needs no server.
    """
    touched: Touched | None = None
    """The tasks that its calls are about; None: nobody asks."""

    def __str__(self) -> str:
        return self.origin.client or self.origin.interface


class CallLog(Protocol):
    """Records calls that reach the queues without a server: those of the SDK in process."""

    def origin(self, interface: Interface, client: str = "") -> Origin:
        """Return the origin of a call that begins, with a number of its own."""

    def record_call(
        self, call: Mapping[str, Any], *, seconds: float, origin: Origin, touched: Touched | None
    ) -> None:
        """Record a call that has ended: its method, queue, status, body and response."""


class ConnectionCut(BaseException):
    """ends a call without a response: the server closes the connection of its caller"""

    def __init__(self, port: str) -> None:
        super().__init__(f"the connection from port {port} was cut")


class CalledQueue(Protocol):
    """What calls and interceptors need of a queue."""

    interceptors: Interceptors

    @property
    def name(self) -> str:
        """The name of the queue."""

    @property
    def is_push(self) -> bool:
        """True if its tasks are sent to an app."""

    def now_usec(self) -> int:
        """Return the time of its emulator, in microseconds since the epoch."""


class QueueCall(NamedTuple):
    """One call on its way to a queue."""

    queue: CalledQueue
    method: str
    """The method of `Queue`, or the function of `verbs`, through which all such calls go."""
    arguments: tuple[Any, ...]
    options: Mapping[str, object]
    triggered: list[int] | None = None
    """The numbers of the faults that triggered on it; None: nobody asks."""

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


Interceptor = Callable[[QueueCall, Callable[[], object]], Any]
"""Takes a call and `call_next`, which carries the call out.

It may call that function or not, or twice; it returns its result, or another, or raises.
"""

_bypassing: ContextVar[bool] = ContextVar("bypassing", default=False)
_deadline_usec: ContextVar[int | None] = ContextVar("deadline_usec", default=None)
_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)
_PYTHON = Origin()


@contextmanager
def _set(variable: ContextVar[_V], value: _V) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def bypass_interceptors() -> Iterator[None]:
    """Make the calls in the block bypass interceptors: they are the test's own, not the app's."""
    with _set(_bypassing, value=True):
        yield


def call_deadline(usec: int) -> AbstractContextManager[None]:
    """Set the deadline of the calls in the block, in microseconds from when each is made."""
    return _set(_deadline_usec, usec)


def called_by(caller: Caller) -> AbstractContextManager[None]:
    """Make the calls in the block those of a client."""
    return _set(_caller, caller)


def current_caller() -> Caller | None:
    """Return who makes the current call; None if this thread does, in Python."""
    return _caller.get()


def current_origin() -> Origin:
    """Return which call the current operation is part of."""
    caller = _caller.get()
    return _PYTHON if caller is None else caller.origin


def amend_origin(**changes: Any) -> None:  # noqa: ANN401 - fields of an origin
    """Change what is known of the current call, until `called_by` ends."""
    caller = _caller.get()
    if caller is not None:
        _caller.set(caller._replace(origin=caller.origin._replace(**changes)))


def touched() -> Touched | None:
    """Return the record of what the current request is about; None: nobody asks."""
    caller = _caller.get()
    return None if caller is None else caller.touched


def touch(queue_name: str, tasks: Sequence[Task | str]) -> None:
    """Record that the current call is about tasks of a queue, given as such or by name."""
    if (record := touched()) is not None:
        record.add(queue_name, tasks)


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

    def intercept(self, call: QueueCall, call_next: Callable[[], _R]) -> _R:
        """Carry a call out through all interceptors and return its result."""
        bypassing = _bypassing.get()
        for interceptor, bypassed in reversed(self._all):
            if not (bypassing and bypassed):
                call_next = partial(interceptor, call, call_next)
        return call_next()


def interceptable(method: Callable[Concatenate[_Q, _P], _R]) -> Callable[Concatenate[_Q, _P], _R]:
    """Decorate a call to a queue that goes through the interceptors of its emulator.

    It is a method of `Queue`, or a function of `verbs`.
    """

    @wraps(method)
    def call(queue: _Q, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not queue.interceptors:
            return method(queue, *args, **kwargs)
        intercepted = QueueCall(queue, method.__name__, args, kwargs)
        call_next = partial(method, queue, *args, **kwargs)
        return queue.interceptors.intercept(intercepted, call_next)

    return call
