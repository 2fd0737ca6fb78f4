"""Cost against depth, as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10

from benchmarks.measuring import Figure

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 250, 40, 50
_COLOURS = ("#0b57d0", "#b3261e", "#146c2e", "#7b3ff2", "#9a5b00", "#006a6a", "#8a1a5f", "#444746")

Point = tuple[int, float]


def curves_of(figures: Iterable[Figure]) -> dict[str, list[Point]]:
    """Give microseconds per task against depth, for all that was measured at several depths."""
    curves: dict[str, dict[int, float]] = {}
    for figure in figures:
        if (
            figure.depth is None
            or figure.unit != "us/task"
            or (figure.peer or "").startswith("the same")
        ):
            continue
        curves.setdefault(f"{figure.suite}: {figure.what}", {})[figure.depth] = figure.value
        if figure.peer and figure.peer_value:
            name = f"{figure.peer}: {figure.what}"
            curves.setdefault(name, {})[figure.depth] = figure.peer_value
    return {name: sorted(points.items()) for name, points in curves.items() if len(points) > 1}


def plot(figures: Iterable[Figure]) -> str:
    """Draw the curves on two logarithmic axes."""
    curves = curves_of(figures)
    points = [point for curve in curves.values() for point in curve] or [(1000, 1.0), (10_000, 1.0)]
    scale = _Scale(points)
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="11"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">Microseconds per task against depth</text>',
        *scale.grid(),
    ]
    for number, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        dashes = "" if number < len(_COLOURS) else ' stroke-dasharray="5 3"'
        path = " ".join(f"{scale.x(depth):.1f},{scale.y(cost):.1f}" for depth, cost in curve)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        )
        y = _TOP + 14 * number
        x = _WIDTH - _RIGHT + 12
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


class _Scale:
    def __init__(self, points: Sequence[Point]) -> None:
        depths = [log10(depth) for depth, _ in points]
        costs = [log10(cost) for _, cost in points]
        self._depths = (floor(min(depths)), max(ceil(max(depths)), floor(min(depths)) + 1))
        self._costs = (floor(min(costs)), max(ceil(max(costs)), floor(min(costs)) + 1))

    def x(self, depth: float) -> float:
        low, high = self._depths
        return _LEFT + (log10(depth) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, cost: float) -> float:
        low, high = self._costs
        return _HEIGHT - _BOTTOM - (log10(cost) - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    def grid(self) -> Iterable[str]:
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        for power in range(self._depths[0], self._depths[1] + 1):
            x = self.x(10.0**power)
            yield f'<path d="M{x:.1f} {_TOP}V{bottom}" stroke="#ddd"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{10**power:,}</text>'
        for power in range(self._costs[0], self._costs[1] + 1):
            y = self.y(10.0**power)
            yield f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="#ddd"/>'
            yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
        middle = (_LEFT + right) / 2
        yield f'<text x="{middle}" y="{bottom + 36}" text-anchor="middle">tasks in the queue</text>'
