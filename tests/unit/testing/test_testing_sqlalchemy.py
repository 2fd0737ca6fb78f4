"""Calls to databases by SQLAlchemy are points of `race_test` and `crash_test` by themselves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from failing import assert_hidden_errors_are_found
from sqlalchemy import Engine, create_engine, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import NullPool, StaticPool
from stores import postgres_url

from pullqueue import Emulator, Queue
from pullqueue.push.request import PushRequest
from pullqueue.testing import (
    CrashTestError,
    RaceResult,
    RaceTestError,
    crash_test,
    race_test,
)

pytestmark = pytest.mark.slow


class Base(DeclarativeBase):
    pass


class Visits(Base):
    __tablename__ = "visits_of_race_test"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[int]


ENGINES = ["sqlite", "sqlite with a pool", "postgresql"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine with an empty table, and, with a pool, a connection that was made before."""
    if request.param == "postgresql":
        schema = f"races_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
        engine = create_engine(
            postgres_url().replace("postgresql:", "postgresql+psycopg:"),
            connect_args={"options": f"-c search_path={schema}"},
        )
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
    else:
        pool = None if "pool" in request.param else NullPool
        engine = create_engine(f"sqlite:///{tmp_path}/app.sqlite", poolclass=pool)
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    yield engine
    Base.metadata.drop_all(engine)
    engine.dispose()


def reset(engine: Engine) -> None:
    with Session(engine) as session:
        session.execute(text("DELETE FROM visits_of_race_test"))
        session.add(Visits(name="all", value=0))
        session.commit()


def visits(engine: Engine) -> int:
    with Session(engine) as session:
        return session.get_one(Visits, "all").value


def race(emulator: Emulator, engine: Engine, count: Callable[[Engine], None]) -> RaceResult:
    def actor() -> None:
        count(engine)

    def check() -> None:
        assert visits(engine) == 2

    options: Any = {"copies": 2, "setup": lambda: reset(engine), "check": check}
    return race_test(emulator, actor, **options, clock=False, preemptions=1)


def by_session(engine: Engine) -> None:
    with Session(engine) as session:
        row = session.get_one(Visits, "all")
        row.value += 1
        session.commit()


def by_connection(engine: Engine) -> None:
    with engine.begin() as connection:
        value = connection.execute(select(Visits.value)).scalar_one()
        connection.execute(update(Visits).values(value=value + 1))


def by_text(engine: Engine) -> None:
    with engine.connect() as connection:
        value = connection.execute(text("SELECT value FROM visits_of_race_test")).scalar_one()
        connection.execute(text("UPDATE visits_of_race_test SET value = :v"), {"v": value + 1})
        connection.commit()


@pytest.mark.parametrize(
    ("engine", "count"),
    [
        *((each, by_session) for each in ENGINES),
        ("sqlite with a pool", by_connection),
        ("sqlite with a pool", by_text),
    ],
    indirect=["engine"],
)
def test_a_lost_update_is_found(
    emulator: Emulator, engine: Engine, count: Callable[[Engine], None]
) -> None:
    """Each call is shown with the line of the app, also where SQLAlchemy generates code."""
    with pytest.raises(RaceTestError, match="assert 1 == 2") as caught:
        race(emulator, engine, count)
    calls = [step for step in caught.value.schedule if "SELECT" in step or "UPDATE" in step]
    assert calls
    assert all(f"{Path(__file__).name}:" in step for step in calls), calls
    assert all(f" in {count.__name__})" in step for step in calls), calls


def in_the_database(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(update(Visits).values(value=Visits.value + 1))


def with_a_lock(engine: Engine) -> None:
    """Lock the row, or, as SQLite has no such lock, write first."""
    with Session(engine) as session, session.begin():
        if engine.dialect.name == "sqlite":
            session.execute(update(Visits).values(value=Visits.value))
        row = session.get_one(Visits, "all", with_for_update=True)
        row.value += 1


@pytest.mark.parametrize(
    ("engine", "count"),
    [*((each, with_a_lock) for each in ENGINES), ("sqlite with a pool", in_the_database)],
    indirect=["engine"],
)
def test_a_correct_transaction_is_correct(
    emulator: Emulator, engine: Engine, count: Callable[[Engine], None]
) -> None:
    """Who waits for the lock of another actor lets that one go on."""
    result = race(emulator, engine, count)

    assert result.is_complete
    assert result > 1
    assert result.seen == ("SQLAlchemy",)


def test_a_handler_that_commits_before_it_adds_a_task_loses_it(
    emulator: Emulator, pushed: Queue, engine: Engine
) -> None:
    mails: list[str] = []

    def setup() -> None:
        reset(engine)
        mails.clear()
        pushed.add(name="pay")

    def send(request: PushRequest) -> int:
        if request.task_name == "mail":
            mails.append("mail")
            return 200
        with Session(engine) as session:
            row = session.get_one(Visits, "all")
            if not row.value:
                row.value = 1
                session.commit()
                pushed.add(name="mail")
        return 200

    def check() -> None:
        assert mails

    with pytest.raises(CrashTestError) as caught:
        crash_test(emulator, setup=setup, check=check, send=send)

    titles = [failure.title for failure in caught.value.failures]
    assert titles[0].startswith("killed before call 4, add(")
    assert not [title for title in titles if "COMMIT" in title]


def test_what_a_killed_handler_has_not_committed_is_rolled_back(
    emulator: Emulator, pushed: Queue, engine: Engine
) -> None:
    def setup() -> None:
        reset(engine)
        pushed.add(name="one")

    def send(_: object) -> int:
        with Session(engine) as session:
            done = session.get(Visits, "done")
            if done is None:
                session.execute(update(Visits).values(value=Visits.value + 1))
                session.add(Visits(name="done", value=1))
                session.commit()
        return 200

    def check() -> None:
        assert visits(engine) == 1

    result = crash_test(emulator, setup=setup, check=check, send=send)

    assert result == 5  # before each of four calls, and the response
    assert result.seen == ("SQLAlchemy",)


def test_actors_that_share_a_connection_are_a_warning(emulator: Emulator) -> None:
    """A database in memory has one connection, which would be one transaction of both."""
    engine = create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )
    Base.metadata.create_all(engine)

    with (
        pytest.warns(UserWarning, match="share one connection of a StaticPool"),
        suppress(RaceTestError),
    ):
        race(emulator, engine, in_the_database)
    engine.dispose()


def test_a_write_that_fails_is_an_error_of_sqlalchemy(
    emulator: Emulator, pushed: Queue, engine: Engine
) -> None:
    def write() -> None:
        with Session(engine) as session:
            session.get_one(Visits, "all").value = 1
            session.commit()

    assert_hidden_errors_are_found(
        emulator,
        pushed,
        OperationalError,
        reset=lambda: reset(engine),
        write=write,
        value=lambda: visits(engine),
    )
