"""What the tests of the commands share."""

from __future__ import annotations

import sys
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
