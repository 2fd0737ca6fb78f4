"""Convert our docstrings for Sphinx: `Raises:` becomes a list with links to the errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sphinx.application import Sphinx

import pullqueue

_ENTRY = re.compile(r"^    (\w+): (.*)$")


def _converted(lines: list[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        entry = _ENTRY.match(line)
        if line in ("Raises:", "Raises"):
            inside = True
            yield from ("**Raises**", "")
        elif inside and entry:
            yield f"* {_error(entry[1])}: {entry[2]}"
        elif inside and line.startswith("     "):
            yield f"  {line.strip()}"
        else:
            inside = inside and not line
            yield line


def _error(name: str) -> str:
    kind = getattr(pullqueue, name, None)
    return f":py:exc:`~{kind.__module__}.{name}`" if kind else f"``{name}``"


def _convert(_app: Sphinx, _what: str, _name: str, _object: object, *rest: object) -> None:
    lines = rest[-1]
    assert isinstance(lines, list)
    lines[:] = list(_converted(lines))


def setup(app: Sphinx) -> Mapping[str, bool]:
    """Convert each docstring that autodoc reads."""
    app.connect("autodoc-process-docstring", _convert)
    return {"parallel_read_safe": True}
