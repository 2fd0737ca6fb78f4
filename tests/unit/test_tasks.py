"""pullqueue.tasks."""

from __future__ import annotations

from copy import copy, deepcopy
from datetime import UTC, datetime, timedelta

import pytest
from tables import each_row

from pullqueue import AttemptRecord, Emulator, HttpRequest, ManualClock, NewTask, Task, TaskState
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings

CONFIG = QueueConfig(queues=(QueueSettings(name="pull", mode=QueueMode.PULL),))


@pytest.fixture
def task() -> Task:
    """Return a task added at the start of a manual clock."""
    queue = Emulator(CONFIG, clock=ManualClock()).queue("pull")
    return queue.add(b"work" * 20, name="one", tag="red")


def test_a_new_task_has_bytes_and_microseconds() -> None:
    """Text becomes UTF-8, the eta microseconds; a copy is the same."""
    usec = 1_767_225_600_000_000

    new = NewTask("wörk", "one", "röt", datetime(2026, 1, 1, tzinfo=UTC))

    assert new == NewTask("wörk".encode(), "one", "röt", eta_usec=usec)
    assert (new.payload, new.eta_usec) == ("wörk".encode(), usec)
    assert new.stored_bytes == 5 + 3 + 4
    assert [copy(new), deepcopy(new)] == [new, new]


def test_times_are_aware_datetimes(task: Task) -> None:
    assert task.eta == task.enqueued == datetime(2026, 1, 1, tzinfo=UTC)


@each_row(
    ("retry_count", "finished", "state"),
    [
        (0, None, TaskState.SCHEDULED),
        (1, None, TaskState.LEASED),
        (0, 0, TaskState.SCHEDULED),
        (1, 0, TaskState.RUNNING),
        (1, 1, TaskState.RETRYING),
        (3, 1, TaskState.RUNNING),
    ],
)
def test_a_task_is_available_from_its_eta_on(
    task: Task, retry_count: int, finished: int | None, state: TaskState
) -> None:
    """Before that, a push task runs until its attempt ends."""
    waiting = task._replace(retry_count=retry_count)
    if finished is not None:
        attempts = AttemptRecord(finished=finished)
        waiting = waiting._replace(request=HttpRequest("/mail"), attempts=attempts)

    assert waiting.state_at(task.eta_usec - 1) is state
    assert waiting.state_at(task.eta_usec) is TaskState.AVAILABLE


def test_a_task_reads_well(task: Task) -> None:
    """The repr has what one looks for first, and a long payload is cut."""
    assert repr(task) == (
        "Task(name='one', queue_name='pull', tag='red', eta=2026-01-01T00:00:00+00:00, "
        "retry_count=0, payload=b'workworkworkworkworkworkworkworkworkw...')"
    )


def test_a_task_cannot_be_changed(task: Task) -> None:
    with pytest.raises(AttributeError):
        task.payload = b"other"  # type: ignore[misc]


def test_a_task_is_ordered_by_eta_and_arrival(task: Task) -> None:
    """That is what an index relies on."""
    later = task._replace(eta_usec=task.eta_usec + 1, sequence=0)
    next_in_line = task._replace(sequence=task.sequence + 1)

    assert sorted([later, next_in_line, task]) == [task, next_in_line, later]
    assert later.eta - task.eta == timedelta(microseconds=1)
