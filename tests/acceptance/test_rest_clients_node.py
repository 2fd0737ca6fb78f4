"""npm's googleapis as a client of the Task Queue API, old and newer, unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from programs import completed, npm_packages, program
from rest_clients import GONE, guarded_server, key_file, run_client, token_of

from pullqueue.server.lifecycle import Server

FOLDER = Path(__file__).parent / "npm"
PULL_QUEUE = "/taskqueue/v1beta2/projects/my-app/taskqueues/pull-queue"


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


@pytest.mark.parametrize("package", ["gtoken", "googleapis-27/node_modules/gtoken"])
def test_a_key_file(server: Server, packages: Path, tmp_path: Path, package: str) -> None:
    """A token for a key file, asked for by a client that does not name the key it signs with."""
    key = key_file(server, tmp_path / "key.json")
    script = [program("node", package="nodejs"), str(FOLDER / "grant.js")]

    done = completed(
        [*script, str(packages / package), str(key), f"{server.url}/token"], check=True
    )

    headers = {"Authorization": f"Bearer {done.stdout.strip()}"}
    request = Request(f"{server.url}{PULL_QUEUE}", headers=headers)  # noqa: S310 - our own server
    with urlopen(request, timeout=60) as answer:  # noqa: S310 - the same
        assert answer.status == 200
