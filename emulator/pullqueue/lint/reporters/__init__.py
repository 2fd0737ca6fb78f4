"""Output formats: each is a function from results to text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from pullqueue.lint.results import FileResult

Reporter = Callable[[Sequence[FileResult]], str]

FORMATS = {
    "full": "text",
    "concise": "text",
    "json": "data",
    "jsonl": "data",
    "rdjson": "data",
    "github": "ci",
    "gitlab": "ci",
    "junit": "ci",
    "sarif": "sarif",
}
"""The module of each format, imported when it is asked for."""


def reporter(name: str) -> Reporter:
    """Give the function that writes a format; `full` without colour."""
    module = import_module(f"{__name__}.{FORMATS[name]}")
    function: Reporter = getattr(module, f"report_{name}")
    return function
