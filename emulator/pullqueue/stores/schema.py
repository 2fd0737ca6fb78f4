"""The tables of an SQL store, and the steps that lead to them from an empty database.

A task and the tombstone it leaves are one row, so that one unique index guards the name through
the whole of its life: a tombstone has `free_usec`, a task has `eta_usec`, and no row has both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    literal_column,
)

_metadata = MetaData()
# PostgreSQL would compare by the rules of a language otherwise; these are only names.
_name = Text().with_variant(Text(collation="C"), "postgresql")
# SQLite numbers rows by itself only where the type is exactly this.
_number = BigInteger().with_variant(Integer(), "sqlite")


def _task_columns() -> list[Column[int] | Column[str] | Column[bytes]]:
    return [
        Column("queue", _name, nullable=False),
        Column("name", _name, nullable=False),
        Column("payload", LargeBinary, nullable=False),
        Column("tag", LargeBinary, nullable=False),
        Column("eta_usec", BigInteger),
        Column("retry_count", Integer, nullable=False),
        Column("enqueued_usec", BigInteger, nullable=False),
        Column("stored_bytes", Integer, nullable=False),
        Column("ends_usec", BigInteger),
    ]


_tasks = Table(
    "tasks",
    _metadata,
    Column("sequence", _number, Identity(), primary_key=True),
    *_task_columns(),
    Column("free_usec", BigInteger),
)
"""`tag` is empty for none and `=` before the tag otherwise; `ends_usec` is when a task that has
used up its leases is to go, `free_usec` when the name of one that is gone can be used again."""

_t = _tasks.c


def _index(name: str, *columns: Column[Any] | ColumnElement[Any], present: Column[Any]) -> Index:
    """Make an index of those rows that have something in a column."""
    condition = present.is_not(None)
    return Index(name, *columns, sqlite_where=condition, postgresql_where=condition)


Index("tasks_name", _t.queue, _t.name, unique=True)
_index("tasks_due", _t.queue, _t.eta_usec, _t.sequence, present=_t.eta_usec)
_index("tasks_ends", _t.ends_usec, present=_t.ends_usec)
_index("tasks_free", _t.free_usec, present=_t.free_usec)
# A statement that looks for a tag writes the queue as this index does. PostgreSQL then has no other
# index to choose, whatever it believes about how many tags there are.
for _dialect, _queue in (
    ("sqlite", _t.queue),
    ("postgresql", _t.queue.concat(literal_column("''"))),
):
    _index(
        f"tasks_due_tag_{_dialect}", _queue, _t.tag, _t.eta_usec, _t.sequence, present=_t.eta_usec
    ).ddl_if(dialect=_dialect)

_exhausted = Table(
    "exhausted",
    _metadata,
    Column("id", _number, Identity(), primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    *_task_columns(),
)
Index("exhausted_queue", _exhausted.c.queue, _exhausted.c.id)

Table(
    "events",
    _metadata,
    Column("queue", _name),
    Column("id", BigInteger, Identity()),
    Column("usec", BigInteger, nullable=False),
    Column("kind", _name, nullable=False),
    Column("until_usec", BigInteger),
    Column("size", Integer, nullable=False),
    Column("names", _name, nullable=False),
    Column("retry_counts", _name, nullable=False),
    PrimaryKeyConstraint("queue", "id"),
    sqlite_with_rowid=False,
)
"""One row per operation; `names` and `retry_counts` are lists with commas."""

Table(
    "leased",
    _metadata,
    Column("queue", _name),
    Column("second", BigInteger),
    Column("part", Integer),
    Column("tasks", BigInteger, nullable=False),
    PrimaryKeyConstraint("queue", "second", "part"),
)
"""How many tasks were leased in a second. Each writer counts in a part of its own: none waits."""

Table(
    "balance",
    _metadata,
    Column("queue", _name),
    Column("part", Integer),
    Column("tasks", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    PrimaryKeyConstraint("queue", "part"),
)
"""How many tasks a queue holds and what they weigh: the sum of its parts."""

Table(
    "calls",
    _metadata,
    Column("queue", _name),
    Column("usec", BigInteger),
    Index("calls_queue", "queue", "usec"),
)
"""The lease calls of the last second, where their rate is limited."""

Table(
    "retry_limits",
    _metadata,
    Column("queue", _name, primary_key=True),
    Column("leases", Integer),
    Column("age_usec", BigInteger, nullable=False),
)
"""The retry limits that `tasks.ends_usec` was reckoned with."""

TABLES = tuple(_metadata.tables)
"""The names of all tables."""

Step = Callable[[Connection], None]

STEPS: tuple[Step, ...] = (_metadata.create_all,)
"""What leads from each version of the schema to the next; an empty database is version 0."""
