"""What a server with an SQLite store has acknowledged survives its sudden end."""

from __future__ import annotations

import random
import threading
from pathlib import Path

from store_load import Ledger, RestClient, Served, check, finish, load
from stores import LONG

from pullqueue import Emulator

KILLS = 300 if LONG else 6
QUEUES = "queue:\n- name: pull\n  mode: pull\n"


def test_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    """A server is killed again and again while it works; what it answered to was done, once."""
    queue_yaml = tmp_path / "queue.yaml"
    queue_yaml.write_text(QUEUES)
    store = f"sqlite:///{tmp_path / 'tasks.db'}"
    ledger = Ledger()
    chance = random.Random(1)  # noqa: S311 - when to kill is no secret

    for _ in range(KILLS):
        server = Served(queue_yaml, store)
        stop = threading.Event()
        clients = [(RestClient(server.address), RestClient(server.address)) for _ in range(2)]
        threads = load(ledger, clients, stop)
        stop.wait(chance.uniform(0.02, 0.4))
        server.kill()
        finish(threads)

    emulator = Emulator.from_text(QUEUES, store=store)
    assert ledger.answers > KILLS
    check(emulator, ledger)
    emulator.close()
