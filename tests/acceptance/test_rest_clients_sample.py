"""samples/rest_worker, as its first lines say to try it."""

from __future__ import annotations

import sys
from pathlib import Path

from programs import completed
from rest_clients import key_file

from pullqueue import Emulator
from pullqueue.server.lifecycle import Server

SAMPLE = Path(__file__).parents[2] / "samples" / "rest_worker"


def test_a_worker_with_a_key_file(tmp_path: Path) -> None:
    """Google's documentation is enough to write a worker that runs against the emulator."""
    emulator = Emulator.from_file(SAMPLE / "queue.yaml")
    with Server(emulator, acl=True) as server:
        key = key_file(server, tmp_path / "key.json")

        def run(*command: str) -> list[str]:
            program = (sys.executable, str(SAMPLE / "worker.py"), "--root", server.url)
            return completed([*program, "--key", str(key), *command], check=True).stdout.split("\n")

        first, _ = run("add", "to be or not to be")
        emulator.queue("words").add(b"\xff", name="broken")
        printed = run("work")

    assert len(first) == 16
    assert printed == [
        '{"be": 2, "not": 1, "or": 1, "to": 2}',
        "cannot read broken, time 1",
        "cannot read broken, time 2",
        "cannot read broken, time 3",
        "",
    ]
    assert emulator.queue("words").list_tasks() == []
