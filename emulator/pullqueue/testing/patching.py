"""Replacing functions for the whole process while a test needs it, in whichever thread."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, TypeAlias
from unittest.mock import patch

from pullqueue.testing.place import is_of_app


class Patches:
    """What is replaced while at least one block needs it; blocks may end in any order."""

    def __init__(self, apply: Callable[[Patches], None]) -> None:
        """`apply` replaces what there is to replace, in the first block."""
        self._apply = apply
        self._blocks = 0
        self._lock = threading.Lock()
        self._stack = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._blocks:
                try:
                    self._apply(self)
                except BaseException:
                    self._stack.close()
                    raise
            self._blocks += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._stack.close()

    def decorate(self, owner: object, name: str, decorate: Callable[[Any], object]) -> None:
        """Decorate a function of a class or module until the last block ends."""
        self._stack.enter_context(patch.object(owner, name, decorate(getattr(owner, name))))

    def replace(self, replacements: Mapping[Any, object]) -> None:
        """Replace objects in all modules until the last block ends."""
        self._stack.enter_context(replaced_everywhere(replacements))

    def at_end(self, callback: Callable[..., object], *args: object) -> None:
        """Call a function when the last block ends."""
        self._stack.callback(callback, *args)


DRAWING = tuple(name for name in random.__all__ if name not in ("Random", "SystemRandom"))
"""The functions of `random`."""
_USUAL = {
    "asyncio": ("sleep",),
    "fcntl": ("flock", "lockf"),
    "random": DRAWING,
    "sqlite3": ("connect",),
    "threading": ("Lock", "RLock"),
    "time": ("monotonic", "sleep"),
}
"""What is usually replaced, so that one look at a library finds all of it."""
_USUAL_NAMES = frozenset(name for names in _USUAL.values() for name in names)
_Places: TypeAlias = dict[tuple[int, str], ModuleType]
"""Modules, by their ids and names of what they have."""
_libraries: dict[int, tuple[int, dict[str, object], ModuleType]] = {}
"""By id, modules whose names are the same in all tests: how many there were at the last look."""
_of_libraries: _Places = {}
"""Where these have what is usually replaced."""
_UNKNOWN: tuple[int, dict[str, object], None] = (-1, {}, None)


def _usual() -> Iterator[int]:
    """Yield the ids of what is usually replaced, as it is now."""
    for module, names in _USUAL.items():
        found = getattr(sys.modules.get(module), "__dict__", {})  # it can be in import
        yield from (id(found[name]) for name in names if name in found)


def _replace(replacements: Mapping[int, object], places: _Places) -> None:
    """Replace objects, given by their ids, in all modules, whatever their names are there.

    `places` gets those of other modules than libraries; where it has some, modules that are no
    longer loaded are looked at, too.

    Libraries are looked at once, unless they get more names. In a program that has loaded the SDK,
    with 1,500 modules, a look takes 0.3 to 1 ms, and would take 4 ms.
    """
    ids = {*_usual(), *replacements}
    for module in [*sys.modules.values()]:
        size, variables, _ = _libraries.get(id(module), _UNKNOWN)
        if size != len(variables) and isinstance(module, ModuleType):
            places |= _look(module, ids)
    for (_, name), module in [*_of_libraries.items(), *places.items()]:
        value = vars(module).get(name)
        if id(value) in replacements:
            setattr(module, name, replacements[id(value)])


def _look(module: ModuleType, ids: set[int]) -> _Places:
    """Return where a module has some objects, or can have them.

    What has one of the usual names can be something else now, such as a fake of a test.
    """
    variables = vars(module)
    found = variables.copy()
    names = [*_USUAL_NAMES.intersection(found)]
    if not ids.isdisjoint(map(id, found.values())):
        names += [name for name, value in found.items() if id(value) in ids]
    places = {(id(module), name): module for name in names}
    file, spec = found.get("__file__"), found.get("__spec__")
    # A module without a file is Python's, or made by a test.
    if not is_of_app(str(file), module.__name__) if file else spec:
        _libraries[id(module)] = len(found), variables, module
        _of_libraries.update(places)
    return places


@contextmanager
def replaced_everywhere(replacements: Mapping[Any, object]) -> Iterator[None]:
    """Replace objects in all modules, whatever their names are there, in the block.

    No module may have the new ones: it would get the original at the end.
    """
    places: _Places = {}
    try:
        _replace({id(original): made for original, made in replacements.items()}, places)
        yield
    finally:
        _replace({id(made): original for original, made in replacements.items()}, places)
