"""Run benchmarks: a table on standard output, and the same as JSON with a plot (SVG) in a folder.

`python -m benchmarks` runs all, in about half an hour; `python -m benchmarks engine startup
--depths 1000,100000 --rounds 9 --output results` some, at some depths, and writes the files.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from benchmarks.measuring import Figure, Options
from benchmarks.plot import plot

SUITES = ("engine", "google", "sdk", "rest", "bridge", "plugin", "lint", "startup", "stores")
_COLUMNS = "{:8} {:38} {:>9} {:>10} {:10} {:>10} {:24} {:>6} {:>6} {}"


def suite(name: str) -> Callable[[Options], Iterator[Figure]]:
    """Give the benchmark of a name; only then what it needs is imported."""
    measure: Callable[[Options], Iterator[Figure]] = import_module(f"benchmarks.{name}").measure
    return measure


def row(figure: Figure) -> str:
    """Give a line of the table."""
    return _COLUMNS.format(
        figure.suite,
        figure.what,
        "" if figure.depth is None else figure.depth,
        f"{figure.value:.3g}" if figure.value < 100 else f"{figure.value:.0f}",
        figure.unit,
        "" if figure.peer_value is None else f"{figure.peer_value:.3g}",
        figure.peer or "",
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.limit is None else f"{figure.limit:.3g}",
        {None: "", True: "met", False: "MISSED"}[figure.met],
    ).rstrip()


def header() -> str:
    """Give the head of the table."""
    names = ("suite", "what", "depth", "value", "unit", "peer's", "peer", "ratio", "limit")
    return _COLUMNS.format(*names, "verdict")


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and write; 1 where a limit is passed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)}; all by default")
    parser.add_argument("--depths", help="such as 1000,100000")
    parser.add_argument("--rounds", type=int, default=Options().rounds)
    parser.add_argument("--seconds", type=float, default=Options().seconds)
    parser.add_argument("--output", type=Path, help="a folder for benchmarks.json and depth.svg")
    given = parser.parse_args(arguments)
    depths = Options().depths
    if given.depths:
        depths = tuple(int(depth) for depth in given.depths.split(","))
    options = Options(depths=depths, rounds=given.rounds, seconds=given.seconds)
    print(f"Python {platform.python_version()}, medians of {options.rounds} rounds")
    print(header())
    figures: list[Figure] = []
    for name in given.suites or SUITES:
        for figure in suite(name)(options):
            figures.append(figure)
            print(row(figure), flush=True)
    if given.output:
        _write(given.output, figures)
    return int(any(figure.met is False for figure in figures))


def _write(folder: Path, figures: list[Figure]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    facts = [{**asdict(figure), "ratio": figure.ratio, "met": figure.met} for figure in figures]
    text = json.dumps({"python": platform.python_version(), "figures": facts}, indent=1)
    (folder / "benchmarks.json").write_text(text + "\n", "utf-8")
    (folder / "depth.svg").write_text(plot(figures), "utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
