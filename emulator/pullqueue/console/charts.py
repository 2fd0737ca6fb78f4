"""What happens to tasks over time, as the lines of an SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, groupby
from typing import Final, NamedTuple

from pullqueue.clock import FIRST_USEC, from_usec
from pullqueue.config.model import QueueMode
from pullqueue.engine.events import MINUTE_USEC, Flow
from pullqueue.resources.overview import FLOW_KINDS
from pullqueue.text import format_span

WIDTH = 240
HEIGHT = 48
RANGES: Final = {"15": "15 min", "60": "1 h", "1440": "24 h", "43200": "30 d"}
"""The time spans of charts, in minutes, and their labels."""
_SHORTEST = "15"
_FIRST_CHOICES = ("60", "1440", "43200")
CHART: Final = {
    QueueMode.PULL: ("added", "leased", "deleted"),
    QueueMode.PUSH: ("added", "delivered", "failed"),
}
"""The lines of a queue's chart."""
_COLUMNS = 60
_MAX_LINES = 6


class Line(NamedTuple):
    """One line of a chart."""

    name: str
    points: str
    """Points of a `polyline`."""


class Column(NamedTuple):
    """A part of the chart that shows its numbers under the mouse pointer."""

    x: float
    text: str


class Chart(NamedTuple):
    """A chart as a template draws it."""

    lines: list[Line]
    ceiling: int
    """The number at the upper edge: even, and not below the highest one."""
    label: str
    """The chart in words."""
    minutes: str
    """The time span, one of `RANGES`."""
    unit: str
    """What the numbers count, such as `tasks per min`."""
    columns: list[Column]
    column_width: float


def build_chart(
    flow: Flow,
    now_usec: int,
    minutes: str = "",
    *,
    kinds: Sequence[str] = CHART[QueueMode.PULL],
    is_small: bool = False,
) -> Chart:
    """Return how many events of each kind there were in a queue until now.

    A small chart has no columns: nobody can point at one.
    """
    series = {kind: _counts(flow, kind) for kind in kinds}
    return _chart(series, now_usec, minutes, what="tasks", is_small=is_small)


def build_overlay(flows: Mapping[str, Flow], now_usec: int, minutes: str = "") -> Chart | None:
    """Return how many tasks of each queue were leased or attempted; None: there is no queue.

    Each of the busiest queues has a line; the other queues have one together. Queues of which
    no task was ever leased or attempted have none, unless that is so of all.
    """
    leased = {name: _counts(flow, "leased") for name, flow in flows.items()}
    totals = {name: sum(count for _, count in line) for name, line in leased.items()}
    busiest = sorted(
        [name for name in leased if leased[name]] or leased, key=totals.__getitem__, reverse=True
    )
    series = {name: leased[name] for name in busiest[:_MAX_LINES]}
    if others := busiest[_MAX_LINES:]:
        series["others"] = [pair for name in others for pair in leased[name]]
    return _chart(series, now_usec, minutes, what="leases and attempts") if series else None


def _counts(flow: Flow, kind: str) -> list[tuple[int, int]]:
    """Return the minutes in which there were any events of a kind, and how many."""
    return [
        (usec // MINUTE_USEC, count)
        for usec, counts in flow.items()
        for each in FLOW_KINDS[kind]
        if (count := counts.get(each))
    ]


def _chart(
    series: Mapping[str, Sequence[tuple[int, int]]],
    now_usec: int,
    minutes: str,
    *,
    what: str,
    is_small: bool = False,
) -> Chart:
    this_minute = now_usec // MINUTE_USEC
    if minutes not in RANGES:
        ages = {this_minute - minute for line in series.values() for minute, _ in line} - {0}
        minutes = next((m for m in _FIRST_CHOICES if any(age < int(m) for age in ages)), "60")
        if all(age < int(_SHORTEST) for age in ages):
            minutes = _SHORTEST
    columns = min(int(minutes), _COLUMNS)
    step = int(minutes) // columns
    begin = this_minute + 1 - columns * step
    values = {name: [0] * columns for name in series}
    for name, line in series.items():
        for minute, count in line:
            if begin <= minute <= this_minute:
                values[name][(minute - begin) // step] += count
    ceiling = _ceiling(max((max(line) for line in values.values()), default=0))
    unit = f"{what} per {format_span(step * 60).removeprefix('1 ')}"
    totals = ", ".join(f"{sum(line)} {name}" for name, line in values.items())
    return Chart(
        lines=[Line(name, _steps(line, ceiling)) for name, line in values.items()],
        ceiling=ceiling,
        label=f"{unit.capitalize()} over the last {RANGES[minutes]}: {totals}",
        minutes=minutes,
        unit=unit,
        columns=[] if is_small else _columns(values, begin, step),
        column_width=WIDTH / columns,
    )


def _steps(values: Sequence[int], ceiling: int) -> str:
    """Return the points of a line on which each value stays for its column."""
    width, end = WIDTH / len(values), 0
    found = []
    for value, same in groupby(values):
        y = HEIGHT - value * HEIGHT / ceiling
        begin, end = end, end + len(list(same))
        found.append(f"{begin * width:.1f},{y:.1f} {end * width:.1f},{y:.1f}")
    return " ".join(found)


def _columns(values: Mapping[str, Sequence[int]], begin: int, step: int) -> list[Column]:
    """Return the values of each column in words; the first begins at a minute."""
    columns = list(zip(*values.values(), strict=True))
    numbers = {
        counts: ", ".join(f"{count} {name}" for count, name in zip(counts, values, strict=True))
        for counts in set(columns)
    }
    width = WIDTH / len(columns)
    found = []
    for place, counts in enumerate(columns):
        time = str(from_usec(max((begin + place * step) * MINUTE_USEC, FIRST_USEC)))[:16]
        found.append(Column(place * width, f"{time} UTC: {numbers[counts]}"))
    return found


def _ceiling(highest: int) -> int:
    """Return the first of 2, 4, 10, 20, 40, 100... that is not below `highest`."""
    ceiling, steps = 2, cycle((2, 2.5, 2))
    while ceiling < highest:
        ceiling = int(ceiling * next(steps))
    return ceiling
