"""The interfaces that the suite of this folder is run through."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from cloudtasks_interface import cloudtasks_grpc_interface, cloudtasks_rest_interface
from google.cloud import tasks_v2
from interfaces import Interface, InterfaceMaker, PushInterface, python_interface
from rest_interface import rest_interface
from sdk_interface import bridge_interface, sdk_interface

INTERFACES: dict[str, InterfaceMaker] = {
    "python": python_interface,
    "python-sqlite": partial(python_interface, "sqlite"),
    "python-postgres": partial(python_interface, "postgres"),
    "rest": rest_interface,
    "sdk": sdk_interface,
    "bridge": bridge_interface,
    "cloudtasks-rest": cloudtasks_rest_interface,
    "cloudtasks-grpc": cloudtasks_grpc_interface,
}


@pytest.fixture(params=INTERFACES)
def interface(request: pytest.FixtureRequest) -> Iterator[Interface]:
    """Yield an interface to a fresh emulator."""
    with INTERFACES[request.param]() as interface:
        yield interface


PUSH_INTERFACES: dict[str, InterfaceMaker] = {
    **{name: make for name, make in INTERFACES.items() if name != "rest"},
    "cloudtasks-v2-rest": partial(cloudtasks_rest_interface, tasks_v2),
    "cloudtasks-v2-grpc": partial(cloudtasks_grpc_interface, tasks_v2),
}


@pytest.fixture(params=PUSH_INTERFACES)
def push(request: pytest.FixtureRequest) -> Iterator[PushInterface]:
    """Yield an interface that has push queues."""
    with PUSH_INTERFACES[request.param]() as interface:
        assert isinstance(interface, PushInterface)
        yield interface
