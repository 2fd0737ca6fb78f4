"""What the tests of the commands share."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

PROGRAM = Path(sys.executable).with_name("pullqueue")


class Done(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


Run = Callable[..., Done]


def shown_on_terminal(
    *command: str, columns: int = 80, colour: bool = False, **environment: str
) -> str:
    """Return what a terminal gets of a command, without colours and bars unless `colour`."""
    shown = _shown([str(PROGRAM), *command], columns, environment)
    return shown if colour else _plain(shown)


_ALL = r"""
import json, sys
from pullqueue.cli import main

for command in json.loads(sys.argv[1]):
    print(end="\0", flush=True)
    main(command)
    sys.stdout.flush()
"""


def all_shown_on_terminal(commands: Sequence[str], *options: str) -> dict[str, str]:
    """Return what a terminal gets of each command, all of them run in one process."""
    given = json.dumps([[*command.split(), *options] for command in commands])
    _, *shown = _plain(_shown([sys.executable, "-c", _ALL, given], 80, {})).split("\0")
    return dict(zip(commands, shown, strict=True))


def _shown(arguments: list[str], columns: int, environment: dict[str, str]) -> str:
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=end,
        stderr=end,
        env={**inherited, "TERM": "xterm", **environment},
    ):
        os.close(end)
        parts = []
        try:
            while part := os.read(terminal, 1 << 16):
                parts.append(part)
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(terminal)
    return b"".join(parts).decode().replace("\r\n", "\n")


def _plain(shown: str) -> str:
    return re.sub(r"\x1b\[(0|1|3[123])m|\r?\x1b\[\?25[lh]", "", shown)
