"""An emulator with a clock of its own, for the helpers that need no pytest."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from functions import Load, Work, working
from ledgers import Ledger

from pullqueue import Emulator, ManualClock, Queue
from pullqueue.testing import (
    Attempt,
    CrashResult,
    RaceResult,
    crash_test,
    memory,
    race_test,
    run_tasks,
)
from pullqueue.testing.exploration import blocking, left_threads, search
from pullqueue.testing.place import app_modules

HELPERS = {path.stem for path in Path(__file__).parents[2].glob("support/*.py")}
YAML = """\
queue:
- name: work
  mode: pull
- name: limited
  mode: pull
  retry_parameters:
    task_retry_limit: 2
- name: pushed
  rate: 5/s
  retry_parameters:
    task_retry_limit: 3
"""


@pytest.fixture(autouse=True)
def _few_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let races look less for failures of other kinds, after the first that they find."""
    monkeypatch.setattr(search, "_MORE", 1)


@pytest.fixture
def blocked_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take actors of races for blocked that reach no call for half a second, and not for two."""
    monkeypatch.setattr(blocking, "_BLOCKED_CHECKS", 10)


@pytest.fixture
def left_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for threads that handlers leave for twenty checks, and not for a thousand."""
    monkeypatch.setattr(left_threads, "_MOST_CHECKS", 20)


@pytest.fixture(autouse=True)
def _few_modules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave helpers of other tests, of which a process has hundreds, out of what races compare."""
    used = memory.Memory._used_by({request.module.__name__})

    def modules() -> dict[str, ModuleType]:
        found = app_modules()
        return {name: found[name] for name in found if name in used or name not in HELPERS}

    monkeypatch.setattr(memory, "app_modules", modules)


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    return Emulator.from_text(YAML, clock=clock)


@pytest.fixture
def queue(emulator: Emulator) -> Queue:
    return emulator.queue("work")


@pytest.fixture
def limited(emulator: Emulator) -> Queue:
    return emulator.queue("limited")


@pytest.fixture
def pushed(emulator: Emulator) -> Queue:
    return emulator.queue("pushed")


@pytest.fixture
def ledger(queue: Queue) -> Ledger:
    return Ledger(queue)


@pytest.fixture
def work(queue: Queue) -> Work:
    """A worker that leases one task and deletes it."""
    return working(queue)


MakeModule = Callable[..., ModuleType]


@pytest.fixture
def make_module(monkeypatch: pytest.MonkeyPatch) -> MakeModule:
    """Make modules from source, loaded like any other until the test ends."""

    def make(source: str, name: str = "an_app") -> ModuleType:
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(source, module.__dict__)  # noqa: S102
        return module

    return make


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import a module of an app from its source."""
    names: list[str] = []

    def load(source: str, name: str = "an_app", *, folder: str = ".") -> Any:
        path = tmp_path / folder / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        monkeypatch.syspath_prepend(tmp_path / folder)
        names.extend([name, name.partition(".")[0]])
        return import_module(name)

    yield load
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def add_handler() -> Iterator[Callable[[logging.Handler], None]]:
    """Add handlers of logs until the test ends."""
    with ExitStack() as stack:

        def add(handler: logging.Handler) -> None:
            logging.getLogger("shop").addHandler(handler)
            stack.callback(handler.close)
            stack.callback(logging.getLogger("shop").removeHandler, handler)

        yield add


@pytest.fixture
def race(emulator: Emulator) -> Callable[..., RaceResult]:
    """`race_test` of the emulator; unless a test says otherwise, from nothing, and all is right."""
    return partial(race_test, emulator, setup=lambda: None, check=lambda: True)


@pytest.fixture
def crash(emulator: Emulator) -> Callable[..., CrashResult]:
    """`crash_test` of the emulator, which finds nothing wrong, unless a test says otherwise."""
    return partial(crash_test, emulator, check=lambda: True)


@pytest.fixture
def run(emulator: Emulator) -> Callable[..., list[Attempt]]:
    return partial(run_tasks, emulator)
