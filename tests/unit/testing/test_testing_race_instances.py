"""Actors of `race_test` are instances: what modules of the app keep in memory is not shared."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from functions import Load, Run, adding, in_turn

from pullqueue import Queue
from pullqueue.testing import RaceTestError
from pullqueue.testing.exploration.instances import InstanceLock, raced_locks
from pullqueue.testing.memory import Memory

pytestmark = pytest.mark.slow

COUNTING = """
import threading

lock = threading.{kind}()
queue = None
value = 0


def reset():
    global value
    value = 0


def count():
    global value
    with lock:
        read = value
        queue.fetch_statistics()
        value = read + 1
        if "{kind}" == "Condition":
            lock.notify_all()
"""


@pytest.mark.usefixtures("blocked_soon")
@pytest.mark.parametrize("kind", ["Lock", "RLock", "Semaphore", "Condition"])
def test_each_actor_has_its_own_lock_of_the_app(
    race: Run, queue: Queue, load: Load, kind: str
) -> None:
    """An update that only a lock keeps is lost in two instances, but not in one."""
    app = load(COUNTING.format(kind=kind))
    app.queue, lock = queue, app.lock
    run = partial(race, app.count, setup=app.reset, check=lambda: app.value == 2, copies=2)

    with pytest.raises(RaceTestError) as caught:
        run()
    assert "each actor has its own an_app.lock, as instances have" in str(caught.value)
    assert "check returned False" in str(caught.value)
    assert run(instances=False).is_complete
    assert app.lock is lock


PLACES = {
    "a list": ("[None, threading.Lock(), 1]", "kept[1]"),
    "a deque": ("collections.deque([None, threading.Lock(), 1])", "kept[1]"),
    "a dictionary": ("{1: threading.Lock()}", "kept[1]"),
    "a defaultdict": ("collections.defaultdict(int, a=threading.Lock())", "kept['a']"),
    "an attribute": ("types.SimpleNamespace(a=Object())", "kept.a.lock"),
    "a slot": ("Slots()", "kept.lock"),
    "a class": ("Object", "kept.lock_of_class"),
    "a closure": ("closing()", "kept()"),
    "items of a subclass of list": ("Items([threading.Lock()])", "kept[0]"),
}
OTHERS = {
    "an attribute of a subclass of list": ("Items([0])", "kept.lock"),
    "an attribute of a subclass of dict": ("Names({0: 1})", "kept.lock"),
    "a set": ("{threading.Lock()}", "[*kept][0]"),
}


@pytest.mark.parametrize("place", [*PLACES, *OTHERS])
def test_a_lock_is_replaced_where_the_app_keeps_it(load: Load, place: str) -> None:
    """All that is beside it is left alone."""
    made, found = (PLACES | OTHERS)[place]
    app = load(
        "import collections, threading, types\n"
        "class Object:\n    lock_of_class = threading.Lock()\n"
        "    def __init__(self): self.lock = threading.Lock()\n"
        "class Slots(Object): __slots__ = ('lock',)\n"
        "class Items(list):\n    def __init__(self, *items): super().__init__(*items); "
        "self.lock = threading.Lock()\n"
        "class Names(dict):\n    def __init__(self, *items): super().__init__(*items); "
        "self.lock = threading.Lock()\n"
        "def closing():\n    lock = threading.Lock()\n    return lambda: lock\n"
        f"kept = {made}\n"
    )
    text = repr(app.kept)

    def lock() -> object:
        return eval(found, app.__dict__)  # noqa: S307 - of this module

    before = lock()
    with raced_locks(Memory([], load), instances=True):
        assert place in OTHERS or isinstance(lock(), InstanceLock)
        assert place in PLACES or repr(app.kept) == text
    assert lock() is before
    assert repr(app.kept) == text


def test_a_lock_that_the_app_makes_later_is_its_own_as_well(
    race: Run, queue: Queue, load: Load
) -> None:
    app = load("import threading\n\ndef make():\n    return threading.Lock()\n")
    made: list[Any] = []
    seen: list[int] = []

    def work() -> None:
        with made[0]:
            seen.append(1)
            queue.fetch_statistics()
            seen.append(-1)

    def setup() -> None:
        made[:] = [app.make()]
        seen.clear()

    with pytest.raises(RaceTestError, match="check returned False"):
        race(work, setup=setup, check=lambda: seen == [1, -1, 1, -1], copies=2)


DEDUPE = """
seen = set()
names = []


