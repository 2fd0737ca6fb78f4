"""How two snapshots differ, or a snapshot and a running server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from pullqueue.errors import PullQueueError
from pullqueue.text import list_first, shorten

_Task = dict[str, Any]
Change = Literal["added", "gone", "changed", "exhausted"]


class _Queue(msgspec.Struct):
    """The tasks of a queue, as a snapshot has them."""

    tasks: list[_Task]
    exhausted: list[_Task]


class Snapshot(msgspec.Struct):
    """What is counted or compared of a snapshot."""

    format: Literal["pullqueue-snapshot/1"]
    queues: dict[str, _Queue]


class DifferentTask(msgspec.Struct):
    """A task that is not the same in both snapshots."""

    task: str
    fields: list[str]
    """Those in which it differs, if both have it."""


class Difference(msgspec.Struct):
    """Tasks of a queue that differ in the same way between two snapshots."""

    queue: str
    change: Change
    """gone: deleted, or exhausted; exhausted: in the second one only."""
    tasks: list[DifferentTask]

    def names(self, limit: int) -> str:
        """Return the first names, with the fields that changed, and how many more there are."""
        names = [
            f"{each.task} ({', '.join(each.fields)})" if each.fields else each.task
            for each in self.tasks
        ]
        return list_first(names, limit)


def read_snapshot(data: bytes, source: str) -> Snapshot:
    """Return the snapshot of a file or a server; raise a PullQueueError if it is not one."""
    try:
        return msgspec.json.decode(data, type=Snapshot)
    except (ValueError, RecursionError) as error:
        raise PullQueueError(
            f"{source} is not a snapshot ({shorten(str(error))}): pass a file that `pullqueue "
            "snapshot save` wrote"
        ) from None


def compare_snapshots(before: Snapshot, after: Snapshot) -> list[Difference]:
    """Return how the queues differ, in the order of their names."""
    nothing = _Queue([], [])
    return [
        difference
        for name in sorted(before.queues.keys() | after.queues.keys())
        for difference in _differences(
            name, before.queues.get(name, nothing), after.queues.get(name, nothing)
        )
    ]


def _differences(queue: str, before: _Queue, after: _Queue) -> Iterator[Difference]:
    old, new = _by_name(before.tasks), _by_name(after.tasks)
    ended, ended_now = _by_name(before.exhausted), _by_name(after.exhausted)
    different: dict[Change, dict[str, list[str]]] = {
        "added": {each: [] for each in new if each not in old},
        "gone": {each: [] for each in old if each not in new},
        "changed": {
            each: _changed_fields(old[each], new[each])
            for each in new
            if each in old and new[each] != old[each]
        },
        "exhausted": {each: [] for each, task in ended_now.items() if ended.get(each) != task},
    }
    for change, tasks in different.items():
        if tasks:
            yield Difference(queue, change, [DifferentTask(*each) for each in tasks.items()])


def _by_name(tasks: list[_Task]) -> Mapping[str, _Task]:
    return {str(task.get("name")): task for task in tasks}


def _changed_fields(old: _Task, new: _Task) -> list[str]:
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
