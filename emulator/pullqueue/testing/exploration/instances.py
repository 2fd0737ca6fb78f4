"""What actors of `race_test` have of their own, as instances of the app: locks and random numbers.

So a lock of the app keeps back the threads of its actor only. A lock of the test is shared, and who
waits for it is known at once, while other locks, such as those of a library, block threads. Each
order has the same random numbers, whoever draws before.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from itertools import count
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from pullqueue.testing.exploration.steps import RacingActor
from pullqueue.testing.memory import Memory
from pullqueue.testing.patching import DRAWING, Patches, replaced_everywhere
from pullqueue.testing.place import is_frame_of_app
from pullqueue.testing.points.actors import Actor, Awaited, current_actor
from pullqueue.testing.points.footprint import CHANGED, Footprint

_FACTORIES: tuple[Callable[[], Any], ...] = (threading.Lock, threading.RLock)
"""Python's own, where `threading` has others."""
_KINDS: tuple[Any, ...] = (*(type(make()) for make in _FACTORIES), threading.Semaphore)
_OF_INSTANCES = threading.Condition
"""What is replaced where each actor has its own, but not where they share it."""


class InstanceLock:
    """A lock of which each actor has its own."""

    def __init__(self, make: Callable[[], Any], name: str = "") -> None:
        """`make` makes one; `name` is where the app has it."""
        self.name = name
        self.users: set[str] = set()
        """The actors that have used it."""
        self._make = make
        self._locks: WeakKeyDictionary[Actor, Any] = WeakKeyDictionary()
        self._of_test = make()
        self._number = next(SharedLock.numbers)

    @property
    def _own(self) -> Any:
        actor = current_actor()
        if actor is None:
            return self._of_test
        if actor not in self._locks:
            self.users.add(actor.name)
            self._locks[actor] = self._make()
        return self._locks[actor]

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self._own.__exit__(*error)

    def acquire(self, *args: Any, **kwargs: Any) -> bool:
        """Acquire it; where a thread of the actor has it that is stopped, that one goes on."""
        own, actor = self._own, current_actor()
        if not isinstance(actor, RacingActor) or type(own) is not _KINDS[0]:
            return bool(own.acquire(*args, **kwargs))
        if actor.threads:
            path = "lock", f"{self._number} {actor.name}"
            actor.note(Footprint(writes=frozenset({path})))
        while not (args or kwargs) and own.locked() and actor.holders[id(own)].gates:
            actor.wait_for(Awaited(lambda: not own.locked()), -1)
        acquired: bool = own.acquire(*args, **kwargs)
        if acquired:
            actor.holders[id(own)] = actor.here
        return acquired

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


class SharedLock:
    """A lock that all actors share."""

    numbers: ClassVar = count()

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._acquired = 0
        self._footprint = Footprint(writes=frozenset({("lock", str(next(self.numbers)))}))

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)

    def _is_free(self) -> bool:
        if isinstance(self._lock, _KINDS[1]):  # its owner could acquire it again
            return not self._acquired
        if not self._lock.acquire(blocking=False):
            return False
        self._lock.release()
        return True

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as that of a lock
        """Acquire it, and return whether that was possible."""
        actor = current_actor()
        if isinstance(actor, RacingActor):
            actor.note(self._footprint)
            while not self._lock.acquire(blocking=False):
                if not blocking or not actor.wait_for(Awaited(self._is_free), timeout):
                    return False
        elif not self._lock.acquire(blocking, timeout):
            return False
        self._acquired += 1
        return True

    def release(self) -> None:
        """Release it."""
        actor = current_actor()
        if isinstance(actor, RacingActor):
            actor.note(self._footprint)
        self._lock.release()
        self._acquired -= 1


class _FileLock:
    """A lock of an open file, as `SharedLock` needs it."""

    def __init__(self, flock: Callable[[Any, int], None], file: Any, operation: int) -> None:
        self._flock = partial(flock, file)
        self._operation = operation | _NOT_BLOCKING

    def acquire(self, *, blocking: bool) -> bool:  # noqa: ARG002 - never
        try:
            self._flock(self._operation)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        self._flock(_UNLOCK)


