"""Statements in the form that a driver takes."""

from __future__ import annotations

import re

from sqlalchemy import Dialect, text

_IN_LIST = re.compile(r"IN_LIST\((\w+)\)")


class Statements:
    """Puts statements into a driver's form, each of them once."""

    def __init__(self, dialect: Dialect, *, in_list: str, locked: str) -> None:
        r"""Take what stands for `IN_LIST(x)`, with `\1` for x, and for `LOCK_ROWS`."""
        self._dialect = dialect
        self._in_list = in_list
        self._locked = locked
        self._forms: dict[str, str] = {}

    def __getitem__(self, statement: str) -> str:
        form = self._forms.get(statement)
        if form is None:
            spelled = _IN_LIST.sub(self._in_list, statement).replace("LOCK_ROWS", self._locked)
            form = self._forms[statement] = str(text(spelled).compile(dialect=self._dialect))
        return form
