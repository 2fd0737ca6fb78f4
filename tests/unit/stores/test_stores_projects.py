"""Projects in the tables of one store: kept apart, each with a time of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest
from store_rules import LIMITS, config_of
from stores import store_url

from pullqueue import (
    AttemptRecord,
    Emulator,
    ManualClock,
    NewTask,
    OverQuotaError,
    SystemClock,
    TombstonedTaskError,
    TransientError,
)
from pullqueue.clock import Clock
from pullqueue.engine.attempts import start_attempt
from pullqueue.stores import open_store

DAY = 86_400
CONFIG = config_of(1)
ONE_BATCH = LIMITS._replace(tasks_per_add=20_000)
Open = Callable[..., Emulator]


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Yield what opens the own project of a store, which is empty, and then other ones by name."""
    projects: list[Emulator] = []
    with store_url(request.param) as url, ExitStack() as closing:

        def open_project(name: str = "", clock: Clock | None = None) -> Emulator:
            store = open_store(url)
            if projects:
                own = projects[0].store
                made = own.add_project(name, "{}")
                assert made is not None
                store = own.find_store(made.number)
            clock = clock or SystemClock()
            project = Emulator(CONFIG, clock=clock, limits=ONE_BATCH, store=store)
            closing.callback(project.close)
            projects.append(project)
            if len(projects) == 1:
                project.reset()
            return project

        yield open_project
        for project in projects[0].store.read_projects().values():
            projects[0].store.drop_project(project.number)


def names(project: Emulator, queue: str = "pull") -> list[str]:
    return [task.name for task in project.queue(queue).list_tasks(100)]


def test_the_same_queues_and_tasks_in_many_projects(opened: Open) -> None:
    """Also where the numbers of projects begin alike, such as 1 and 10."""
    projects = [opened(f"p{number}") for number in range(12)]
    for number, project in enumerate(projects):
        project.queue("pull").add_many([NewTask(name="same"), NewTask(name=f"n{number}")])
        project.queue("pull").delete_tasks("same")

    projects[1].reset()
    projects[2].queue("pull").purge()
    projects[3].delete_queue("pull")
    found = [names(project) for project in projects if project is not projects[3]]

    assert found == [["n0"], [], [], *([f"n{number}"] for number in range(4, 12))]
    assert [project.bytes_stored for project in projects[:5]] == [2, 0, 0, 0, 2]
    assert projects[1].queue("pull").add(name="same")
    for project in (projects[0], projects[10]):
        with pytest.raises(TombstonedTaskError):
            project.queue("pull").add(name="same")
        kinds = [event.kind.value for event in project.queue("pull").events()]
        assert kinds == ["added", "added", "deleted"]


@pytest.mark.parametrize("ahead_days", [400, -400])
def test_each_project_has_its_own_time(opened: Open, ahead_days: int) -> None:
    """Nobody ends leases, exhausts tasks, or frees names of another one, whose time differs."""
    manual = ManualClock(SystemClock().now() + timedelta(days=min(ahead_days, 0)))
    own, other = opened(clock=manual), opened("other")
    for project in (own, other):
        project.queue("limited").add(name="last")
        project.queue("limited").lease_tasks(DAY, 1)
        project.queue("pull").add_many([NewTask(name=f"n{n}") for n in range(2)])
        project.queue("pull").delete_tasks("n0")
    if ahead_days > 0:
        manual.advance(ahead_days * DAY)

    for project in (own, other):
        project.queue("pull").add_many([NewTask() for _ in range(5_000)])  # trims tombstones
    is_over = ahead_days > 0
    found = [names(project, "limited") for project in (own, other)]

    assert found == [[] if is_over else ["last"], ["last"]]
    assert len(own.queue("limited").exhausted) == is_over
    assert other.queue("limited").exhausted == []
    for project in (other,) if is_over else (own, other):
        with pytest.raises(TombstonedTaskError):
            project.queue("pull").add(name="n0")
    changes = [project.queue("limited").next_change_usec() for project in (own, other)]
    assert (changes[0] is None) is is_over
    assert changes[1] is not None


def test_a_snapshot_of_one_replaces_no_other(opened: Open) -> None:
    """Its tasks keep their order, whatever numbers they have."""
    own, other = opened(), opened("other")
    clock_free = [NewTask(name=f"n{number}", eta_usec=1) for number in range(4)]
    own.queue("pull").add_many(clock_free)
    own.queue("limited").add(name="kept")
    other.queue("pull").add_many([NewTask(name="x"), NewTask(name="n1")])
    contents = own.export()

    for _ in range(2):
        other.restore(contents)
    own.reset()
    own.restore(contents)
    other.queue("pull").add(name="new")

    assert names(other) == [*(f"n{number}" for number in range(4)), "new"]
    assert (names(own), names(own, "limited")) == ([f"n{n}" for n in range(4)], ["kept"])
    assert [event.task_name for event in own.queue("pull").events()] == []


def test_the_storage_limit_counts_the_tasks_of_its_project(opened: Open) -> None:
    own, other = opened(), opened("other")
    for project in (own, other):
        project.reconfigure(replace(CONFIG, total_storage_limit_bytes=100))
    own.queue("pull").add(b"x" * 90, name="a")

    other.queue("pull").add(b"x" * 90, name="a")
    with pytest.raises(OverQuotaError):
        other.queue("pull").add(b"x" * 90, name="b")


def test_a_deleted_project_leaves_nothing(opened: Open) -> None:
    """However many tasks it has; a call that is late is refused, and the others remain."""
    own, other, third = opened(), opened("other"), opened("third")
    other.queue("pull").add_many([NewTask() for _ in range(11_000)])
    for project in (own, third):
        project.queue("pull").add(name="kept")

    other.close()
    own.store.drop_project(own.store.read_projects()["other"].number)
    with pytest.raises(TransientError, match=r"^the store is closed: its project was deleted"):
        other.queue("pull").add()
    again = opened("other")

    assert (names(again), again.bytes_stored, again.queue("pull").events()) == ([], 0, [])
    assert [names(project) for project in (own, third)] == [["kept"], ["kept"]]


def test_attempts_go_on_while_another_project_is_opened(opened: Open) -> None:
    own = opened()
    queue = own.queue("default")
    task = start_attempt(queue, queue.add(), lease_seconds=600, attempts=AttemptRecord())

    opened("other")

    assert queue.get_task(task.name).eta_usec == task.eta_usec
