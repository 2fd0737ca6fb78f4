"""The counter of `visits` in a database of SQLAlchemy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, create_engine, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import NullPool, StaticPool
from stores import postgres_url
from visits import Open, Visits


class Base(DeclarativeBase):
    pass


class Row(Base):
    __tablename__ = "visits_of_race_test"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[int]


class SqlalchemyVisits(Visits):
    name = "SQLAlchemy"
    error = OperationalError

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def reset(self) -> None:
        with Session(self._engine) as session:
            session.execute(text("DELETE FROM visits_of_race_test"))
            session.add(Row(name="all", value=0))
            session.commit()

    def value(self) -> int:
        with Session(self._engine) as session:
            return session.get_one(Row, "all").value

    def write(self) -> None:
        with Session(self._engine) as session:
            session.get_one(Row, "all").value = 1
            session.commit()

    def pay(self, then: Callable[[], object]) -> None:
        with Session(self._engine) as session:
            row = session.get_one(Row, "all")
            if not row.value:
                row.value = 1
                session.commit()
                then()

    def by_session(self) -> None:
        with Session(self._engine) as session:
            row = session.get_one(Row, "all")
            row.value += 1
            session.commit()

    def by_connection(self) -> None:
        with self._engine.begin() as connection:
            value = connection.execute(select(Row.value)).scalar_one()
            connection.execute(update(Row).values(value=value + 1))

    def by_expression(self) -> None:
        with self._engine.begin() as connection:
            connection.execute(update(Row).values(value=Row.value + 1))

    def by_autocommit(self) -> None:
        with self._engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.execute(text("UPDATE visits_of_race_test SET value = value + 1"))

    def with_a_lock(self) -> None:
        """Lock the row, or, as SQLite has no such lock, write first."""
        with Session(self._engine) as session, session.begin():
            if self._engine.dialect.name == "sqlite":
                session.execute(update(Row).values(value=Row.value))
            row = session.get_one(Row, "all", with_for_update=True)
            row.value += 1

    def with_two_transactions(self) -> None:
        """Lock the row, and go on when others can lock it."""
        self.with_a_lock()
        with Session(self._engine) as session, session.begin():
            session.execute(update(Row).values(value=Row.value))


def engine_of(variant: str, folder: Path) -> Engine:
    """Make an engine; one with a pool makes its connection before the test."""
    match variant:
        case "postgresql":
            schema = f"races_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
            engine = create_engine(
                postgres_url().replace("postgresql:", "postgresql+psycopg:"),
                connect_args={"options": f"-c search_path={schema}"},
            )
            with engine.begin() as connection:
                connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
            return engine
        case "memory":
            options = {"check_same_thread": False}
            return create_engine("sqlite://", poolclass=StaticPool, connect_args=options)
    pool = None if variant == "pool" else NullPool
    return create_engine(f"sqlite:///{folder}/app.sqlite", poolclass=pool)


@contextmanager
def serving() -> Iterator[Open]:
    @contextmanager
    def opened(variant: str, folder: Path) -> Iterator[Visits]:
        engine = engine_of(variant, folder)
        Base.metadata.drop_all(engine)
        Base.metadata.create_all(engine)
        yield SqlalchemyVisits(engine)
        Base.metadata.drop_all(engine)
        engine.dispose()

    yield opened
