"""The linter beside yamllint, on the same file, each a command of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import Figure, Options, medians

SUITE = "lint"
SIZES = (1, 100)
ENTRY = """- name: queue-{number}
  mode: pull
  retry_parameters:
    task_retry_limit: 7
  acl:
  - user_email: worker@example.com
"""


def measure(options: Options) -> Iterator[Figure]:
    """Lint a short file and one with the most queues an app may have."""
    for size in SIZES:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "queue.yaml"
            entries = [ENTRY.format(number=number) for number in range(size)]
            path.write_text("queue:\n" + "".join(entries), "utf-8")
            taken = medians(
                {
                    "pullqueue": _running("pullqueue", "lint", str(path)),
                    "yamllint": _running("yamllint", "-d", "relaxed", str(path)),
                },
                rounds=options.rounds,
                collect=False,
            )
        yield Figure(
            suite=SUITE,
            what="lint a file of queues",
            depth=size,
            value=taken["pullqueue"] * 1e3,
            unit="ms of CPU",
            peer="yamllint",
            peer_value=taken["yamllint"] * 1e3,
        )


def _running(*module_and_arguments: str) -> Callable[[], float]:
    command = [sys.executable, "-m", *module_and_arguments]

    def cpu_seconds() -> float:
        process = _quiet(command)
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        return used.ru_utime + used.ru_stime

    return cpu_seconds


def _quiet(command: list[str]) -> subprocess.Popen[bytes]:
    silence = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=silence, stderr=silence)  # noqa: S603 - fixed
