"""The counter of `visits` in Redis."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import ConnectionError as RedisConnectionError
from redis import Redis, WatchError
from visits import Open, Visits


class RedisVisits(Visits):
    name = "redis"
    error = RedisConnectionError

    def __init__(self, client: Redis) -> None:
        self.client = client

    def reset(self) -> None:
        self.client.flushall()

    def value(self) -> int:
        found: Any = self.client.get("visits")
        return int(found or 0)

    def write(self) -> None:
        self.client.set("visits", 1)

    def write_by_pipeline(self, value: int = 1) -> None:
        with self.client.pipeline() as pipeline:
            pipeline.set("visits", value)
            pipeline.execute()

    def by_set(self) -> None:
        self.client.set("visits", self.value() + 1)

    def by_pipeline(self) -> None:
        self.write_by_pipeline(self.value() + 1)

    def by_incr(self) -> None:
        self.client.incr("visits")

    def by_watch(self) -> None:
        while True:
            watching: Any = self.client.pipeline()
            with watching as pipeline:
                pipeline.watch("visits")
                self._change(pipeline)
                try:
                    pipeline.execute()
                except WatchError:
                    continue
                return

    def _change(self, pipeline: Any) -> None:
        read = int(pipeline.get("visits") or 0)
        pipeline.multi()
        pipeline.set("visits", read + 1)

    def by_transaction(self) -> None:
        self.client.transaction(self._change, "visits")

    def by_lock(self) -> None:
        with self.client.lock("lock", timeout=600):
            self.by_set()


@contextmanager
def serving() -> Iterator[Open]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "redis.sock"))
        options = ["--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]
        with subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            next(line for line in server.stdout if "eady to accept connections" in line)

            @contextmanager
            def opened(_: str, __: Path) -> Iterator[Visits]:
                """Make a client that has connected before the test."""
                with Redis(unix_socket_path=path, decode_responses=True) as client:
                    client.flushall()
                    yield RedisVisits(client)

            yield opened
            server.terminate()
            server.communicate()
