"""An emulator behind the SDK's client, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sdk_calls import testbed

from pullqueue import Emulator, ManualClock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.sdk import install

CONFIG = QueueConfig(
    queues=(
        QueueSettings(name="pull", mode=QueueMode.PULL),
        QueueSettings(name="other", mode=QueueMode.PULL),
        QueueSettings(
            name="twice",
            mode=QueueMode.PULL,
            retry_parameters=RetryParameters(task_retry_limit=2),
        ),
        QueueSettings(name="push"),
    )
)


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    """An emulator with queues of every kind."""
    return Emulator(CONFIG, clock=clock)


@pytest.fixture
def stub(emulator: Emulator) -> Iterator[Any]:
    """The emulator in the place of the task queue service."""
    with install(emulator) as stub:
        yield stub


@pytest.fixture
def bed() -> Iterator[Any]:
    """An activated testbed."""
    bed = testbed.Testbed()
    bed.activate()
    yield bed
    bed.deactivate()
