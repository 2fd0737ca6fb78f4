"""What a server with an SQLite store has acknowledged survives its sudden end."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
from served import serving
from soak_workers import rest
from store_load import OPTIONS, QUEUE_YAML, Load, finish
from stores import LONG

from pullqueue import Emulator
from pullqueue.stores import open_store

KILLS = 300 if LONG else 2


@pytest.mark.long
def test_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    """A server is killed again and again while it works; what it answered to was done, once.

    Each one starts, answers until it is killed, and logs no error.
    """
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    store = f"sqlite:///{tmp_path / 'tasks.db'}"
    load = Load(tmp_path)
    chance = random.Random(1)  # noqa: S311 - the time of a kill is not secret

    for number in range(KILLS):
        with (
            (tmp_path / f"server-{number}.log").open("w") as log,
            serving(*OPTIONS, "--store", store, folder=tmp_path, log=log) as served,
        ):
            threads = load.start(partial(rest, served.url), workers=4)
            load.wait(chance.uniform(0.02, 0.4), server=served.process)
            served.kill()
            finish(threads)
    logs = [path.read_text() for path in tmp_path.glob("server-*.log")]
    assert set(logs) == {""}

    emulator = Emulator.from_text(QUEUE_YAML, store=open_store(store))
    load.check(emulator)
    emulator.close()
