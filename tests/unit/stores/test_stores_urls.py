"""pullqueue.stores: which URL means which store."""

from __future__ import annotations

import sys

import pytest
from tables import each_row

from pullqueue import Emulator, StoreError, stores
from pullqueue.engine.memory.store import MemoryStore
from pullqueue.extras import install_command
from pullqueue.stores import open_store


def test_the_store_in_memory_has_a_url() -> None:
    assert open_store("memory") is MemoryStore


@each_row("url", ["mysql://host/db", "tasks.db", "", "Memory"])
def test_an_unknown_store_is_refused_with_those_there_are(url: str) -> None:
    with pytest.raises(StoreError) as excinfo:
        Emulator.from_text("queue:\n", store=open_store(url))

    assert str(excinfo.value) == (
        f'store "{url}" is unknown: use memory, sqlite:///FILE or postgresql://USER@HOST/DATABASE'
    )


@each_row("url", ["sqlite:", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://tasks.db"])
def test_an_sqlite_url_needs_a_file_after_three_slashes(url: str) -> None:
    with pytest.raises(StoreError) as excinfo:
        open_store(url)

    assert str(excinfo.value) == f'store "{url}" has no file: use sqlite:///FILE, or memory'


@pytest.mark.parametrize("option", ["synchronous=off", "cache=shared"])
def test_an_option_that_weakens_the_guarantee_is_refused(option: str) -> None:
    with pytest.raises(StoreError, match="only synchronous=normal and synchronous=full are"):
        open_store(f"sqlite:///tasks.db?{option}")


@pytest.mark.parametrize("missing", ["psycopg", "psycopg_pool"])
def test_a_package_that_is_not_installed(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command that installs it."""
    for name in ("postgres", "postgres_pool"):
        monkeypatch.delitem(sys.modules, f"pullqueue.stores.{name}", raising=False)
        monkeypatch.delattr(stores, name, raising=False)
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(StoreError) as excinfo:
        open_store("postgresql://host/db")

    assert str(excinfo.value) == (
        f"a postgresql store needs {missing}, which is not installed: {install_command('postgres')}"
    )


@each_row(
    "url",
    [
        "postgres://user:secret@host/db",
        "postgres:user:secret@host/db",
        "user:secret@host/db",
        "postgresql://user:secret@host:port/db",
        "postgresql://user:secret/@host/db",
        "postgresql://user:secret@host/db?nonsense=1",
        "postgresql://user:se@secret@host/db?connections=many",
        "postgresql://host/db?connections=many&password=secret",
    ],
)
def test_no_message_shows_a_password(url: str) -> None:
    """A URL that is refused is shown without its password, and so is why."""
    with pytest.raises(StoreError) as excinfo:
        open_store(url)

    assert "secret" not in str(excinfo.value)
    assert "host" in str(excinfo.value)
    assert excinfo.value.__cause__ is None
