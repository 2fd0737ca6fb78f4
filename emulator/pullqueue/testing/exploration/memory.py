"""Whether the code under test changes what it keeps in the memory of the process.

Actors of `race_test` share it, whether it is a fake of a database that the test has made, or state
of the app's modules, which instances of production do not share. Nothing says who reads it, so a
turn that has changed it can influence everything. What libraries keep is not looked at.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import is_
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from pullqueue.testing.place import app_modules, is_app_module, is_test_module

_MOST_OBJECTS = 10_000
_ITEMS = 100
"""How many items of a container are looked into."""
_LOOKS = 2
"""How many times everything is compared after turns from one call of the app; after that only what
is known to change."""


class Memory:
    """What functions of a test, and modules of the app, keep in memory."""

    def __init__(
        self, functions: Iterable[Callable[..., object]], check: Callable[..., object]
    ) -> None:
        """`check` is a function whose module is not the app's."""
        self._functions = [*functions, check]
        self._tests = self._used_by({getattr(each, "__module__", "") for each in self._functions})
        self._own = getattr(check, "__module__", "")
        self._places: list[_Place] = []
        self._size = -1
        """How many places there were when everything was looked into."""
        self._found: dict[int, object] = {}
        """What was looked into, by its id."""
        self._changing: set[str] = set()
        """The paths of the places that were changed in some turn."""
        self._looks: Counter[Hashable] = Counter()
        self._runs = 0
        self.changed_globals: dict[str, None] = {}
        """The globals of the app's modules that were changed."""

    def begin(self) -> None:
        """Note the contents with which a run begins."""
        self._runs += 1
        if len(self._places) > 2 * self._size:  # most is no longer used
            self._look()
        for place in self._changed(self._places):
            self._add_items(place)

    def _look(self) -> None:
        self._places, self._found = [], {}
        for path, thing, is_global in self._roots():
            self._add(path, thing, is_global=is_global)
        self._size = len(self._places)

    def find(self, kinds: tuple[type, ...]) -> Iterator[Reference]:
        """Yield where there are objects of some types."""
        self._look()
        for place in self._places:
            for name, value in place.named():
                if issubclass(type(value), kinds):
                    yield Reference(place, name, value)

    def is_of_app(self, module: str) -> bool | None:
        """Return whether a module is the app's, and not the test's; None: neither."""
        return not self._is_own(module) if is_app_module(module) else None

    @staticmethod
    def _used_by(names: set[str]) -> set[str]:
        """Return modules with those of the app and of tests that they use, by their globals."""
        used: set[str] = set()
        while left := {name for name in names - used if is_app_module(name)}:
            used |= left
            values = [value for name in left for value in vars(sys.modules[name]).values()]
            names = {value.__name__ for value in values if type(value) is ModuleType}
            names |= {value.__module__ for value in values if type(value) in (FunctionType, type)}
        return used

    def _is_other_test(self, module: str) -> bool:
        """Return whether a module has tests, and nothing that the functions use.

        In a large suite these are most modules, and would make each schedule slow.
        """
        return module.rpartition(".")[2].startswith("test_") and module not in self._tests

    def _is_own(self, module: str) -> bool:
        return module == self._own or is_test_module(module)

    def has_changed(self, turn: Hashable) -> bool:
        """Return whether a turn has changed anything; turns with the same name are similar.

        Not in the first run: what is made once, and kept, cannot be raced after that.
        """
        is_first = self._runs == 1
        is_full = is_first or self._looks[turn] < _LOOKS
        self._looks[turn] += not is_first
        places = self._places
        if not is_full:
            places = [place for place in places if place.path in self._changing]
        return self._note(self._changed(places)) and not is_first

    def needs_another(self) -> bool:
        """Return whether a run that has ended has to be repeated, as its changes are not known."""
        missed = self._note(self._changed(self._places))
        if missed:
            self._looks.clear()
        return missed or (self._runs == 1 and bool(self._changing))

    @staticmethod
    def _changed(places: Iterable[_Place]) -> list[_Place]:
        return [place for place in places if place.has_changed()]

    def _note(self, changed: Sequence[_Place]) -> bool:
        for place in changed:
            self._changing.add(place.path)
            if place.is_global and self._runs > 1:
                self.changed_globals |= dict.fromkeys(place.changed_names())
            self._add_items(place)
        return bool(changed)

    def _add_items(self, place: _Place) -> None:
        for path, value in place.items():
            if type(value) is not ModuleType:
                self._add(path, value, is_global=place.is_global)

    def _roots(self) -> Iterator[tuple[str, object, bool]]:
        """Yield the modules of the app, and then those of the test, and its functions."""
        modules = [each for each in app_modules().items() if not self._is_other_test(each[0])]
        yield from ((name, module, True) for name, module in modules if not self._is_own(name))
        yield from ((name, module, False) for name, module in modules if self._is_own(name))
        for number, function in enumerate(self._functions):
            yield f"function {number}", function, False

    def _add(self, path: str, thing: object, *, is_global: bool) -> None:
        left = deque([(path, thing)])
        while left and len(self._found) < _MOST_OBJECTS:
            path, thing = left.popleft()
            if id(thing) in self._found or not _refers(thing):
                continue
            self._found[id(thing)] = thing
            place = _Place(path, thing, is_global=is_global)
            if not issubclass(type(thing), _CONSTANT):
                self._places.append(place)
            left += (item for item in place.items() if type(item[1]) is not ModuleType)


