"""Replacing functions for the whole process while a test needs it, in whichever thread."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import patch


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
            self._blocks += 1
            if self._blocks == 1:
                self._apply(self)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._stack.close()

    def decorate(self, owner: object, name: str, decorate: Callable[[Any], object]) -> None:
        """Decorate a function of a class or module until the last block ends."""
        self._stack.enter_context(patch.object(owner, name, decorate(getattr(owner, name))))

    def at_end(self, callback: Callable[..., object], *args: object) -> None:
        """Call a function when the last block ends."""
        self._stack.callback(callback, *args)


class _Names:
    """Where modules have some objects, whatever their names are there.

    It takes 10 ms or more to look at all names of a program that has loaded the SDK. So that is
    done once, and then only modules are looked at that are new, or have got more names.
    """

    def __init__(self) -> None:
        usual: list[Any] = [time.sleep, asyncio.sleep, threading.Lock, threading.RLock]  # noqa: TID251 - not called
        if sqlite3 := sys.modules.get("sqlite3"):
            usual.append(sqlite3.connect)
        self._known = {*map(id, usual)}
        self._sizes: dict[int, tuple[ModuleType, int]] = {}
        self._places: list[tuple[ModuleType, str]] = []

    def replace(self, replacements: Mapping[int, object]) -> None:
        """Replace objects, given by their ids."""
        self._known.update(replacements)
        self._look()
        self._known.update(map(id, replacements.values()))
        for module, name in self._places:
            value = vars(module).get(name)
            if id(value) in replacements:
                setattr(module, name, replacements[id(value)])

    def _look(self) -> None:
        loaded: list[object] = list(sys.modules.values())  # some put other things there
        for module in loaded:
            if not isinstance(module, ModuleType) or module.__name__.startswith(_OWN):
                continue
            names = vars(module)
            if self._sizes.get(id(module)) == (module, len(names)):
                continue
            self._sizes[id(module)] = module, len(names)
            # `map` halves the time that this takes.
            if not self._known.isdisjoint(map(id, list(names.values()))):
                found = [name for name, value in list(names.items()) if id(value) in self._known]
                self._places += ((module, name) for name in found)


_OWN = "pullqueue.testing."
"""Beginning of the names of modules that keep what they replace."""
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


def replace_everywhere(replacements: Mapping[Any, object]) -> Callable[[], None]:
    """Replace objects in all modules, whatever their names are there; return what undoes that."""
    names = _in_use[-1] if _in_use else _Names()
    names.replace({id(original): made for original, made in replacements.items()})
    undone = {id(made): original for original, made in replacements.items()}
    return partial(names.replace, undone)
