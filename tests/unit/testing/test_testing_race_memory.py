"""What actors of `race_test` change in memory counts, wherever the app keeps it."""

from __future__ import annotations

from typing import Any

import numpy as np  # noqa: F401 - it is loaded once; tests of the plugin unload what they load
import pytest
from functions import Load, Run

from pullqueue import Queue
from pullqueue.testing import RaceTestError, memory
from pullqueue.testing.memory import contents

pytestmark = pytest.mark.slow

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
numbers.n = text.n = failure.n = attribute.n = attribute_of_slots.m = module.n = Number.ONE.n = 0
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
PLACES = """
    hidden._n attribute_of_slots.m data.n deep.there['a'][0]._n many[149][0]
    cached(1)['n'] recent(1)['n'] space.n default()[0][0] default()[1]['n'] attribute.n
    Plain.n Made.n integers[0] octets[0] other[0] map_[0] view[0] integer.value structure.n
    ring[0] variable.get()[0] chain['n'] module.n Single().n decorated.__wrapped__.n
    mapping['n'] ordered['n'] user['n'] items['n'] numbers[0] numbers.n text.n failure.n
    Number.ONE.n bound.keywords['n'][0] method.__self__[0]
"""
CELLS = {place: f"{place} = v" for place in PLACES.split()} | {
    "get_closed()": "put_closed(v)",
    "next(generator)": "generator.send(v)",
    "chosen.get()[0]": "chosen.get().__setitem__(0, v) if v else chosen.set([0])",
    "int(stream.getvalue())": "write(stream, b'%d' % v)",
    "int(text_stream.getvalue())": "write(text_stream, str(v))",
    "jobs.qsize()": "empty(jobs, v)",
    "simple.qsize()": "empty(simple, v)",
}
"""Where an app can keep a number: how to read it, and how to write it."""
CELLS_OF_ENVIRONMENT = {
    "int(os.environ['A_NUMBER'])": "os.environ['A_NUMBER'] = str(v)",
    "sum(name not in os.environ for name in 'AB')": (
        "{os.environ.pop(each, 0) for each in 'AB'[:v]} or os.environ.update(A='', B='')"
    ),
}
FLASK = """
import flask

app = flask.Flask("an_app")
app.extensions["mine"] = {"n": 0}
"""
CELLS_OF_FLASK = {
    "app.config.get('N', 0)": "app.config['N'] = v",
    "app.extensions['mine']['n']": "app.extensions['mine']['n'] = v",
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
    "objects[0]['n']": "objects[0]['n'] = v",
    "objects[1] or 0": "objects[1] = v",
    "table[1, 1]['n']": "table[1, 1]['n'] = v",
    "records[0]['kept']['n']": "records[0]['kept']['n'] = v",
    "numbers[0]": "numbers[0] = v",
}


def _reader(app: Any, read: str) -> Any:
    return eval(f"lambda: {read}", vars(app))  # noqa: S307 - of this module


def _writer(app: Any, write: str) -> Any:
    made: dict[str, Any] = {}
    exec(f"def write_value(v): {write}", vars(app), made)  # noqa: S102
    return made["write_value"]


def _race(race: Run, queue: Queue, app: Any, read: str, write: str, **options: Any) -> Any:
    """Let two actors read a number, make calls that do not conflict, and write it."""
    get, put = _reader(app, read), _writer(app, write)

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
    kept = memory.Memory([], _reader(app, "None"))
    writes = {read: _writer(app, write) for read, write in CELLS.items()}
    for _ in range(2):
        for write in writes.values():
            write(0)
        kept.begin()
    assert not kept.has_changed("a turn")
    unseen = []
    for number, (read, write) in enumerate(writes.items(), 1):  # some keep the same number
        write(number)
        if not kept.has_changed(read):
            unseen.append(read)
    assert unseen == []
    assert kept.not_compared == {}


LOST = ["hidden._n", "get_closed()", "integers[0]", "variable.get()[0]"]


@pytest.mark.parametrize(
    ("source", "cells"),
    [
        (APP, {read: CELLS[read] for read in LOST}),
        (APP, CELLS_OF_ENVIRONMENT),
        (FLASK, CELLS_OF_FLASK),
    ],
    ids=["a module", "the environment", "Flask"],
)
def test_an_update_of_it_can_be_lost(
    race: Run, queue: Queue, load: Load, source: str, cells: dict[str, str]
) -> None:
    app = load(source)
    green = []
    for read, write in cells.items():
        try:
            green.append((read, str(_race(race, queue, app, read, write))))
        except RaceTestError as error:
            assert "check returned False" in str(error), read
    assert green == []


def test_an_update_of_an_array_can_be_lost(race: Run, queue: Queue, load: Load) -> None:
    """A buffer of objects has only their addresses, which numpy does not tell the collector."""
    app = load(NUMPY)
    for read, write in CELLS_OF_NUMPY.items():
        with pytest.raises(RaceTestError, match="check returned False"):
            _race(race, queue, app, f"int({read})", write)
    assert _race_reads(race, queue, app, "[objects, table, records, numbers]") == (2, ())


def test_what_is_only_read_does_not_count(race: Run, queue: Queue, load: Load) -> None:
    """Whatever there is, orders are left out, so that it is the update that others find."""
    app = load(APP)
    reads = [read for read in CELLS if "generator" not in read]

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
