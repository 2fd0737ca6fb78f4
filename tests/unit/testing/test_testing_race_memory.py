"""What actors of `race_test` change in memory counts, wherever the app keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np  # noqa: F401 - it is loaded once; tests of the plugin unload what they load
import pytest

from pullqueue import Queue
from pullqueue.testing import RaceResult, RaceTestError, memory
from pullqueue.testing.memory import contents

pytestmark = pytest.mark.slow

Run = Callable[..., RaceResult]
Load = Callable[..., Any]

APP = """
import array, collections, contextvars, ctypes, dataclasses, enum, functools, io, mmap
import os, queue, types

class Slots:
    __slots__ = ("n", "__dict__")
    n: int

class Hidden:
    __slots__ = ("_n",)
    _n: int
    def __init__(self): self._n = 0

class Plain: n = 0

class Deep(Plain):
    def __init__(self): self.there = {"a": [Hidden()]}

class Items(dict): pass
class Numbers(list): pass
class Bytes(bytearray): pass
class Text(str): pass
class Failure(Exception): pass
class Number(enum.IntEnum): ONE = 1
class Metal(type): pass
class Made(metaclass=Metal): n = 0
class Structure(ctypes.Structure): _fields_ = [("n", ctypes.c_int)]

@dataclasses.dataclass(slots=True)
class Data: n: int = 0

@functools.cache
def cached(key): return {"n": 0}

@functools.lru_cache
def recent(key): return {"n": 0}

def default(box=[0], *, named={"n": 0}): return box, named
def attribute(): pass
def closing():
    n = 0
    def get(): return n
    def put(value):
        nonlocal n
        n = value
    return get, put

def keeping():
    n = 0
    while True:
        sent = yield n
        n = n if sent is None else sent

class Single:
    made = None
    def __new__(cls):
        if cls.made is None:
            cls.made = super().__new__(cls)
            cls.made.n = 0
        return cls.made

@functools.wraps(attribute)
def decorated(): pass

module = types.ModuleType("made")
chosen = contextvars.ContextVar("chosen", default=[0])
chain = collections.ChainMap({}, {"n": 0})
generator = keeping()
next(generator)
variable = contextvars.ContextVar("variable", default=[0])
get_closed, put_closed = closing()
slots, attribute_of_slots, hidden, deep = Slots(), Slots(), Hidden(), Deep()
data, space, many = Data(), types.SimpleNamespace(n=0), [[0] for _ in range(150)]
items, numbers, text, failure = Items(n=0), Numbers([0]), Text("x"), Failure()
mapping, ordered = collections.defaultdict(int), collections.OrderedDict(n=0)
numbers.n = text.n = failure.n = attribute.n = attribute_of_slots.m = module.n = 0
integers, octets, other = array.array("i", [0]), bytearray(1), Bytes(1)
integer, structure, ring = ctypes.c_int(0), Structure(), collections.deque([0])
method, bound, wrapped = [0].append, functools.partial(dict, n=[0]), property(Deep())
stream, text_stream, map_ = io.BytesIO(b"0"), io.StringIO("0"), mmap.mmap(-1, 1)
jobs, simple = queue.Queue(), queue.SimpleQueue()
view, user, frozen = memoryview(octets), collections.UserDict(n=0), types.MappingProxyType(items)

def write(stream, value):
    stream.seek(0)
    stream.write(value)
    stream.truncate()

def empty(jobs, value):
    while not jobs.empty(): jobs.get()
    for _ in range(value): jobs.put(1)
