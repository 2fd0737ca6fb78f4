"""npm's googleapis as a client of the Task Queue API, old and newer, unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import npm_packages, program
from rest_clients import GONE, guarded_server, run_client, token_of

from pullqueue.server.lifecycle import Server

FOLDER = Path(__file__).parent / "npm"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a running server that enforces the acl."""
    with guarded_server() as server:
        yield server


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the clients are installed in; install them where they are missing."""
    return npm_packages(FOLDER, tmp_path_factory.mktemp("npm"))


@pytest.mark.parametrize(
    ("package", "made"),
    [
        ("googleapis-17", "discovered"),
        ("googleapis-27", "discovered"),
        ("googleapis-27", "generated"),
    ],
)
def test_the_lifecycle_of_tasks(server: Server, packages: Path, package: str, made: str) -> None:
    """Insert, list, get, lease, lease by tag, update, patch, delete and refusals from Node."""
    script = (program("node", package="nodejs"), str(FOLDER / "lifecycle.js"))

    reported = run_client(*script, str(packages / package), made, server.url, token_of(server))

    assert [answer or "" for answer in reported["deleted"]] == ["", "", ""]
    assert reported["gone"] == GONE
