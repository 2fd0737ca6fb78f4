"""Calls to Redis are points of `race_test` and `crash_test` by themselves."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from failing import assert_hidden_errors_are_found
from redis import Redis, WatchError
from redis.client import Pipeline

from pullqueue import Emulator, Queue
from pullqueue.push.request import PushRequest
from pullqueue.testing import (
    CrashTestError,
    RaceResult,
    RaceTestError,
    crash_test,
    race_test,
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "redis.sock"))
        options = ["--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]
        with subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            for line in server.stdout:
                if "eady to accept connections" in line:
                    break
            yield path
            server.terminate()
            server.communicate()


@pytest.fixture
def client(address: str) -> Iterator[Redis]:
    """A client of the server, which has connected before the test."""
    with Redis(unix_socket_path=address, decode_responses=True) as client:
        client.flushall()
        yield client


def value(client: Redis) -> int:
    found: Any = client.get("visits")
    return int(found or 0)


def race(emulator: Emulator, client: Redis, count: Callable[[Redis], None]) -> RaceResult:
    def actor() -> None:
        count(client)

    def check() -> None:
        assert value(client) == 2

    return race_test(emulator, actor, copies=2, setup=client.flushall, check=check, clock=False)


def by_set(client: Redis) -> None:
    client.set("visits", value(client) + 1)


def by_pipeline(client: Redis) -> None:
    read = value(client)
    with client.pipeline() as pipeline:
        pipeline.set("visits", read + 1)
        pipeline.execute()


@pytest.mark.parametrize("count", [by_set, by_pipeline])
def test_a_lost_update_is_found(
    emulator: Emulator, client: Redis, count: Callable[[Redis], None]
) -> None:
    with pytest.raises(RaceTestError, match="assert 1 == 2") as caught:
        race(emulator, client, count)

    assert "redis: GET visits (" in caught.value.schedule[0]


def by_incr(client: Redis) -> None:
    client.incr("visits")


def by_watch(client: Redis) -> None:
    while True:
        watching: Any = client.pipeline()
        with watching as pipeline:
            pipeline.watch("visits")
            read: Any = pipeline.get("visits")
            pipeline.multi()
            pipeline.set("visits", int(read or 0) + 1)
            try:
                pipeline.execute()
            except WatchError:
                continue
            return


def by_transaction(client: Redis) -> None:
    def change(pipeline: Pipeline) -> None:
        read: Any = pipeline.get("visits")
        pipeline.multi()
        pipeline.set("visits", int(read or 0) + 1)

    client.transaction(change, "visits")


def by_lock(client: Redis) -> None:
    with client.lock("lock", timeout=600):
        by_set(client)


@pytest.mark.parametrize("count", [by_incr, by_watch, by_transaction, by_lock])
def test_a_correct_update_is_correct(
    emulator: Emulator, client: Redis, count: Callable[[Redis], None]
) -> None:
    result = race(emulator, client, count)

    assert result.is_complete
    assert result.seen == ("redis",)


def test_other_keys_need_no_order(emulator: Emulator, client: Redis) -> None:
    def one() -> None:
        client.set("one", value(client))

    def other() -> None:
        client.set("other", value(client))
        client.delete("third", "fourth")

    result = race_test(emulator, one, other, setup=client.flushall, check=lambda: True, clock=False)

    assert result == 1


def test_a_pipeline_is_executed_or_not(emulator: Emulator, pushed: Queue, client: Redis) -> None:
    """A handler that is killed before it sets its mark, but after its effect, repeats that."""

    def setup() -> None:
        client.flushall()
        pushed.add(name="one")

    def send(_: PushRequest) -> int:
        if not client.exists("done"):
            client.incr("visits")
            client.set("done", 1)
        return 200

    def send_at_once(_: PushRequest) -> int:
        if not client.exists("done"):
            with client.pipeline() as pipeline:
                pipeline.incr("visits")
                pipeline.set("done", 1)
                pipeline.execute()
        return 200

    def check() -> None:
        assert value(client) == 1

    with pytest.raises(CrashTestError) as caught:
        crash_test(emulator, setup=setup, check=check, send=send)
    (failure,) = caught.value.failures
    assert failure.title.startswith("killed before call 3, redis: SET done (")
    assert crash_test(emulator, setup=setup, check=check, send=send_at_once) == 3


def by_one_pipeline(client: Redis) -> None:
    with client.pipeline() as pipeline:
        pipeline.set("visits", 1)
        pipeline.execute()


@pytest.mark.parametrize("write", [lambda client: client.set("visits", 1), by_one_pipeline])
def test_a_write_that_fails_is_an_error_of_redis(
    emulator: Emulator, pushed: Queue, client: Redis, write: Callable[[Redis], None]
) -> None:
    assert_hidden_errors_are_found(
        emulator,
        pushed,
        redis.ConnectionError,
        reset=client.flushall,
        write=lambda: write(client),
        value=lambda: value(client),
    )
