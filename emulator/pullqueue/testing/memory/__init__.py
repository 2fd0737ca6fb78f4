"""Whether the code under test changes what it keeps in the memory of the process.

Actors of `race_test` share it, whether it is a fake of a database that the test has made, or state
of the app's modules, which instances of production do not share. Nothing says who reads it, so a
turn that has changed it can influence everything, and so can each turn where something cannot be
compared. What libraries keep in modules of their own is not looked at.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar, copy_context
from operator import is_
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any, NamedTuple

from pullqueue.testing.memory.contents import Kind, Kinds, NotComparableError
from pullqueue.testing.place import app_modules, is_app_module, is_test_module

_MOST_OBJECTS = 20_000
"""How many objects are looked into."""
_MOST_ITEMS = 100_000
"""How many references of one object are compared."""
_MOST_EACH_TURN = 200
"""How many objects are compared after each turn, at 1 us each; more only after some."""
_LOOKS = 2
"""How many times these are compared after turns from one call of the app; after that only what is
known to change, and all at the end of each run."""


class Memory:
    """What functions of a test, and modules of the app, keep in memory."""

    def __init__(
        self, functions: Iterable[Callable[..., object]], check: Callable[..., object]
    ) -> None:
        """`check` is a function whose module is not the app's."""
        self._functions = [*functions, check]
        self._tests = self._used_by({getattr(each, "__module__", "") for each in self._functions})
        self._files = [_file_of(module) for module in self._tests if _has_tests(module)]
        self._own = getattr(check, "__module__", "")
        self._kinds = Kinds()
        self._places: list[_Place] = []
        self._of_app: list[_Place] = []
        """Those that are neither functions nor objects of libraries."""
        self._variables: list[_Place] = []
        """Those that are variables of contexts; actors begin with the values of the test."""
        self._context = copy_context()
        self._size = -1
        """How many objects there were when everything was looked into."""
        self._found: dict[int, object] = {}
        """What was looked into, by its id."""
        self._changing: set[str] = set()
        """The paths of the places that were changed in some turn."""
        self._looks: Counter[Hashable] = Counter()
        self._runs = 0
        self.changed_globals: dict[str, None] = {}
        """The globals of the app's modules that were changed."""
        self.not_compared: dict[str, None] = {}
        """What cannot be compared, so that each turn can have changed it."""

    def begin(self) -> None:
        """Note the contents with which a run begins."""
        self._runs += 1
        self._context = copy_context()
        most = min(2 * self._size, _MOST_OBJECTS - 1)
        if len(self._found) > most:  # most is no longer used
            self._look()
        for place in [*self._changed(self._places), *self._variables]:
            self._add_items(place)

    def _look(self) -> None:
        self._places, self._of_app, self._variables = [], [], []
        self._found, self.not_compared = {}, {}
        for path, thing, is_global in self._roots():
            self._add(path, thing, is_global=is_global)
        self._size = len(self._found)

    def find(self, kinds: tuple[type, ...]) -> Iterator[Reference]:
        """Yield where there are objects of some types."""
        self._look()
        for place in self._places:
            for name, value in place.replaceable():
                if issubclass(type(value), kinds):
                    path = f"{place.path}.{name}"
                    yield Reference(place.thing, name, value, path, place.is_global)

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
        """Return whether a module is of other tests, and the functions do not use it.

        In a large suite these are most modules, and would make each schedule slow. A conftest.py is
        of others if the functions' tests are not in its folder.
        """
        if module in self._tests:
            return False
        if module.rpartition(".")[2] == "conftest":
            folder = _file_of(module).parent
            return bool(self._files) and not any(f.is_relative_to(folder) for f in self._files)
        return _has_tests(module)

    def _is_own(self, module: str) -> bool:
        return module == self._own or is_test_module(module)

    def has_changed(self, turn: Hashable) -> bool:
        """Return whether a turn has changed anything; turns with the same name are similar."""
        places = self._places
        if self._looks[turn] >= _LOOKS:
            own = self._of_app if len(self._of_app) <= _MOST_EACH_TURN else []
            changing = [p for p in places if p.path in self._changing] if self._changing else []
            places = [*dict.fromkeys([*own, *changing])]
        self._looks[turn] += 1
        return self._note(self._changed(places)) or bool(self.not_compared)

    def needs_another(self) -> bool:
        """Return whether a run that has ended has to be repeated, as its changes are not known.

        So is the first: what is made once, and kept, cannot be raced after that.
        """
        known = len(self.not_compared)
        missed = self._note(self._changed(self._places)) or len(self.not_compared) > known
        if missed:
            self._looks.clear()
        return missed or (self._runs == 1 and bool(self._changing))

    def _changed(self, places: Iterable[_Place]) -> list[_Place]:
        changed: list[_Place] = []
        for place in places:
            try:
                if place.has_changed():
                    changed.append(place)
            except NotComparableError:
                self.not_compared[place.path] = None
        return changed

    def _note(self, changed: Sequence[_Place]) -> bool:
        for place in changed:
            self._changing.add(place.path)
            if place.is_global and self._runs > 1:
                self.changed_globals |= dict.fromkeys(place.changed_names())
            self._add_items(place)
        return bool(changed)

    def _add_items(self, place: _Place) -> None:
        for path, value in self._items(place):
            self._add(path, value, is_global=place.is_global, is_of_library=place.is_of_library)

    def _roots(self) -> Iterator[tuple[str, object, bool]]:
        """Yield the modules of the app, and then those of the test, and its functions."""
        modules = [each for each in app_modules().items() if not self._is_other_test(each[0])]
        yield from ((name, module, True) for name, module in modules if not self._is_own(name))
        yield from ((name, module, False) for name, module in modules if self._is_own(name))
        for number, function in enumerate(self._functions):
            yield f"function {number}", function, False

    def _add(
        self, path: str, thing: object, *, is_global: bool, is_of_library: bool = False
    ) -> None:
        left = deque([(path, thing, is_global, is_of_library)])
        while left:
            path, thing, is_global, is_of_library = left.popleft()
            key = id(thing)  # once: each call costs an audit event
            if key in self._found or (kind := self._kinds.of(thing)).is_empty:
                continue
            if len(self._found) == _MOST_OBJECTS:
                self.not_compared[path] = None
                return
            self._found[key] = thing
            if kind.is_of_library is not None:
                is_of_library = kind.is_of_library
            is_global &= not (is_of_library or kind.is_cache)
            try:
                place = _Place(path, thing, kind, is_global=is_global, is_of_library=is_of_library)
            except NotComparableError:
                self.not_compared[path] = None
                continue
            if not kind.is_fixed:
                self._places.append(place)
                if not is_of_library and type(thing) is not FunctionType:
                    self._of_app.append(place)
            left += ((*item, is_global, is_of_library) for item in self._items(place))

    def _items(self, place: _Place) -> Iterator[tuple[str, object]]:
        """Yield what a place refers to, with the path of each."""
        variable = place.thing
        if type(variable) is ContextVar:
            if place not in self._variables:
                self._variables.append(place)
            if variable in self._context:
                yield f"{place.path}.get()", self._context[variable]
        for name, value in place.named():
            if not issubclass(type(value), ModuleType) or vars(value).get("__spec__") is None:
                yield f"{place.path}.{name}", value  # modules that nobody has imported, too


