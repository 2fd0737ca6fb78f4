"""Output formats: each is a function from the report on a run to text."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pullqueue.lint.report import RunReport

FORMATS = {
    "full": "text",
    "concise": "text",
    **dict.fromkeys(("json", "jsonl", "github", "gitlab", "junit", "sarif"), "data"),
}
"""The module of each format, imported when it is asked for."""


def reporter(name: str) -> Callable[[RunReport], str]:
    """Return the function that writes a format."""
    module = import_module(f"{__name__}.{FORMATS[name]}")
    function: Callable[[RunReport], str] = getattr(module, f"report_{name}")
    return function
