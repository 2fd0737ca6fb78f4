"""Linting a pull request that has links: nothing of a file outside the project is shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from linting import GOOD, committed, run, run_pullqueue, write
from tables import each_row

SECRET = "hunter2"
FILES = {
    "secret.yaml": f"{SECRET}-key: x\nqueue:\n- name: {SECRET}\n  rate: {SECRET}\n"
    "- name: mail\n  rate: 0\n",
    "secret.xml": f"<queue-entries><{SECRET}/><queue><name>{SECRET}</name></queue></queue-entries>",
    "secret.txt": f"<{SECRET}",
    "secret.toml": f"[tool.pullqueue.lint]\n{SECRET} = 1\n",
    "secret.json": f'{{"findings": "{SECRET}"}}',
    "queue.yaml": f"queue:\n- name: {SECRET}_\n",
    "pyproject.toml": f"[tool.pullqueue.lint]\n{SECRET} = 1\n",
}
LINKS = {
    "queue.yaml": "../outside/secret.yaml",
    "queue.xml": "../outside/secret.xml",
    "queue.txt": "../outside/secret.txt",
    "link.toml": "../outside/secret.toml",
    "baseline.json": "../outside/secret.json",
    "folder": "../outside",
    "project/pyproject.toml": "../../outside/secret.toml",
}
COMMANDS = [
    "lint queue.yaml",
    "lint folder",
    "lint good.yaml queue.yaml",
    "lint queue.yaml --fix",
    "lint queue.yaml --format json",
    "lint good.yaml --against queue.yaml",
    "lint good.yaml --baseline baseline.json",
    "lint good.yaml --config link.toml",
    "lint good.yaml --write-baseline folder/new.json",
    "lint project/queue.yaml",
    "lint - --stdin-filename folder/queue.yaml",
    "lint - --stdin-filename project/queue.yaml",
    "lint - --against queue.yaml",
    "convert queue.xml",
    "convert queue.txt",
    "convert good.xml -o folder/new.yaml",
    "serve queue.yaml",
    "serve folder/queue.yaml",
    "exec queue.yaml -- true",
]
"""Each way in which a file comes to be read or written. Where links lead: test_config_project."""


@pytest.fixture
def project(folder: Path) -> Path:
    """Make a work tree with links to files beside it, and go there."""
    project = folder / "work"
    (project / ".git").mkdir(parents=True)
    os.chdir(project)
    for name, content in FILES.items():
        write(folder / "outside" / name, content)
    write("good.yaml", GOOD)
    write("good.xml", "<queue-entries></queue-entries>")
    write("project/queue.yaml", GOOD)
    for name, target in LINKS.items():
        Path(name).symlink_to(target)
    return project


def contents(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@each_row("command", COMMANDS)
def test_link_out_of_the_project_is_refused_by_its_path(project: Path, command: str) -> None:
    before = contents(project.parent)
    done = run_pullqueue(*command.split(), stdin=GOOD)
    assert done.exit_code == 3
    assert "a symbolic link leads out of the project" in done.stderr
    assert SECRET not in done.output
    assert contents(project.parent) == before


@pytest.mark.parametrize(
    ("below", "command"),
    [
        *(("", f"lint{arguments}") for arguments in ("", " queue.yaml", " -", " sub")),
        *(("/sub", command) for command in ("lint queue.yaml", "convert secret.txt", "serve")),
    ],
)
def test_working_directory_outside_of_the_project_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch, below: str, command: str
) -> None:
    """A shell that changes to a folder through a link keeps the link in `$PWD`."""
    write("../outside/sub/queue.yaml", GOOD)
    monkeypatch.chdir(f"folder{below}")
    monkeypatch.setenv("PWD", f"{project}/folder{below}")
    done = run_pullqueue(*command.split())
    assert done.exit_code == 3
    assert done.stderr == (
        f'pullqueue: cannot use the working directory "{project}/folder{below}": a symbolic link '
        f'leads out of the project "{project}": change to the folder with `cd -P`\n'
    )
    assert SECRET not in done.stdout


def test_links_of_a_revision_are_followed_within_it(folder: Path) -> None:
    secret = folder.parent / "secret.yaml"
    write(secret, f"{GOOD}- name: {SECRET}\n  mode: pull\n")
    Path("queue.yaml").symlink_to("real/queue.yaml")
    Path("outside.yaml").symlink_to(secret)
    committed("real/queue.yaml", text=f"{GOOD}- name: gone\n  mode: pull\n")
    for name in ("queue.yaml", "outside.yaml"):
        Path(name).unlink()
        write(name, GOOD)
    done = run("queue.yaml", "outside.yaml", "--against", "HEAD", "--format", "concise")
    assert done.stdout.startswith('queue.yaml:1:1: warning[QY509] queue-removed: removed: "gone"')
    assert SECRET not in done.output
    assert '"outside.yaml" is new, was moved, or is not in this clone' in done.stderr
