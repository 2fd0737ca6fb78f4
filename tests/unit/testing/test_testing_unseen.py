"""What `race_test` and `crash_test` do where an app uses a database whose calls are not seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from executing import forked_python

from pullqueue import Emulator, Queue
from pullqueue.testing import crash_test, race_test

pytestmark = pytest.mark.slow

Load = Callable[..., ModuleType]

IMPORTS = {
    "import sqlite3": "sqlite3",
    "import sqlite3 as db": "sqlite3",
    "from sqlite3 import connect": "sqlite3",
    "from sqlite3 import Row": "sqlite3",
    "from sqlalchemy import create_engine": "SQLAlchemy",
    "from sqlalchemy.orm import Session": "SQLAlchemy",
    "import psycopg": "psycopg",
    "from psycopg.errors import UniqueViolation": "psycopg",
}


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    names: list[str] = []

    def load(source: str, name: str = "an_app") -> ModuleType:
        path = tmp_path / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        names.extend([name, name.partition(".")[0]])
        return import_module(name)

    yield load
    for name in names:
        sys.modules.pop(name, None)


def race(emulator: Emulator, queue: Queue, **options: Any) -> Any:
    return race_test(
        emulator,
        queue.fetch_statistics,
        copies=2,
        setup=lambda: None,
        check=lambda: None,
        **options,
    )


def crash(emulator: Emulator, queue: Queue, **options: Any) -> Any:
    def setup() -> None:
        queue.add(b"x")

    def work() -> None:
        for task in queue.lease_tasks(60, 1):
            queue.delete_tasks(task)

    return crash_test(emulator, work, setup=setup, check=lambda: None, **options)


@pytest.mark.parametrize("source", IMPORTS)
def test_a_database_that_is_imported_and_not_seen_is_an_error(
    emulator: Emulator, queue: Queue, load: Load, source: str
) -> None:
    load(source)

    with pytest.raises(AssertionError, match=f"^race_test: an_app uses {IMPORTS[source]}, and "):
        race(emulator, queue)


@pytest.mark.parametrize("run", [race, crash])
def test_the_error_says_what_to_do(
    emulator: Emulator, queue: Queue, load: Load, run: Callable[..., Any]
) -> None:
    load("import sqlite3")

    with pytest.raises(AssertionError) as caught:
        run(emulator, queue)

    assert str(caught.value) == (
        f"{run.__name__}_test: an_app uses sqlite3, and no call to it was seen, so nothing was "
        "tried there: make the connection in the actors or in setup, by sqlite3.connect; if it is "
        'not called here, pass unseen="ignore"'
    )


@pytest.mark.parametrize("run", [race, crash])
def test_it_can_be_a_warning(
    emulator: Emulator, queue: Queue, load: Load, run: Callable[..., Any]
) -> None:
    load("import sqlite3, psycopg")

    with pytest.warns(UserWarning, match="no call to it was seen") as caught:
        result = run(emulator, queue, unseen="warn")

    assert [Path(each.filename).name for each in caught] == [Path(__file__).name] * 2
    assert result.unseen == ("sqlite3", "psycopg")
    assert " of calls to queues, not of sqlite3, psycopg" in str(result)


@pytest.mark.parametrize("run", [race, crash])
def test_it_can_be_ignored(
    emulator: Emulator, queue: Queue, load: Load, run: Callable[..., Any]
) -> None:
    load("import sqlite3")

    assert run(emulator, queue, unseen="ignore").unseen == ("sqlite3",)


@pytest.mark.parametrize("source", ["", "import json", "x = 'sqlite3'", "import pullqueue.stores"])
def test_other_modules_are_permitted(
    emulator: Emulator, queue: Queue, load: Load, source: str
) -> None:
    load(source)

    assert race(emulator, queue).unseen == ()


@pytest.mark.parametrize("name", ["test_app", "tests_of_app.helpers", "conftest_of_app"])
def test_what_tests_import_is_permitted(
    emulator: Emulator, queue: Queue, load: Load, name: str
) -> None:
    load("import sqlite3", name)

    assert race(emulator, queue).unseen == ()


def test_a_driver_is_seen_if_what_calls_it_is(
    emulator: Emulator, queue: Queue, load: Load, tmp_path: Path
) -> None:
    """Apps import drivers for their exceptions."""
    app: Any = load(
        "import psycopg\nfrom sqlalchemy import create_engine, text\n"
        f"engine = create_engine('sqlite:///{tmp_path}/app.sqlite')\n"
        "def ask():\n    with engine.connect() as c: c.execute(text('SELECT 1'))\n"
    )

    def actor() -> None:
        queue.fetch_statistics()
        app.ask()

    result = race_test(emulator, actor, copies=2, setup=lambda: None, check=lambda: None)
    app.engine.dispose()

    assert result.unseen == ()
    assert {*result.seen} == {"SQLAlchemy", "queues", "sqlite3"}


def test_a_database_that_is_not_seen_is_named_where_nobody_makes_a_call(
    emulator: Emulator, queue: Queue, load: Load
) -> None:
    """Rather than that there was nothing to interleave."""
    load("import psycopg")

    with pytest.raises(AssertionError, match="an_app uses psycopg, "):
        race_test(emulator, lambda: None, copies=2, setup=lambda: None, check=lambda: None)


@pytest.mark.parametrize("run", [race, crash])
def test_another_value_is_refused(
    emulator: Emulator, queue: Queue, run: Callable[..., Any]
) -> None:
    with pytest.raises(ValueError, match=r'^unseen is "no": use "error", "warn" or "ignore"$'):
        run(emulator, queue, unseen="no")


def test_django_without_settings_has_no_connection() -> None:
    """Libraries import its database package wherever it is installed."""
    program = """
import django.db
from pullqueue import Emulator, ManualClock
from pullqueue.testing import crash_test

emulator = Emulator.from_text("queue: [{name: pull, mode: pull}]", clock=ManualClock())
queue = emulator.queue("pull")

def work():
    queue.delete_tasks(queue.lease_tasks(60, 1))

print(crash_test(emulator, work, setup=lambda: queue.add(b"x"), check=lambda: None) > 0)
"""
    command = [*forked_python(), "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, text=True)

    assert done.stdout == "True\n"
