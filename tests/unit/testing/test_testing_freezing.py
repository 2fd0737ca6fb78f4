"""Freezing the process's time, and reading and moving it."""

from __future__ import annotations

import asyncio
import datetime as dt
import multiprocessing
import os
import queue as stdlib_queue
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import freezegun
import grpc
import pytest
import time_machine
from cloudtasks_interface import grpc_client
from freezegun import freeze_time
from google.api_core.exceptions import DeadlineExceeded
from google.cloud.tasks_v2 import CloudTasksAsyncClient, CloudTasksClient
from google.cloud.tasks_v2.services.cloud_tasks.transports import (
    CloudTasksGrpcAsyncIOTransport,
    CloudTasksGrpcTransport,
)

from pullqueue import ClockError, Emulator
from pullqueue.server.lifecycle import Server
from pullqueue.testing import Faults, ProcessClock, freeze
from pullqueue.testing.freezing import FreezerChoice, active_freezer, is_frozen

START = datetime(2026, 1, 1, tzinfo=UTC)
REAL = {
    name: vars(time)[name] for name in ("time", "monotonic", "perf_counter", "perf_counter_ns")
} | {"datetime": dt.datetime}


MakeModule = Callable[..., ModuleType]


@pytest.fixture
def app(make_module: MakeModule) -> ModuleType:
    return make_module("from time import time, monotonic\nfrom datetime import datetime")


@pytest.mark.parametrize("freezer", ["freezegun", "time-machine"])
def test_reading_the_time_keeps_nothing_of_the_caller(freezer: FreezerChoice) -> None:
    """What a function uses, such as a cursor with a lock, ends with it, not with a collection."""

    def read_time() -> weakref.ref[object]:
        used = {1}
        time.time()  # noqa: TID251
        return weakref.ref(used)

    with freeze(START, freezer=freezer):
        assert read_time()() is None


def test_everything_is_frozen_and_put_back(app: ModuleType) -> None:
    with freeze(START, freezer="freezegun"):
        assert app.time() == time.time() == START.timestamp()  # noqa: TID251
        assert app.datetime.now(UTC) == START
        assert is_frozen()

    assert app.time is time.time is REAL["time"]  # noqa: TID251
    assert app.datetime is dt.datetime is REAL["datetime"]
    assert not is_frozen()


def test_time_machine_freezes_the_same(app: ModuleType) -> None:
    start = START + timedelta(microseconds=123457)
    with freeze(start, freezer="time-machine"):
        assert app.datetime.now(UTC) == start == ProcessClock().now()
        assert dt.datetime is REAL["datetime"]
        assert is_frozen()
        ProcessClock().advance(60.000001)
        assert ProcessClock().now() == start + timedelta(seconds=60, microseconds=1)
        assert not threading.Event().wait(0.001)
        time_machine.travel(START).start()

    assert not is_frozen()


