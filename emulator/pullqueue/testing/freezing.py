"""Freezing the time of the whole process, with freezegun, at a cost that every test can bear.

freezegun replaces the functions of the modules `time` and `datetime`, and then looks for aliases:
modules that did `from time import time`. It asks each attribute of every loaded module for its
value, which imports much that is lazy, and for that takes 130 ms in a process with App Engine's SDK
(1200 modules), and 15 to 30 ms each further time. Here freezegun does the first part, and the
aliases are found by a look into the modules' dictionaries: about 2 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, nullcontext
from datetime import datetime
from types import ModuleType
from typing import Any

_EXEMPT_MODULES = frozenset(
    {
        "time",
        "datetime",
        "freezegun.api",
        "threading",  # waits by the real time,
        "queue",  # or a frozen `Queue.get(timeout=1)` would never end
        "_pytest.timing",  # measures how long tests really took
    }
)
_EXEMPT_PREFIXES = (
    "google.gax",
    "multiprocessing.",
    "selenium.",
    "prompt_toolkit.",
    "gi.",
    "xdist.",
    "execnet.",
)

_REAL_TIME_CALLERS = ("multiprocessing.", "selenium.", "prompt_toolkit.", "google.gax")
"""Whoever asks for the time from within these is told the real one.

freezegun's own lists hold `queue`, `threading` and `gi` as bare prefixes: code in a module
`queue_worker` or on the first frames of a thread would never see the frozen time.
"""

_ALL_MODULES = ("",)

_REPLACED = (
    ("real_time", "fake_time"),
    ("real_time_ns", "fake_time_ns"),
    ("real_monotonic", "fake_monotonic"),
    ("real_monotonic_ns", "fake_monotonic_ns"),
    ("real_perf_counter", "fake_perf_counter"),
    ("real_perf_counter_ns", "fake_perf_counter_ns"),
    ("real_localtime", "fake_localtime"),
    ("real_gmtime", "fake_gmtime"),
    ("real_strftime", "fake_strftime"),
    ("real_date", "FakeDate"),
    ("real_datetime", "FakeDatetime"),
)
"""What freezegun calls each function and its replacement."""


@contextmanager
def freeze(start: datetime) -> Iterator[None]:
    """Freeze the time of the whole process with freezegun, at `start`, until the block ends.

    Event loops keep the real time, so that `asyncio.sleep` ends. Freezers that are started within
    the block and never stopped are stopped with it.

    Raises:
        ImportError: freezegun is not installed.
    """
    api = _freezegun()
    depth = len(api.freeze_factories)
    freezer = api.freeze_time(start)
    freezer.ignore = _ALL_MODULES
    freezer.start()
    api.ignore_lists[-1] = _REAL_TIME_CALLERS
    try:
        # Where time is frozen already, whoever did that has seen to the rest.
        with _rest_replaced(api) if depth == 0 else nullcontext():
            yield
    finally:
        for stack in (api.freeze_factories, api.ignore_lists, api.tick_flags, api.tz_offsets):
            del stack[depth + 1 :]
        freezer.stop()


@contextmanager
def _rest_replaced(api: Any) -> Iterator[None]:  # noqa: ANN401 - a module
    with _aliases_replaced(api), _real_loop_time(api):
        yield


@contextmanager
def _aliases_replaced(api: Any) -> Iterator[None]:  # noqa: ANN401 - a module
    """Replace what modules have imported by name, and put it back in the end.

    Modules that are loaded meanwhile have imported the fakes, and get the real ones then.
    """
    fakes = {id(vars(api)[real]): vars(api)[fake] for real, fake in _REPLACED}
    reals = {id(vars(api)[fake]): vars(api)[real] for real, fake in _REPLACED}
    loaded = set(sys.modules)
    replaced = _replace(_modules(but=_EXEMPT_MODULES), fakes)
    try:
        yield
    finally:
        for module, name, original in replaced:
            setattr(module, name, original)
        _replace(_modules(but=_EXEMPT_MODULES | loaded), reals)


def _modules(*, but: AbstractSet[str]) -> list[ModuleType]:
    loaded: list[tuple[str, object]] = list(sys.modules.items())  # some put other things there
    return [
        module
        for name, module in loaded
        if name not in but
        and isinstance(module, ModuleType)
        and not name.startswith(_EXEMPT_PREFIXES)
    ]


def _replace(
    modules: list[ModuleType], replacements: dict[int, object]
) -> list[tuple[ModuleType, str, object]]:
    """Replace objects, given by their ids, in modules; give what was there."""
    found = []
    ids = replacements.keys()
    for module in modules:
        attributes = module.__dict__
        if ids.isdisjoint(map(id, list(attributes.values()))):
            continue
        for name, value in list(attributes.items()):
            if id(value) in ids:
                found.append((module, name, value))
                setattr(module, name, replacements[id(value)])
    return found


@contextmanager
def _real_loop_time(api: Any) -> Iterator[None]:  # noqa: ANN401 - a module
    """Let event loops go by the real time.

    freezegun can do this too, but makes an event loop each time, and thereby opens sockets.
    """
    from asyncio.base_events import BaseEventLoop  # noqa: PLC0415 - freezegun has loaded it

    loops: Any = BaseEventLoop
    loop_time = loops.time
    loops.time = lambda _loop: api.real_monotonic()
    try:
        yield
    finally:
        loops.time = loop_time


def _freezegun() -> Any:  # noqa: ANN401 - a module that is loaded late
    try:
        from freezegun import api  # noqa: PLC0415 - costs 40 ms, and only some need it
    except ImportError:
        message = "freezing time needs freezegun: pip install 'pullqueue[pytest]'"
        raise ImportError(message) from None
    return api
