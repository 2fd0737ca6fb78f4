"""An emulator behind the SDK's client, for the tests of this folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pullqueue import Emulator, ManualClock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.sdk import install

with warnings.catch_warnings():
    # The SDK's own modules warn while they are imported.
    warnings.simplefilter("ignore")
    from google.appengine.api import datastore
    from google.appengine.datastore import datastore_rpc
    from google.appengine.ext import deferred, ndb, testbed


def limited(name: str, leases: int, age_seconds: int | None = None) -> QueueSettings:
    """Return a pull queue whose tasks can be leased that many times."""
    retry = RetryParameters(task_retry_limit=leases, task_age_limit_seconds=age_seconds)
    return QueueSettings(name=name, mode=QueueMode.PULL, retry_parameters=retry)


CONFIG = QueueConfig(
    queues=(
        QueueSettings(name="pull", mode=QueueMode.PULL),
        QueueSettings(name="other", mode=QueueMode.PULL),
        limited("never", 0),
        limited("once", 1),
        limited("twice", 2),
        limited("aged", 1, age_seconds=3600),
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
def sdk() -> SimpleNamespace:
    """Modules of the SDK that warn when they are imported."""
    return SimpleNamespace(
        datastore=datastore,
        datastore_rpc=datastore_rpc,
        deferred=deferred,
        ndb=ndb,
        testbed=testbed,
    )


@pytest.fixture
def bed(sdk: Any) -> Iterator[Any]:
    """An activated testbed."""
    bed = sdk.testbed.Testbed()
    bed.activate()
    yield bed
    bed.deactivate()
