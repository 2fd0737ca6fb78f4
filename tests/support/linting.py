"""What the tests of `pullqueue lint` share."""

from __future__ import annotations

import subprocess
from pathlib import Path

from click.testing import CliRunner, Result

from pullqueue.cli.lint import lint

GOOD = "queue:\n- name: jobs\n  mode: pull\n"
BAD = "queue:\n- name: jobs\n  mode: pull\n  rate: 5/s\n"
MAIN = "from pullqueue.cli import main; raise SystemExit(main())"


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """Run `pullqueue lint`."""
    return CliRunner().invoke(lint, arguments, input=stdin, catch_exceptions=False)


def write(path: str | Path, text: str | bytes) -> None:
    """Write a file, and the folders it is in."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(text.encode() if isinstance(text, str) else text)


def git(*arguments: str) -> str:
    """Run git in the working folder and return its output."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    done = subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)
    return done.stdout.decode().strip()
