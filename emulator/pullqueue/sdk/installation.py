"""Replacing the task queue service of the SDK by an emulator, and restoring it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pullqueue.sdk.rpcs  # noqa: F401 - so that faults and tests find it loaded
from pullqueue.clock import SystemClock
from pullqueue.engine.emulator import Emulator
from pullqueue.sdk import SdkInUseError, imports
from pullqueue.sdk.cloud_tasks import cloud_tasks
from pullqueue.sdk.environment import PROJECT_VARIABLE, app_variables, first_variable
from pullqueue.sdk.services import registered_stubs, service_stubs
from pullqueue.sdk.startup import sitecustomize
from pullqueue.sdk.stub import SERVICE, EmulatorStub, GoogleStub, seconds_of

_init_google_stub: Callable[..., None] = GoogleStub.__init__

_TESTBED_APP_ID = "testbed-test"
"""The application id that Google's testbed sets where there is none."""

_installed: list[Emulator] = []
"""The emulator that the SDK uses, once for each block that has installed it."""


def emulator_in_use() -> Emulator | None:
    """Return the emulator that the SDK uses; None: none is installed."""
    return _installed[-1] if _installed else None


@contextmanager
def install(emulator: Emulator, services: Iterable[str]) -> Iterator[EmulatorStub]:
    """Install an emulator inside the block, as `pullqueue.sdk.install` says."""
    if _installed and _installed[-1] is not emulator:
        raise SdkInUseError(_installed[-1])
    with ExitStack() as stack:
        _installed.append(emulator)
        stack.callback(_installed.pop)
        stack.enter_context(service_stubs(services, emulator))
        stack.enter_context(_stub_map_restored())
        stack.enter_context(_configuration_restored(emulator))
        app_id = _app_id(emulator)
        stack.enter_context(_variables_set(app_variables(app_id)))
        for owner, name, value in _replacements(emulator, app_id):
            stack.enter_context(patch.object(owner, name, value))
        if imports.cloudtask is not None:
            stack.enter_context(cloud_tasks(imports.cloudtask, emulator))
        stub = stack.enter_context(_stub(emulator))
        imports.apiproxy_stub_map.apiproxy.ReplaceStub(SERVICE, stub)
        yield stub


def _app_id(emulator: Emulator) -> str:
    given = first_variable(*sitecustomize.APP_ID_VARIABLES) or emulator.project
    return given or first_variable(PROJECT_VARIABLE) or _TESTBED_APP_ID


@contextmanager
def _variables_set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables inside the block; afterwards those are restored that nobody has changed."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if os.environ.get(name) == variables[name]:
                del os.environ[name]
                os.environ.update({} if value is None else {name: value})


def _with_variables(init: Callable[..., None], variables: Mapping[str, str]) -> Callable[..., None]:
    """Return what begins a request of a wrapped app, whose environment then has these, too."""

    def init_with_variables(request: Any, errors: Any, environ: Any, *args: Any) -> None:
        init(request, errors, {**variables, **environ}, *args)

    return init_with_variables


def _replacements(emulator: Emulator, app_id: str) -> Iterator[tuple[Any, str, Any]]:
    """Yield what is replaced in the SDK: where, its name, and by what."""
    client = imports.taskqueue.taskqueue
    # With this clock the client stamps the eta of every task.
    system = isinstance(emulator.clock, SystemClock)
    now = seconds_of(emulator.clock)
    yield client, "time", time if system else _changed_copy(time, time=now)
    # In the client alone, not in the environment, so that every thread has a host: from Python 3.13
    # on a thread that is started after `wrap_wsgi_app` begins with an empty environment, since the
    # SDK's hook is put on a function by which `threading` starts no thread any more.
    with_host = _changed_copy(imports.context, get=sitecustomize.with_host(imports.context.get))
    yield client, "context", with_host
    yield imports.app_identity, "context", with_host
    yield imports.full_app_id, "get", sitecustomize.with_app_id(imports.full_app_id.get, app_id)
    environment = imports.request_environment.RequestEnvironment
    yield environment, "Init", _with_variables(environment.Init, app_variables(app_id))
    yield GoogleStub, "__init__", _adopting_init(emulator)


def _adopting_init(emulator: Emulator) -> Callable[..., None]:
    """Return a constructor of Google's stub by which those that others make become ours."""
    made = 0

    def init(stub: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal made
        if type(stub) is not GoogleStub:
            _init_google_stub(stub, *args, **kwargs)
            return
        _init_google_stub(stub, *args, **{"gettime": seconds_of(emulator.clock), **kwargs})
        if made:
            # Each of Google's stubs begins with empty queues, and so do ours from the second on;
            # the first one keeps what a test has put in the emulator already.
            emulator.reset()
        made += 1
        EmulatorStub.adopt(stub, emulator)

    return init


@contextmanager
def _stub(emulator: Emulator) -> Iterator[EmulatorStub]:
    """Yield a stub of the emulator: the one that a testbed has registered, or a new one."""
    registered = registered_stubs().get(SERVICE)
    if type(registered) is not GoogleStub:
        yield EmulatorStub.over(emulator)
        return
    stub = EmulatorStub.adopt(registered, emulator)
    try:
        yield stub
    finally:
        stub.release()


@contextmanager
def _stub_map_restored() -> Iterator[None]:
    """Restore the registered stub, and the default one that `wrap_wsgi_app` replaces."""
    stub_map = imports.apiproxy_stub_map.apiproxy
    stubs = registered_stubs()
    before = stubs.get(SERVICE)
    default = vars(stub_map)["_APIProxyStubMap__default_stub"]
    try:
        yield
    finally:
        stub_map.SetDefaultStub(default)
        if before is None:
            stubs.pop(SERVICE, None)
        else:
            stub_map.ReplaceStub(SERVICE, before)


@contextmanager
def _configuration_restored(emulator: Emulator) -> Iterator[None]:
    config, names = emulator.config, emulator.names
    try:
        yield
    finally:
        emulator.names = names
        if emulator.config is not config:
            emulator.reconfigure(config)


def _changed_copy(module: ModuleType, **changes: object) -> ModuleType:
    copy = ModuleType(module.__name__)
    vars(copy).update(vars(module), **changes)
    return copy
