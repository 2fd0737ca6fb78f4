"""Tests of many rows, of which one test reports all that fail.

`pytest.mark.parametrize` makes a test of each row, which costs more to collect and to report than
most take to run. It is for rows that need fixtures of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Call a test with each row, as `parametrize` does; all rows have the same fixtures."""

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        known = (names,) if isinstance(names, str) else names
        values = [(row,) if isinstance(names, str) else row for row in rows]

        @wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            failures: list[Exception] = []
            for row in values:
                given = dict(zip(known, row, strict=True))
                try:
                    test(*args, **given, **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - all are shown
                    shown = ", ".join(f"{name}={value!r:.300}" for name, value in given.items())
                    failure = AssertionError(f"{shown}\n{type(error).__name__}: {error}")
                    failures.append(failure.with_traceback(error.__traceback__))
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(values)} rows fail", failures)

        fixtures = [each for each in signature.parameters.values() if each.name not in known]
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined] # as inspect documents
        return run

    return decorate
