"""Adding tasks to each store: which names and tags are accepted, and in which order."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from store_rules import Start, config_of

from pullqueue import (
    DeleteResult,
    Emulator,
    ManualClock,
    NewTask,
    OverQuotaError,
    Queue,
    TaskAlreadyExistsError,
    TombstonedTaskError,
    UnknownTaskError,
)
from pullqueue.engine import verbs


def test_a_batch_with_names_in_use_adds_the_others(queue: Queue) -> None:
    queue.add(name="task2")
    queue.add(name="gone")
    queue.delete_tasks("gone")
    queue.store._names = map("task{}".format, count(1)).__next__  # type: ignore[attr-defined]

    batch = [NewTask(), NewTask(name="task2"), NewTask(), NewTask(name="gone"), NewTask(name="x")]
    with pytest.raises(TaskAlreadyExistsError) as excinfo:
        queue.add_many(batch)

    error = excinfo.value
    assert str(error) == 'task "task2" of queue "pull" exists: choose another name, or omit it'
    assert (error.queue_name, error.task_name) == ("pull", "task2")
    assert {task.name for task in error.added} == {"task1", "task3", "x"}
    assert error.refused == {"task2": TaskAlreadyExistsError, "gone": TombstonedTaskError}


def test_generated_names_that_are_in_use_are_skipped(queue: Queue, emulator: Emulator) -> None:
    """However many there are; each task comes back in its place."""
    taken = 60
    queue.add_many([NewTask(name=f"task{number}") for number in range(taken)])
    emulator.names = (f"task{number // 2}" for number in count()).__next__

    added = queue.add_many([NewTask(b"first"), NewTask(b"second", name="x"), NewTask(b"third")])

    assert [task.payload for task in added] == [b"first", b"second", b"third"]
    assert [queue.get_task(task.name) for task in added] == added
    assert {task.name for task in added} <= {"x", *(f"task{taken + more}" for more in range(4))}


@pytest.mark.parametrize("limit_bytes", [None, 500])
def test_the_first_name_of_a_batch_is_refused_first(start: Start, limit_bytes: int | None) -> None:
    """Whatever the order in which the store finds them."""
    config = replace(config_of(2), total_storage_limit_bytes=limit_bytes)
    queue = start(config).queue("pull")
    queue.add_many([NewTask(name="a"), NewTask(name="z")])
    queue.delete_tasks("a")

    refused = verbs.insert(
        queue, [NewTask(name="z"), NewTask(name="new"), NewTask(name="a")]
    ).refused

    assert list(refused.items()) == [("z", TaskAlreadyExistsError), ("a", TombstonedTaskError)]


def test_names_in_use_and_exhausted_tasks_take_no_space(start: Start, clock: ManualClock) -> None:
    """Neither counts against the limit, even if the other queue was not read since."""
    emulator = start(replace(config_of(1), total_storage_limit_bytes=20))
    emulator.queue("limited").add(b"x" * 15, name="a")
    emulator.queue("limited").lease_tasks(300, 1)
    clock.advance(300)
    queue = emulator.queue("pull")
    queue.add(b"x" * 14, name="a")
    emulator.names = lambda: "b"

    result = verbs.insert(queue, [NewTask(b"x" * 15, name="a"), NewTask("ü", tag="ü")])

    assert [task.name for task in result.added] == ["b"]
    assert emulator.bytes_stored == 15 + 5


def test_a_name_that_no_task_can_have_is_unknown(queue: Queue) -> None:
    for name in ("a\0b", "ü", "\ud800", "x" * 600, ""):
        assert queue.delete_tasks([name, "b"]) == [DeleteResult.UNKNOWN] * 2
        assert queue.delete_tasks(name) == [DeleteResult.UNKNOWN]
        with pytest.raises(UnknownTaskError):
            queue.get_task(name)
        with pytest.raises(UnknownTaskError):
            verbs.modify_lease(queue, name, 10)
        queue.free_names([name])


def test_a_tag_of_any_text_comes_back_as_it_was(queue: Queue) -> None:
    for tag in ("", "\0", "=", "é" * 500, "'; --"):
        queue.add(tag=tag)
        queue.add()

        assert queue.count_tags() == {tag: 1}
        assert [task.tag for task in queue.lease_tasks_by_tag(10, 10, tag)] == [tag]
        assert [task.tag for task in queue.lease_tasks_by_tag(10, 10)] == [None]
        queue.purge()


def test_an_add_over_the_storage_limit_changes_nothing(start: Start) -> None:
    """A name in use is reported as such, also where more is stored than the limit permits."""
    emulator = start(replace(config_of(2), total_storage_limit_bytes=10))
    queue = emulator.queue("pull")
    queue.add(b"1234", name="a")

    with pytest.raises(OverQuotaError) as excinfo:
        queue.add_many([NewTask(payload=b"12", name="b"), NewTask(payload=b"12", name="c")])

    assert str(excinfo.value) == (
        "adding 2 tasks would make 11 bytes stored, over the total_storage_limit of 10: "
        "delete tasks first, or raise the limit"
    )
    assert (excinfo.value.needed_bytes, excinfo.value.limit_bytes) == (11, 10)
    assert [event.task_name for event in queue.events()] == ["a"]
    assert emulator.bytes_stored == 5
    assert queue.fetch_statistics().tasks == 1
    assert queue.add(b"1234", name="b").name == "b"
    emulator.reconfigure(replace(config_of(2), total_storage_limit_bytes=1))
    with pytest.raises(TaskAlreadyExistsError):
        queue.add(name="b")
    assert queue.add_many([]) == []