_NOT_BLOCKING, _UNLOCK = 4, 8
"""LOCK_NB and LOCK_UN of `fcntl`, which Windows lacks."""


def _locks_of_files() -> dict[Any, Any]:
    """Return what replaces `fcntl.flock`, and `fcntl.lockf`, whose locks are those of a process.

    Actors lock the open file with both, since each of them is a process in production.
    """
    fcntl: Any = sys.modules.get("fcntl")
    flock: Any = getattr(fcntl, "flock", None)

    def raced(lock: Callable[..., None]) -> Callable[..., None]:
        @wraps(lock)
        def acquire(file: Any, operation: int, *extent: int) -> None:
            actor = current_actor()
            if not isinstance(actor, RacingActor) or any(extent[:2]):
                lock(file, operation, *extent)
                return
            actor.note(CHANGED)
            if operation & (_NOT_BLOCKING | _UNLOCK):
                flock(file, operation)
            else:
                SharedLock(_FileLock(flock, file, operation)).acquire()

        return acquire

    return {each: raced(each) for each in (flock, fcntl.lockf)} if flock else {}


@contextmanager
def raced_locks(memory: Memory, *, instances: bool) -> Iterator[list[InstanceLock]]:
    """Replace the locks of app and test in the block, and those that they make in it.

    Unless actors are `instances`, all of them are shared. Yields those that are not.
    """
    of_instances: list[InstanceLock] = []

    def raced(lock: Any, *, of_app: bool, name: str = "") -> Any:
        if not (of_app and instances):
            return SharedLock(lock)
        of_instances.append(InstanceLock(_maker(lock), name))
        return of_instances[-1]

    def factory(make: Callable[[], Any]) -> Callable[[], Any]:
        def lock() -> Any:
            module = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001 - documented
            of_app = memory.is_of_app(module)
            return make() if of_app is None else raced(make(), of_app=of_app)

        return lock

    made: dict[int, Any] = {}
    found = [
        reference
        for reference in memory.find((*_KINDS, _OF_INSTANCES))
        if (reference.is_global and instances) or not isinstance(reference.value, _OF_INSTANCES)
    ]
    try:
        for reference in found:
            lock = reference.value
            if id(lock) not in made:
                made[id(lock)] = raced(lock, of_app=reference.is_global, name=reference.path)
            reference.replace(made[id(lock)])
        factories = {make: factory(make) for make in _FACTORIES}
        with replaced_everywhere(factories | _locks_of_files()):
            yield of_instances
    finally:
        for reference in found:
            reference.restore()


def _maker(lock: Any) -> Callable[[], Any]:
    if isinstance(lock, _OF_INSTANCES):
        return _OF_INSTANCES
    if not isinstance(lock, threading.Semaphore):
        return _FACTORIES[isinstance(lock, _KINDS[1])]
    permits = 0
    while lock.acquire(blocking=False):
        permits += 1
    for _ in range(permits):
        lock.release()
    kind = type(lock)
    return lambda: kind(permits)


@Patches
def own_random_numbers(patches: Patches) -> None:
    """Have the functions of `random` draw, in a block, from the generator of who calls them.

    What libraries draw, such as the time until they try again, is not the app's.
    """
    patches.replace({(draw := vars(random)[name]): _own(name, draw) for name in DRAWING})


def _own(name: str, draw: Callable[..., object]) -> Callable[..., object]:
    @wraps(draw)
    def draw_own(*args: object, **kwargs: object) -> object:
        actor, chosen = current_actor(), draw
        of_app = is_frame_of_app(sys._getframe(1))  # noqa: SLF001 - documented, of CPython
        if isinstance(actor, RacingActor) and of_app:
            chosen = getattr(actor.random, name)
        return chosen(*args, **kwargs)

    return draw_own
