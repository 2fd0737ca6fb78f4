"""Where the app's code makes a call."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import NamedTuple

_OF_TESTS = ("test_", "tests", "conftest")
"""Beginnings of the names of modules and folders that are not the app's."""


_STANDARD_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"


class Place(NamedTuple):
    """Where the app's code makes a call."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        path, folder = Path(self.file), Path.cwd()
        shown = path.relative_to(folder) if path.is_relative_to(folder) else path
        return f"{shown}:{self.line} in {self.function}"


def calling_place(frame: FrameType | None = None, *, is_hook: bool = False) -> Place | None:
    """Return where the app makes the current call: its innermost frame, if it has one.

    `frame` is the innermost one of the thread that calls; None: of this thread.

    With `is_hook` that is a hook of the test, and the place is where the app has called the hook.
    """
    place = None
    frame = frame or sys._getframe(1)  # noqa: SLF001 - documented, of CPython
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if module == "pullqueue.testing.exploration.crash":
            break  # it runs the actor, in the thread of the test
        if is_of_app(code.co_filename, module):
            place = Place(code.co_filename, frame.f_lineno, code.co_name)
            if not is_hook:
                break
            is_hook = False
        frame = frame.f_back
    return place


@cache
def is_of_app(file: str, module: str) -> bool:
    """Return whether a module is neither of a library nor of Python, by its file and its name."""
    if file.startswith("<"):  # it is generated, for example by SQLAlchemy, which names itself
        file = str(getattr(sys.modules.get(module), "__file__", file))
    return bool(module) and not (  # what a library generates has no name
        module.partition(".")[0] in ("google", "pullqueue", "pytest_pullqueue")
        or file.startswith(_STANDARD_LIBRARY)
        or _is_installed(file)
    )


def is_app_module(name: str) -> bool:
    """Return whether a module that was imported is neither of a library nor of Python."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return bool(file) and is_of_app(str(file), name)


def is_library_module(name: str) -> bool:
    """Return whether a module that was imported is of a library, and not of Python."""
    file = str(getattr(sys.modules.get(name), "__file__", None) or _STANDARD_LIBRARY)
    return _is_installed(file) and not is_of_app(file, name)


def _is_installed(file: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def app_modules() -> dict[str, ModuleType]:
    """Return the loaded modules of the app and of tests, by name, sorted."""
    found = {}
    for name, module in list(sys.modules.items()):
        if _others.get(name) is not module:  # it has not been looked at
            if type(module) is ModuleType and is_app_module(name):
                found[name] = module
            else:
                _others[name] = module
    return dict(sorted(found.items()))


_others: dict[str, ModuleType] = {}
"""The modules of libraries and of Python, which are most in a large program."""


@cache
def is_test_module(name: str) -> bool:
    """Return whether a module is one of tests, by its name, or because it is below `tests/`."""
    path, folder = Path(str(getattr(sys.modules.get(name), "__file__", ""))), Path.cwd()
    parts = path.relative_to(folder).parts[:-1] if path.is_relative_to(folder) else ()
    return any(part.startswith(_OF_TESTS) for part in (*parts, *name.split(".")))
