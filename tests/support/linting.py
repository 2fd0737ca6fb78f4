"""What the tests of `pullqueue lint` share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click
from click.testing import CliRunner, Result
from programs import completed

from pullqueue.cli import main

GOOD = "queue:\n- name: jobs\n  mode: pull\n"
ZERO_RATE = "queue:\n- name: mail\n  rate: 0\n"
BAD = "queue:\n- name: jobs\n  mode: pull\n  rate: 5/s\n"


class _Program(click.Command):
    """The whole command, which turns errors into messages and exit statuses."""

    def main(self, args: Sequence[str] = (), **_options: object) -> NoReturn:  # type: ignore[override]
        raise SystemExit(main(args))


def run_pullqueue(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """Run a command of `pullqueue` in this process."""
    program = _Program("pullqueue")
    return CliRunner().invoke(program, arguments, input=stdin, catch_exceptions=False)


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return run_pullqueue("lint", *arguments, stdin=stdin)


def found(*arguments: str) -> list[tuple[str, str]]:
    """Run `pullqueue lint` and return file and rule of each finding."""
    lines = run(*arguments, "--format", "jsonl").stdout.splitlines()
    return [(item["file"], item["rule"]) for item in map(json.loads, lines)]


def write(path: str | Path, text: str | bytes) -> None:
    """Write a file, and the folders it is in."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(text.encode() if isinstance(text, str) else text)


def git(*arguments: str, stdin: str = "") -> str:
    """Run git in the working folder and return its output."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    return completed(["git", *identity, *arguments], check=True, input=stdin).stdout.strip()


def committed(*files: str, text: str) -> None:
    """Write files, and commit all there is to a new repository."""
    git("init", "-q")
    for file in files:
        write(file, text)
    git("add", "-f", ".")
    git("commit", "-qm", "x")
