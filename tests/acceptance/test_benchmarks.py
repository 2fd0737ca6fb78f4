"""The benchmark runs, and gives its table, JSON and plot; its figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_small_run(tmp_path: Path) -> None:
    """Each figure stands in the table and in the JSON, and what has two depths in the plot."""
    command = [sys.executable, "-m", "benchmarks", "engine", "--depths", "200,400"]
    done = subprocess.run(
        [*command, "--rounds", "1", "--output", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    figures = json.loads((tmp_path / "benchmarks.json").read_text("utf-8"))["figures"]
    assert len(done.stdout.splitlines()) == 2 + len(figures)
    assert {figure["depth"] for figure in figures} == {200, 400}
    assert all(figure["value"] for figure in figures)
    assert done.returncode == any(figure["met"] is False for figure in figures)
    assert (tmp_path / "depth.svg").read_text("utf-8").count("<polyline ") == 12
