"""What an object in memory refers to, and what else it keeps.

Dictionaries, modules, classes and attributes have names. What else an object refers to is what
Python's garbage collector knows of it. Objects of types that are written in C can keep more than
references: their buffer, or else the state with which they would be copied, is compared, too. What
has neither cannot be compared. No code of an app is run for that, as that of a proxy would be.
"""

from __future__ import annotations

import copyreg
import functools
import gc
import itertools
import operator
import queue
import re
import struct
import threading
import types
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar, Token
from functools import partial
from io import BytesIO, StringIO
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from pullqueue.testing.place import is_app_module, is_library_module

_MOST_BYTES = 1 << 20
"""How much of a buffer is compared."""

_NOT_COMPARED = (
    # Calls to them are points, locks, or events of `points/changes.py`.
    *("pullqueue", "pytest_pullqueue", "sqlalchemy", "django.db", "redis", "sqlite3"),
    *("os._Environ", "google.appengine.runtime.request_environment"),
    # What is outside of the process, and clients that keep connections to it.
    *("_io", "_socket", "socket", "_ssl", "ssl", "select", "selectors", "grpc", "google.auth"),
    # Of one event loop, of the test, without a state, or not read by apps.
    *("_asyncio", "_pytest", "pluggy", "hypothesis", "pathlib", "typing", "pydantic_core"),
    *("__future__", "_abc", "collections.abc", "logging", "functools._lru_list_elem"),
)
"""Packages whose objects, and functions, are not looked into."""

_CONSTANT = frozenset(
    {
        *(type(threading.Lock()), type(threading.RLock()), threading.local),
        *(weakref.ReferenceType, weakref.ProxyType, weakref.CallableProxyType),
        *(types.CodeType, types.FrameType, types.TracebackType, Context, Token),
        *(types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodDescriptorType),
        *(types.WrapperDescriptorType, types.ClassMethodDescriptorType),
        *(re.Pattern, struct.Struct),
    }
)
_FIXED = frozenset({tuple, frozenset, MethodType})
"""What refers to the same objects as long as it is there."""
_ONLY_REFERENCES = frozenset(
    {
        *(object, list, set, deque, CellType, partial, slice, types.SimpleNamespace, *_FIXED),
        *(BaseException, ContextVar, queue.SimpleQueue, property, types.MappingProxyType),
        *(types.BuiltinFunctionType, types.MethodWrapperType, types.GenericAlias, types.UnionType),
        *(operator.itemgetter, operator.attrgetter, operator.methodcaller),
        *(type({}.keys()), type({}.values()), type({}.items())),
    }
)
"""Types in C that keep nothing else."""


class NotComparableError(Exception):
    """what an object keeps is not known"""


class Kind(NamedTuple):
    """How objects of a type are compared."""

    find_names: Callable[[Any], Mapping[Any, object]] | None = None
    """Returns what it refers to by a name."""
    list_others: Callable[[Any], Sequence[object]] | None = None
    """Returns what else it refers to."""
    find_state: Callable[[Any], object] | None = None
    """Returns what else it keeps; equal states are the same."""
    is_fixed: bool = False
    """True if nothing in it changes, but in what it refers to."""
    is_of_library: bool | None = False
    """None: as what refers to it."""
    is_cache: bool = False
    """True if each instance can have what it keeps."""
    can_replace: bool = False
    """True if it can refer to another object in place of a lock."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to compare, nor to look into."""
        return self[:3] == (None, None, None)

    @property
    def list_contents(self) -> Callable[[Any], Sequence[object]]:
        """What lists all that an object refers to, names included."""
        find, list_others = self.find_names, self.list_others or (lambda _: ())
        if find is None:
            return list_others
        return lambda thing: (*(names := find(thing)), *names.values(), *list_others(thing))


_EMPTY = Kind()


