"""Stores that the first schema version wrote are opened, migrated by all scripts, and keep all.

The files in `version1` were made by the code of that version; the PostgreSQL schema as a dump.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from stores import own_schema, postgres_url

from pullqueue import (
    DeleteResult,
    Emulator,
    ManualClock,
    Task,
    TaskState,
    TombstonedTaskError,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.stores import open_store
from pullqueue.stores.postgres_pool import parsed

CONFIG = QueueConfig(
    queues=(
        QueueSettings(name="pull", mode=QueueMode.PULL),
        QueueSettings(
            name="limited",
            mode=QueueMode.PULL,
            retry_parameters=RetryParameters(task_retry_limit=2, task_age_limit_seconds=300),
        ),
    )
)
START = ManualClock.DEFAULT_START
NOW = START + timedelta(seconds=1401)
"""The time at which the stores were closed."""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a store of version 1."""
    folder = Path(__file__).with_name("version1")
    if request.param == "sqlite":
        shutil.copy(folder / "tasks.db", tmp_path)
        yield f"sqlite:///{tmp_path / 'tasks.db'}"
        return
    url = own_schema(folder.name)
    schema = parsed(url).schema
    dump = (folder / "tasks.sql").read_text().replace("version_one", schema)
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())
        connection.execute(dump.encode())
    yield url
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def facts(task: Task) -> tuple[object, ...]:
    """Return what of a task can be compared: one name was generated."""
    name = task.name if task.payload != b"generated" else "generated"
    return (name, task.payload, task.tag, task.retry_count, (task.eta - START).total_seconds())


def test_everything_is_kept(url: str) -> None:
    """Tasks of every state, tombstones, exhausted tasks, totals, history and numbering."""
    clock = ManualClock(NOW)
    emulator = Emulator(CONFIG, clock=clock, store=open_store(url))
    pull, limited = emulator.queue("pull"), emulator.queue("limited")

    assert [facts(task) for task in pull.list_tasks()] == [
        ("available", "text é".encode(), "", 0, 1),
        ("generated", b"generated", None, 0, 1),
        ("leased", b"\x00\xffbytes", "red", 1, 3600),
        ("scheduled", b"", "grün", 0, 172_801),
    ]
    assert [facts(task) for task in limited.list_tasks(state=TaskState.LEASED)] == [
        ("last", b"last", "t", 2, 2401)
    ]
    assert [facts(task) for task in limited.exhausted] == [("exhausted", b"gone", None, 2, 1401)]
    numbers = pull.fetch_statistics()
    assert (numbers.tasks, numbers.leased, numbers.scheduled) == (4, 1, 1)
    assert (numbers.bytes_stored, emulator.bytes_stored) == (71, 80)
    assert (numbers.leased_last_hour, limited.fetch_statistics().leased_last_hour) == (1, 4)
    assert [event.kind.value for event in limited.history("exhausted")] == [
        *("added", "leased", "lease expired", "leased", "lease expired", "exhausted"),
    ]
    assert {event.origin for event in limited.history("exhausted")} == {None}
    with pytest.raises(TombstonedTaskError):
        pull.add(name="deleted")
    assert pull.add(name="new").sequence > max(t.sequence for t in limited.list_tasks())
    emulator.close()


def test_work_goes_on(url: str) -> None:
    """Leases of the old version are extended, end and exhaust their tasks in the new one."""
    clock = ManualClock(NOW)
    emulator = Emulator(CONFIG, clock=clock, store=open_store(url))
    pull, limited = emulator.queue("pull"), emulator.queue("limited")

    assert pull.modify_task_lease(pull.get_task("leased"), 60).eta == clock.now() + timedelta(
        seconds=60
    )
    assert len(pull.lease_tasks(60, 10)) == 2
    assert len(pull.lease_tasks_by_tag(60, 10, "red")) == 0
    assert pull.delete_tasks(["leased", "deleted"]) == [
        DeleteResult.DELETED,
        DeleteResult.TOMBSTONED,
    ]
    clock.advance(1000)
    assert [task.name for task in limited.exhausted] == ["exhausted", "last"]
    assert emulator.bytes_stored == 71 - 16
    clock.advance(7 * 86_400)
    assert pull.add(name="deleted").name == "deleted"
    emulator.close()
    again = Emulator(CONFIG, clock=clock, store=open_store(url))
    assert again.queue("pull").get_task("deleted").retry_count == 0
    again.close()
