"""The places in the code under test that reports of `crash_test` and `race_test` show."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path


def place(function: Callable[..., object], source: str) -> str:
    """Return how a report shows the line of a function that contains some text, once."""
    lines, first = inspect.getsourcelines(function)
    (number,) = (number for number, line in enumerate(lines, first) if source in line)
    file = Path(str(inspect.getsourcefile(function)))
    return f"({file.relative_to(Path.cwd())}:{number} in {function.__name__})"


def without_places(texts: Iterable[str]) -> tuple[str, ...]:
    """Return calls or steps as the report shows them, but for their places."""
    return tuple(re.sub(r" \([^ ]+:\d+ in [^ ]+\)", "", text) for text in texts)
