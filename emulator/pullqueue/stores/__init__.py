"""Stores that outlive the process: SQLite in one file, PostgreSQL for several servers.

A store is chosen by a URL: `memory`, `sqlite:///FILE` or `postgresql://user@host/database`. Its
module is imported when its URL is used.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from pullqueue.engine.memory.store import MemoryStore
from pullqueue.engine.store import StoreFactory, TaskStore
from pullqueue.errors import StoreError

MEMORY = "memory"
"""The URL of the store that is lost with the process."""

_CREDENTIALS = re.compile(r"^([^:/@]*:)?(//)?.*@", re.DOTALL)
_PASSWORD_OPTION = re.compile(r"([?&](?:ssl)?password=)[^&]*", re.IGNORECASE)


def without_password(url: str) -> str:
    """Return the URL of a store for messages: without credentials, even if it is malformed."""
    if url.startswith("sqlite:"):
        return url  # a file has none, and its name may have an @
    cut = _CREDENTIALS.sub(r"\1\2***@", url)
    return _PASSWORD_OPTION.sub(r"\1***", cut)


def open_store(url: str) -> StoreFactory:
    """Return the store of a URL for `Emulator(store=...)`, which opens it.

    `docs/stores.md` has the options of a URL.

    Raises:
        StoreError: the URL is not that of a store, or a package that the store needs is missing.
    """
    scheme = url.partition(":")[0]
    if url == MEMORY:
        return MemoryStore
    if scheme == "sqlite":
        from pullqueue.stores import sqlite, sqlite_file  # noqa: PLC0415 - seldom needed

        file = partial(sqlite_file.SqliteFile, *sqlite_file.parsed(url))
        return partial(_opened, partial(sqlite.SqliteStore, file), url)
    if scheme != "postgresql":
        raise StoreError(
            f'store "{without_password(url)}" is unknown: use memory, sqlite:///FILE or '
            "postgresql://USER@HOST/DATABASE"
        )
    try:
        from pullqueue.stores import postgres, postgres_pool  # noqa: PLC0415 - needs an extra
    except ImportError as error:
        from pullqueue.extras import install_command  # noqa: PLC0415 - only this error needs it

        raise StoreError(
            f"a postgresql store needs {error.name or 'a package'}, which is not installed: "
            f"{install_command('postgres')}"
        ) from error
    return partial(_opened, partial(postgres.PostgresStore, postgres_pool.parsed(url)), url)


def _opened(make: StoreFactory, url: str, **parts: Any) -> TaskStore:  # noqa: ANN401 - of StoreFactory
    """Return an opened store that knows its URL."""
    store = make(**parts)
    store.url = without_password(url)
    return store
