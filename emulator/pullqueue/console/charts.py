"""What happens to tasks over time, as the lines of an SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import cycle
from typing import Final, NamedTuple

from pullqueue.config.text import span_of
from pullqueue.control.overview import FlowMinute

WIDTH = 240
HEIGHT = 48
RANGES: Final = {"15": "15 min", "60": "1 h", "1440": "24 h", "43200": "30 d"}
"""The time spans of charts, in minutes, and their labels."""
_FIRST_CHOICES = ("60", "1440", "43200")
KINDS: Final = ("added", "leased", "deleted")
"""The lines of a queue's chart; attempts are leases."""
_COLUMNS = 60
_MAX_LINES = 6
_MINUTE = timedelta(minutes=1)


class Line(NamedTuple):
    """One line of a chart."""

    name: str
    points: str
    """Points of a `polyline`."""


class Column(NamedTuple):
    """A part of the chart that shows its numbers under the mouse pointer."""

    x: float
    width: float
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


def chart_of(
    flow: Sequence[FlowMinute], now: datetime, minutes: str = "", *, is_small: bool = False
) -> Chart:
    """Return how many tasks of a queue were added, leased and deleted until now.

    A small chart has no columns: nobody can point at one.
    """
    series = {kind: [(flow, kind)] for kind in KINDS}
    return _chart(series, now, minutes, what="tasks", is_small=is_small)


def overlay_of(
    flows: Mapping[str, Sequence[FlowMinute]], now: datetime, minutes: str = ""
) -> Chart | None:
    """Return how many tasks of each queue were leased or attempted; None: there is no queue.

    Each of the busiest queues has a line; the other queues have one together. Queues of which
    no task was ever leased or attempted have none, unless that is so of all.
    """
    leased = {name: sum(each.leased for each in flow) for name, flow in flows.items()}
    busiest = sorted(
        [name for name in leased if leased[name]] or leased, key=leased.__getitem__, reverse=True
    )
    series = {name: [(flows[name], "leased")] for name in busiest[:_MAX_LINES]}
    if others := busiest[_MAX_LINES:]:
        series["others"] = [(flows[name], "leased") for name in others]
    return _chart(series, now, minutes, what="leases and attempts") if series else None


def _chart(
    series: Mapping[str, Iterable[tuple[Sequence[FlowMinute], str]]],
    now: datetime,
    minutes: str,
    *,
    what: str,
    is_small: bool = False,
) -> Chart:
    this_minute = now.replace(second=0, microsecond=0)
    counts = {
        name: [
            (int((this_minute - datetime.fromisoformat(each.time)) / _MINUTE), getattr(each, kind))
            for flow, kind in flows
            for each in flow
        ]
        for name, flows in series.items()
    }
    if minutes not in RANGES:
        ages = [age for line in counts.values() for age, count in line if count and age]
        minutes = next((m for m in _FIRST_CHOICES if any(age < int(m) for age in ages)), "60")
    columns = min(int(minutes), _COLUMNS)
    step = int(minutes) // columns
    values = {name: [0] * columns for name in counts}
    for name, line in counts.items():
        for age, count in line:
            if 0 <= age < int(minutes):
                values[name][columns - 1 - age // step] += count
    ceiling = _ceiling(max((max(line) for line in values.values()), default=0))
    unit = f"{what} per {span_of(step * 60).removeprefix('1 ')}"
    totals = ", ".join(f"{sum(line)} {name}" for name, line in values.items())
    return Chart(
        lines=[Line(name, _steps(line, ceiling)) for name, line in values.items()],
        ceiling=ceiling,
        label=f"{unit.capitalize()} over the last {RANGES[minutes]}: {totals}",
        minutes=minutes,
        unit=unit,
        columns=[] if is_small else _columns(values, this_minute, step * _MINUTE),
    )


def _steps(values: Sequence[int], ceiling: int) -> str:
    """Return the points of a line on which each value stays for its column."""
    width = WIDTH / len(values)
    found: list[tuple[float, float]] = []
    for place, value in enumerate(values):
        y = HEIGHT - value * HEIGHT / ceiling
        if not found or found[-1][1] != y:
            found.append((place * width, y))
        else:
            found.pop()
        found.append(((place + 1) * width, y))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in found)


def _columns(
    values: Mapping[str, Sequence[int]], this_minute: datetime, step: timedelta
) -> list[Column]:
    """Return the values of each column in words."""
    count = len(next(iter(values.values())))
    width = WIDTH / count
    found = []
    for place in range(count):
        begin = this_minute + _MINUTE - (count - place) * step
        numbers = [f"{line[place]} {name}" for name, line in values.items()]
        text = f"{begin:%Y-%m-%d %H:%M} UTC: {', '.join(numbers)}"
        found.append(Column(place * width, width, text))
    return found


def _ceiling(highest: int) -> int:
    """Return the first of 2, 4, 10, 20, 40, 100... that is not below `highest`."""
    ceiling, steps = 2, cycle((2, 2.5, 2))
    while ceiling < highest:
        ceiling = int(ceiling * next(steps))
    return ceiling
