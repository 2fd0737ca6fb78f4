"""Putting an emulator in the place of the task queue service, and taking it away again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from pullqueue.clock import SystemClock
from pullqueue.engine.emulator import Emulator
from pullqueue.sdk.imports import apiproxy_stub_map, context, taskqueue, taskqueue_stub
from pullqueue.sdk.startup import sitecustomize
from pullqueue.sdk.stub import PullQueueStub, seconds_of

_SERVICE = "taskqueue"

_make_google_stub: Callable[..., None] = taskqueue_stub.TaskQueueServiceStub.__init__


@contextmanager
def install(emulator: Emulator) -> Iterator[PullQueueStub]:
    """Let `google.appengine.api.taskqueue` use the emulator's pull queues inside the block.

    Nothing else of the SDK has to be set up. Stubs that are made meanwhile, by `testbed` or by
    hand, use the same emulator. What was there before is put back in the end.
    """
    with ExitStack() as stack:
        for part in (
            _stub_map_kept,
            _configuration_kept,
            _client_clock,
            _host,
            _cloud_tasks_off,
            _adoption,
        ):
            stack.enter_context(part(emulator))
        stub = stack.enter_context(_stub(emulator))
        apiproxy_stub_map.apiproxy.ReplaceStub(_SERVICE, stub)
        yield stub


@contextmanager
def _stub(emulator: Emulator) -> Iterator[PullQueueStub]:
    """Give a stub of the emulator: the one that a testbed has registered, or a new one.

    The testbed hands its own stub out, with `get_stub`, so that one must be ours.
    """
    before = _registered_stubs().get(_SERVICE)
    if type(before) is not taskqueue_stub.TaskQueueServiceStub:
        yield PullQueueStub.over(emulator)
        return
    stub = PullQueueStub.adopt(before, emulator)
    try:
        yield stub
    finally:
        stub.release()


def _registered_stubs() -> dict[str, Any]:
    # There is no public way to see whether a stub is a service's own, nor to take one away.
    stubs: dict[str, Any] = vars(apiproxy_stub_map.apiproxy)["_APIProxyStubMap__stub_map"]
    return stubs


@contextmanager
def _stub_map_kept(_: Emulator) -> Iterator[None]:
    """Put the stub back that was registered, and the default one that `wrap_wsgi_app` replaces."""
    stub_map = apiproxy_stub_map.apiproxy
    stubs = _registered_stubs()
    before = stubs.get(_SERVICE)
    default = vars(stub_map)["_APIProxyStubMap__default_stub"]
    try:
        yield
    finally:
        stub_map.SetDefaultStub(default)
        if before is None:
            stubs.pop(_SERVICE, None)
        else:
            stub_map.ReplaceStub(_SERVICE, before)


@contextmanager
def _configuration_kept(emulator: Emulator) -> Iterator[None]:
    config, names = emulator.config, emulator.names
    try:
        yield
    finally:
        emulator.names = names
        if emulator.config is not config:
            emulator.reconfigure(config)


@contextmanager
def _host(_: Emulator) -> Iterator[None]:
    """Give the client a host outside requests, without which it logs a warning for every task.

    The client alone is given it, not the environment, so that every thread has it: from Python 3.13
    on a thread that is started after `wrap_wsgi_app` begins with an empty environment, since the
    SDK's hook is put on a function by which `threading` starts no thread any more.
    """
    changed = _changed_copy(context, get=sitecustomize.with_host(context.get))
    with _replaced(taskqueue.taskqueue, "context", changed):
        yield


@contextmanager
def _cloud_tasks_off(_: Emulator) -> Iterator[None]:
    """Keep the client from calling Cloud Tasks, whatever APPENGINE_USE_CLOUDTASK_PUSH_QUEUE says.

    The switch is there since 3.1.0. The variable is read at every call, and inside a request from
    a copy of the environment that may be older than this block.
    """
    cloudtask = getattr(taskqueue.taskqueue, "cloudtask", None)
    if cloudtask is None:
        yield
    else:
        with _replaced(cloudtask, "is_cloudtask_push_queue_enabled", lambda: False):
            yield


@contextmanager
def _adoption(emulator: Emulator) -> Iterator[None]:
    """Turn the stubs that others make into ours: `testbed.init_taskqueue_stub` makes one."""
    made = 0

    def adopted(stub: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal made
        if type(stub) is not taskqueue_stub.TaskQueueServiceStub:
            _make_google_stub(stub, *args, **kwargs)
        else:
            _make_google_stub(stub, *args, **{"gettime": seconds_of(emulator.clock), **kwargs})
            if made:
                # Each of Google's stubs begins with empty queues, and so do ours from the second
                # on; the first takes what a test has put in the emulator already.
                emulator.reset()
            made += 1
            PullQueueStub.adopt(stub, emulator)

    with _replaced(taskqueue_stub.TaskQueueServiceStub, "__init__", adopted):
        yield


@contextmanager
def _client_clock(emulator: Emulator) -> Iterator[None]:
    """Let the client go by the emulator's clock, with which it stamps the eta of every task."""
    system = isinstance(emulator.clock, SystemClock)
    by_clock = time if system else _changed_copy(time, time=seconds_of(emulator.clock))
    with _replaced(taskqueue.taskqueue, "time", by_clock):
        yield


def _changed_copy(module: ModuleType, **changes: Any) -> ModuleType:
    copy = ModuleType(module.__name__)
    vars(copy).update(vars(module), **changes)
    return copy


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
