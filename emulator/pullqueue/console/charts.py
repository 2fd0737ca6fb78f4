"""The depth of a queue over time, as the points of an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import cycle
from typing import Final, NamedTuple

from pullqueue.control.depths import Depth
from pullqueue.tasks import count_tasks

WIDTH = 240
HEIGHT = 48
RANGES: Final = {"5": "5 min", "15": "15 min", "60": "1 h"}
"""The time spans of charts, in minutes, and their labels."""
_COLUMNS = 60
_MINUTE = timedelta(minutes=1)


class Column(NamedTuple):
    """A part of the chart that shows its numbers under the mouse pointer."""

    x: float
    width: float
    text: str


class Chart(NamedTuple):
    """A chart as a template draws it."""

    tasks: str
    """Points of the `polyline` of all tasks."""
    leased: str
    """Points of the `polygon` of leased tasks."""
    ceiling: int
    """The number at the upper edge: even, and not below the highest depth."""
    label: str
    """The chart in words."""
    minutes: str
    """The time span, one of `RANGES`."""
    columns: list[Column]


def chart_of(depths: Sequence[Depth], minutes: str = "") -> Chart:
    """Return the chart of the last `minutes`, by default of the shortest range with all depths."""
    times = [datetime.fromisoformat(depth.time) for depth in depths]
    if minutes not in RANGES:
        passed = times[-1] - times[0]
        minutes = next((m for m in RANGES if passed <= int(m) * _MINUTE), max(RANGES, key=int))
    span = int(minutes) * _MINUTE
    begin = times[-1] - span
    # The last depth before the range still applies at its beginning.
    first = max((n for n, time in enumerate(times) if time <= begin), default=0)
    times, depths = times[first:], depths[first:]
    highest = max(depth.tasks for depth in depths)
    ceiling = _ceiling(highest)
    xs = [WIDTH * (max(time - begin, timedelta()) / span) for time in times]
    leased = _steps(xs, [HEIGHT - depth.leased * HEIGHT / ceiling for depth in depths])
    tasks = _steps(xs, [HEIGHT - depth.tasks * HEIGHT / ceiling for depth in depths])
    now = depths[-1]
    return Chart(
        tasks=" ".join(tasks),
        leased=f"{xs[0]:.1f},{HEIGHT} {' '.join(leased)} {xs[-1]:.1f},{HEIGHT}",
        ceiling=ceiling,
        label=f"Depth over the last {RANGES[minutes]}: {count_tasks(now.tasks)} now, "
        f"{now.leased} of them leased; {highest} at most",
        minutes=minutes,
        columns=_columns(xs, times, depths),
    )


def _steps(xs: Sequence[float], ys: Sequence[float]) -> list[str]:
    """Return the points of a line on which each value stays until the next one."""
    found: list[str] = []
    last_y = None
    for x, y in zip(xs, ys, strict=True):
        if last_y is not None and y != last_y:
            found.append(f"{x:.1f},{last_y:.1f}")
        found.append(f"{x:.1f},{y:.1f}")
        last_y = y
    return found


def _columns(
    xs: Sequence[float], times: Sequence[datetime], depths: Sequence[Depth]
) -> list[Column]:
    """Return the values at up to 60 places of the chart, each for the width it applies to."""
    places = {min(int(x * _COLUMNS / WIDTH), _COLUMNS - 1): n for n, x in enumerate(xs)}
    found = []
    for (column, place), end in zip(places.items(), [*list(places)[1:], _COLUMNS], strict=True):
        depth = depths[place]
        text = (
            f"{times[place]:%H:%M:%S} UTC: {count_tasks(depth.tasks)}, "
            f"{depth.available} available, {depth.leased} leased"
        )
        step = WIDTH / _COLUMNS
        found.append(Column(column * step, (end - column) * step, text))
    return found


def _ceiling(highest: int) -> int:
    """Return the first of 2, 4, 10, 20, 40, 100... that is not below `highest`."""
    ceiling, steps = 2, cycle((2, 2.5, 2))
    while ceiling < highest:
        ceiling = int(ceiling * next(steps))
    return ceiling
