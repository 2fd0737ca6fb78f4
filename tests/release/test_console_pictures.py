"""The documentation's pictures of the console, as a browser shows it after some work.

`PULLQUEUE_REGENERATE=1 pytest tests/release/test_console_pictures.py` takes them again. A
picture contains the text of its page, so that an outdated one is found with any fonts, and without
a browser.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
import requests
from browser import Browser, show
from console_client import ConsoleClient

from pullqueue import Emulator, ManualClock, NewTask
from pullqueue.server.lifecycle import Server

DOCS = Path(__file__).parents[2] / "docs"
IMAGES = DOCS / "images"
LARGEST = 150_000
"""Bytes of a picture: the repository and the sdist carry them."""
QUEUE_YAML = """\
queue:
- name: orders
  mode: pull
  retry_parameters:
    task_retry_limit: 3
- name: thumbnails
  mode: pull
- name: mails
  rate: 5/s
"""
KINDS = ("books", "music", "toys")
HARD = ("order-24", "order-60", "order-100")
"""Orders that no worker gets done."""


class Picture(NamedTuple):
    """A page of the console, and how much of it is shown."""

    path: str
    height: int


PICTURES = {
    "console-queues": Picture("/", 580),
    "console-queue": Picture("/queues/orders", 800),
    "console-task": Picture("/queues/orders/tasks/order-100", 905),
    "console-requests": Picture("/requests", 630),
}
WIDTH = 970
"""About as wide as a page of the documentation shows it: more would make its text small."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Serve queues in the middle of a day's work."""
    clock = ManualClock(datetime(2026, 1, 5, 9, tzinfo=UTC))
    with Server(Emulator.from_text(QUEUE_YAML, clock=clock)) as server:
        work(server, clock)
        call(f"{server.url}/taskqueue/v1beta2/projects/shop/taskqueues/thumbnails/tasks")
        yield server


def work(server: Server, clock: ManualClock) -> None:
    """Move the clock by an hour in which orders come and workers ship most of them."""
    orders = server.emulator.queue("orders")
    thumbnails = server.emulator.queue("thumbnails")
    for minute in range(57):
        orders.add_many([order(minute * 2 + n) for n in range(1 + minute % 7 // 4)])
        thumbnails.add_many([NewTask(payload="x" * 2048) for _ in range(minute % 5)])
        if minute % 6 == 5:
            leased = orders.lease_tasks(lease_seconds=120, max_tasks=12)
            thumbnails.delete_tasks(thumbnails.lease_tasks(lease_seconds=60, max_tasks=9))
            clock.advance(30)
            orders.delete_tasks([task for task in leased if task.name not in HARD])
            clock.advance(30)
        else:
            clock.advance(60)
    orders.lease_tasks(lease_seconds=600, max_tasks=3)
    clock.advance(45)
    orders.lease_tasks_by_tag(300, 2, tag="music")
    orders.add(b"\x89PNG\r\n", name="receipt-17")
    orders.add("call the customer", name="reminder-4", eta=clock.now().replace(hour=17))
    clock.advance(15)


def order(number: int) -> NewTask:
    kind = KINDS[number % len(KINDS)]
    return NewTask(
        payload=f'{{"order": {number}, "kind": "{kind}"}}', name=f"order-{number}", tag=kind
    )


def call(tasks: str) -> None:
    """Do what a worker does over REST, and what it does wrong."""
    with requests.Session() as session:
        body = {"id": "cat-1", "payloadBase64": "Y2F0LnBuZw==", "tag": "cats"}
        session.post(tasks, json=body, timeout=60)
        session.post(tasks, json=body, timeout=60)
        lease = {"leaseSecs": "60", "numTasks": "1", "groupByTag": "true", "tag": "cats"}
        session.post(f"{tasks}/lease", params=lease, timeout=60)
        session.get(f"{tasks}/dog-1", timeout=60)
        session.delete(f"{tasks}/cat-1", timeout=60)


def take(browser: Browser, address: str, picture: Picture, *, dark: bool) -> bytes:
    """Return a picture of a page, without what differs from run to run: durations, the port."""
    show(browser, dark=dark, width=WIDTH, height=picture.height)
    browser.get(address)
    script = (
        "document.querySelectorAll('[data-label=Took]')"
        ".forEach((each, place) => { each.textContent = `1.${place} ms` });"
        "document.querySelectorAll('code')"
        ".forEach(each => { each.textContent = each.textContent.replace(/ --url \\S+/, '') })"
    )
    browser.execute_script(script)  # type: ignore[no-untyped-call]
    browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    return b64decode(taken["data"])


def with_text(png: bytes, text: str) -> bytes:
    """Put a text into a picture, behind its head."""
    chunk = b"iTXt" + b"Description\0\0\0\0\0" + text.encode()
    head = 8 + 25  # the signature, and the first chunk, which is always of this length
    size, check = struct.pack(">I", len(chunk) - 4), struct.pack(">I", zlib.crc32(chunk))
    return png[:head] + size + chunk + check + png[head:]


def text_in(png: bytes) -> str:
    """Return the text that was put into a picture."""
    _, _, rest = png.partition(b"iTXtDescription\0\0\0\0\0")
    (size,) = struct.unpack(">I", png[33:37])
    return rest[: size - len(b"Description\0\0\0\0\0")].decode()


def test_every_picture_is_shown_and_every_shown_one_is_taken() -> None:
    """The documents show the pictures that are taken here, each described in words."""
    pages = [path.read_text("utf-8") for path in DOCS.rglob("*.md") if "_build" not in path.parts]
    shown = re.findall(r"!\[(.+?)\]\((?:\.\./)?images/([\w-]+)\.png\)", "\n".join(pages), re.DOTALL)

    assert {name for _, name in shown} == set(PICTURES)
    assert {path.stem.removesuffix("-dark") for path in IMAGES.iterdir()} == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_the_console_as_it_is(
    request: pytest.FixtureRequest, server: Server, name: str
) -> None:
    """The text of the page is what it was when the pictures were taken, but for what differs from
    run to run, and from one version of requests to another.
    """
    picture = PICTURES[name]
    text = ConsoleClient(server.state).text(picture.path)
    text = re.sub(r" --url \S+|\b[\d.]+ ms\b|(?<=python-requests)/\S+", "", text)
    assert "Not found" not in text
    for file in (IMAGES / f"{name}.png", IMAGES / f"{name}-dark.png"):
        if os.environ.get("PULLQUEUE_REGENERATE"):
            browser = request.getfixturevalue("browser")
            address, dark = f"{server.url}/console{picture.path}", file.stem.endswith("-dark")
            file.write_bytes(with_text(take(browser, address, picture, dark=dark), text))
        png = file.read_bytes()

        assert text_in(png) == text, "take the pictures again: PULLQUEUE_REGENERATE=1"
        assert len(png) <= LARGEST
