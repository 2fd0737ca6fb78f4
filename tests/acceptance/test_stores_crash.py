"""What a server with an SQLite store has acknowledged survives its sudden end."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from served import serving
from store_load import OPTIONS, QUEUES, Ledger, check, finish, load, rest
from stores import LONG

from pullqueue import Emulator, ManualClock, TombstonedTaskError
from pullqueue.stores import open_store

KILLS = 300 if LONG else 2


@pytest.mark.long
def test_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    """A server is killed again and again while it works; what it answered to was done, once."""
    (tmp_path / "queue.yaml").write_text(QUEUES)
    store = f"sqlite:///{tmp_path / 'tasks.db'}"
    ledger = Ledger()
    chance = random.Random(1)  # noqa: S311 - the time of a kill is not secret

    for _ in range(KILLS):
        with serving(*OPTIONS, "--store", store, folder=tmp_path) as served:
            threads = load(ledger, partial(rest, served.url), threading.Event(), pairs=2)
            ledger.wait(chance.uniform(0.02, 0.4))
            served.process.kill()
            finish(threads)

    emulator = Emulator.from_text(QUEUES, store=open_store(store))
    check(emulator, ledger)
    emulator.close()


WORK = """
import os, signal, sys
from pullqueue import Emulator, ManualClock, NewTask
from pullqueue.stores import open_store
emulator = Emulator.from_text(sys.argv[2], clock=ManualClock(), store=open_store(sys.argv[1]))
queue = emulator.queue("once")
queue.add_many([NewTask(name=f"t{number}", payload=b"12345") for number in range(10)])
queue.lease_tasks(60, 4)
queue.delete_tasks("t0")
queue.modify_lease("t1", 0)
queue.modify_lease("t2", 120)
print(queue.fetch_statistics(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
ONCE = QUEUES + "- name: once\n  mode: pull\n  retry_parameters:\n    task_retry_limit: 1\n"


def test_what_survives_at_once(tmp_path: Path) -> None:
    """Nothing is lost if the process is killed right after its last call."""
    store = f"sqlite:///{tmp_path / 'tasks.db'}"
    done = subprocess.run(
        [sys.executable, "-c", WORK, store, ONCE], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL

    emulator = Emulator.from_text(ONCE, clock=ManualClock(), store=open_store(store))
    queue = emulator.queue("once")

    assert str(queue.fetch_statistics()) == done.stdout.strip()
    assert queue.fetch_statistics().leased_last_minute == 4
    held = {task.name: task.retry_count for task in queue.list_tasks() if task.retry_count}
    assert held == {"t2": 1, "t3": 1}
    assert [task.name for task in queue.exhausted] == ["t1"]
    for name in ("t0", "t1"):
        with pytest.raises(TombstonedTaskError):
            queue.get_task(name)
    assert [event.kind.value for event in queue.history("t1")] == [
        *("added", "leased", "released", "exhausted"),
    ]
    emulator.close()
