"""What importing costs, and how soon a server answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measuring import Figure, Options, medians
from benchmarks.moto_peer import moto

SUITE = "startup"
IMPORT_MS = 30.0
FIRST_ANSWER_SECONDS = 0.5
QUEUE_YAML = "queue:\n- name: pull-queue\n  mode: pull\n"


def measure(options: Options) -> Iterator[Figure]:
    """Measure in processes of their own."""
    with TemporaryDirectory() as folder:
        # Compiled modules are kept, as they are where a package was installed.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield from _imports(environment, options)
        yield from _first_answer(Path(folder), environment, options)


def _imports(environment: dict[str, str], options: Options) -> Iterator[Figure]:
    codes = {"nothing": "pass", "pullqueue": "import pullqueue"}
    for code in codes.values():
        _cpu_seconds(code, environment)
    taken = medians(
        {name: _running(code, environment) for name, code in codes.items()},
        rounds=max(options.rounds, 15),
        collect=False,
    )
    yield Figure(
        suite=SUITE,
        what="import pullqueue, over a bare Python",
        value=(taken["pullqueue"] - taken["nothing"]) * 1e3,
        unit="ms of CPU",
        limit=IMPORT_MS,
    )


def _running(code: str, environment: dict[str, str]) -> Callable[[], float]:
    return lambda: _cpu_seconds(code, environment)


def _cpu_seconds(code: str, environment: dict[str, str]) -> float:
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)  # noqa: S603 - ourselves
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_utime + used.ru_stime


def _first_answer(folder: Path, environment: dict[str, str], options: Options) -> Iterator[Figure]:
    (folder / "queue.yaml").write_text(QUEUE_YAML, "utf-8")
    _serve(folder, environment)
    used: list[float] = []

    def serve() -> float:
        seconds, cpu_seconds = _serve(folder, environment)
        used.append(cpu_seconds)
        return seconds

    taken = medians(
        {"pullqueue": serve, "moto_server": _moto}, rounds=options.rounds, collect=False
    )
    yield Figure(
        suite=SUITE,
        what="serve, until the first answer",
        value=median(used),
        unit="s of CPU",
        limit=FIRST_ANSWER_SECONDS,
    )
    yield Figure(
        suite=SUITE,
        what="serve, until the first answer",
        value=taken["pullqueue"],
        unit="s",
        peer="moto_server",
        peer_value=taken["moto_server"],
    )


def _serve(folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Start, ask, stop; give how long the answer took, and what of that was the processor's."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "pullqueue", "serve", "--port", "0", "queue.yaml"]
    process = subprocess.Popen(  # noqa: S603 - ourselves
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None  # noqa: S101 - asked for
    address = process.stdout.readline().rpartition("/")[2].strip()
    connection = HTTPConnection(address, timeout=30)
    connection.request("GET", "/taskqueue/v1beta2/projects/p/taskqueues/pull-queue")
    connection.getresponse().read()
    seconds = time.perf_counter() - started
    process.kill()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    process.stdout.close()
    return seconds, used.ru_utime + used.ru_stime


def _moto() -> float:
    started = time.perf_counter()
    with moto():
        return time.perf_counter() - started
