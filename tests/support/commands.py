"""What the tests of the commands share."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
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
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(
        [PROGRAM, *command],
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
    shown = b"".join(parts).decode().replace("\r\n", "\n")
    return shown if colour else re.sub(r"\x1b\[(0|1|3[123])m|\r?\x1b\[\?25[lh]", "", shown)
