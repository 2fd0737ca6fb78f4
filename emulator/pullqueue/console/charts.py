"""The depth of a queue over time, as the points of an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import cycle
from typing import NamedTuple

from pullqueue.api.encoding import Json
from pullqueue.tasks import count_tasks

WIDTH = 240
HEIGHT = 48
_SPAN = timedelta(hours=1)


class Chart(NamedTuple):
    """What a template draws."""

    tasks: str
    """The points of the line of all tasks, for `polyline`."""
    leased: str
    """The points of the area of leased ones, for `polygon`."""
    ceiling: int
    """What the upper edge stands for: an even number, the highest depth or more."""
    label: str
    """What the picture says, in words."""


def chart_of(depths: Sequence[Json]) -> Chart:
    """Give the chart of the last hour; depths stay as they are until the next one."""
    end = datetime.fromisoformat(depths[-1]["moment"])
    begin = end - _SPAN
    highest = max(depth["tasks"] for depth in depths)
    ceiling = _ceiling(highest)
    scale = HEIGHT / ceiling

    def points(field: str) -> list[str]:
        found: list[str] = []
        last_y = None
        for depth in depths:
            moment = max(datetime.fromisoformat(depth["moment"]), begin)
            x = WIDTH * ((moment - begin) / _SPAN)
            y = HEIGHT - depth[field] * scale
            if last_y is not None and y != last_y:
                found.append(f"{x:.1f},{last_y:.1f}")
            found.append(f"{x:.1f},{y:.1f}")
            last_y = y
        return found

    leased = points("leased")
    first_x, last_x = leased[0].partition(",")[0], leased[-1].partition(",")[0]
    now = depths[-1]
    return Chart(
        tasks=" ".join(points("tasks")),
        leased=f"{first_x},{HEIGHT} {' '.join(leased)} {last_x},{HEIGHT}",
        ceiling=ceiling,
        label=f"Depth over the last hour: {count_tasks(now['tasks'])} now, {now['leased']} of "
        f"them leased; {highest} at most",
    )


def _ceiling(highest: int) -> int:
    """Give the first of 2, 4, 10, 20, 40, 100... that is as high."""
    ceiling, steps = 2, cycle((2, 2.5, 2))
    while ceiling < highest:
        ceiling = int(ceiling * next(steps))
    return ceiling