def test_time_machine_is_preferred_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else freezegun freezes time, also within freezegun, beside which the other cannot start."""
    with freeze(START):
        assert active_freezer() == "time-machine"
    with freeze_time("2012-01-14"), freeze(START):
        assert active_freezer() == "freezegun"
        assert ProcessClock().now() == START
    monkeypatch.setitem(sys.modules, "time_machine", None)
    with freeze(START):
        assert active_freezer() == "freezegun"


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_the_local_time_is_utc_until_time_goes_on(
    monkeypatch: pytest.MonkeyPatch, zone: str | None
) -> None:
    """Also where an app replaces the environment meanwhile, as `wrap_wsgi_app` does."""
    if zone is None:
        monkeypatch.delenv("TZ", raising=False)
    else:
        monkeypatch.setenv("TZ", zone)
    time.tzset()
    before = time.tzname
    code = "import time; print(time.tzname[0])"
    try:
        with freeze(START, freezer="time-machine"):
            assert dt.datetime.now() == START.replace(tzinfo=None)  # noqa: DTZ005, TID251
            monkeypatch.setattr(os, "environ", {})
        assert time.tzname == before
        shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        assert shown.stdout.decode().strip() == before[0]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_measures_keeps_the_real_time(make_module: MakeModule) -> None:
    module = make_module("from time import monotonic, perf_counter, perf_counter_ns")
    with freeze(START, freezer="freezegun"):
        for name in ("perf_counter", "perf_counter_ns"):
            assert getattr(time, name) is getattr(module, name) is REAL[name]
        assert module.monotonic() == time.monotonic() == START.timestamp()

    assert module.monotonic is time.monotonic is REAL["monotonic"]


def test_timeouts_end_in_frozen_time() -> None:
    with freeze(START, freezer="freezegun"):
        assert not threading.Event().wait(0.001)
        with pytest.raises(stdlib_queue.Empty):
            stdlib_queue.Queue[int]().get(timeout=0.001)
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-c", "import time; time.sleep(60)"], check=False, timeout=0.05
            )
        ours, _theirs = multiprocessing.Pipe()
        assert not ours.poll(0.01)
        assert asyncio.run(asyncio.wait_for(asyncio.sleep(0.001, "done"), 60)) == "done"
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(asyncio.sleep(60), 0.01))


def test_modules_with_names_like_those_of_python_are_frozen_and_ignored_ones_are_not(
    make_module: MakeModule,
) -> None:
    """freezegun itself would not show `queue_worker` the frozen time."""
    source = "from time import time\nimport time as t\ndef ask(): return time(), t.time()"
    module, ignored = make_module(source, "queue_worker"), make_module(source, "never_frozen")
    before = freezegun.config.settings.default_ignore_list
    freezegun.configure(extend_ignore_list=["never_frozen"])
    try:
        with freeze(START, freezer="freezegun"), ThreadPoolExecutor(1) as threads:
            assert module.ask() == (START.timestamp(),) * 2
            assert threads.submit(module.ask).result() == (START.timestamp(),) * 2
            assert ignored.time is REAL["time"]
    finally:
        freezegun.configure(default_ignore_list=before)


def test_where_freezegun_fails_to_start_nothing_stays_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Hostile(ModuleType):
        def __dir__(self) -> list[str]:
            raise RuntimeError("asked for its attributes")

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "hostile_module", Hostile("hostile_module"))
        with pytest.raises(RuntimeError, match="asked for"), freeze(START, freezer="freezegun"):
            pass
    assert time.time is REAL["time"]  # noqa: TID251
    assert not is_frozen()


def test_the_inner_of_two_freezers_counts_until_it_ends(app: ModuleType) -> None:
    clock = ProcessClock()
    with freeze_time("2012-01-14"):
        with freeze(START, freezer="freezegun"):
            assert clock.now() == START == app.datetime.now(UTC)
        assert clock.now() == datetime(2012, 1, 14, tzinfo=UTC)
    assert app.time is REAL["time"]


def test_a_freezer_that_is_missing_or_does_not_exist_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(
        ValueError, match=r'^freezer is "ice": use one of auto, freezegun, time-machine$'
    ):
        freeze(START, freezer="ice")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "freezegun", None)
    missing = r"^freezing time needs freezegun: pip install freezegun"
    with pytest.raises(ImportError, match=missing), freeze(START, freezer="freezegun"):
        pass


def test_the_clock_moves_the_process_and_never_goes_back() -> None:
    """They agree to the microsecond, also in a thread; in real time it cannot be moved."""
    clock = ProcessClock()
    seen = []
    before = time.time()  # noqa: TID251
    assert before - 1 < clock.now_usec() / 1e6 < before + 60
    with pytest.raises(ClockError, match=r"^cannot move the clock: time is not frozen; use the"):
        clock.advance(1)

    with freeze_time(START):
        thread = threading.Thread(target=lambda: seen.append(clock.now()))
        thread.start()
        thread.join()
    assert seen == [START]
    with freeze(START, freezer="freezegun"):
        assert clock.advance(timedelta(microseconds=1)) == START + timedelta(microseconds=1)
        assert clock.now_usec() == round(time.time() * 1e6)  # noqa: TID251
        clock.advance(0)
        clock.move_to(datetime(2030, 1, 1, tzinfo=UTC))
        assert dt.datetime.now(UTC) == datetime(2030, 1, 1, tzinfo=UTC)  # noqa: TID251
        with pytest.raises(ClockError):
            clock.move_to(START)


@pytest.mark.parametrize("year", [2012, 2041])
@pytest.mark.parametrize("freezer", ["freezegun", "time-machine"])
def test_client_and_server_agree_on_deadlines_of_grpc_in_frozen_time(
    freezer: FreezerChoice, year: int
) -> None:
    """However far it is, and after it has moved: those of a call, and the defaults.

    Of Google's clients, sync, with an interceptor, and asyncio; also those made before.
    """
    text = "queue: [{name: q, rate: 5/s}, {name: pull, mode: pull}]"
    emulator = Emulator.from_text(text, clock=ProcessClock())
    parent = "projects/app/locations/us-central1"

    class Passing(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc] # has no types
        def intercept_unary_unary(self, next_: Any, details: Any, request: Any) -> Any:
            return next_(details, request)

    async def names(address: str) -> list[str]:
        channel = grpc.aio.insecure_channel(address)
        client = CloudTasksAsyncClient(transport=CloudTasksGrpcAsyncIOTransport(channel=channel))
        return [queue.name async for queue in await client.list_queues(parent=parent)]

    # The server comes first: in 2041, Google's modules warn of the old Python.
    with Server(emulator, grpc_port=0) as server, grpc_client(server.grpc_address) as leasing:
        channel = grpc.insecure_channel(server.grpc_address)
        channels = (channel, grpc.intercept_channel(channel, Passing()))
        transports = [CloudTasksGrpcTransport(channel=each) for each in channels]
        clients = [CloudTasksClient(transport=each) for each in transports]
        lease = {"parent": f"{parent}/queues/pull", "lease_duration": {"seconds": 300}}
        with closing(channel), freeze(datetime(year, 1, 1, tzinfo=UTC), freezer=freezer):
            Faults(emulator).latency("lease_tasks", 20)
            for _ in range(2):
                found = [[q.name for q in each.list_queues(parent=parent)] for each in clients]
                found.append(asyncio.run(names(server.grpc_address)))
                assert [each[0] for each in found] == [f"{parent}/queues/q"] * 3
                leasing.lease_tasks(request=lease, timeout=29, retry=None)
                with pytest.raises(DeadlineExceeded):
                    leasing.lease_tasks(request=lease, timeout=10, retry=None)
                ProcessClock().advance(timedelta(days=400))
