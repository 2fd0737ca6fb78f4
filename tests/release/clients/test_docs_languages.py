"""The pages of the documentation on Node, Go and Java: each block does what it shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from documents import PAGES, is_foreign, run_document
from programs import go_libraries, java_libraries, npm_packages, program

NPM = Path(__file__).parent / "npm_cloud_tasks"


@pytest.mark.parametrize("page", [p for p in PAGES if is_foreign(p)], ids=lambda page: page.name)
def test_every_block_of_a_page_does_what_it_shows(
    page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With the clients of npm, and Debian's packages of the others."""
    program("node", package="nodejs")
    packages = npm_packages(NPM, tmp_path_factory.mktemp("npm"))
    (tmp_path / "node_modules").symlink_to(packages, target_is_directory=True)
    program("go", package="golang-go")
    go = go_libraries("cloud.google.com/go/cloudtasks/apiv2", debian="golang-google-cloud-dev")
    program("javac", package="default-jdk-headless")

    run_document(page, tmp_path, CLASSPATH=f".{os.pathsep}{java_libraries()}", **go)