"""
CELLS = {
    "slots": ("hidden._n", "setattr(hidden, '_n', v)"),
    "slots and attributes": ("attribute_of_slots.m", "setattr(attribute_of_slots, 'm', v)"),
    "a dataclass with slots": ("data.n", "setattr(data, 'n', v)"),
    "deep in attributes": ("deep.there['a'][0]._n", "setattr(deep.there['a'][0], '_n', v)"),
    "after many items": ("many[149][0]", "many[149].__setitem__(0, v)"),
    "functools.cache": ("cached(1)['n']", "cached(1).__setitem__('n', v)"),
    "functools.lru_cache": ("recent(1)['n']", "recent(1).__setitem__('n', v)"),
    "SimpleNamespace": ("space.n", "setattr(space, 'n', v)"),
    "a default argument": ("default()[0][0]", "default()[0].__setitem__(0, v)"),
    "a default argument by name": ("default()[1]['n']", "default()[1].__setitem__('n', v)"),
    "an attribute of a function": ("attribute.n", "setattr(attribute, 'n', v)"),
    "a closure": ("get_closed()", "put_closed(v)"),
    "a generator": ("next(generator)", "generator.send(v)"),
    "a class": ("Plain.n", "setattr(Plain, 'n', v)"),
    "a class with a metaclass": ("Made.n", "setattr(Made, 'n', v)"),
    "array": ("integers[0]", "integers.__setitem__(0, v)"),
    "bytearray": ("octets[0]", "octets.__setitem__(0, v)"),
    "a subclass of bytearray": ("other[0]", "other.__setitem__(0, v)"),
    "mmap": ("map_[0]", "map_.__setitem__(0, v)"),
    "memoryview": ("view[0]", "view.__setitem__(0, v)"),
    "ctypes": ("integer.value", "setattr(integer, 'value', v)"),
    "a structure of ctypes": ("structure.n", "setattr(structure, 'n', v)"),
    "deque": ("ring[0]", "ring.__setitem__(0, v)"),
    "a context variable": ("variable.get()[0]", "variable.get().__setitem__(0, v)"),
    "a context variable that setup sets": (
        "chosen.get()[0]",
        "chosen.get().__setitem__(0, v) if v else chosen.set([0])",
    ),
    "ChainMap": ("chain['n']", "chain.__setitem__('n', v)"),
    "a module that was not imported": ("module.n", "setattr(module, 'n', v)"),
    "a singleton of a class": ("Single().n", "setattr(Single(), 'n', v)"),
    "what a decorator keeps": ("decorated.__wrapped__.n", "setattr(decorated.__wrapped__, 'n', v)"),
    "defaultdict": ("mapping['n']", "mapping.__setitem__('n', v)"),
    "OrderedDict": ("ordered['n']", "ordered.__setitem__('n', v)"),
    "UserDict": ("user['n']", "user.__setitem__('n', v)"),
    "a subclass of dict": ("items['n']", "items.__setitem__('n', v)"),
    "an item of a subclass of list": ("numbers[0]", "numbers.__setitem__(0, v)"),
    "an attribute of a subclass of list": ("numbers.n", "setattr(numbers, 'n', v)"),
    "a subclass of str": ("text.n", "setattr(text, 'n', v)"),
    "an exception": ("failure.n", "setattr(failure, 'n', v)"),
    "a member of an enumeration": (
        "getattr(Number.ONE, 'n', 0)",
        "setattr(Number.ONE, 'n', v)",
    ),
    "a bound partial": ("bound.keywords['n'][0]", "bound.keywords['n'].__setitem__(0, v)"),
    "a list that only a method has": (
        "method.__self__[0]",
        "method.__self__.__setitem__(0, v)",
    ),
    "BytesIO": ("int(stream.getvalue())", "write(stream, b'%d' % v)"),
    "StringIO": ("int(text_stream.getvalue())", "write(text_stream, str(v))"),
    "a queue": ("jobs.qsize()", "empty(jobs, v)"),
    "a simple queue": ("simple.qsize()", "empty(simple, v)"),
}
"""Where an app can keep a number: how to read it, and how to write it."""
CELLS_OF_ENVIRONMENT = {
    "a variable": (
        "int(os.environ['A_NUMBER'])",
        "os.environ.__setitem__('A_NUMBER', str(v))",
    ),
    "variables that are deleted": (
        "sum(name not in os.environ for name in 'AB')",
        "{os.environ.pop(each, 0) for each in 'AB'[:v]} or os.environ.update(A='', B='')",
    ),
}
FLASK = """
import flask

app = flask.Flask("an_app")
app.extensions["mine"] = {"n": 0}
"""
CELLS_OF_FLASK = {
    "settings": ("app.config.get('N', 0)", "app.config.__setitem__('N', v)"),
    "extensions": ("app.extensions['mine']['n']", "app.extensions['mine'].__setitem__('n', v)"),
}

NUMPY = """
import numpy

