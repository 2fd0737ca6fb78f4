"""A fault that is set in an emulator: which calls it selects, and the order of several."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from fnmatch import fnmatchcase
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakKeyDictionary

from pullqueue.engine.interceptors import LEASE_VERBS, Interceptors, QueueCall, touched
from pullqueue.push.request import PushRequest, build_path
from pullqueue.tasks import default_url

if TYPE_CHECKING:
    from pullqueue.engine.emulator import Emulator
    from pullqueue.faults.when import When
    from pullqueue.sdk.rpcs import ServiceCall
    from pullqueue.tasks import NewTask

__tracebackhide__ = True  # a failed test is shown at its own line

CallNext = Callable[[], object]
Effect = Callable[[Any, CallNext], object]
"""What a fault does to a call to a queue or a service; it may carry the call out, or not."""


_SETTING = threading.Lock()
_numbers: WeakKeyDictionary[Emulator, count[int]] = WeakKeyDictionary()


class _Subject(NamedTuple):
    """A task that a call is about."""

    path: str
    """Of a push task."""
    queue_name: str
    identity: object
    """Its name; of a task that has none yet, what it is sent with."""


class Fault:
    """One fault of an emulator; as a context manager it is removed at the end of the block."""

    def __init__(
        self, title: str, arguments: Mapping[str, object], when: When, effect: Effect
    ) -> None:
        self.calls = 0
        """Number of calls on which it could have triggered."""
        self.hits = 0
        """Number of times it has triggered."""
        self.options: Mapping[str, object] = {**arguments, **when}
        """What was passed when it was set, and the defaults of its arguments."""
        self.number: int
        """Its number among all faults that were set in its emulator, the first being 1."""
        self.effect = effect
        """What happens to a call on which it triggers."""
        self.before_call: Callable[[], None] | None = None
        """Called before each call of the app, whether or not the fault triggers on it."""
        self._title = title
        verb = str(arguments.get("call", "lease_tasks"))
        self.is_of_service = "." in verb
        """True if calls to a bundled service are affected, such as `datastore_v3.Commit`."""
        self._verbs = LEASE_VERBS if verb == "lease_tasks" else frozenset({verb})
        self._queues = when.get("queues")
        self._times = when.get("times")
        self._after = when.get("after", 0)
        self._every = when.get("every", 1)
        self._probability = when.get("probability", 1)
        self._random = random.Random(when.get("seed", 0))  # noqa: S311 - repeatable, not secret
        self._url = when.get("url")
        self._per_task = when.get("per_task")
        self._calls_of: Counter[object] = Counter()
        """By task; by None, if tasks are not counted on their own."""
        self._hits_of: Counter[object] = Counter()
        self._lock = threading.Lock()
        self._chain: _FaultChain | None = None

    def __repr__(self) -> str:
        return f"<Fault {self}>"

    def __str__(self) -> str:
        return f"{self._title}: triggered on {self.hits} of {self.calls} calls"

    @property
    def is_set(self) -> bool:
        """True until it is removed."""
        return self._chain is not None

    @property
    def is_spent(self) -> bool:
        """True if it has triggered as often as it may; of one `per_task` that is never known."""
        return self._hits_of[None] == self._times

    def rewinder(self) -> Callable[[], None]:
        """Return a function after which it selects calls as it would now.

        `calls` and `hits` still count those between.
        """
        calls, hits = self._calls_of.copy(), self._hits_of.copy()
        state = self._random.getstate()

        def rewind() -> None:
            with self._lock:
                self._calls_of, self._hits_of = calls.copy(), hits.copy()
                self._random.setstate(state)

        return rewind

    def set_in(self, emulator: Emulator) -> Self:
        """Set it, after all faults that the emulator has."""
        with _SETTING:
            self._chain = _find_chain(emulator) or _FaultChain(emulator.interceptors)
            self.number = next(_numbers.setdefault(emulator, count(1)))
            self._chain.add(self)
        return self

    def remove(self) -> None:
        """Remove it; nothing happens if it was removed before."""
        with _SETTING:
            chain, self._chain = self._chain, None
            if chain is not None:
                chain.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def triggers_on_service(self, call: ServiceCall) -> bool:
        """Count a call to a service, and return True if the fault triggers on it."""
        return f"{call.service}.{call.method}" in self._verbs and self._counts(None)

    def triggers_on(self, call: QueueCall) -> bool:
        """Count a call, and return True if the fault triggers on it."""
        if call.verb not in self._verbs:
            return False
        if self._queues is not None and call.queue.name not in self._queues:
            return False
        task: object = None
        if self._url is not None or self._per_task:
            subjects = list(_subjects(call))
            if self._url is not None and not any(
                fnmatchcase(subject.path, self._url) for subject in subjects
            ):
                return False
            task = tuple(subjects) if self._per_task else None
        return self._counts(task)

    def _counts(self, task: object) -> bool:
        with self._lock:
            self.calls += 1
            self._calls_of[task] += 1
            triggers = self._selects(task)
            self.hits += triggers
            self._hits_of[task] += triggers
        return triggers

    def _selects(self, task: object) -> bool:
        number = self._calls_of[task] - self._after
        if number < 1 or number % self._every:
            return False
        if self._hits_of[task] == self._times:
            return False
        return self._random.random() < self._probability


def _subjects(call: QueueCall) -> Iterator[_Subject]:
    """Yield the tasks that an `attempt` or an `add` is about."""
    queue_name = call.queue.name
    if call.verb == "attempt":
        request: PushRequest = call.arguments[0]
        yield _Subject(_path(request.url), queue_name, request.task_name)
        return
    tasks: Iterable[NewTask] = call.arguments[0]
    for task in tasks:
        path = "" if task.request is None else _path(task.request.url)
        if task.request is None and call.queue.is_push:
            path = default_url(queue_name)
        yield _Subject(path, queue_name, task.name or (path, task.payload))


def _path(url: str) -> str:
    return build_path(url).partition("?")[0]


class _FaultChain:
    """The interceptor that has all faults of an emulator, in the order in which they were set."""

    def __init__(self, interceptors: Interceptors) -> None:
        self._interceptors = interceptors
        self._services = ExitStack()
        """Ends that calls to services are intercepted."""
        self.faults: tuple[Fault, ...] = ()

    def add(self, fault: Fault) -> None:
        if not self.faults:
            self._interceptors.add(self)
        if fault.is_of_service and not any(other.is_of_service for other in self.faults):
            rpcs = sys.modules["pullqueue.sdk.rpcs"]  # loaded where the call was checked
            self._services.enter_context(rpcs.intercepted(self._of_service))
        self.faults = (*self.faults, fault)

    def remove(self, fault: Fault) -> None:
        self.faults = tuple(other for other in self.faults if other is not fault)
        if not any(other.is_of_service for other in self.faults):
            self._services.close()
        if not self.faults:
            self._interceptors.remove(self)

    def _of_service(self, call: ServiceCall, call_next: CallNext) -> object:
        first = next((fault for fault in self.faults if fault.triggers_on_service(call)), None)
        return call_next() if first is None else first.effect(call, call_next)

    def __call__(self, call: QueueCall, call_next: CallNext) -> object:
        faults = self.faults
        for fault in faults:
            if fault.before_call is not None:
                fault.before_call()
        first = next((fault for fault in faults if fault.triggers_on(call)), None)
        if first is None:
            return call_next()
        if call.triggered is not None:
            call.triggered.append(first.number)
        if (record := touched()) is not None and record.fault is None:
            record.fault = first.number
        return first.effect(call, call_next)


def _find_chain(emulator: Emulator) -> _FaultChain | None:
    found = (chain for chain in emulator.interceptors if isinstance(chain, _FaultChain))
    return next(found, None)


def find_faults(emulator: Emulator) -> list[Fault]:
    """Return the faults that are set in an emulator, in the order in which they were set."""
    chain = _find_chain(emulator)
    return [] if chain is None else list(chain.faults)
