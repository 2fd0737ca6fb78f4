"""Runs what a Markdown document shows: its files, its Python, its tests and its commands.

A fenced block whose first line is a comment with a file's name is written to that file; a test
module is run with pytest. Other Python blocks are run as they are. In `console` blocks the lines
behind `$ ` are run by one shell for the whole document, and must print what stands below them,
where `...` stands for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAME = re.compile(r"^# ([\w./-]+\.\w+)$")
_READY = "pullqueue listening on "


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    language: str
    text: str
    line: int

    @property
    def file_name(self) -> str | None:
        """The file that the block is shown as."""
        match = _FILE_NAME.match(self.text.partition("\n")[0])
        return match and match.group(1)


def blocks_of(document: Path) -> list[Block]:
    """Give the fenced blocks of a document."""
    text = document.read_text("utf-8")
    return [
        Block(match.group(1), match.group(2), text.count("\n", 0, match.start()) + 1)
        for match in _BLOCK.finditer(text)
    ]


class DocumentRunner:
    """Runs blocks one after the other in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers: list[subprocess.Popen[str]] = []
        self.last_status = 0

    def run(self, block: Block) -> None:
        """Do what a block shows and check that it comes out as shown."""
        if block.file_name:
            path = self.folder / block.file_name
            path.write_text(block.text, "utf-8")
            if path.name.startswith("test_"):
                self._python("-m", "pytest", "-q", "-p", "no:cacheprovider", path.name)
        elif block.language == "python":
            self._python("-W", "error", "-c", block.text)
        elif block.language == "console":
            for command, expected in _commands(block.text):
                self._command(command, expected)

    def close(self) -> None:
        """Stop the servers that were started."""
        for server in self.servers:
            server.terminate()
            server.communicate(timeout=10)

    def _python(self, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, *arguments],
            check=False,
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _command(self, command: str, expected: str) -> None:
        if _READY in expected:
            self._serve(command, expected)
            return
        done = subprocess.run(
            ["bash", "-c", f"(exit {self.last_status}); {command}"],
            check=False,
            cwd=self.folder,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        self.last_status = done.returncode
        assert _matches(expected, done.stdout), f"$ {command}\n{done.stdout}\nis not\n{expected}"

    def _serve(self, command: str, expected: str) -> None:
        server = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.servers.append(server)
        first = _line(server.stdout)
        assert _matches(expected.partition("\n")[0], first), first


def _environment() -> dict[str, str]:
    """Give an environment whose `pullqueue` is the one under test, wherever pytest was started."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path}


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().rstrip("\n")


def _commands(text: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def _matches(expected: str, actual: str) -> bool:
    pattern = ".*?".join(re.escape(part) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, actual.strip(), re.DOTALL) is not None
