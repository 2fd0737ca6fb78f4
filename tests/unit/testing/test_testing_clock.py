"""A clock that goes to the events of its queues, uses up leases, and is moved by sleeps."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from unittest import mock

import pytest

from pullqueue import (
    ClockError,
    Emulator,
    EventKind,
    InvalidQueueModeError,
    Limits,
    ManualClock,
    Queue,
    UnknownTaskError,
)
from pullqueue.testing import FixtureClock, ProcessClock, exhaust
from pullqueue.testing.patching import Patches, replaced_everywhere

# What tests and workers do.
sleep = time.sleep  # noqa: TID251


SOURCE = "from time import sleep as pause\nfrom asyncio import sleep as rest"


@pytest.fixture
def fixture_clock(emulator: Emulator, clock: ManualClock) -> FixtureClock:
    return FixtureClock(clock, lambda: emulator)


@pytest.fixture
def app(make_module: Callable[[str], ModuleType]) -> ModuleType:
    return make_module(SOURCE)


def test_the_clock_goes_to_the_next_event_or_past_leases(
    fixture_clock: FixtureClock, queue: Queue, limited: Queue
) -> None:
    start = fixture_clock.now()
    assert fixture_clock.advance_to_next_event() is fixture_clock.expire_leases() is None
    queue.add(eta=start + timedelta(seconds=5))
    limited.add()
    limited.lease_tasks(60, 1)

    assert fixture_clock.advance_to_next_event() == start + timedelta(seconds=5)
    queue.lease_tasks(10, 1)
    assert fixture_clock.expire_leases("work") == start + timedelta(seconds=15)
    assert fixture_clock.expire_leases() == start + timedelta(seconds=60)
    assert fixture_clock.now() == start + timedelta(seconds=60)
    assert repr(fixture_clock) == "FixtureClock(2026-01-01T00:01:00+00:00)"


def test_exhaust_leases_a_task_as_many_times_as_permitted(
    limited: Queue, clock: ManualClock
) -> None:
    start = clock.now()
    task = limited.add(name="one", eta=start + timedelta(minutes=1))

    end = exhaust(limited, "one")

    assert (end.name, end.retry_count) == ("one", 2)
    assert [event.kind for event in limited.history(task)] == [
        EventKind.ADDED,
        EventKind.LEASED,
        EventKind.LEASE_EXPIRED,
        EventKind.LEASED,
        EventKind.LEASE_EXPIRED,
        EventKind.EXHAUSTED,
    ]
    assert clock.now() == start + timedelta(minutes=3)


def test_exhaust_waits_for_current_leases_and_for_rare_ones(
    limited: Queue, clock: ManualClock
) -> None:
    limited.add(name="one")
    limited.lease_tasks(3600, 1)
    assert exhaust(limited, "one").retry_count == 2

    text = "queue: [{name: q, mode: pull, retry_parameters: {task_retry_limit: 3}}]"
    emulator = Emulator.from_text(text, clock=clock, limits=Limits(leases_per_second=1))
    queue = emulator.queue("q")
    queue.add(name="one")
    queue.lease_tasks(0, 1)
    assert exhaust(queue, "one").retry_count == 3


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("work", ValueError, '^tasks of queue "work" are never exhausted: set a task_retry_limit'),
        ("pushed", InvalidQueueModeError, "its tasks are never leased"),
        ("limited", UnknownTaskError, "one"),
    ],
)
def test_what_cannot_be_exhausted_is_refused(
    emulator: Emulator, name: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        exhaust(emulator.queue(name), "one")


def test_sleeps_advance_the_clock(
    fixture_clock: FixtureClock, app: ModuleType, make_module: Callable[..., ModuleType]
) -> None:
    start = fixture_clock.now()
    before = (time.sleep, asyncio.sleep)  # noqa: TID251
    with fixture_clock.auto_advance():
        sleep(10)
        time.sleep(10)  # noqa: TID251
        vars(app)["pause"](timedelta(seconds=10) / timedelta(seconds=1))
        assert asyncio.run(asyncio.sleep(10, "result")) == "result"
        asyncio.run(vars(app)["rest"](0))
        asyncio.run(vars(app)["rest"](-1))
        with fixture_clock.auto_advance():
            sleep(10)
        sleep(10)
        late = make_module(SOURCE, "late")
    with fixture_clock.auto_advance():
        vars(app)["lazy"] = time.sleep  # noqa: TID251
    with fixture_clock.auto_advance():
        again = make_module(SOURCE, "late")

    assert fixture_clock.now() == start + timedelta(seconds=60)
    for module in (late, again):
        assert (vars(module)["pause"], vars(module)["rest"]) == before
    assert (vars(app)["lazy"], vars(app)["rest"]) == before
    assert (vars(app)["pause"], vars(app)["rest"]) == before == (time.sleep, asyncio.sleep)  # noqa: TID251


@pytest.mark.parametrize(
    ("file", "name"), [(pytest.__file__, "sleep"), (__file__, "pause")], ids=["library", "app"]
)
def test_a_module_whose_sleep_another_test_has_replaced_moves_the_clock(
    fixture_clock: FixtureClock, make_module: Callable[..., ModuleType], file: str, name: str
) -> None:
    """The names of a library are looked at once, perhaps while they are those of that test."""
    module = make_module(f"__file__ = {file!r}\n{SOURCE}\nfrom time import sleep", "module")
    start = fixture_clock.now()
    with mock.patch.object(module, name), fixture_clock.auto_advance():
        vars(module)[name](10)
    with fixture_clock.auto_advance():
        vars(module)["sleep"](10)
        vars(module)["pause"](10)

    assert fixture_clock.now() == start + timedelta(seconds=20)


def test_a_sleep_shorter_than_a_microsecond_moves_the_clock(fixture_clock: FixtureClock) -> None:
    """A loop that sleeps until a time, as floats are rounded, would never end otherwise."""
    start = fixture_clock.now()

    with fixture_clock.auto_advance():
        sleep(2.4e-7)
        asyncio.run(asyncio.sleep(2.4e-7))

    assert fixture_clock.now() == start + timedelta(microseconds=2)


def test_a_deadline_of_monotonic_comes_as_code_sleeps(
    fixture_clock: FixtureClock, make_module: Callable[..., ModuleType]
) -> None:
    """Otherwise a loop that sleeps until then spins for as long in real time."""
    app, before = make_module("from time import monotonic as measure"), time.monotonic
    start, end = fixture_clock.now(), time.monotonic() + 600
    with fixture_clock.auto_advance():
        with fixture_clock.auto_advance():
            while time.monotonic() < end:
                sleep(100)
        asyncio.run(asyncio.sleep(1000))
        measured = vars(app)["measure"]() - end
        assert asyncio.run(loop_time()) < end  # so that its timeouts are real

    assert fixture_clock.now() == start + timedelta(seconds=1600)
    assert 1000 <= measured < 1600
    assert vars(app)["measure"] is time.monotonic is before


async def loop_time() -> float:
    return asyncio.get_running_loop().time()


def test_the_clock_moves_where_all_tasks_of_a_loop_sleep_or_only_yield(
    fixture_clock: FixtureClock,
) -> None:
    """Once for sleeps that end at the same time, and not while another task runs."""
    start = fixture_clock.now()
    seen = []

    async def nothing() -> None: ...

    async def run() -> None:
        for _ in range(20):
            await asyncio.create_task(nothing())
        seen.append(fixture_clock.now())

    async def main() -> None:
        await asyncio.gather(*(asyncio.sleep(60) for _ in range(30)), run())
        sleeping_task = asyncio.create_task(asyncio.sleep(60))
        while not sleeping_task.done():
            await asyncio.sleep(0)

    with fixture_clock.auto_advance():
        asyncio.run(main())

    assert seen == [start]
    assert fixture_clock.now() == start + timedelta(seconds=120)


@pytest.mark.parametrize("turns", [0, 20])
def test_sleeps_side_by_side_end_in_the_order_of_time(
    fixture_clock: FixtureClock, turns: int
) -> None:
    start = fixture_clock.now()
    seen = []

    async def nothing() -> None: ...

    async def tick(name: str, seconds: float, times: int) -> None:
        for _ in range(times):
            for _ in range(turns):
                await asyncio.create_task(nothing())
            await asyncio.sleep(seconds)
            seen.append((name, (fixture_clock.now() - start).total_seconds()))

    async def both() -> None:
        await asyncio.gather(tick("slow", 5, 2), tick("fast", 2, 4))

    with fixture_clock.auto_advance():
        asyncio.run(both())

    assert seen == [("fast", 2), ("fast", 4), ("slow", 5), ("fast", 6), ("fast", 8), ("slow", 10)]


def test_a_sleep_that_the_test_replaced_is_there_again(fixture_clock: FixtureClock) -> None:
    with mock.patch("time.sleep") as replaced:
        with fixture_clock.auto_advance():
            time.sleep(10.25)  # noqa: TID251 - no thread of another test does that
        assert time.sleep is replaced  # noqa: TID251
    assert mock.call(10.25) not in replaced.mock_calls


def test_time_that_goes_back_or_is_not_frozen_is_refused(
    fixture_clock: FixtureClock, emulator: Emulator
) -> None:
    with fixture_clock.auto_advance(), pytest.raises(ValueError, match="never goes back"):
        sleep(-1)
    clock = FixtureClock(ProcessClock(), lambda: emulator)
    with pytest.raises(ClockError, match="time is not frozen"), clock.auto_advance():
        pass


def test_what_a_block_could_not_replace_is_replaced_by_the_next() -> None:
    owner = SimpleNamespace(value=1)
    reasons = [KeyboardInterrupt()]

    def apply(patches: Patches) -> None:
        patches.decorate(owner, "value", lambda value: value + 1)
        if reasons:
            raise reasons.pop()

    patches = Patches(apply)
    with pytest.raises(KeyboardInterrupt), patches:
        pass
    assert owner.value == 1

    with patches, patches:
        assert owner.value == 2
    assert owner.value == 1


def test_sleeps_still_move_the_clock_after_a_warning_there(
    fixture_clock: FixtureClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python notes a warning in the module that runs, such as that of what the collector closes."""
    start = fixture_clock.now()
    with fixture_clock.auto_advance():
        monkeypatch.setitem(vars(sys.modules[FixtureClock.__module__]), "__warnings__", {})
        with replaced_everywhere({}):
            pass
    with fixture_clock.auto_advance():
        sleep(10)

    assert fixture_clock.now() == start + timedelta(seconds=10)


