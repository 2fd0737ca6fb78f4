"""The benchmarks run and print their table; its figures are not judged here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RATIO = re.compile(r"(\d+\.\d\d)(?: +([<>])= ([\d.]+))?( MISSED)?$")


def run(*arguments: str, module: str = "benchmarks") -> subprocess.CompletedProcess[str]:
    """Run `python -m benchmarks`, or one of its modules, in the checkout."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_each_figure_has_a_ratio_and_a_verdict() -> None:
    """The exit status is 1 where a ratio misses its target, and only there."""
    done = run("engine", "push", "stores", "--rounds", "1", "--depth", "100")

    assert done.stderr == ""
    verdicts = []
    for figure in re.findall(r"^(?!Python|what|-- |memory).+", done.stdout, re.MULTILINE):
        match = RATIO.search(figure)
        assert match, figure
        ratio, sign, target, missed = match.groups()
        if sign and float(ratio) != float(target):
            below = float(ratio) < float(target)
            assert bool(missed) is (below if sign == ">" else not below), figure
        verdicts.append(bool(missed))
    assert len(verdicts) >= 19
    assert done.returncode == any(verdicts)


def test_figures_of_requests_are_measured_before_a_peer_that_is_missing() -> None:
    """moto is not among what tests need."""
    done = run("rest", "--rounds", "1")

    assert len(re.findall(r"^(?:insert|lease) .+", done.stdout, re.MULTILINE)) >= 6
    assert done.stderr in ("", "moto_server does not start: pip install -e '.[benchmark]'\n")


def test_an_unknown_suite_is_refused() -> None:
    done = run("engines")

    assert done.returncode == 2
    assert (
        "unknown suite `engines`: choose from engine, rest, push, stores, projects, lint"
        in done.stderr
    )


def test_a_soak_sends_requests_of_all_kinds() -> None:
    """Those that are refused, too; how the memory grows is not judged in seconds."""
    done = run("--minutes", "0.05", module="benchmarks.soak")

    assert (done.returncode, done.stderr) == (0, "")
    statuses = re.findall(r"(\d+): ", done.stdout.splitlines()[-2])
    assert statuses == ["200", "204", "404"]
