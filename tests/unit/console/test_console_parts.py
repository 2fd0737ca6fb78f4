"""What the console's pages are made of: colours, texts, charts, notices."""

from __future__ import annotations

import json
import re
import tracemalloc
from datetime import datetime
from importlib.resources import files

import pytest
from tables import each_row

from pullqueue.clock import to_usec
from pullqueue.console.charts import build_chart, build_overlay
from pullqueue.console.formatting import (
    between,
    build_views,
    hex_dump,
    instant,
    number,
    preview,
    span,
    until,
)
from pullqueue.console.forms import Notice, Notices
from pullqueue.engine.events import MINUTE_USEC, EventKind
from pullqueue.structs import Bytes
from pullqueue.text import format_size

TEXTS = {
    "ground": "text quiet link danger",
    "raised": "text quiet link danger",
    "primary": "on-primary",
    "good-ground": "good",
    "busy-ground": "busy",
    "idle-ground": "idle",
    "bad-ground": "bad",
}
"""The colours of text on each ground."""
OTHERS = {"ground": "control good", "raised": "chart chart-leased good link"}
"""The colours of controls and charts."""


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
def test_colours_have_enough_contrast(theme: str) -> None:
    """Text has 4.5 to 1 on its ground, controls and charts 3 to 1: WCAG AA, in both themes."""
    css = (files("pullqueue.console") / "static" / "console.css").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", light))
    if theme == "dark":
        colours |= dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", dark))

    for least, grounds in ((4.5, TEXTS), (3.0, OTHERS)):
        for ground, fronts in grounds.items():
            for front in fronts.split():
                assert contrast(colours[front], colours[ground]) >= least, (front, ground)


