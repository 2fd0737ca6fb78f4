"""The doors that the suite of this folder is run through."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from cloudtasks_door import cloudtasks_grpc_door, cloudtasks_rest_door
from doors import Door, DoorMaker, python_door
from rest_door import rest_door
from sdk_door import bridge_door, sdk_door

DOORS: dict[str, DoorMaker] = {
    "python": python_door,
    "python-sqlite": partial(python_door, "sqlite"),
    "python-postgres": partial(python_door, "postgres"),
    "rest": rest_door,
    "sdk": sdk_door,
    "bridge": bridge_door,
    "cloud-tasks-rest": cloudtasks_rest_door,
    "cloud-tasks-grpc": cloudtasks_grpc_door,
}


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Iterator[Door]:
    """Give a door to a fresh emulator."""
    with DOORS[request.param]() as door:
        yield door
