"""The counts, in a file that web app and worker share."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

FILE = os.environ.get("COUNTS_FILE", "counts.sqlite")


def add(thing: str, votes: int) -> None:
    """Add votes to a count."""
    with closing(_database()) as database, database:
        database.execute(
            "INSERT INTO counts VALUES (?, ?) ON CONFLICT DO UPDATE SET votes = votes + ?",
            (thing, votes, votes),
        )


def read() -> dict[str, int]:
    """Return all counts."""
    with closing(_database()) as database:
        return dict(database.execute("SELECT thing, votes FROM counts ORDER BY thing"))


def _database() -> sqlite3.Connection:
    database = sqlite3.connect(FILE)
    database.execute("CREATE TABLE IF NOT EXISTS counts (thing TEXT PRIMARY KEY, votes INTEGER)")
    return database
