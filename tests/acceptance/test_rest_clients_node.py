"""npm's googleapis as a client of the Task Queue API, old and newer, unmodified."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from programs import program
from rest_clients import CLIENTS_YAML, GONE, life, token_of
from served import Served, serving

FOLDER = Path(__file__).parent / "npm"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a server that enforces the acl."""
    folder = tmp_path_factory.mktemp("node")
    (folder / "queue.yaml").write_text(CLIENTS_YAML)
    with serving("--auth", "acl", "--no-lease-rate-limit", folder=folder) as served:
        yield served


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder that the clients are installed in; install them where they are missing."""
    installed = FOLDER / "node_modules"
    if not installed.exists():
        folder = tmp_path_factory.mktemp("npm")
        shutil.copy(FOLDER / "package.json", folder)
        flags = ("--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock")
        subprocess.run(
            [program("npm", package="npm"), "install", *flags], cwd=folder, check=True, timeout=300
        )
        # Another process of the same test run may have been faster.
        with suppress(OSError):
            shutil.move(folder / "node_modules", installed)
    return installed


@pytest.mark.parametrize(
    ("package", "made"),
    [
        ("googleapis-17", "discovered"),
        ("googleapis-27", "discovered"),
        ("googleapis-27", "generated"),
    ],
)
def test_the_whole_life_of_tasks(served: Served, packages: Path, package: str, made: str) -> None:
    """Insert, list, get, lease, lease by tag, update, patch, delete and refusals from Node."""
    script = (program("node", package="nodejs"), str(FOLDER / "life.js"))

    told = life(*script, str(packages / package), made, served.url, token_of(served))

    assert [answer or "" for answer in told["deleted"]] == ["", "", ""]
    assert told["gone"] == GONE