class _Place:
    """Something that refers to others."""

    def __init__(
        self, path: str, thing: object, kind: Kind, *, is_global: bool, is_of_library: bool
    ) -> None:
        self.path = path
        self.is_global = is_global
        self.is_of_library = is_of_library
        self.thing = thing
        self._kind = kind
        self._list, self._find_state = kind.list_contents, kind.find_state
        self._before: Sequence[object] = ()
        self._contents: Sequence[object] = ()
        self._state: object = None
        self.has_changed()

    def has_changed(self) -> bool:
        """Return whether it has other contents than at the last call.

        Raises:
            NotComparableError: that cannot be said.
        """
        try:
            now, before = self._list(self.thing), self._contents
            state = self._find_state(self.thing) if self._find_state else None
        except Exception as error:  # such as of a buffer that was released
            raise NotComparableError from error
        has_changed = len(now) != len(before) or not all(map(is_, now, before))
        if has_changed:
            if len(now) > _MOST_ITEMS:
                raise NotComparableError
            self._before, self._contents = before, now
        if self._find_state is not None:
            state, self._state = self._state, state
            has_changed |= not _equal(state, self._state)
        return has_changed

    def changed_names(self) -> Iterator[str]:
        """Yield which globals the last change is of."""
        if type(self.thing) is not ModuleType:
            yield self.path
            return
        before, now = _named(self._before), _named(self._contents)
        for name in now:
            if name not in before or before[name] is not now[name]:
                yield f"{self.path}.{name}"

    def named(self) -> Iterator[tuple[object, object]]:
        """Yield what it refers to, by name or number."""
        names = self._kind.find_names(self.thing) if self._kind.find_names else {}
        others = self._kind.list_others(self.thing) if self._kind.list_others else ()
        is_module = type(self.thing) is ModuleType
        for name, value in [*names.items()]:
            if not (is_module and str(name).startswith("__") and str(name).endswith("__")):
                yield name, value
        yield from enumerate(others)

    def replaceable(self) -> Iterator[tuple[object, object]]:
        """Yield what it can refer to something else in place of, such as a lock."""
        kind = type(self.thing)
        if not self._kind.can_replace or self.is_of_library:
            return
        if issubclass(kind, list | deque | CellType) and self._kind.list_others:
            yield from enumerate(self._kind.list_others(self.thing))
        elif self._kind.find_names:
            yield from [*self._kind.find_names(self.thing).items()]


class Reference(NamedTuple):
    """Where something refers to an object."""

    thing: Any
    """What refers to it."""
    name: object
    value: object
    path: str
    """Where it is, such as `app.lock`."""
    is_global: bool
    """True if a module of the app leads there."""

    def replace(self, value: object) -> None:
        """Make it refer to another object."""
        if issubclass(type(self.thing), CellType):
            self.thing.cell_contents = value
        elif issubclass(type(self.thing), dict | list | deque):
            self.thing[self.name] = value
        else:
            setattr(self.thing, str(self.name), value)

    def restore(self) -> None:
        """Make it refer to the object again."""
        with suppress(LookupError):
            self.replace(self.value)


def _has_tests(module: str) -> bool:
    return module.rpartition(".")[2].startswith("test_")


def _file_of(module: str) -> Path:
    return Path(str(sys.modules[module].__file__))


def _named(contents: Sequence[object]) -> dict[object, object]:
    half = len(contents) // 2
    return dict(zip(contents[:half], contents[half:], strict=True))


def _equal(one: object, other: object) -> bool:
    with suppress(Exception):  # code of libraries
        return bool(one == other)
    return False
