"""The interfaces that the suite of this folder is run through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from zlib import crc32

import pytest
from cloudtasks_interface import (
    cloudtasks_grpc_interface,
    cloudtasks_rest_interface,
    located_interface,
)
from google.cloud import tasks_v2
from interfaces import Interface, InterfaceMaker, PushInterface, python_interface, second_project
from rest_interface import rest_interface
from sdk_interface import bridge_interface, sdk_interface
from stores import LONG

INTERFACES: dict[str, InterfaceMaker] = {
    "python": python_interface,
    "python-sqlite": partial(python_interface, "sqlite"),
    "python-postgres": partial(python_interface, "postgres"),
    "rest": rest_interface,
    "sdk": sdk_interface,
    "bridge": bridge_interface,
    "cloudtasks-rest": cloudtasks_rest_interface,
    "cloudtasks-grpc": cloudtasks_grpc_interface,
    "rest-second-project": partial(rest_interface, second_project),
    "bridge-second-project": partial(bridge_interface, second_project),
    "cloudtasks-rest-second-project": partial(cloudtasks_rest_interface, None, second_project),
    "cloudtasks-grpc-second-project": partial(cloudtasks_grpc_interface, None, second_project),
    "cloudtasks-grpc-other-location": located_interface,
}
PUSH_INTERFACES: dict[str, InterfaceMaker] = {
    **{name: make for name, make in INTERFACES.items() if name.partition("-")[0] != "rest"},
    "cloudtasks-v2-rest": partial(cloudtasks_rest_interface, tasks_v2),
    "cloudtasks-v2-grpc": partial(cloudtasks_grpc_interface, tasks_v2),
    "cloudtasks-v2-rest-second-project": partial(
        cloudtasks_rest_interface, tasks_v2, second_project
    ),
    "cloudtasks-v2-grpc-other-location": partial(located_interface, tasks_v2),
}


ALL_INTERFACES = INTERFACES | PUSH_INTERFACES
EXCLUSIVE = ("sdk", "bridge", "bridge-second-project")
"""Each takes the place of the other in this process, so that it cannot stay open."""


@pytest.fixture(scope="module")
def opened() -> Iterator[Callable[[str], Interface]]:
    """Yield what opens an interface, once for all tests."""
    with ExitStack() as stack:
        yield cache(lambda name: stack.enter_context(ALL_INTERFACES[name]()))


@pytest.fixture
def interface(
    request: pytest.FixtureRequest, opened: Callable[[str], Interface]
) -> Iterator[Interface]:
    """Yield each interface, to an emulator without tasks."""
    if request.param in EXCLUSIVE:
        with ALL_INTERFACES[request.param]() as interface:
            yield interface
    else:
        interface = opened(request.param)
        interface.reset()
        yield interface


@pytest.fixture
def push(interface: Interface) -> PushInterface:
    assert isinstance(interface, PushInterface)
    return interface


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test through each interface that has what it is about.

    Which project or location is called is decided before what is done there, so that each test
    runs in one other of them; the nightly run has all.
    """
    if "interface" in metafunc.fixturenames:
        has_push = "push" in metafunc.fixturenames
        names = [*(PUSH_INTERFACES if has_push else INTERFACES)]
        others = [name for name in names if name.endswith(("-project", "-location"))]
        if not LONG:
            others.pop(crc32(metafunc.function.__name__.encode()) % len(others))
            names = [name for name in names if name not in others]
        metafunc.parametrize("interface", names, indirect=True)
