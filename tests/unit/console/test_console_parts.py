"""What the console's pages are made of: colours, texts, charts, notices."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from itertools import pairwise

import msgspec
import pytest

from pullqueue.console.charts import chart_of
from pullqueue.console.formatting import (
    between,
    hex_dump,
    instant,
    number,
    preview,
    size,
    span,
    until,
    views_of,
)
from pullqueue.console.notices import Notice, Notices
from pullqueue.control.models import Bytes

TEXT_PAIRS = [
    ("text", "ground"),
    ("text", "raised"),
    ("quiet", "ground"),
    ("quiet", "raised"),
    ("link", "ground"),
    ("link", "raised"),
    ("on-primary", "primary"),
    ("danger", "ground"),
    ("danger", "raised"),
    ("good", "good-ground"),
    ("busy", "busy-ground"),
    ("idle", "idle-ground"),
    ("bad", "bad-ground"),
]


def bytes_json(data: bytes, limit: int | None) -> dict[str, object]:
    """Return bytes as the control routes send them."""
    return dict(msgspec.to_builtins(Bytes.of(data, limit)))


OTHER_PAIRS = [
    ("control", "ground"),
    ("chart", "raised"),
    ("chart-leased", "raised"),
    ("good", "ground"),
    ("link", "raised"),
]


def test_assets_are_our_own() -> None:
    """Neither the style nor the script names another host."""
    static = files("pullqueue.console") / "static"
    for asset in static.iterdir():
        text = asset.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")

        assert "://" not in text, asset


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG defines it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(theme: str) -> None:
    """Text has 4.5 to 1 on its ground, controls and charts 3 to 1: WCAG AA, in both themes."""
    css = (files("pullqueue.console") / "static" / "console.css").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", light))
    if theme == "dark":
        colours |= dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", dark))

    for least, pairs in ((4.5, TEXT_PAIRS), (3.0, OTHER_PAIRS)):
        for front, ground in pairs:
            assert contrast(colours[front], colours[ground]) >= least, (front, ground)


def test_spans_and_moments() -> None:
    """Two units at most, and words for what is past, present and to come."""
    assert [span(value) for value in (None, 0, 0.2, 59, 60, 3725, 90000, 86_400 * 9)] == [
        "–",  # noqa: RUF001 - the dash is meant
        "0 s",
        "< 1 s",
        "59 s",
        "1 min",
        "1 h 2 min",
        "1 d 1 h",
        "9 d",
    ]
    one, other = "2026-01-01T00:00:00+00:00", "2026-01-01T00:01:30.250000+00:00"
    assert instant(one) == "2026-01-01 00:00:00"
    assert instant(other) == "2026-01-01 00:01:30.250"
    assert (until(other, one), until(one, other), until(one, one)) == (
        "in 1 min 30 s",
        "1 min 30 s ago",
        "now",
    )
    assert between(one, other) == "1 min 30 s"


def test_sizes_and_numbers() -> None:
    """Bytes in a unit that suits them; thousands apart."""
    assert [size(value) for value in (0, 1023, 1024, 1_500_000, 5 * 2**30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.4 MiB",
        "5120.0 MiB",
    ]
    assert number(1234567) == "1\N{NARROW NO-BREAK SPACE}234\N{NARROW NO-BREAK SPACE}567"
    assert number(None) == size(None)


def test_payload_forms() -> None:
    """JSON is indented, text is text, all can be seen as hexadecimal digits."""
    assert list(views_of(bytes_json(b'{"a":1}', None))) == ["json", "text", "hex"]
    assert list(views_of(bytes_json(b"text", None))) == ["text", "hex"]
    assert list(views_of(bytes_json(b"\xff", None))) == ["hex"]
    assert list(views_of(bytes_json(b"[" * 100_000, None))) == ["text", "hex"]
    assert json.loads(views_of(bytes_json('{"a":"käse"}'.encode(), None))["json"])
    assert hex_dump(b"A\x00" * 9).splitlines()[1] == f"00000010  {'4100':<33}  A."
    assert preview(bytes_json(b"a\n  b", None)) == "a b"
    assert preview(bytes_json(b"\xff\x00", None)) == "ff 00"
    assert preview(bytes_json(b"x" * 500, 256)).endswith("x…")


def test_charts() -> None:
    """Depths are steps: each stays as it is until the next one."""
    depths = [
        {"moment": "2026-01-01T00:00:00+00:00", "tasks": 0, "leased": 0},
        {"moment": "2026-01-01T00:30:00+00:00", "tasks": 4, "leased": 1},
        {"moment": "2026-01-01T01:00:00+00:00", "tasks": 2, "leased": 1},
    ]

    chart = chart_of(depths)

    assert chart.ceiling == 4
    assert chart.label == ("Depth over the last hour: 2 tasks now, 1 of them leased; 4 at most")
    assert chart.tasks == "0.0,48.0 120.0,48.0 120.0,0.0 240.0,0.0 240.0,24.0"
    points = [tuple(map(float, point.split(","))) for point in chart.tasks.split()]
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(points))


@pytest.mark.parametrize(
    ("highest", "ceiling"), [(0, 2), (1, 2), (3, 4), (5, 10), (87, 100), (101, 200), (401, 1000)]
)
def test_the_axis_of_a_chart(highest: int, ceiling: int) -> None:
    """Its upper end is a round number, half of which is a whole one."""
    chart = chart_of([{"moment": "2026-01-01T00:00:00+00:00", "tasks": highest, "leased": 0}])

    assert chart.ceiling == ceiling


def test_notices_are_said_once() -> None:
    """A notice is for the next page; those nobody asked for are forgotten."""
    notices = Notices()
    key = notices.put(Notice("done"))

    assert notices.take(key) == Notice("done")
    assert notices.take(key) is None
    assert notices.take(None) is None
    forgotten = notices.put(Notice("first"))
    for _ in range(100):
        notices.put(Notice("later"))
    assert notices.take(forgotten) is None