objects = numpy.array([{"n": 0}, None], dtype=object)
table = numpy.full((2, 2), [None], dtype=object)
table[1, 1] = {"n": 0}
records = numpy.zeros(1, dtype=[("id", int), ("kept", object)])
records[0]["kept"] = {"n": 0}
numbers = numpy.zeros(2)
"""
CELLS_OF_NUMPY = {
    "an array of objects": ("objects[0]['n']", "objects[0].__setitem__('n', v)"),
    "an object of an array": ("objects[1] or 0", "objects.__setitem__(1, v)"),
    "a table of objects": ("table[1, 1]['n']", "table[1, 1].__setitem__('n', v)"),
    "records": ("records[0]['kept']['n']", "records[0]['kept'].__setitem__('n', v)"),
    "numbers": ("numbers[0]", "numbers.__setitem__(0, v)"),
}


def _evaluate(app: Any, source: str) -> Any:
    return eval(source, vars(app))  # noqa: S307 - of this module


def _race(race: Run, queue: Queue, app: Any, read: str, write: str, **options: Any) -> RaceResult:
    """Let two actors read a number, make calls that do not conflict, and write it."""
    get, put = _evaluate(app, f"lambda: {read}"), _evaluate(app, f"lambda v: {write}")

    def setup() -> None:
        put(0)
        for name in "ab":
            queue.add(name=name)

    def act(name: str) -> None:
        value = get()
        queue.delete_tasks(name)
        put(value + 1)

    actors = (lambda: act("a"), lambda: act("b"))
    return race(*actors, setup=setup, check=lambda: get() == 2, instances=False, **options)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("A_NUMBER", "A", "B"):
        monkeypatch.setenv(name, "0")


def test_an_update_is_seen_wherever_it_is_kept(load: Load) -> None:
    app = load(APP)
    kept = memory.Memory([], _evaluate(app, "lambda: None"))
    writes = {name: _evaluate(app, f"lambda v: {write}") for name, (_, write) in CELLS.items()}
    for _ in range(2):
        for write in writes.values():
            write(0)
        kept.begin()
    assert not kept.has_changed("a turn")
    unseen = []
    for number, (name, write) in enumerate(writes.items(), 1):  # some keep the same number
        write(number)
        if not kept.has_changed(name):
            unseen.append(name)
    assert unseen == []
    assert kept.not_compared == {}


LOST = ["slots", "a closure", "array", "a context variable"]


@pytest.mark.parametrize(
    ("source", "cells"),
    [
        (APP, {name: CELLS[name] for name in LOST}),
        (APP, CELLS_OF_ENVIRONMENT),
        (FLASK, CELLS_OF_FLASK),
    ],
    ids=["a module", "the environment", "Flask"],
)
def test_an_update_of_it_can_be_lost(
    race: Run, queue: Queue, load: Load, source: str, cells: dict[str, tuple[str, str]]
) -> None:
    app = load(source)
    green = []
    for name, (read, write) in cells.items():
        try:
            green.append((name, str(_race(race, queue, app, read, write))))
        except RaceTestError as error:
            assert "check returned False" in str(error), name
    assert green == []


def test_an_update_of_an_array_can_be_lost(race: Run, queue: Queue, load: Load) -> None:
    """A buffer of objects has only their addresses, which numpy does not tell the collector."""
    app = load(NUMPY)
    for read, write in CELLS_OF_NUMPY.values():
        with pytest.raises(RaceTestError, match="check returned False"):
            _race(race, queue, app, f"int({read})", write)
    assert _race_reads(race, queue, app, "[objects, table, records, numbers]") == (2, ())


def test_what_is_only_read_does_not_count(race: Run, queue: Queue, load: Load) -> None:
    """Whatever there is, orders are left out, so that it is the update that others find."""
    app = load(APP)
    reads = [read for read, _ in CELLS.values() if "generator" not in read]

    assert _race_reads(race, queue, app, f"[{', '.join(reads)}]") == (2, ())
    assert _race_reads(race, queue, app, "None", reduce=False) == (6, ())


def test_a_cache_of_a_library_is_not_state_of_the_app(race: Run, queue: Queue, load: Load) -> None:
    app = load("from time import perf_counter_ns\nfrom urllib.parse import urlsplit")

    assert _race_reads(race, queue, app, "urlsplit(f'//{perf_counter_ns()}')") == (2, ())


def _race_reads(
    race: Run, queue: Queue, app: Any, read: str, **options: Any
) -> tuple[int, tuple[str, ...]]:
    result = _race(race, queue, app, f"({read}, 2)[1]", "None", **options)
    return int(result), result.not_compared


def test_what_cannot_be_compared_can_have_changed_at_each_call(
    race: Run, queue: Queue, load: Load
) -> None:
    """A state in C without a copy, and a buffer that was released."""
    app = load("import hashlib\n\nkept = [hashlib.sha256(), memoryview(b'')]\nkept[1].release()\n")

    assert _race_reads(race, queue, app, "kept") == (6, ("an_app.kept.0", "an_app.kept.1"))


LIMITS = {
    "_MOST_BYTES": (contents, "octets = bytearray({limit})"),
    "_MOST_ITEMS": (memory, "items = [0] * {limit}"),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_what_is_too_large_to_be_compared_can_have_changed(
    race: Run, queue: Queue, load: Load, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    module, source = LIMITS[limit]
    monkeypatch.setattr(module, limit, 5000)
    app = load("")

    for size, found in ((5000, 2), (5001, 6)):
        exec(source.format(limit=size), app.__dict__)  # noqa: S102
        assert _race_reads(race, queue, app, "None")[0] == found


def test_what_is_too_much_to_be_compared_can_have_changed(
    race: Run, queue: Queue, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_MOST_OBJECTS", 2000)
    app = load("items = [[] for _ in range(2000)]")

    found, (first, *_) = _race_reads(race, queue, app, "None")
    assert found == 6
    assert first


@pytest.mark.parametrize(("most", "is_seen"), [(5000, True), (0, False)])
def test_a_change_that_a_later_turn_undoes_is_seen_after_each(
    load: Load, monkeypatch: pytest.MonkeyPatch, most: int, *, is_seen: bool
) -> None:
    """Unless there is too much, and no turn from there has changed anything before."""
    app = load("busy = set()\n")
    monkeypatch.setattr(memory, "_MOST_EACH_TURN", most)
    kept = memory.Memory([], load)
    for _ in range(2):
        kept.begin()
    assert not any(kept.has_changed("a turn") for _ in range(5))

    app.busy.add(1)
    assert kept.has_changed("a turn") is is_seen
    app.busy.clear()
    assert kept.has_changed("a turn") is is_seen
