"""Replacing functions for the whole process while a test needs it, in whichever thread."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import compress, count
from operator import is_, ne
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch
from weakref import WeakKeyDictionary

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
    sizes: list[int]
    """How many names each of a library had when it was looked at; -1: it was not."""


def _loaded() -> _Loaded:
    values: list[object] = [*sys.modules.values()]
    latest = _latest[0]
    # By identity, which is ten times as fast as asking each of thousands what it is.
    if len(values) != len(latest.values) or not all(map(is_, values, latest.values)):
        modules = [each for each in values if isinstance(each, ModuleType)]
        sizes = [_libraries.get(id(module), (-1, module))[0] for module in modules]
        latest = _latest[0] = _Loaded(values, modules, [*map(vars, modules)], sizes)
    return latest


_latest = [_Loaded([], [], [], [])]


_Places: TypeAlias = dict[tuple[int, str], ModuleType]
"""Modules, by their ids and names of what they have."""


class _Seen(NamedTuple):
    """What a look at a module has found."""

    ids: list[int]
    """Those of its variables."""
    names: list[str]


class _Names:
    """Where modules have some objects, whatever their names are there.

    It takes 10 ms or more to look at all names of a program that has loaded the SDK. So only
    modules are looked at that are new, or have got more names, and in each block those of the app
    that have changed.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._places: _Places = {}
        """Where modules have what can be replaced, but for those of libraries."""
        self._modules: list[ModuleType] = []
        self._sizes: list[int] = []
        """How many names they had at the last look."""

    def replace(self, replacements: Mapping[int, object]) -> None:
        """Replace objects, given by their ids."""
        usual = {*_usual()}
        self._known |= usual | replacements.keys()
        self._look(only_usual=self._known == usual)
        for (_, name), module in [*_places_of_libraries.items(), *self._places.items()]:
            value = vars(module).get(name)
            if id(value) in replacements:
                setattr(module, name, replacements[id(value)])

    def _look(self, *, only_usual: bool) -> None:
        loaded = _loaded()
        sizes = [*map(len, loaded.variables)]
        if loaded.modules is self._modules and sizes == self._sizes:
            return
        for number in [*compress(count(), map(ne, sizes, loaded.sizes))]:
            module, variables = loaded.modules[number], loaded.variables[number].copy()
            ids = [*map(id, variables.values())]
            can_be_seen = only_usual and type(module) is ModuleType  # others define equality
            seen = _of_app.get(module) if can_be_seen else None
            is_of_library = False
            if seen is None or seen.ids != ids:
                seen = _Seen(ids, self._names_in(variables, ids))
                file, spec = variables.get("__file__"), variables.get("__spec__")
                # A module without a file is Python's, or made by a test.
                is_of_library = not is_of_app(str(file), module.__name__) if file else bool(spec)
            places = {(id(module), name): module for name in seen.names}
            if is_of_library:
                _places_of_libraries.update(places)
                _libraries[id(module)] = sizes[number], module
                loaded.sizes[number] = sizes[number]
                continue
            self._places |= places
            if can_be_seen:
                _of_app[module] = seen
        self._modules, self._sizes = loaded.modules, sizes

    def _names_in(self, variables: dict[str, object], ids: list[int]) -> list[str]:
        # Those of the usual names can be something else now, such as a fake of a test.
        names = [*_USUAL.intersection(variables)]
        if not self._known.isdisjoint(ids):
            names += compress(variables, map(self._known.__contains__, ids))
        return names


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
_libraries: dict[int, tuple[int, ModuleType]] = {}
"""By id, modules whose names are the same in all tests, and how many those are."""
_places_of_libraries: _Places = {}
_of_app: WeakKeyDictionary[ModuleType, _Seen] = WeakKeyDictionary()
"""The other modules, as they were looked at last for what is usually replaced."""
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