def work(queue, print_label):
    for task in queue.lease_tasks(60, 1):
        if task.name not in seen:
            seen.add(task.name)
            print_label(task)
        queue.delete_tasks(task)
"""


def test_a_green_that_depends_on_memory_of_the_app_says_so(
    race: Run, queue: Queue, load: Load
) -> None:
    """Two instances would not share the set, so each would print the label."""
    app = load(DEDUPE)
    printed: list[str] = []
    setup = in_turn(app.seen.clear, printed.clear, adding(queue, "one"))

    worker = partial(app.work, queue, lambda task: printed.append(task.name))
    options: dict[str, Any] = {"setup": setup, "check": lambda: printed == ["one"], "copies": 2}
    with pytest.warns(UserWarning, match=r"race_test: actors change an_app\.seen, which instances"):
        result = race(worker, **options)
    assert result.shared == ("an_app.seen",)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert race(worker, **options, instances=False).shared == ()


def test_what_is_made_once_is_not_shared_state(race: Run, queue: Queue, load: Load) -> None:
    """A module that caches a client changes it in the first schedule only."""
    app = load(
        "client = None\n\ndef work(queue):\n    global client\n"
        "    client = client or object()\n    queue.purge()\n"
    )
    assert race(partial(app.work, queue), copies=2, setup=queue.add).shared == ()


def test_locks_of_libraries_are_left_alone(race: Run, queue: Queue) -> None:
    before = threading.Lock
    made: list[Any] = []

    def work() -> None:
        made.append(threading.Condition())
        queue.purge()

    race(work, copies=2, setup=queue.add, schedules=2)

    assert threading.Lock is before
    assert not any("pullqueue" in repr(condition) for condition in made)


HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("name", "folder", "is_used", "is_compared"),
    [
        ("test_elsewhere", HERE, False, False),
        ("test_elsewhere", HERE, True, True),
        ("tests.api.conftest", HERE.parent / "api", False, False),
        ("tests.api.conftest", HERE.parent / "api", True, True),
        ("tests.testing.below.conftest", HERE / "below", False, False),
        ("tests.testing.conftest", HERE, False, True),
        ("tests.conftest", HERE.parent, False, True),
        ("helpers", HERE.parent / "api", False, True),
    ],
)
def test_modules_of_other_tests_are_compared_only_if_the_test_uses_them(
    monkeypatch: pytest.MonkeyPatch, name: str, folder: Path, *, is_used: bool, is_compared: bool
) -> None:
    """A suite has many, and each would be compared in each schedule."""
    other = ModuleType(name)
    kept: list[int] = []
    file = folder / f"{name.rpartition('.')[2]}.py"
    vars(other).update(__file__=str(file), kept=kept)
    monkeypatch.setitem(sys.modules, name, other)
    if is_used:
        monkeypatch.setitem(globals(), "other", other)

    def check() -> None:
        """Be a function of this module."""

    memory = Memory([], check)
    memory.begin()
    memory.begin()
    kept.append(1)

    assert memory.has_changed("turn") is is_compared


def test_a_conftest_is_compared_where_no_module_is_known_to_have_the_tests(
    monkeypatch: pytest.MonkeyPatch, make_module: Callable[..., ModuleType]
) -> None:
    """The test can be of its folder if all functions are those of helpers or of the app."""
    kept: list[int] = []
    conftest = ModuleType("tests.api.conftest")
    vars(conftest).update(__file__="/elsewhere/tests/api/conftest.py", kept=kept)
    monkeypatch.setitem(sys.modules, conftest.__name__, conftest)
    helper = make_module("def check(): pass", "checks")
    memory = Memory([], helper.check)
    memory.begin()
    memory.begin()
    kept.append(1)

    assert memory.has_changed("turn")
