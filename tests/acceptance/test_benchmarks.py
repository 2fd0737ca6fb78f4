"""The benchmark runs, and gives its table, JSON and plot; its figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run(suite: str, output: Path, *options: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Run a benchmark for one round, and give its figures and the lines of its table."""
    command = [sys.executable, "-m", "benchmarks", suite, "--rounds", "1", *options]
    done = subprocess.run(
        [*command, "--output", str(output)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    figures = json.loads((output / "benchmarks.json").read_text("utf-8"))["figures"]
    assert done.returncode == any(figure["met"] is False for figure in figures)
    return figures, done.stdout.splitlines()[2:]


def test_a_small_run(tmp_path: Path) -> None:
    """Each figure stands in the table and in the JSON, and what has two depths in the plot."""
    figures, lines = run("engine", tmp_path, "--depths", "200,400")

    assert len(lines) == len(figures)
    assert {figure["depth"] for figure in figures} == {200, 400}
    assert all(figure["value"] for figure in figures)
    assert (tmp_path / "depth.svg").read_text("utf-8").count("<polyline ") == 12


def test_the_bridge(tmp_path: Path) -> None:
    """Each call is made through both clients, one task and a hundred at a time, at both servers."""
    figures, _ = run("bridge", tmp_path, "--seconds", "0.01")

    assert {figure["what"] for figure in figures} == {
        f"{call} {count}, {client}"
        for call in ("add", "lease", "delete")
        for count in (1, 100)
        for client in ("plain socket", "SDK's client")
    }
    assert all(figure["value"] and figure["peer_value"] for figure in figures)