def test_spans_and_times_have_at_most_two_units() -> None:
    """And words for what is past, present and to come."""
    spans = [None, 0, 0.2, 59, 60, 3725, 90000, 86_400 * 9, 31_557_600_000, 31_557_600_001, 1e300]
    assert [*map(span, spans)] == [
        "–",  # noqa: RUF001 - the dash is meant
        "0 s",
        "< 1 s",
        "59 s",
        "1 min",
        "1 h 2 min",
        "1 d 1 h",
        "9 d",
        "365250 d",
        *["> 1,000 years"] * 2,
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


def test_sizes_have_a_unit_that_suits_and_numbers_are_grouped() -> None:
    assert [format_size(value) for value in (0, 1023, 1024, 1_500_000, 5 * 2**30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.4 MiB",
        "5120.0 MiB",
    ]
    assert number(1234567) == "1\N{NARROW NO-BREAK SPACE}234\N{NARROW NO-BREAK SPACE}567"


def test_payloads_are_indented_json_text_or_digits() -> None:
    """All can be seen as hexadecimal digits."""
    assert list(build_views(Bytes.of(b'{"a":1}'))) == ["json", "text", "hex"]
    assert list(build_views(Bytes.of(b"text"))) == ["text", "hex"]
    assert list(build_views(Bytes.of(b"\xff"))) == ["hex"]
    assert list(build_views(Bytes.of(b"[" * 100_000))) == ["text", "hex"]
    assert json.loads(build_views(Bytes.of('{"a":"käse"}'.encode()))["json"])
    assert hex_dump(b"A\x00" * 9).splitlines()[1] == f"00000010  {'4100':<33}  A."
    assert preview(Bytes.of(b"a\n  b")) == "a b"
    assert preview(Bytes.of(b"\xff\x00")) == "ff 00"
    assert preview(Bytes.of(b"x" * 500, 256)).endswith("x…")


@pytest.mark.parametrize("depth", [100, 900])
def test_the_indentation_of_json_costs_little(depth: int) -> None:
    """Whole, it would have 200 MB for 200 kB of brackets."""
    payload = b"[%b]" % b",".join([b"[" * depth + b"]" * depth] * (100_000 // depth))

    tracemalloc.start()
    views = build_views(Bytes.of(payload))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(views["json"]) == 65_536
    assert views["json"].startswith("[\n  [\n    [")
    assert peak < 50_000_000


def at(time: str) -> int:
    return to_usec(datetime.fromisoformat(f"2026-01-01T{time}Z"))


NOW_USEC = at("01:00:30")
FLOW = {
    at("00:01"): {EventKind.ADDED: 4},
    at("01:00"): {EventKind.LEASED: 2, EventKind.ATTEMPT_STARTED: 1, EventKind.PURGED: 1},
}


def test_charts_draw_the_tasks_per_minute() -> None:
    """A number that stays is one step."""
    chart = build_chart(FLOW, NOW_USEC, "60")

    assert chart.ceiling == 4
    assert chart.label == "Tasks per min over the last 1 h: 4 added, 3 leased, 1 deleted"
    assert {line.name: line.points for line in chart.lines} == {
        "added": "0.0,0.0 4.0,0.0 4.0,48.0 240.0,48.0",
        "leased": "0.0,48.0 236.0,48.0 236.0,12.0 240.0,12.0",
        "deleted": "0.0,48.0 236.0,48.0 236.0,36.0 240.0,36.0",
    }


@each_row(
    ("age", "minutes"),
    [(14, "15"), (15, "60"), (59, "60"), (60, "1440"), (1439, "1440"), (1440, "43200")],
)
def test_a_chart_has_the_shortest_range_with_what_was_before(age: int, minutes: str) -> None:
    """Unless one is chosen."""
    flow = {NOW_USEC - age * MINUTE_USEC: {EventKind.ADDED: 4}}

    chart = build_chart(flow, NOW_USEC)

    assert chart.minutes == minutes
    assert "4 added" in chart.label
    assert build_chart(flow, NOW_USEC, "15").minutes == "15"
    assert build_chart({}, NOW_USEC).minutes == "15"


def test_each_part_of_a_chart_says_what_it_shows() -> None:
    """Together they cover it."""
    chart = build_chart(FLOW, NOW_USEC, "15")

    assert chart.columns[-1].text == "2026-01-01 01:00 UTC: 0 added, 3 leased, 1 deleted"
    assert [column.x for column in chart.columns] == [16 * place for place in range(15)]
    assert chart.column_width == 16
    day = build_chart(FLOW, NOW_USEC, "1440")
    assert (day.unit, len(day.columns)) == ("tasks per 24 min", 60)
    assert [column.text[11:20] for column in day.columns[-2:]] == ["00:13 UTC", "00:37 UTC"]


def test_a_chart_of_queues_names_the_busiest() -> None:
    """The busiest have a line each, the others one together, idle ones none."""
    flows = {f"q{n}": {at("00:59"): {EventKind.LEASED: n}} for n in range(9)}

    chart = build_overlay(flows, NOW_USEC)

    assert chart is not None
    idle = build_overlay({"idle": {}, "busy": flows["q1"]}, NOW_USEC)
    assert idle is not None
    assert [line.name for line in idle.lines] == ["busy"]
    assert chart.label == (
        "Leases and attempts per min over the last 15 min: "
        "8 q8, 7 q7, 6 q6, 5 q5, 4 q4, 3 q3, 3 others"
    )
    assert build_overlay({}, NOW_USEC) is None


@each_row(
    ("highest", "ceiling"), [(0, 2), (1, 2), (3, 4), (5, 10), (87, 100), (101, 200), (401, 1000)]
)
def test_the_axis_of_a_chart_ends_at_a_round_number(highest: int, ceiling: int) -> None:
    """Half of it is a whole one."""
    assert build_chart({at("01:00"): {EventKind.ADDED: highest}}, NOW_USEC).ceiling == ceiling


def test_notices_are_said_once() -> None:
    """A notice is for the next page; those that nobody reads are deleted."""
    notices = Notices()
    key = notices.put(Notice(text="done"))

    assert notices.take(key) == Notice(text="done")
    assert notices.take(key) is None
    assert notices.take(None) is None
    unread = notices.put(Notice(text="first"))
    for _ in range(100):
        notices.put(Notice(text="later"))
    assert notices.take(unread) is None
