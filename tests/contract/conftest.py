"""The doors that the suite of this folder is run through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from doors import Door, DoorMaker, PythonDoor

DOORS: dict[str, DoorMaker] = {
    "python": lambda: nullcontext(PythonDoor()),
}


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Iterator[Door]:
    """Give a door to a fresh emulator."""
    with DOORS[request.param]() as door:
        yield door
