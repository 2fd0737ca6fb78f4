"""The linter beside yamllint, each run as a command; costs are seconds of the processor."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import Figure, Options, Turn, compare

FILES = 150
QUEUES = 10
ENTRY = """\
- name: queue-{number}
  mode: pull
  retry_parameters:
    task_retry_limit: 7
  acl:
  - user_email: worker@my-app.iam.gserviceaccount.com
  - writer_email: app@my-app.iam.gserviceaccount.com
"""

COST_OF_ONE_FILE = 2.5
COST_OF_MANY_FILES = 0.75


def measure(options: Options) -> Iterator[Figure]:
    """Lint one file, and a folder of many."""
    if importlib.util.find_spec("yamllint") is None:
        raise SystemExit("yamllint is missing: pip install -e '.[benchmark]'")
    content = "queue:\n" + "".join(ENTRY.format(number=number) for number in range(QUEUES))
    with TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(FILES):
            path = folder / f"app-{number}" / "queue.yaml"
            path.parent.mkdir()
            path.write_text(content, "utf-8")
        paths = {"lint one file": folder / "app-0" / "queue.yaml", f"lint {FILES} files": folder}
        costs = compare(
            _turn(paths, "pullqueue", "lint"),
            _turn(paths, "yamllint", "-d", "relaxed"),
            rounds=options.rounds,
        )
    for what, (value, peer_value) in costs.items():
        yield Figure(
            what=f"{what} of {QUEUES} queues",
            value=value * 1e3,
            unit="ms",
            peer="yamllint",
            peer_value=peer_value * 1e3,
            at_most=COST_OF_ONE_FILE if "one" in what else COST_OF_MANY_FILES,
        )


def _turn(paths: dict[str, Path], *command: str) -> Turn:
    return lambda: {
        what: _cpu_seconds([sys.executable, "-m", *command, str(path)])
        for what, path in paths.items()
    }


def _cpu_seconds(command: list[str]) -> float:
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return used.ru_utime + used.ru_stime
