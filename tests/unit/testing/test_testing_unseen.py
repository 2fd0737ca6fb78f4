"""What `race_test` and `crash_test` do where an app uses a database whose calls are not seen."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from executing import forked_python
from functions import Load, Run, Work, handling, in_turn

from pullqueue import Queue
from pullqueue.testing import place
from pullqueue.testing.points.databases import find_unseen

pytestmark = pytest.mark.slow

IMPORTS = {
    "import sqlite3": "sqlite3",
    "import sqlite3 as db": "sqlite3",
    "from sqlite3 import connect": "sqlite3",
    "from sqlite3 import Row": "sqlite3",
    "from sqlalchemy import create_engine": "SQLAlchemy",
    "from sqlalchemy.orm import Session": "SQLAlchemy",
    "import psycopg": "psycopg",
    "from psycopg.errors import UniqueViolation": "psycopg",
    "def work():\n    import psycopg": "psycopg",
    "def work():\n    def inner():\n        from sqlite3 import connect": "sqlite3",
    "class App:\n    def work(self):\n        import sqlalchemy.orm as orm": "SQLAlchemy",
    "work = lambda: __import__\nasync def go():\n    from google.cloud import ndb": "Datastore",
}


@pytest.fixture(params=["race", "crash"])
def run(request: pytest.FixtureRequest, race: Run, crash: Run, work: Work, queue: Queue) -> Run:
    """A race or crashes of a worker that uses queues."""
    if request.param == "race":
        return partial(race, queue.fetch_statistics, copies=2)
    return partial(crash, work, setup=queue.add)


def unseen() -> dict[str, str]:
    """Return the databases that modules use, if no call to any was seen, and these modules."""
    return {database.name: module for database, module in find_unseen((), __name__).items()}


@pytest.mark.parametrize("source", IMPORTS)
def test_a_database_that_is_imported_and_not_seen_is_found(load: Load, source: str) -> None:
    load(source)

    assert unseen() == {IMPORTS[source]: "an_app"}


def test_the_error_can_be_a_warning_or_ignored(run: Any, load: Load) -> None:
    load("import sqlite3, psycopg")

    with pytest.raises(AssertionError) as caught:
        run()
    assert str(caught.value) == (
        f"{run.func.__name__}: an_app uses sqlite3, and no call to it was seen, so nothing was "
        "tried there: make the connection in the actors or in setup, by sqlite3.connect; if it is "
        'not called here, pass unseen="ignore"'
    )

    with pytest.warns(UserWarning, match="no call to it was seen") as warned:
        result = run(unseen="warn")
    assert [Path(each.filename).name for each in warned] == [Path(__file__).name] * 2
    assert result.unseen == run(unseen="ignore").unseen == ("sqlite3", "psycopg")
    assert " of calls to queues, not of sqlite3, psycopg" in str(result)

    with pytest.raises(ValueError, match=r'^unseen is "no": use "error", "warn" or "ignore"$'):
        run(unseen="no")


INSTALLED = """
import sqlite3
def work(queue): queue.delete_tasks(queue.lease_tasks(60, 1))
class Worker:
    def __call__(self, queue): work(queue)
    run = __call__
"""
USES: dict[str, Callable[[Any, Queue], Callable[[], object]]] = {
    "a function": lambda app, queue: partial(app.work, queue),
    "a function of the test": lambda app, queue: lambda: app.work(queue),
    "a method": lambda app, queue: partial(app.Worker().run, queue),
}


@pytest.mark.parametrize("use", [*USES, "a view"])
def test_the_package_of_an_actor_is_the_apps_where_it_is_installed(
    race: Run, crash: Run, work: Work, queue: Queue, load: Load, *, use: str
) -> None:
    name = f"installed_{len(use)}"
    app = load(INSTALLED, name, folder="site-packages")
    send = handling()
    views = {} if use in USES else {"work": app.work}
    setattr(send, "view_functions", views)  # noqa: B010 - as Flask has them
    actor = USES[use](app, queue) if use in USES else work
    for run in (partial(race, copies=2), crash):
        with pytest.raises(AssertionError, match=f": {name} uses sqlite3, and "):
            run(actor, setup=queue.add, send=send)


def test_a_library_that_an_actor_uses_is_not_the_apps(race: Run, queue: Queue) -> None:
    import sqlalchemy

    def actor() -> None:
        queue.fetch_statistics()
        sqlalchemy.text("SELECT 1")

    assert race(actor, copies=2).unseen == ()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        *((source, "an_app") for source in ("", "import json", "x = 'sqlite3'")),
        ("def work(app): return app.redis, app.sqlite3.psycopg", "an_app"),
        ("def work():\n    from . import redis\n    from .redis import sqlite3", "an_app"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import psycopg", "an_app"),
        ("import pullqueue.stores", "an_app"),
        *(("import sqlite3", name) for name in ("test_app", "tests_of_app.helpers")),
        ("import sqlite3", "conftest_of_app"),
    ],
)
def test_other_modules_and_those_of_tests_are_permitted(load: Load, source: str, name: str) -> None:
    load(source, name)

    assert unseen() == {}


@pytest.mark.parametrize("file", [".git", "pyproject.toml", "pytest.ini", "setup.py", "tox.ini"])
def test_helpers_of_tests_are_known_wherever_a_test_runs(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str
) -> None:
    """The folder of a project has such a file; a test can have changed the current one."""
    project = tmp_path / "project"
    name = f"helper_{file.strip('.').partition('.')[0]}"
    helper = load("import sqlite3", name, folder="project/tests/support")
    (project / file).touch()
    (project / "tests" / file).touch()
    monkeypatch.chdir("/")

    assert unseen() == {}
    monkeypatch.setattr(helper, "__file__", str(project / "helper.py"))
    place.is_test_module.cache_clear()
    assert unseen() == {"sqlite3": name}


def test_a_driver_is_seen_if_what_calls_it_is(
    race: Run, queue: Queue, load: Load, tmp_path: Path
) -> None:
    """Apps import drivers for their exceptions."""
    app = load(
        "import psycopg\nfrom sqlalchemy import create_engine, text\n"
        f"engine = create_engine('sqlite:///{tmp_path}/app.sqlite')\n"
        "def ask():\n    with engine.connect() as c: c.execute(text('SELECT 1'))\n"
    )

    result = race(in_turn(queue.fetch_statistics, app.ask), copies=2)
    app.engine.dispose()

    assert result.unseen == ()
    assert {*result.seen} == {"SQLAlchemy", "queues"}


def test_a_database_that_is_not_seen_is_named_where_nobody_makes_a_call(
    race: Run, load: Load
) -> None:
    """Rather than that there was nothing to interleave."""
    load("import psycopg")

    with pytest.raises(AssertionError, match="an_app uses psycopg, "):
        race(lambda: None, copies=2)


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
