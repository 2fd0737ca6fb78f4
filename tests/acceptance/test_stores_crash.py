"""What a server with an SQLite store has acknowledged survives its sudden end."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
from store_load import Ledger, Served, worker
from stores import LONG

from pullqueue import Emulator, Task, TombstonedTaskError

KILLS = 300 if LONG else 8
QUEUES = "queue:\n- name: pull\n  mode: pull\n"


def test_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    """A server is killed again and again while it works; what it answered to was done, once."""
    queue_yaml = tmp_path / "queue.yaml"
    queue_yaml.write_text(QUEUES)
    store = f"sqlite:///{tmp_path / 'tasks.db'}"
    ledger = Ledger()
    chance = random.Random(1)  # noqa: S311 - when to kill is no secret

    for _ in range(KILLS):
        load_and_kill(queue_yaml, store, ledger, seconds=chance.uniform(0.02, 0.4))

    emulator = Emulator.from_text(QUEUES, store=store)
    queue = emulator.queue("pull")
    tasks = {task.name: task for task in queue.list_tasks(limit=1_000_000)}
    assert ledger.answers > KILLS
    check(tasks, ledger)
    for name in ledger.deleted:
        with pytest.raises(TombstonedTaskError):
            queue.get_task(name)
    numbers = queue.fetch_statistics()
    assert numbers.tasks == len(tasks)
    assert numbers.bytes_stored == sum(task.stored_bytes for task in tasks.values())
    assert numbers.leased_last_hour >= ledger.leased.total()
    assert numbers.leased == sum(task.retry_count for task in tasks.values())
    emulator.close()


def load_and_kill(queue_yaml: Path, store: str, ledger: Ledger, *, seconds: float) -> None:
    """Start a server, let workers use it, and kill it in the middle."""
    server = Served(queue_yaml, store)
    stop = threading.Event()
    steps = (ledger.produce, ledger.produce, ledger.consume, ledger.consume)
    threads = [worker(server.address, step, stop) for step in steps]
    stop.wait(seconds)
    server.kill()
    for thread in threads:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in threads)


def check(tasks: dict[str, Task], ledger: Ledger) -> None:
    """Compare what is there with what the workers were told."""
    assert ledger.added - ledger.perhaps_deleted <= tasks.keys()
    assert tasks.keys() <= ledger.perhaps_added - ledger.deleted
    assert set(ledger.leased.values()) <= {1}
    assert {tasks[name].retry_count for name in ledger.leased.keys() & tasks.keys()} <= {1}
    assert all(task.retry_count <= 1 for task in tasks.values())
    assert all(task.payload == task.name.encode() for task in tasks.values())
