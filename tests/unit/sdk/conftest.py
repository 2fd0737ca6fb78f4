"""An emulator behind the SDK's client, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sdk_calls import testbed

from pullqueue import Emulator, ManualClock
from pullqueue.sdk import install

QUEUES = """
queue:
- {name: pull, mode: pull}
- {name: other, mode: pull}
- {name: twice, mode: pull, retry_parameters: {task_retry_limit: 2}}
- {name: push, rate: 5/s}
"""


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    return Emulator.from_text(QUEUES, clock=clock)


@pytest.fixture
def stub(emulator: Emulator) -> Iterator[Any]:
    with install(emulator) as stub:
        yield stub


@pytest.fixture
def bed() -> Iterator[Any]:
    bed = testbed.Testbed()
    bed.activate()
    yield bed
    bed.deactivate()
