"""Where the app's code makes a call."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from traceback import walk_stack
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

_ROOTS = (".git", "pyproject.toml", "pytest.ini", "setup.py", "tox.ini")
"""Files of which the folder of a project has one."""
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
    for each, line in walk_stack(frame or sys._getframe(1)):  # noqa: SLF001 - documented, of CPython
        if each.f_globals.get("__name__") == "pullqueue.testing.exploration.crash":
            break  # it runs the actor, in the thread of the test
        if is_frame_of_app(each):
            place = Place(each.f_code.co_filename, line, each.f_code.co_name)
            if not is_hook:
                break
            is_hook = False
    return place


def is_frame_of_app(frame: FrameType) -> bool:
    """Return whether the code of a frame is that of the app."""
    return is_of_app(frame.f_code.co_filename, frame.f_globals.get("__name__", ""))


@cache
def is_of_app(file: str, module: str) -> bool:
    """Return whether a module is neither of a library nor of Python, by its file and its name."""
    if file.startswith("<"):  # it is generated, for example by SQLAlchemy, which names itself
        file = str(getattr(sys.modules.get(module), "__file__", file))
    package = module.partition(".")[0]  # what a library generates has no name
    if package in ("", "google", "pullqueue", "pytest_pullqueue"):
        return False
    if _is_installed(file):
        return package in _installed_apps
    return not file.startswith(_STANDARD_LIBRARY)


def note_apps(*actors: object) -> None:
    """Take the packages of actors as the app's from now on, also where they are installed.

    That is the package of a function that is passed. Of what such a function uses, and of the views
    of Flask, it is a package that was not installed from an index, but from files, as by tox.
    """
    found: set[str] = set()
    used: list[object] = [*actors]
    for actor in actors:
        with suppress(Exception):  # code of a proxy
            views = getattr(actor, "view_functions", None)
            used += views.values() if isinstance(views, dict) else ()
        if type(_unwrapped(actor, partial)) is FunctionType:
            found.add(_package_of(_unwrapped(actor, partial)))
    seen: set[int] = set()
    while used:
        value = _unwrapped(used.pop(), partial, MethodType)
        if id(value) not in seen:
            seen.add(id(value))
            if is_library_module(_module_of(value)):
                found |= {name for name in [_package_of(value)] if _is_local(name)}
            elif type(value) is FunctionType:
                used += _used_by(value)
    if new := {name for name in found if name and is_library_module(name)}:
        _installed_apps.update(new)
        is_of_app.cache_clear()
        _others.clear()


_installed_apps: set[str] = set()


def _unwrapped(value: Any, *kinds: type) -> object:  # noqa: ANN401 - of these kinds
    while type(value) in kinds:
        value = value.func if type(value) is partial else value.__func__
    return value


def _used_by(function: FunctionType) -> Iterator[object]:
    """Yield the modules, functions and classes that the code of a function names."""
    left = [function.__code__]
    while left:
        code = left.pop()
        left += (each for each in code.co_consts if isinstance(each, CodeType))
        for name in code.co_names:
            yield function.__globals__.get(name)
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            yield cell.cell_contents


def _module_of(value: object) -> str:
    if type(value) is ModuleType:
        return value.__name__
    return str(value.__module__) if type(value) in (FunctionType, type) else ""


def _package_of(value: object) -> str:
    return _module_of(value).partition(".")[0]


@cache
def _is_local(package: str) -> bool:
    """Return whether an installed package was installed from files, or without an installer."""
    if not is_library_module(package):
        return False
    names = _distributions().get(package, ())
    return not names or any('"file:' in (_direct_url(name) or "") for name in names)


_distributions = cache(packages_distributions)
"""To read the lists of all takes half a second."""


def _direct_url(name: str) -> str | None:
    """Return from where a distribution was installed, if not from an index (PEP 610)."""
    found = distribution(name)
    # Conda writes the folder in which it was built.
    return None if found.read_text("INSTALLER") == "conda" else found.read_text("direct_url.json")


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
    found: dict[str, ModuleType] = {}
    for name, module in sys.modules.copy().items():
        if _others.get(name) is module:
            continue
        if type(module) is ModuleType and is_app_module(name):
            found[name] = module
        else:
            _others[name] = module
    return dict(sorted(found.items()))


_others: dict[str, ModuleType] = {}
"""The modules of libraries and of Python. To ask of all what they are takes 3 of the 53 ms of 33
crashes in a program with 1,500 modules.
"""


@cache
def _project_of(folder: Path) -> Path:
    """Return the folder of a project, or where that has none of these files, the current one."""
    for each in (folder, *folder.parents):
        is_of_tests = each.name.startswith(_OF_TESTS)  # which can have settings of their own
        if not is_of_tests and any((each / name).exists() for name in _ROOTS):
            return each
    return Path.cwd()


@cache
def is_test_module(name: str) -> bool:
    """Return whether a module is one of tests, by its name, or because it is below `tests/`."""
    path = Path(str(getattr(sys.modules.get(name), "__file__", "")))
    folder = _project_of(path.parent)
    parts = path.relative_to(folder).parts[:-1] if path.is_relative_to(folder) else ()
    return any(part.startswith(_OF_TESTS) for part in (*parts, *name.split(".")))
