"""samples/rest_worker, as its first lines say to try it."""

from __future__ import annotations

import sys
from pathlib import Path

import requests
from programs import completed
from rest_clients import key_file
from served import serving

SAMPLE = Path(__file__).parents[2] / "samples" / "rest_worker"


def test_a_worker_with_a_key_file(tmp_path: Path) -> None:
    """Google's documentation is enough to write a worker that runs against the emulator."""
    options = ("--auth", "acl", "--no-lease-rate-limit")
    with serving("queue.yaml", *options, folder=SAMPLE) as served:
        key = key_file(served, tmp_path / "key.json")

        def run(*command: str) -> list[str]:
            run = completed(
                [
                    *(sys.executable, str(SAMPLE / "worker.py")),
                    *("--root", served.url, "--key", str(key), *command),
                ],
                check=True,
            )
            return run.stdout.splitlines()

        (first,) = run("add", "to be or not to be")
        query = {"email": "worker@example.com"}
        token = requests.get(f"{served.url}/_emulator/token", query, timeout=60).json()
        tasks = f"{served.url}/taskqueue/v1beta2/projects/my-app/taskqueues/words/tasks"
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        broken = requests.post(
            tasks, json={"id": "broken", "payloadBase64": "_w=="}, headers=headers, timeout=60
        )
        printed = run("work")
        left = requests.get(tasks, headers=headers, timeout=60).json()

    assert len(first) == 16
    assert broken.status_code == 200
    assert printed == [
        '{"be": 2, "not": 1, "or": 1, "to": 2}',
        "cannot read broken, time 1",
        "cannot read broken, time 2",
        "cannot read broken, time 3",
    ]
    assert "items" not in left
