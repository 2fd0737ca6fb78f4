"""The samples do what they show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "samples"


def test_quickstart() -> None:
    """A task's life, from being added to being exhausted."""
    done = subprocess.run(
        [sys.executable, "-W", "error", SAMPLES / "quickstart" / "quickstart.py"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == [
        "leased parse1, parse2, render1",
        "left for others: 0",
        "leased again: render1, time 2",
        "too late: True",
        "exhausted: ['render1']",
        "leases that ran out: 3",
        "tasks left: 0",
    ]
