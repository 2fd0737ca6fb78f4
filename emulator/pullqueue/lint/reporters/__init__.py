"""Output formats: each is a function from the report on a run to text."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from pullqueue.lint.report import RunReport

Reporter = Callable[[RunReport], str]

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
    """Return the function that writes a format."""
    module = import_module(f"{__name__}.{FORMATS[name]}")
    function: Reporter = getattr(module, f"report_{name}")
    return function
