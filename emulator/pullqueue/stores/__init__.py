"""Stores that outlive the process: SQLite in one file, PostgreSQL for several servers.

A store is chosen by a URL: `memory`, `sqlite:///FILE` or `postgresql://user@host/database`. What a
store needs beyond the package itself is imported when its URL is used.
"""

from __future__ import annotations

import re

from pullqueue.engine.memory.store import MemoryStore
from pullqueue.engine.store import StoreFactory
from pullqueue.errors import StoreError

MEMORY = "memory"
"""The URL of the store that is gone with the process."""

_INSTALL = {
    "sqlite": "pip install 'pullqueue[sql]'",
    "postgresql": "pip install 'pullqueue[postgres]'",
}


_CREDENTIALS = re.compile(r"^([^:/@]*:)?(//)?.*@", re.DOTALL)
_PASSWORD_OPTION = re.compile(r"([?&](?:ssl)?password=)[^&]*", re.IGNORECASE)


def without_password(url: str) -> str:
    """Give the URL of a store for messages: without its credentials, even if it is malformed."""
    cut = _CREDENTIALS.sub(r"\1\2***@", url)
    return _PASSWORD_OPTION.sub(r"\1***", cut)


def store_from_url(url: str) -> StoreFactory:
    """Give what makes the store of a URL; `docs/stores.md` tells which options a URL can have.

    Raises:
        StoreError: the URL is no store's, or a package that the store needs is not installed.
    """
    scheme = url.partition(":")[0]
    if url == MEMORY:
        return MemoryStore
    if scheme not in _INSTALL:
        raise StoreError(
            f"store {without_password(url)!r} is unknown: give memory, sqlite:///FILE or "
            "postgresql://USER@HOST/DATABASE"
        )
    try:
        return _factory(scheme, url)
    except ImportError as error:
        raise StoreError(
            f"store {scheme!r} needs {error.name or 'a package'!s}, which is not installed: "
            f"{_INSTALL[scheme]}"
        ) from error


def _factory(scheme: str, url: str) -> StoreFactory:
    if scheme == "sqlite":
        from pullqueue.stores.sqlite import sqlite_store  # noqa: PLC0415 - imports SQLAlchemy

        return sqlite_store(url)
    from pullqueue.stores.postgres import postgres_store  # noqa: PLC0415 - imports psycopg too

    return postgres_store(url)
