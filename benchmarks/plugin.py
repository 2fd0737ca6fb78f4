"""What the pytest plugin costs: a run that does not use it, and a test that does."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import Figure, Options, medians

SUITE = "plugin"
QUEUE_YAML = "queue:\n- name: pull-queue\n  mode: pull\n"
EMPTY_TESTS = "".join(f"def test_{number}(): pass\n" for number in range(100))
FIXTURE_TESTS = """
import pytest

@pytest.mark.parametrize("n", range(40))
def test_empty(n): pass

@pytest.mark.parametrize("n", range(40))
def test_fixtures(n, pullqueue_emulator, pullqueue_clock): pass
"""
LOAD_SDK = """
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.appengine.api import taskqueue
    from google.appengine.ext import testbed
"""
RECORDER = """
import json, pathlib, time
import pytest

process_time = {"now": time.process_time}
spent = {}

def timed(item):
    before = process_time["now"]()
    try:
        return (yield)
    finally:
        spent[item.name] = spent.get(item.name, 0) + process_time["now"]() - before

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    return (yield from timed(item))

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    return (yield from timed(item))

def pytest_sessionfinish():
    pathlib.Path("spent.json").write_text(json.dumps(spent))
"""
_OFF = ("-p", "no:pullqueue")
_ALONE = tuple(
    argument
    for entry_point in entry_points(group="pytest11")
    if entry_point.name != "pullqueue"
    for argument in ("-p", f"no:{entry_point.name}")
)
"""No plugin but ours, loaded as any installed one is: `-p` with its name would cost more."""


def measure(options: Options) -> Iterator[Figure]:
    """Measure the plugin."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "queue.yaml").write_text(QUEUE_YAML)
        yield from _unused(folder, options)
        for what, prelude, limit in (
            ("emulator and clock for a test", "", 10.0),
            ("the same, with the SDK loaded", LOAD_SDK, 30.0),
        ):
            yield from _used(folder, what, prelude, limit, options)


def _unused(folder: Path, options: Options) -> Iterator[Figure]:
    (folder / "test_empty.py").write_text(EMPTY_TESTS)
    (folder / "test_one.py").write_text("def test_one(): pass\n")
    for module in ("test_empty.py", "test_one.py"):
        _cpu_seconds(folder, module)  # compiles what is to be measured
    taken = medians(
        {
            "100 with": lambda: _cpu_seconds(folder, "test_empty.py"),
            "100 without": lambda: _cpu_seconds(folder, "test_empty.py", *_OFF),
            "1 with": lambda: _cpu_seconds(folder, "test_one.py"),
            "1 without": lambda: _cpu_seconds(folder, "test_one.py", *_OFF),
        },
        rounds=options.rounds * 3,
    )
    yield Figure(
        suite=SUITE,
        what="a run of 100 empty tests",
        value=taken["100 with"] * 1e3,
        unit="ms",
        peer="without the plugin",
        peer_value=taken["100 without"] * 1e3,
        limit=1.02,
    )
    yield Figure(
        suite=SUITE,
        what="added to the start of a run",
        value=(taken["1 with"] - taken["1 without"]) * 1e3,
        unit="ms",
        limit=15.0,
    )


def _used(
    folder: Path, what: str, prelude: str, limit: float, options: Options
) -> Iterator[Figure]:
    (folder / "test_fixtures.py").write_text(prelude + FIXTURE_TESTS)
    (folder / "recorder.py").write_text(RECORDER)
    firsts, others = [], []
    for _ in range(options.rounds):
        _cpu_seconds(folder, "test_fixtures.py", "-p", "recorder")
        spent = json.loads((folder / "spent.json").read_text())
        empty = statistics.median(
            value for name, value in spent.items() if name.startswith("test_empty")
        )
        first, *rest = (
            value - empty for name, value in spent.items() if name.startswith("test_fixtures")
        )
        firsts.append(first)
        others.append(statistics.median(rest))
    yield _milliseconds(what, others, limit)
    yield _milliseconds(f"{what}, first", firsts, None)


def _milliseconds(what: str, seconds: list[float], limit: float | None) -> Figure:
    value = statistics.median(seconds) * 1e3
    return Figure(suite=SUITE, what=what, value=value, unit="ms", limit=limit)


def _cpu_seconds(folder: Path, module: str, *arguments: str) -> float:
    """Run pytest with no plugin but ours, and give the processor time it took.

    The clock on the wall would measure what else the machine is doing.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603 - this Python and files of our own
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *_ALONE,
            *arguments,
            module,
        ],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.getenv("PYTHONPATH")])),
            # Compiled once, as any installed package is.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
        },
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