class Interrupting(ModuleType):
    """A module at one of whose uses the user presses Ctrl-C."""

    uses = 0

    @property
    def __dict__(self) -> dict[str, object]:  # type: ignore[override]  # a method is, too
        Interrupting.uses -= 1
        if Interrupting.uses == 0:
            raise KeyboardInterrupt
        names: dict[str, object] = vars(ModuleType)["__dict__"].__get__(self)
        return names

    def __setattr__(self, name: str, value: object) -> None:
        vars(self)[name] = value


@pytest.mark.parametrize("use", range(1, 4))
def test_a_block_that_is_interrupted_leaves_nothing_replaced(
    fixture_clock: FixtureClock, monkeypatch: pytest.MonkeyPatch, use: int
) -> None:
    before = time.sleep, asyncio.sleep  # noqa: TID251
    module = Interrupting("module")
    module.pause = time.sleep  # noqa: TID251
    start = fixture_clock.now()
    monkeypatch.setitem(sys.modules, "module", module)
    monkeypatch.setattr(Interrupting, "uses", use)
    with pytest.raises(KeyboardInterrupt), fixture_clock.auto_advance():
        raise AssertionError
    assert (time.sleep, module.pause, asyncio.sleep) == (before[0], *before)  # noqa: TID251

    with fixture_clock.auto_advance():
        sleep(10)
        module.pause(10)
    assert fixture_clock.now() == start + timedelta(seconds=20)
