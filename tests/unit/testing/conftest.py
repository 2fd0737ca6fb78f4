"""An emulator with a clock of its own, for the helpers that need no pytest."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from ledgers import Ledger

from pullqueue import Emulator, ManualClock, Queue

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
