"""gRPC clients, unmodified, in time that each freezer has frozen."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
import time_machine as tm
from cloudtasks_interface import grpc_client
from freezegun import freeze_time
from google.cloud import tasks_v2

from pullqueue import SystemClock
from pullqueue.testing import LiveServer
from pullqueue.testing.freezing import active_freezer
from pytest_pullqueue import FixtureClock

QUEUE = "projects/app/locations/us-central1/queues/mail"
REQUEST = {"parent": QUEUE, "task": {"http_request": {"url": "https://app.example.com/"}}}

pytestmark = pytest.mark.pullqueue(queues=[{"name": "mail", "mode": "push", "rate": "5/s"}])


@pytest.fixture
def client(pullqueue_clock: FixtureClock, pullqueue_server: LiveServer) -> Iterator[Any]:
    """Google's client, with its default deadlines and retries."""
    with grpc_client(pullqueue_server.grpc_address, tasks_v2) as client:
        yield client


@pytest.mark.parametrize(
    "freezer",
    [
        pytest.param(name, marks=pytest.mark.pullqueue(freezer=name))
        for name in ("freezegun", "time-machine")
    ],
)
def test_handlers_of_a_server_in_the_process_get_the_frozen_time(
    freezer: str, pullqueue_clock: FixtureClock
) -> None:
    def handle(_data: bytes, context: Any) -> bytes:
        return f"{SystemClock().now().isoformat()} {0 < context.time_remaining() < 21}".encode()

    rpc = grpc.unary_unary_rpc_method_handler(handle)
    handler = grpc.method_handlers_generic_handler("app.Clock", {"Read": rpc})
    server = grpc.server(ThreadPoolExecutor(1), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            read = channel.unary_unary("/app.Clock/Read")
            assert active_freezer() == freezer
            pullqueue_clock.advance(60)
            assert read(b"", timeout=20) == b"2026-01-01T00:01:00+00:00 True"
    finally:
        server.stop(None).wait()


class TestFreezersOfTheTest:
    @pytest.mark.time_machine("2017-05-21T00:00+00:00", tick=False)
    def test_the_marker_of_time_machine(self, client: Any) -> None:
        assert client.create_task(request=REQUEST).create_time.year == 2017

    def test_the_fixture_of_time_machine(self, time_machine: Any, client: Any) -> None:
        time_machine.move_to(datetime(2017, 5, 21, tzinfo=UTC), tick=False)
        assert client.create_task(request=REQUEST).create_time.year == 2017

    @tm.travel("2017-05-21T00:00+00:00", tick=False)
    def test_the_decorator_of_time_machine(self, client: Any) -> None:
        assert client.create_task(request=REQUEST).create_time.year == 2017

    @pytest.mark.freeze_time("2017-05-21")
    def test_the_marker_of_pytest_freezer(self, client: Any) -> None:
        assert client.create_task(request=REQUEST).create_time.year == 2017

    @pytest.mark.pullqueue(freezer="freezegun")
    @freeze_time("2017-05-21")
    def test_the_decorator_of_freezegun_within_freezegun(self, client: Any) -> None:
        assert client.create_task(request=REQUEST).create_time.year == 2017
