"""What a call reads and writes, so that calls that cannot influence each other are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from pullqueue.engine.interceptors import LEASE_VERBS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pullqueue.engine.interceptors import QueueCall
    from pullqueue.tasks import Task

Path: TypeAlias = tuple[str, ...]
"""What is read or written, such as `("queue", "mails", "task", "x")` or `("sql", "orders")`; a
path includes all that begin with it, so that `()` is everything."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a call reads and writes."""

    reads: frozenset[Path] = frozenset()
    writes: frozenset[Path] = frozenset()

    def conflicts_with(self, other: Footprint) -> bool:
        """Return whether the order of both can matter: one writes what the other uses."""
        return overlap(self.writes, other.reads | other.writes) or overlap(self.reads, other.writes)

    def __or__(self, other: Footprint) -> Footprint:
        if other is NOTHING or other == self:
            return self
        return Footprint(self.reads | other.reads, self.writes | other.writes)


EVERYTHING: Final = Footprint(writes=frozenset({()}))
"""That of a call of which nothing is known."""
NOTHING: Final = Footprint()

CLOCK: Final[Path] = ("clock",)
"""The time of the emulator."""
_MEMORY: Final[Path] = ("memory",)
"""What the app and the test keep in memory: whoever goes on can read it."""
READ: Final = Footprint(reads=frozenset({_MEMORY}))
CHANGED: Final = Footprint(writes=frozenset({_MEMORY}))
TIME_MOVES: Final = Footprint(writes=frozenset({CLOCK, ("queue",)}))
"""That of a move of the clock, by which leases end, and tasks become due."""


def overlap(some: Iterable[Path], others: Iterable[Path]) -> bool:
    """Return whether one of some paths includes one of the others, or is included in it."""
    return any(a[: len(b)] == b[: len(a)] for a in some for b in others)


def footprint_of_queue_call(call: QueueCall) -> Footprint:
    """Return the footprint of a call to a queue; every part of its state is below its name."""
    queue: Path = "queue", call.queue.name
    verb = call.verb
    if verb in LEASE_VERBS:
        return Footprint(frozenset({CLOCK}), frozenset({queue}))
    if verb in ("fetch_statistics", "list_tasks"):
        return Footprint(frozenset({CLOCK, queue}))
    names = [_name_of(task) for task in _listed(call.arguments[0])] if call.arguments else []
    tasks: frozenset[Path] = frozenset((*queue, "task", name) for name in names)
    if verb == "add":
        # Pull tasks are leased in the order in which they were added, and which name a task without
        # one gets depends on the order of all of them.
        written = tasks if call.queue.is_push else frozenset({queue})
        unnamed = frozenset() if all(names) else frozenset({("names",)})
        return Footprint(frozenset({CLOCK}), written | unnamed)
    if verb == "get_task" and all(names):
        return Footprint(reads=tasks)
    if verb in ("delete_tasks", "modify_task_lease") and all(names):
        return Footprint(frozenset({CLOCK}), tasks)
    return Footprint(writes=frozenset({queue}))


def task_footprint(task: Task) -> Footprint:
    """Return the footprint of what starts and ends an attempt to send a task."""
    return Footprint(writes=frozenset({("queue", task.queue_name, "task", task.name)}))


def _listed(tasks: object) -> Iterable[object]:
    """Return the tasks of a call, of which an iterator must not be used up."""
    return tasks if type(tasks) in (list, tuple) else [tasks]  # type: ignore[return-value]


def _name_of(task: object) -> str:
    """Return the name of a task; empty if it has none, or is something else."""
    return task if isinstance(task, str) else getattr(task, "name", None) or ""
