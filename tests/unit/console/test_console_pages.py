"""The console's pages without a browser: their HTML, headers, tokens and colours."""

from __future__ import annotations

import io
import json
import re
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import html5lib
import pytest
from flask.testing import FlaskClient

from pullqueue import Emulator, ManualClock
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
from pullqueue.rest.app import create_app
from pullqueue.rest.control.shapes import bytes_json
from pullqueue.rest.control.site import Site

CONFIG = """\
queue:
- {name: pull, mode: pull, retry_parameters: {task_retry_limit: 2}}
- {name: push, rate: 5/s}
"""
PAGES = (
    "/",
    "/queues/pull",
    "/queues/pull?state=exhausted",
    "/queues/pull?state=leased&tag=t&search=x&limit=25",
    "/queues/push",
    "/queues/pull/purge",
    "/queues/pull/tasks/a",
    "/queues/pull/tasks/a?view=hex",
    "/queues/pull/tasks/a/delete",
    "/exhausted",
    "/requests",
    "/requests/1",
    "/faults",
    "/clock",
    "/server",
    "/server/reset",
    "/nowhere",
    "/queues/nope",
    "/queues/pull/tasks/nope",
)
BROWSER = {"Origin": "http://localhost"}
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
OTHER_PAIRS = [
    ("control", "ground"),
    ("chart", "raised"),
    ("chart-leased", "raised"),
    ("good", "ground"),
    ("link", "raised"),
]


@pytest.fixture
def site() -> Site:
    """Give a site whose pages all have something to show."""
    emulator = Emulator.from_text(CONFIG, clock=ManualClock())
    queue = emulator.queue("pull")
    queue.add(b"lost", name="lost")
    queue.lease_tasks(0, 1)
    queue.lease_tasks(0, 1)
    queue.add('{"a": "<b>&"}', name="a", tag="<i>")
    queue.lease_tasks(60, 1)
    return Site(emulator)


@pytest.fixture
def client(site: Site) -> FlaskClient:
    """Give a client of the application."""
    client = create_app(site.emulator, site=site).test_client()
    client.get("/taskqueue/v1beta2/projects/p/taskqueues/pull?x=<b>")
    return client


@pytest.mark.parametrize("page", PAGES)
def test_the_html_is_well_formed(client: FlaskClient, page: str) -> None:
    """A strict parser finds no error; ids are unique and labels have their fields."""
    answer = client.get(f"/console{page}")

    assert answer.content_type == "text/html; charset=utf-8"
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    tree = parser.parse(answer.data)
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(set(ids)) == len(ids)
    labelled = {element.get("for") for element in tree.iter("label") if element.get("for")}
    assert labelled <= set(ids)
    assert "<b>" not in answer.text
    assert "<i>" not in answer.text


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_guarded(client: FlaskClient, page: str) -> None:
    """No script, style or picture from elsewhere or in the page; no frame; nothing is kept."""
    answer = client.get(f"/console{page}")

    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert not re.search(r"""(?:src|href|action)=["'](?:https?:)?//""", answer.text)
    assert not re.search(r"""\s(?:style|on[a-z]+)=["']""", answer.text)
    assert "<style" not in answer.text


def test_assets_are_our_own() -> None:
    """Neither the style nor the script names another host."""
    static = files("pullqueue.console") / "static"
    for asset in static.iterdir():
        text = asset.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")

        assert "://" not in text, asset


@pytest.mark.parametrize(
    "path",
    [
        "/queues/pull/add",
        "/queues/pull/lease",
        "/queues/pull/release",
        "/queues/pull/purge",
        "/queues/pull/tasks/a/extend",
        "/queues/pull/tasks/a/delete",
        "/requests/forget",
        "/faults",
        "/faults/remove",
        "/clock",
        "/server/reload",
        "/server/reset",
        "/server/snapshot",
    ],
)
def test_forms_need_the_token(client: FlaskClient, site: Site, path: str) -> None:
    """Without the token of this server's own pages a browser changes nothing."""
    before = site.emulator.export()

    for data in ({}, {"pullqueue_token": "guessed"}):
        answer = client.post(f"/console{path}", data=data, headers=BROWSER)

        assert answer.status_code == 403
        assert "it has no token" in answer.text
    assert site.emulator.export() == before


def test_a_large_payload(client: FlaskClient, site: Site) -> None:
    """A megabyte fits into the form, one byte more is refused by the engine, with its reason."""
    form = {"pullqueue_token": site.token, "payload": "x" * 2**20, "name": "big"}
    added = client.post("/console/queues/pull/add", data=form, headers=BROWSER)
    refused = client.post(
        "/console/queues/pull/add",
        data={**form, "payload": "x" * (2**20 + 1), "name": "bigger"},
        headers=BROWSER,
    )

    assert added.status_code == 303
    assert refused.status_code == 400
    assert "1048577 bytes" in refused.text


def test_a_large_snapshot(client: FlaskClient, site: Site) -> None:
    """A file larger than other requests may be is loaded all the same."""
    for place in range(17):
        site.emulator.queue("pull").add(bytes(2**20 - 100), name=f"n{place}")
    saved = client.get("/_emulator/snapshot").data
    site.emulator.reset()

    answer = client.post(
        "/console/server/snapshot",
        data={"pullqueue_token": site.token, "file": (io.BytesIO(saved), "s.json")},
        headers=BROWSER,
    )

    answer.request.input_stream.close()  # the test client's own temporary file
    assert len(saved) > site.emulator.limits.rest_body_bytes
    assert answer.status_code == 303
    assert site.emulator.queue("pull").fetch_statistics().tasks == 18


def test_payloads_are_downloads(client: FlaskClient) -> None:
    """They come as files of bytes, which no browser runs."""
    answer = client.get("/console/queues/pull/tasks/a/payload")

    assert answer.data == b'{"a": "<b>&"}'
    assert answer.content_type == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="a"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_fault_of_the_console(
    client: FlaskClient, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a page with status 500, and tells nothing of its inside."""

    def broken() -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(site.depths, "read", broken)

    answer = client.get("/console/")

    assert answer.status_code == 500
    assert "the console has a fault" in answer.text
    assert "secret" not in answer.text


def test_the_root_leads_to_the_console(client: FlaskClient) -> None:
    """Who opens the server's address gets to see something."""
    assert client.get("/").headers["Location"] == "/console/"
    assert client.get("/console").status_code == 200


def luminance(colour: str) -> float:
    """Give the relative luminance of a colour, as WCAG defines it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Give the contrast of two colours, from 1 to 21."""
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


def test_half_a_pair_of_surrogates(site: Site, client: FlaskClient) -> None:
    """JSON may name half a character; it is shown as it was sent."""
    site.emulator.queue("pull").add(r'{"a": "\ud800"}', name="half")

    answer = client.get("/console/queues/pull/tasks/half")

    assert answer.status_code == 200
    assert r"\ud800" in answer.text


@pytest.mark.parametrize("page", ["/", "/server", "/nowhere"])
def test_a_store_that_is_away(tmp_path: Path, page: str) -> None:
    """The page that says so needs nothing of the store."""
    emulator = Emulator.from_text(CONFIG, clock=ManualClock(), store=f"sqlite:///{tmp_path}/tasks")
    client = create_app(emulator, site=Site(emulator)).test_client()
    emulator.close()

    answer = client.get(f"/console{page}")

    assert answer.status_code == 500
    assert "the store&#39;s file" in answer.text
    assert "2026-01-01 00:00:00" in answer.text
