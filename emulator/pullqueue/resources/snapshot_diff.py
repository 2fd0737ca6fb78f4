"""How two snapshots differ, or a snapshot and a running server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from pullqueue.errors import PullQueueError
from pullqueue.text import shorten

_Task = dict[str, Any]


class _Queue(msgspec.Struct):
    """The tasks of a queue, as a snapshot has them."""

    tasks: list[_Task]
    exhausted: list[_Task]


class Snapshot(msgspec.Struct):
    """What is counted or compared of a snapshot."""

    format: Literal["pullqueue-snapshot/1"]
    queues: dict[str, _Queue]


class ChangedTask(msgspec.Struct):
    """A task that both snapshots have, and the fields in which it differs."""

    task: str
    fields: list[str]


class QueueDiff(msgspec.Struct):
    """How a queue differs between two snapshots; tasks by name."""

    queue: str
    added: list[str]
    gone: list[str]
    """Those that were deleted, or exhausted."""
    changed: list[ChangedTask]
    exhausted: list[str]
    """Tasks that are exhausted in the second one only."""

    @property
    def is_empty(self) -> bool:
        """Whether the queue is the same in both."""
        return not (self.added or self.gone or self.changed or self.exhausted)

    def lines(self, limit: int, advice: str = "") -> list[str]:
        """Return a line for each of the first tasks that differ, and one for how many more do.

        The latter ends with the advice.
        """
        signs = {"+": self.added, "-": self.gone, "!": self.exhausted}
        lines = [f"{sign} {self.queue} {name}" for sign, names in signs.items() for name in names]
        lines += [f"~ {self.queue} {each.task}: {', '.join(each.fields)}" for each in self.changed]
        more = len(lines) - limit
        return lines[:limit] + ([f"  {self.queue}: {more} more{advice}"] if more > 0 else [])


def read_snapshot(data: bytes, source: str) -> Snapshot:
    """Return the snapshot of a file or a server.

    Raises:
        PullQueueError: it is not one.
    """
    try:
        return msgspec.json.decode(data, type=Snapshot)
    except (ValueError, RecursionError) as error:
        raise PullQueueError(
            f"{source} is not a snapshot ({shorten(str(error))}): pass a file that `pullqueue "
            "snapshot save` wrote"
        ) from None


def compare_snapshots(before: Snapshot, after: Snapshot) -> list[QueueDiff]:
    """Return how the queues differ, in the order of their names, without those that do not."""
    nothing = _Queue([], [])
    diffs = [
        _diff(name, before.queues.get(name, nothing), after.queues.get(name, nothing))
        for name in sorted(before.queues.keys() | after.queues.keys())
    ]
    return [diff for diff in diffs if not diff.is_empty]


def _diff(name: str, before: _Queue, after: _Queue) -> QueueDiff:
    old, new = _by_name(before.tasks), _by_name(after.tasks)
    ended = _by_name(before.exhausted)
    return QueueDiff(
        queue=name,
        added=[each for each in new if each not in old],
        gone=[each for each in old if each not in new],
        changed=[
            ChangedTask(each, _changed_fields(old[each], new[each]))
            for each in new
            if each in old and new[each] != old[each]
        ],
        exhausted=[
            each for each, task in _by_name(after.exhausted).items() if ended.get(each) != task
        ],
    )


def _by_name(tasks: list[_Task]) -> Mapping[str, _Task]:
    return {str(task.get("name")): task for task in tasks}


def _changed_fields(old: _Task, new: _Task) -> list[str]:
    names = [*new, *(old.keys() - new.keys())]
    return sorted(name for name in names if old.get(name) != new.get(name))
