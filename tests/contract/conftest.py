"""The interfaces that the suite of this folder is run through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from stores import LONG

if TYPE_CHECKING:
    from interfaces import Interface, InterfaceMaker, PushInterface

EXCLUSIVE = ("sdk", "bridge", "bridge-second-project")
"""Each takes the place of the other in this process, so that it cannot stay open."""


@pytest.fixture(scope="session")
def makers() -> dict[str, InterfaceMaker]:
    from all_interfaces import ALL_INTERFACES  # noqa: PLC0415 - see pytest_generate_tests

    return ALL_INTERFACES


@pytest.fixture(scope="module")
def opened(makers: dict[str, InterfaceMaker]) -> Iterator[Callable[[str], Interface]]:
    """Yield what opens an interface, once for all tests."""
    with ExitStack() as stack:
        yield cache(lambda name: stack.enter_context(makers[name]()))


@pytest.fixture
def interface(
    request: pytest.FixtureRequest,
    makers: dict[str, InterfaceMaker],
    opened: Callable[[str], Interface],
) -> Iterator[Interface]:
    """Yield each interface, to an emulator without tasks."""
    if request.param in EXCLUSIVE:
        with makers[request.param]() as interface:
            yield interface
    else:
        interface = opened(request.param)
        interface.reset()
        yield interface


@pytest.fixture
def push(interface: PushInterface) -> PushInterface:
    return interface


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test through each interface that has what it is about.

    Which project or location is called is decided before what is done there, so that each test
    runs in one other of them; the nightly run has all.
    """
    if "interface" in metafunc.fixturenames:
        # The controller of xdist loads this file, and would load Google's clients, too.
        from all_interfaces import INTERFACES, PUSH_INTERFACES  # noqa: PLC0415

        has_push = "push" in metafunc.fixturenames
        names = [*(PUSH_INTERFACES if has_push else INTERFACES)]
        others = [name for name in names if name.endswith(("-project", "-location"))]
        if not LONG:
            others.pop(crc32(metafunc.function.__name__.encode()) % len(others))
            names = [name for name in names if name not in others]
        metafunc.parametrize("interface", names, indirect=True)
