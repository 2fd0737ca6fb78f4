"""The documentation site builds without warnings, is complete and needs no other host.

Its search and its filter are used in a browser.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest
from browser import Browser, evaluate, show, violations
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

import pullqueue
import pullqueue.testing

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as strictly as Sphinx can."""
    folder = tmp_path_factory.mktemp("site")
    command = ["-m", "sphinx", "-q", "-W", "--keep-going", "-n", str(DOCS), str(folder)]
    done = subprocess.run([sys.executable, *command], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_built(site: Path) -> None:
    built = {path.relative_to(site).with_suffix(".md").as_posix() for path in site.rglob("*.html")}

    assert {page.relative_to(DOCS).as_posix() for page in PAGES} <= built


def test_generated_parts_are_there(site: Path) -> None:
    for page, text in {
        "limits": "tombstone_seconds",
        "errors": "TASK_LEASE_EXPIRED",
        "rules": "push-key-on-pull",
        "fidelity": "lease_tasks_by_tag_async",
        "commands": "gtaskqueue_puller",
        "fixtures": "pullqueue_emulator",
        "testing": "assert_exhausted",
        "python": "modify_task_lease",
    }.items():
        html = (site / "reference" / f"{page}.html").read_text("utf-8")
        assert text in html
        assert "generated:" not in html


@pytest.mark.parametrize("module", [pullqueue, pullqueue.testing], ids=lambda m: m.__name__)
def test_every_public_name_has_its_place(site: Path, module: ModuleType) -> None:
    pages = [path.read_text("utf-8") for path in (site / "reference").glob("*.html")]
    text = "".join(pages)

    names = [name for name in module.__all__ if f'id="{module.__name__}.{name}"' not in text]
    # Errors are where they are defined.
    homes = [getattr(module, name).__module__ for name in names]
    errors = [
        name for name, home in zip(names, homes, strict=True) if f'id="{home}.{name}"' in text
    ]
    assert set(names) - set(errors) <= {"Limits"}  # these are a table


class Assets(HTMLParser):
    """Collects what a page has a browser fetch by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "link" and values.get("rel") in ("canonical", "next", "prev", "search"):
            return
        name = "href" if tag == "link" else "src"
        if tag != "a" and values.get(name):
            self.addresses.append(values[name] or "")


def test_no_page_fetches_from_another_host(site: Path) -> None:
    assets = Assets()
    for page in site.rglob("*.html"):
        assets.feed(page.read_text("utf-8"))
    styles = [path.read_text("utf-8") for path in site.rglob("*.css")]

    assert assets.addresses
    assert [address for address in assets.addresses if re.match(r"(https?:)?//", address)] == []
    assert [
        style for style in styles if re.search(r"(@import|url\()\s*['\"]?(https?:)?//", style)
    ] == []


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is inherited
        """Log nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("typed", "page"),
    [
        ("429", "how-to/cloud-tasks"),
        ("push-to", "how-to/sdk-app"),
        ("--grpc-port", "how-to/cloud-tasks"),
        ("--store", "stores"),
        ("port-file", "how-to/server"),
        ("ndb", "how-to/sdk-app"),
        ("Retry-After", "how-to/cloud-tasks"),
        ("TaskAlreadyExistsError", "reference/errors"),
        ("TombstonedTaskError", "reference/errors"),
        ("crash", "how-to/testing/crashes"),
        ("race", "how-to/testing/races"),
        ("cron", "how-to/sdk-app"),
        ("cron handler", "how-to/testing/push-tasks"),
        ("--strict", "reference/checks"),
        ("index.yaml", "how-to/sdk-app"),
        ("pullqueue_services", "how-to/sdk-tests"),
        ("race_test", "how-to/testing/races"),
        ("retry_limit", "explanation/leases"),
    ],
)
def test_the_search_finds_first_what_is_typed(
    browser: Browser, address: str, typed: str, page: str
) -> None:
    browser.get(f"{address}/search.html?q={typed}")
    (first, *_) = WebDriverWait(browser, 60).until(
        lambda browser: browser.find_elements(By.CSS_SELECTOR, "ul.search a")
    )

    assert f"/{page}.html" in (first.get_attribute("href") or "")


def shown(browser: Browser) -> list[str]:
    rows = "[...document.querySelectorAll('table.filtered tbody tr')]"
    script = f"return {rows}.filter((row) => row.offsetParent).map((row) => row.innerText)"
    return list(browser.execute_script(script))  # type: ignore[no-untyped-call]


def test_the_search_finds_pages_that_say_how_before_others(browser: Browser, address: str) -> None:
    browser.get(f"{address}/search.html?q=push-to")
    # Results are added one by one.
    WebDriverWait(browser, 60).until(
        lambda browser: browser.find_elements(By.CSS_SELECTOR, "ul.search a[href*=benchmarks]")
    )
    found = browser.find_elements(By.CSS_SELECTOR, "ul.search a")
    pages = [str(each.get_attribute("href")) for each in found]

    first = [page for page in pages[:5] if re.search("/(how-to|tutorials)/", page)]
    assert len(first) == 5
    assert min(place for place, page in enumerate(pages) if "/benchmarks" in page) >= 10


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    "page", ["index", "how-to/commands", "how-to/console", "reference/fidelity"]
)
def test_a_page_can_be_read_by_all(browser: Browser, address: str, page: str, width: int) -> None:
    """Nothing against WCAG AA, on a desk and on a phone, and no page is wider than the screen."""
    browser.set_script_timeout(300)
    show(browser, width=width)
    browser.get(f"{address}/{page}.html")
    # Hundreds of rows are made alike, and take most of the time of all pages.
    evaluate(
        browser, "document.querySelectorAll('tr:nth-child(n+8)').forEach((row) => row.remove())"
    )

    assert violations(browser) == []
    assert evaluate(browser, "return document.documentElement.scrollWidth") <= width


def test_tables_and_pictures_can_be_read_on_a_phone(browser: Browser, address: str) -> None:
    show(browser, width=390)
    cells = []
    for page in ("reference/fidelity", "reference/errors", "how-to/clients"):
        browser.get(f"{address}/{page}.html")
        cells += evaluate(
            browser,
            "return [...document.querySelectorAll('.content td:not(:first-child)')]"
            ".filter((cell) => cell.offsetParent)"
            ".map((cell) => [cell.getBoundingClientRect().right, cell.dataset.column ?? ''])",
        )
    browser.get(f"{address}/how-to/console.html")
    picture = evaluate(
        browser, "return document.querySelector('.content img').getBoundingClientRect().width"
    )

    assert max(right for right, _ in cells) <= 390
    assert {title for _, title in cells} >= {"source", "exit status", "what to set"}
    assert picture > 900


@pytest.mark.parametrize("page", ["fidelity", "conformance"])
def test_a_table_is_filtered_by_words_and_verdict(
    browser: Browser, address: str, page: str
) -> None:
    browser.get(f"{address}/reference/{page}.html")
    everything = shown(browser)
    browser.find_element(By.CSS_SELECTOR, ".table-filter input").send_keys("app engine 429")
    found = shown(browser)

    assert found
    assert found == [row for row in everything if re.search("(?i)app engine", row) and "429" in row]

    browser.find_element(By.CSS_SELECTOR, ".table-filter input").clear()
    Select(browser.find_element(By.CSS_SELECTOR, ".table-filter select")).select_by_value("differs")
    differing = shown(browser)

    assert 0 < len(differing) < len(everything)
    output = browser.find_element(By.CSS_SELECTOR, ".table-filter output").text
    assert output == f"{len(differing)} of {len(everything)} rows"
