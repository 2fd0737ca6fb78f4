"""Replacing functions for the whole process while a test needs it, in whichever thread."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import compress
from operator import is_, ne
from types import ModuleType
from typing import Any, NamedTuple
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


class _Loaded(NamedTuple):
    """What is in `sys.modules`."""

    values: list[object]
    """All that is there; some put other things there than modules."""
    modules: list[ModuleType]
    variables: list[dict[str, Any]]
    """Those of each module."""


def _loaded() -> _Loaded:
    values: list[object] = [*sys.modules.values()]
    latest = _latest[0]
    # By identity, which is ten times as fast as asking each of thousands what it is.
    if len(values) != len(latest.values) or not all(map(is_, values, latest.values)):
        modules = [each for each in values if isinstance(each, ModuleType)]
        latest = _latest[0] = _Loaded(values, modules, [*map(vars, modules)])
    return latest


_latest = [_Loaded([], [], [])]


class _Looked:
    """The modules that were looked at."""

    def __init__(self, earlier: _Looked | None = None) -> None:
        self.sizes: dict[int, int] = earlier.sizes.copy() if earlier else {}
        """How many names they have, by their ids."""
        self.modules: list[ModuleType] = [*earlier.modules] if earlier else []
        """Themselves, so that no others have their ids."""
        self.places: list[tuple[ModuleType, str]] = [*earlier.places] if earlier else []
        """Where they have what can be replaced."""

    def add(self, module: ModuleType, names: Iterable[str]) -> None:
        """Add a module, and the names of what can be replaced."""
        self.sizes[id(module)] = len(vars(module))
        self.modules.append(module)
        self.places += ((module, name) for name in names)


class _Names:
    """Where modules have some objects, whatever their names are there.

    It takes 10 ms or more to look at all names of a program that has loaded the SDK. So only
    modules are looked at that are new, or have got more names, and those of the app in each block.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._looked = _Looked(_libraries)
        self._modules: list[ModuleType] = []
        self._sizes: list[int] = []
        """How many names they had at the last look."""

    def replace(self, replacements: Mapping[int, object]) -> None:
        """Replace objects, given by their ids."""
        self._known.update(_usual(), replacements)
        self._look()
        for module, name in self._looked.places:
            value = vars(module).get(name)
            if id(value) in replacements:
                setattr(module, name, replacements[id(value)])

    def _look(self) -> None:
        loaded = _loaded()
        sizes = [*map(len, loaded.variables)]
        if loaded.modules is self._modules and sizes == self._sizes:
            return
        known = map(self._looked.sizes.get, map(id, loaded.modules))
        for module in [*compress(loaded.modules, map(ne, sizes, known))]:
            names = [*self._names_in(vars(module).copy())]
            self._looked.add(module, names)
            file = vars(module).get("__file__")
            if file and not is_of_app(str(file), module.__name__):
                _libraries.add(module, names)
        self._modules, self._sizes = loaded.modules, sizes

    def _names_in(self, known: dict[str, object]) -> Iterator[str]:
        # Those of the usual names can be something else now, such as a fake of a test.
        yield from _USUAL.intersection(known)
        # `map` halves the time that this takes.
        if not self._known.isdisjoint(map(id, known.values())):
            yield from (name for name, value in known.items() if id(value) in self._known)


def _usual() -> Iterator[int]:
    """Yield the ids of what is usually replaced, so that one look finds all of it."""
    for module, names in _REPLACED.items():
        found = getattr(sys.modules.get(module), "__dict__", {})  # it can be in import
        yield from (id(found[name]) for name in names if name in found)


DRAWING = tuple(name for name in random.__all__ if name not in ("Random", "SystemRandom"))
"""The functions of `random`."""
_REPLACED = {
    "asyncio": ("sleep",),
    "fcntl": ("flock", "lockf"),
    "random": DRAWING,
    "sqlite3": ("connect",),
    "threading": ("Lock", "RLock"),
    "time": ("monotonic", "sleep"),
}
_USUAL = frozenset(name for names in _REPLACED.values() for name in names)
_libraries = _Looked()
"""Those whose names are the same in all tests."""
_in_use: list[_Names] = []


@contextmanager
def looking_once() -> Iterator[None]:
    """Look at the names of all modules once for all that is replaced in the block."""
    names = _Names()
    _in_use.append(names)
    try:
        yield
    finally:
        _in_use.remove(names)


@contextmanager
def replaced_everywhere(replacements: Mapping[Any, object]) -> Iterator[None]:
    """Replace objects in all modules, whatever their names are there, in the block.

    No module may have the new ones: it would get the original at the end.
    """
    names = _in_use[-1] if _in_use else _Names()
    try:
        names.replace({id(original): made for original, made in replacements.items()})
        yield
    finally:
        names.replace({id(made): original for original, made in replacements.items()})
