"""Modules of the SDK, pull tasks, and calls to its service that its client does not make."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullqueue import Emulator
from pullqueue.sdk import install
from pullqueue.sdk.imports import apiproxy_stub_map, messages, taskqueue

with warnings.catch_warnings():
    # These modules of the SDK warn while they are imported.
    warnings.simplefilter("ignore")
    from google.appengine.api import (
        datastore,
        datastore_errors,
        mail,
        memcache,
        module_testutil,
        queueinfo,
    )
    from google.appengine.datastore import datastore_rpc
    from google.appengine.ext import deferred, ndb, testbed
    from google.appengine.runtime import default_api_stub

__all__ = [
    "call",
    "datastore",
    "datastore_errors",
    "datastore_rpc",
    "default_api_stub",
    "deferred",
    "mail",
    "memcache",
    "module_testutil",
    "ndb",
    "pull",
    "queueinfo",
    "sdk_testbed",
    "testbed",
]


@contextmanager
def sdk_testbed(emulator: Emulator) -> Iterator[Any]:
    """Use a testbed with a datastore, memcache and the queues of an emulator, in the block."""
    bed = testbed.Testbed()
    bed.activate()
    bed.init_datastore_v3_stub()
    bed.init_memcache_stub()
    with install(emulator) as stub:
        apiproxy_stub_map.apiproxy.ReplaceStub("taskqueue", stub)
        yield bed
    bed.deactivate()


def pull(payload: Any = b"work", **options: Any) -> Any:
    """Make a pull task."""
    return taskqueue.Task(payload=payload, method="PULL", **options)


def call(method: str, **fields: Any) -> Any:
    """Make a call by its name and return its response."""
    response = getattr(messages, f"TaskQueue{method}Response")()
    request = getattr(messages, f"TaskQueue{method}Request")(**fields)
    apiproxy_stub_map.MakeSyncCall("taskqueue", method, request, response)
    return response