class Kinds:
    """The kinds of the types that were looked at."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[type, Kind]] = {}
        """By the id of the type; metaclasses can define equality."""

    def of(self, thing: object) -> Kind:
        """Return how an object is compared; its type alone is asked."""
        kind = type(thing)
        if issubclass(kind, ModuleType):
            return Kind(vars, can_replace=True)
        if issubclass(kind, type):
            is_of_app = is_app_module(str(vars(thing).get("__module__")))
            return Kind(vars, can_replace=True) if is_of_app else _EMPTY
        if kind in (FunctionType, _Cached) and _is_not_looked_into(kind, str(thing.__module__)):
            return _EMPTY
        if kind is FunctionType:
            return Kind(
                vars,
                _beside_attributes,
                is_of_library=_is_of_library(str(thing.__module__)),
                can_replace=True,
            )
        key = id(kind)
        if key not in self._known:
            self._known[key] = kind, _kind(kind)
        return self._known[key][1]


def _beside_attributes(function: FunctionType) -> Sequence[object]:
    keywords, cells = function.__kwdefaults__, function.__closure__ or ()
    return (function.__code__, function.__defaults__, keywords, *cells)


def _is_not_looked_into(kind: type, module: str) -> bool:
    """Return whether a function is not looked into; a cache of Python or a library, such as that of
    `urllib.parse.urlsplit`, changes no result.
    """
    return f"{module}.".startswith(_PREFIXES) or (kind is _Cached and not is_app_module(module))


def _is_of_library(module: str) -> bool | None:
    if is_app_module(module):
        return False
    return True if is_library_module(module) else None


def _kind(kind: type) -> Kind:
    base, module = _written_in_c(kind), kind.__module__
    if base not in _STATES and any(map(_is_left_out, (kind, base))):
        return _EMPTY
    is_constant = base in _CONSTANT or _is_value(base)
    is_known = is_constant or base in _ONLY_REFERENCES or issubclass(base, dict)
    is_known |= hasattr(base, "__get__")  # what a class defines
    find_state = _STATES.get(base, None if is_known else _state)
    find_names, list_others = _names(kind, base), None
    if (base is not object and not is_constant) or find_names is _of_proxy:
        is_array = hasattr(base, "__array_interface__")
        list_others = _of_array if is_array else _OTHERS.get(base, gc.get_referents)
    if kind is dict:
        find_names, list_others = (lambda thing: thing), None
    elif issubclass(kind, dict):
        find_names, list_others = dict.copy, partial(_beside_items, find_names, base)
    return Kind(
        find_names,
        list_others,
        find_state,
        is_fixed=kind in _FIXED,
        is_of_library=_is_of_library(module),
        is_cache=base is _Cached,
        can_replace=is_app_module(module) or issubclass(kind, _REPLACEABLE),
    )


_REPLACEABLE = (dict, list, deque, CellType)
_PREFIXES = tuple(f"{package}." for package in _NOT_COMPARED)


def _is_left_out(kind: type) -> bool:
    return f"{kind.__module__}.{kind.__qualname__}.".startswith(_PREFIXES)


def _written_in_c(kind: type) -> type:
    """Return the nearest base that keeps more than its attributes, as copying objects asks, too."""
    while kind.__base__ is not None and kind.__flags__ & (_IS_MADE | _IS_FINISHED) == _IS_MADE:
        base = kind.__base__
        own = sum(type(each) is types.MemberDescriptorType for each in vars(kind).values())
        own += bool(kind.__dictoffset__ and not base.__dictoffset__)
        own += bool(kind.__weakrefoffset__ and not base.__weakrefoffset__)
        grows = kind.__basicsize__ - base.__basicsize__ > own * struct.calcsize("P")
        if grows or kind.__itemsize__ != base.__itemsize__:
            break
        kind = base
    return kind


def _is_value(kind: type) -> bool:
    """Return whether objects of a type in C are values, such as numbers, texts and dates."""
    has_references = kind.__flags__ & _HAS_REFERENCES
    is_hashed = getattr(kind, "__hash__", None) not in (None, object.__hash__)
    is_hashed |= kind.__basicsize__ == object.__basicsize__  # such as None
    return not has_references and is_hashed and "ctypes" not in kind.__module__


_IS_FINISHED, _IS_MADE, _HAS_REFERENCES = 1 << 8, 1 << 9, 1 << 14
"""Py_TPFLAGS_IMMUTABLETYPE, which no class in Python has, _HEAPTYPE, which all have, _HAVE_GC."""


def _names(kind: type, base: type) -> Callable[[Any], Mapping[Any, object]] | None:
    """Return what finds the attributes of objects; None: they have none."""
    owners = [each for each in kind.__mro__ if "__dict__" in vars(each)]
    find: Any = vars(owners[0])["__dict__"].__get__ if owners and kind.__dictoffset__ else None
    if find and type(vars(owners[0])["__dict__"]) not in _ATTRIBUTES:
        return _of_proxy
    slots = [
        (name, slot.__get__)
        for each in kind.__mro__[: None if base is object else kind.__mro__.index(base)]
        for name, slot in vars(each).items()
        if type(slot) is types.MemberDescriptorType and name != "__dict__"
    ]

    def find_names(thing: object) -> Mapping[Any, object]:
        names = dict(find(thing) or ()) if find else {}
        for name, get in slots:
            with suppress(AttributeError):
                names[name] = get(thing)
        return names

    return find_names if slots else find


_ATTRIBUTES = (types.GetSetDescriptorType, types.MemberDescriptorType)


def _of_proxy(_: object) -> Mapping[Any, object]:
    """Return no attributes, since code of a library would be run."""
    return {}


def _beside_items(
    find_names: Callable[[Any], Mapping[Any, object]] | None, base: type, thing: Any
) -> Sequence[object]:
    """Return the attributes of a dictionary, and its order if it has one of its own."""
    names = find_names(thing) if find_names else {}
    order = OrderedDict.__iter__(thing) if base is OrderedDict else ()
    return (*names, *names.values(), *order, *gc.get_referents(thing))


def _of_cache(cached: Any) -> Sequence[object]:
    """Return results that are cached; in which order they were used matters to a full cache."""
    info, found = cached.cache_info(), gc.get_referents(cached)
    return found if info.currsize == info.maxsize else sorted(found, key=id)


def _of_array(array: Any) -> Sequence[object]:
    """Return the objects of an array of numpy, which does not tell the collector of them."""
    if array.dtype.names:
        return [each for name in array.dtype.names for each in _of_array(array[name])]
    return [*array.flat] if array.dtype.hasobject else ()


_Cached = type(functools.cache(len))
_OTHERS: dict[type, Callable[[Any], Sequence[object]]] = {
    # The collector lists these from the end, or with their type.
    list: list.copy,
    deque: lambda items: [*deque.__iter__(items)],
    tuple: lambda items: [*tuple.__iter__(items)],
    _Cached: _of_cache,
    memoryview: lambda view: (view.obj,),
}


def _state(thing: Any) -> object:
    """Return the buffer of an object, or what a copy is made of."""
    with suppress(TypeError):
        view = memoryview(thing)
        if view.nbytes > _MOST_BYTES:
            raise NotComparableError
        return view.tobytes()
    if type(thing).__module__ == "itertools":
        with warnings.catch_warnings():  # Python 3.12 and 3.13 say that 3.14 cannot copy these
            warnings.simplefilter("ignore")
            return thing.__reduce_ex__(4)
    reduce = copyreg.dispatch_table.get(type(thing))
    return reduce(thing) if reduce else thing.__reduce_ex__(4)


def _of_stream(stream: BytesIO | StringIO) -> object:
    return None if stream.closed else (stream.tell(), stream.getvalue())


_STATES: dict[type, Callable[[Any], object] | None] = {
    BytesIO: _of_stream,
    StringIO: _of_stream,
    itertools.count: repr,
    _Cached: None,
    types.GeneratorType: lambda made: made.gi_frame and made.gi_frame.f_lasti,
    types.CoroutineType: lambda made: made.cr_frame and made.cr_frame.f_lasti,
    types.AsyncGeneratorType: lambda made: made.ag_frame and made.ag_frame.f_lasti,
}
"""What some types in C keep beside references."""
