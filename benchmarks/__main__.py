"""Run benchmarks and print their figures: `python -m benchmarks`, or some suites by name."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from importlib import import_module

from benchmarks.measuring import Figure, Options

SUITES = ("engine", "rest", "push", "stores", "projects", "lint")
_ROW = "{:62} {:>8} {:6} {:>8} {:34} {:>6} {:>7} {}"


def row(figure: Figure) -> str:
    """Return a line of the table."""
    target = ""
    if figure.at_most is not None:
        target = f"<= {figure.at_most:.3g}"
    elif figure.at_least is not None:
        target = f">= {figure.at_least:.3g}"
    return _ROW.format(
        figure.what,
        _number(figure.value),
        figure.unit,
        _number(figure.peer_value),
        figure.peer,
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        target,
        "MISSED" if figure.missed else "",
    ).rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(arguments: Sequence[str]) -> int:
    """Print the figures; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Print ratios against peers, each measured in this run. A ratio is a cost "
        "divided by the peer's; where the target is a minimum (>=), a speed divided by the peer's. "
        "Exit status 1: a target is missed.",
    )
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)} (default: all)"
    )
    parser.add_argument(
        "--rounds", type=int, default=Options().rounds, help="rounds to measure (default: 5)"
    )
    parser.add_argument(
        "--depth",
        type=int,
        default=Options().depth,
        help="tasks in deep queues (default: 1000000); in those of the suite `push` at most 100000",
    )
    given = parser.parse_args(arguments)
    if unknown := set(given.suites) - set(SUITES):
        parser.error(f"unknown suite `{min(unknown)}`: choose from {', '.join(SUITES)}")
    options = Options(rounds=given.rounds, depth=given.depth)
    print(f"Python {platform.python_version()}, medians of {options.rounds} rounds")
    print(_ROW.format("what", "value", "", "peer's", "peer", "ratio", "target", "").rstrip())
    missed = False
    for name in given.suites or SUITES:
        print(f"-- {name}")
        for figure in import_module(f"benchmarks.{name}").measure(options):
            print(row(figure), flush=True)
            missed |= figure.missed
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
