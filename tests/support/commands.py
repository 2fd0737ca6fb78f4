"""What the tests of the commands share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple
from unittest.mock import patch

from pullqueue.cli import main


class Done(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


Run = Callable[..., Done]


class _Terminal(StringIO):
    """Takes what a terminal would."""

    def isatty(self) -> bool:
        return True


def shown_on_terminal(
    *command: str, columns: int = 80, colour: bool = False, **environment: str
) -> str:
    """Return what a terminal gets of a command, without colours and bars unless `colour`.

    Nobody answers its questions.
    """
    terminal = _Terminal()
    with (
        redirect_stdout(terminal),
        redirect_stderr(terminal),
        patch.object(sys, "stdin", StringIO()),
        patch.dict(os.environ, environment, COLUMNS=str(columns)),
    ):
        main(command)
    shown = terminal.getvalue()
    return shown if colour else re.sub(r"\x1b\[(0|1|3[123])m|\r?\x1b\[\?25[lh]", "", shown)
