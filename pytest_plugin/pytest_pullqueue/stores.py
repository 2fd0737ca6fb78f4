"""Where a test's tasks are kept: each worker of pytest-xdist has a place of its own."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pullqueue.errors import StoreError
from pullqueue.stores import store_from_url

_FILE = "sqlite:///"
_SERVER = "postgresql://"
_SCHEMA = "pullqueue"


def store_of_worker(url: str, root: Path) -> str:
    """Give the URL of the store that only this process of pytest uses.

    The name of the worker (`main` without workers) is added to the file or the schema, so that
    tests, which empty their store, never meet tasks that someone works with. A relative file is
    relative to pytest's root directory; the file's folder is made, as a fresh checkout has none.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    if url.startswith(_FILE):
        place, mark, options = url.removeprefix(_FILE).partition("?")
        path = root / place
        with suppress(OSError):  # opening the store tells what is wrong
            path.parent.mkdir(parents=True, exist_ok=True)
        return f"{_FILE}{path.with_name(f'{path.stem}-{worker}{path.suffix}')}{mark}{options}"
    if url.startswith(_SERVER):
        parts = urlsplit(url)
        options_of_url = dict(parse_qsl(parts.query))
        options_of_url["schema"] = f"{options_of_url.get('schema', _SCHEMA)}_{worker}"
        return urlunsplit(parts._replace(query=urlencode(options_of_url)))
    return url


def load_store(url: str) -> None:
    """Import what a store needs; a database's driver must not meet frozen time when it is loaded.

    What is wrong with a URL is told when the store is opened.
    """
    with suppress(StoreError):
        store_from_url(url)