_CONSTANT = (tuple, frozenset, FunctionType, MethodType, partial)
_BUILT_IN = (dict, list, set, deque, CellType, *_CONSTANT)


def _refers(thing: object) -> bool:
    """Return whether a thing is looked into: a container, or an object of the app.

    Its type alone is asked, since a proxy would do something at each access.
    """
    kind = type(thing)
    if issubclass(kind, _BUILT_IN):
        return True
    if issubclass(kind, ModuleType | type):
        named = vars(thing)
        return is_app_module(str(named.get("__name__" if kind is ModuleType else "__module__")))
    is_known = kind.__module__ == "unittest.mock" or is_app_module(kind.__module__)
    return is_known and getattr(kind, "__dictoffset__", 0) != 0


class _Place:
    """Something that refers to others."""

    __slots__ = ("_before", "_contents", "is_global", "path", "thing")

    def __init__(self, path: str, thing: object, *, is_global: bool) -> None:
        self.path = path
        self.is_global = is_global
        self.thing = thing
        self._before = self._contents = _contents(thing)

    def has_changed(self) -> bool:
        """Return whether it has other contents than at the last call."""
        now = _contents(self.thing)
        same = len(now) == len(self._contents) and all(map(is_, now, self._contents))
        if not same:
            self._before, self._contents = self._contents, now
        return not same

    def changed_names(self) -> Iterator[str]:
        """Yield which globals the last change is of."""
        if type(self.thing) is not ModuleType:
            yield self.path
            return
        before, now = _named(self._before), _named(self._contents)
        for name in now:
            if name not in before or before[name] is not now[name]:
                yield f"{self.path}.{name}"

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield what it refers to, with the path of each."""
        for name, value in self.named():
            yield f"{self.path}.{name}", value

    def named(self) -> Iterator[tuple[object, object]]:
        """Yield what it refers to, by name or number; of a long list only the beginning."""
        kind = type(self.thing)
        is_built_in = issubclass(kind, _BUILT_IN)
        has_names = issubclass(kind, dict) or not is_built_in
        pairs = _named(self._contents).items() if has_names else enumerate(self._contents)
        for name, value in islice(pairs, _ITEMS if is_built_in else None):
            if type(name) is not str or not name.startswith("__"):
                yield name, value


class Reference(NamedTuple):
    """Where something refers to an object."""

    place: _Place
    name: object
    value: object

    @property
    def path(self) -> str:
        """Where it is, such as `app.lock`."""
        return f"{self.place.path}.{self.name}"

    @property
    def is_global(self) -> bool:
        """True if a module of the app leads there."""
        return self.place.is_global

    def replace(self, value: object) -> None:
        """Make it refer to another object."""
        thing: Any = self.place.thing
        if issubclass(type(thing), CellType):
            thing.cell_contents = value
        elif issubclass(type(thing), dict | list | deque):
            thing[self.name] = value
        elif not issubclass(type(thing), set):
            setattr(thing, str(self.name), value)

    def restore(self) -> None:
        """Make it refer to the object again."""
        with suppress(LookupError):
            self.replace(self.value)


def _named(contents: tuple[object, ...]) -> dict[object, object]:
    half = len(contents) // 2
    return dict(zip(contents[:half], contents[half:], strict=True))


def _contents(thing: object) -> tuple[object, ...]:
    """Return what a thing refers to; of what has names, the names come first."""
    kind = type(thing)
    list_contents = next((of for types, of in _CONTENTS if issubclass(kind, types)), None)
    if list_contents is not None:
        return list_contents(thing)
    names = vars(thing)
    return (*names, *names.values())


def _of_cell(cell: CellType) -> tuple[object, ...]:
    with suppress(ValueError):  # it is empty
        return (cell.cell_contents,)
    return ()


_CONTENTS: tuple[tuple[Any, Callable[[Any], tuple[object, ...]]], ...] = (
    (dict, lambda names: (*names, *names.values())),
    ((list, set, deque, tuple, frozenset), tuple),
    (CellType, _of_cell),
    (FunctionType, lambda function: function.__closure__ or ()),
    (MethodType, lambda method: (method.__self__, method.__func__)),
    (partial, lambda call: (call.func, *call.args, *call.keywords.values())),
)
"""What things of the built-in types refer to."""
