"""What only a browser shows of the console: its layout, script, keys and dialogs.

What the server renders and what forms do is tested without one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import requests
from browser import WCAG, Browser, evaluate, resize, show, violations
from push_app import push_app
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from pullqueue import Emulator, HttpRequest, ManualClock, NewTask
from pullqueue.cron.file import parse_cron
from pullqueue.push.request import PushResponse
from pullqueue.runtime.config_file import ConfigFile
from pullqueue.server.lifecycle import Server
from pullqueue.testing import run_tasks

QUEUE_YAML = """\
queue:
- {name: pull, mode: pull, retry_parameters: {task_retry_limit: 2}}
- {name: push, rate: 5/s}
- {name: once, rate: 500/s, bucket_size: 500, retry_parameters: {task_retry_limit: 0}}
"""
EVIL = "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
SCROLLING = "['scrollable-region-focusable']"
COLOURS = "['color-contrast', 'link-in-text-block', 'scrollable-region-focusable']"
"""The rules that show something else on a phone, or in the dark; colours take half of the time."""
COLOURFUL = (
    *("/", "/queues/pull?state=leased", "/queues/pull/tasks/task-leased", "/activity"),
    *("/queues/pull/tasks/task-lost", "/queues/push", "/failures", "/faults"),
)
"""Pages that have all colours between them, and all forms of the head."""
DARK = ("/queues/pull?state=leased", "/failures")
"""Those with the most colours; tests/unit/console has the contrast of all in both themes."""
WIDTHS = (1441, 1281, 1153, 1057, 961, 960, 390, 320)
"""One pixel above each change of the style, and those of screens."""
HOUR = "main [name=deliver][type=hidden] ~ button[value='60']"
"""The button of an hour in which push tasks are delivered."""
PAGES = (
    *("/", "/queues/pull?state=leased", "/queues/pull?state=exhausted", "/queues/pull/purge"),
    *(f"/queues/pull/tasks/task-{name}" for name in ("leased", "binary", "lost")),
    *("/queues/push", "/queues/push/tasks/task-push", "/failures", "/workers"),
    *("/tasks?search=task", "/activity", "/requests", "/requests/1", "/cron", "/faults", "/clock"),
    *("/server", "/server/snapshot", "/nowhere"),
)


@pytest.fixture
def config_text() -> str:
    return QUEUE_YAML


@pytest.fixture
def server(emulator: Emulator, queue_yaml: Path) -> Iterator[Server]:
    """Yield a server whose console has the page of cron jobs, too."""
    jobs = parse_cron("cron: [{url: /clean, schedule: every day 09:00}]")
    with Server(emulator, config_file=ConfigFile(queue_yaml), cron=jobs) as server:
        yield server


@pytest.fixture
def site(browser: Browser, server: Server) -> Site:
    return Site(browser, f"{server.url}/console")


class Site:
    def __init__(self, browser: Browser, root: str) -> None:
        self.browser = browser
        self.root = root

    def open(self, path: str) -> None:
        self.browser.get(self.root + path)

    def find(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def run(self, script: str) -> Any:
        return evaluate(self.browser, script)

    @property
    def focused(self) -> str:
        return str(self.run("return document.activeElement.id"))

    def text(self, selector: str = "main") -> str:
        return self.find(selector).text

    def press(self, label: str) -> None:
        """Press the button, or follow the link, with this text."""
        path = f"//*[self::button or self::a or self::summary][normalize-space()='{label}']"
        self._click(By.XPATH, path)

    def click(self, selector: str) -> None:
        self._click(By.CSS_SELECTOR, selector)

    def _click(self, by: str, what: str) -> None:
        def click() -> bool:
            self.browser.find_element(by, what).click()
            return True

        self.until(click, what)

    def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait until something is true; a page that is being replaced counts as false."""
        patience = WebDriverWait(
            self.browser, 60, poll_frequency=0.05, ignored_exceptions=[WebDriverException]
        )
        patience.until(lambda _: condition(), what)

    def fill(self, selector: str, text: str) -> None:
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def wait_for_rows(self, count: int) -> None:
        """Wait until the table of tasks has so many rows."""
        rows = "[data-hold] tbody tr"
        self.until(lambda: len(self.browser.find_elements(By.CSS_SELECTOR, rows)) == count)

    def wait_for(self, text: str, selector: str = "main") -> None:
        self.until(lambda: text in self.text(selector), f"{text!r} in {selector}")


def fill(emulator: Emulator, server: Server, clock: ManualClock) -> None:
    """Let every page have something to show."""
    queue = emulator.queue("pull")
    queue.add(b"lost", name="task-lost")
    queue.lease_tasks(1, 1)
    clock.advance(1)
    queue.lease_tasks(1, 1)
    clock.advance(1)
    queue.add(json.dumps({"text": EVIL}), name="task-leased", tag=EVIL)
    queue.add(b"x" * 500, name="long-name-" * 50, tag="long tag " * 50)
    queue.lease_tasks(600_000, 2)
    queue.add(bytes(range(256)), name="task-binary", tag="")
    queue.add(EVIL, name="task-text", eta=clock.now().replace(hour=5))
    headers = (("X-Mine", EVIL),)
    request = HttpRequest("/mail?" + "x" * 300, "PUT", headers)
    emulator.queue("push").add(EVIL, name="task-push", request=request)
    emulator.queue("push").pause()
    emulator.queue("once").add_many([NewTask(request=HttpRequest("/x"))] * 30)
    numbers = count()
    run_tasks(
        emulator,
        queues=["once"],
        send=lambda _: PushResponse(500, f"image {next(numbers)} {EVIL}".encode()),
    )
    url = f"{server.url}/taskqueue/v1beta2/projects/p/taskqueues/pull"
    requests.post(f"{url}/tasks", json={"payloadBase64": "YQ==", "tag": EVIL}, timeout=60)
    requests.get(f"{url}/tasks/{EVIL}", timeout=60)
    requests.post(
        f"{server.url}/_emulator/faults", json={"kind": "fail", "call": "purge"}, timeout=60
    )


def log_of(browser: Browser) -> list[str]:
    """Return what the browser complained of since it was last asked."""
    entries = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [str(entry["message"]) for entry in entries]


def test_every_page_can_be_read_by_all(
    site: Site, emulator: Emulator, server: Server, clock: ManualClock
) -> None:
    """Nothing against WCAG AA, on a desk and dark on a phone; no page is wider than the window,
    and none complains in the browser's log. Whatever is in a payload, tag or path does nothing.
    """
    fill(emulator, server, clock)
    site.browser.get("about:blank")  # the page before would miss its server
    log_of(site.browser)
    for page in PAGES:
        site.open(page)
        site.run("document.querySelectorAll('details').forEach((d) => d.open = true)")
        show(site.browser)
        has_colours = page in COLOURFUL
        but = "" if has_colours else "color-contrast"
        assert violations(site.browser, WCAG, but=but) == [], page
        show(site.browser, dark=True)
        for width in WIDTHS if has_colours else (320,):
            resize(site.browser, width=width)
            assert site.run("return document.documentElement.scrollWidth") <= width, page
        assert violations(site.browser, COLOURS if page in DARK else SCROLLING) == [], page
        assert "pwned" not in site.browser.title, page
    # The page that is not there is answered so, and axe reads letters from a canvas.
    expected = re.compile(r"404 \(Not Found\)|Canvas2D")
    assert [message for message in log_of(site.browser) if not expected.search(message)] == []


def test_the_menu_of_projects_leads_to_their_pages(site: Site, server: Server) -> None:
    """At once; it can be read by all, and makes no page wider than the window."""
    for name in ("billing", "a-project-of-a-suite-with-a-name-that-is-longer-than-others"):
        requests.post(f"{server.url}/_emulator/projects", json={"name": name}, timeout=60)
    site.open("/requests")
    Select(site.find("#project")).select_by_visible_text("billing")
    site.until(lambda: "/projects/billing/console/" in site.browser.current_url)
    site.click("#to-clock")
    site.until(lambda: site.browser.title == "Clock · billing · pullqueue")
    assert violations(site.browser) == []
    for width in (1280, 820, 390, 320):
        show(site.browser, width=width)
        assert site.run("return document.documentElement.scrollWidth") <= width
    show(site.browser, width=1280)
    Select(site.find("#project")).select_by_visible_text("my-app")
    site.until(lambda: site.browser.current_url == f"{server.url}/console/")


def test_a_delivery_is_stopped_and_goes_on(
    site: Site, emulator: Emulator, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page goes on by itself, in short calls. An attempt that takes long holds the time up;
    the page shows how far it is, and another page that it stopped.
    """
    monkeypatch.setattr("pullqueue.console.actions._CALL_SECONDS", 0.05)
    start = emulator.clock.now()
    soon, eta = start + timedelta(seconds=1), start + timedelta(minutes=15)
    emulator.queue("push").add_many([NewTask(eta=soon)] * 60)
    emulator.queue("push").add(request=HttpRequest("/slow"), eta=eta)
    site.browser.get("about:blank")  # the page before would miss its server
    log_of(site.browser)
    with push_app() as app:
        server.push_to(app.url)
        site.open("/clock")
        site.click(HOUR)
        site.wait_for("15 min of 1 h", "#go-on")
        bar = "return document.querySelector('progress').value"
        assert site.run(bar) == 900
        site.wait_for("It is 2026-01-01 00:15:00 now.", "#notice")
        site.until(lambda: site.find("#move_to").get_attribute("value") == "2026-01-01T00:15")
        site.until(lambda: not site.find("#unfinished").is_displayed())
        site.press("Stop")
        site.until(lambda: site.find("#continue").is_displayed())
        site.until(lambda: not site.find("#stop").is_displayed())
        site.wait_for("is not finished", "#notice")
        site.click("#to-queues")
        site.wait_for("The delivery until 2026-01-01 01:00:00 is not finished.", "#unfinished")
        app.released.set()
        site.click("#finish")
        site.wait_for("It is 2026-01-01 01:00:00 now.", "#notice")

    assert "push: 61 became due, 61 tasks delivered" in site.text("#notice")
    assert not site.browser.find_elements(By.ID, "go-on")
    assert log_of(site.browser) == []


def test_the_head_of_a_narrow_page_is_one_line(site: Site, clock: ManualClock) -> None:
    """On a small phone, beside a scrollbar."""
    clock.advance(0.123)
    show(site.browser, width=305)
    site.open("/")

    middles = site.run(
        "return ['.brand', '.now', '#live'].map((part) => {"
        "const box = document.querySelector(part).getBoundingClientRect();"
        "return (box.top + box.bottom) / 2; })",
    )
    assert max(middles) - min(middles) < 3
    assert site.run("return document.documentElement.scrollWidth") <= 305


def test_buttons_stay_where_they_are_when_their_forms_open(site: Site) -> None:
    """On a desk, in a window of half its width, and on a phone."""
    places = (
        "return [...document.querySelectorAll('.title :is(summary, .aside button, .aside a)')]"
        ".map((each) => { const box = each.getBoundingClientRect(); return [box.left, box.top]; })"
    )
    for width in (1280, 970, 390):
        show(site.browser, width=width)
        site.open("/queues/pull")
        before = site.run(places)
        for place in range(3):
            site.browser.find_elements(By.CSS_SELECTOR, ".title summary")[place].click()
            assert site.run(places) == before, width
    assert len(before) == 5


def test_what_matters_is_in_sight(
    site: Site, emulator: Emulator, server: Server, clock: ManualClock
) -> None:
    """The reasons of failures on a desk; the first task on a phone, below all that a queue in
    trouble has above it, all pages in the menu, and the clock.
    """
    fill(emulator, server, clock)
    site.open("/failures")
    assert site.run("return document.documentElement.scrollHeight") <= 900

    show(site.browser, width=390, height=844)
    site.open("/queues/pull")

    script = "return document.querySelector('#tasks tbody tr').getBoundingClientRect().top"
    assert site.run(script) < 800
    assert site.find("#strip-60").is_displayed()
    right = site.run("return document.getElementById('to-server').getBoundingClientRect().right")
    assert right <= 390


def test_a_step_of_a_history_is_one_line(
    site: Site, emulator: Emulator, clock: ManualClock
) -> None:
    """On a desk even the longest step, a lease, needs no second line."""
    clock.advance(0.123)
    queue = emulator.queue("pull")
    queue.add(name="quick")
    clock.advance(0.5)
    queue.lease_tasks(86_399.111, 1)
    site.open("/queues/pull/tasks/quick")

    added, leased = site.run(
        "return [...document.querySelectorAll('.history li')].map((each) => each.offsetHeight)",
    )
    assert "< 1 s later" in site.text("#history")
    assert leased == added


def test_the_first_field_that_is_wrong_has_the_focus(site: Site, emulator: Emulator) -> None:
    """Errors are read out with their fields; then the page follows what happens, as before."""
    site.open("/queues/pull")
    site.press("Add a task")
    site.fill("#name", "a b")
    site.fill("#count", "0")
    site.press("Add")
    site.wait_for("2 fields are wrong.", "#notice")
    assert site.focused == "name"
    assert violations(site.browser) == []
    emulator.queue("pull").add(name="meanwhile")
    site.wait_for("meanwhile", "#tasks")
    assert site.find("#name").get_attribute("value") == "a b"
    site.fill("#name", "free")
    site.fill("#count", "1")
    site.press("Add")
    site.wait_for("Task free was added.", "#notice")


def test_pages_follow_what_happens_and_can_be_paused(site: Site, emulator: Emulator) -> None:
    """Only what has changed is replaced; what is typed and focused stays."""
    queue = emulator.queue("pull")
    site.open("/queues/pull?search=new")
    site.run("window.same = document.getElementById('tasks').same = true")
    site.press("Add a task")
    site.fill("#payload", "being typed")
    queue.add(name="other")
    site.wait_for("1", "#figures dd")
    assert site.run("return document.getElementById('tasks').same")
    queue.add(name="news")
    site.wait_for("news", "#tasks")
    assert site.find("#payload").get_attribute("value") == "being typed"
    assert site.run("return window.same")

    site.run("document.getElementById('bulk-delete').focus()")
    queue.add(name="newer")
    site.wait_for("newer", "#tasks")
    assert site.focused == "bulk-delete"

    site.click("#live")
    assert site.find("#live").get_attribute("aria-pressed") == "false"
    queue.add(name="new-later")
    site.click("#live")
    site.wait_for("new-later", "#tasks")


def test_a_page_goes_on_with_its_server(site: Site, emulator: Emulator, server: Server) -> None:
    """While the server is away nothing typed or asked is lost, also if the page is not live; when
    it is back, with another token, the page goes on and its forms and dialogs work.
    """
    emulator.queue("pull").add_many([NewTask(name="kept"), NewTask(name="gone")])
    site.open("/queues/pull")
    site.press("Add a task")
    site.fill("#name", "typed")
    site.click("#live")
    site.click("#delete-gone")
    site.wait_for("Delete gone?", "#dialog")
    port = server.port
    server.stop()
    site.press("Delete")
    site.wait_for("The server does not respond", "#notice")
    assert "lost" in str(site.find("#live").get_attribute("class"))
    assert not site.find("#dialog").is_displayed()
    site.press("Add")
    site.click("#delete-gone")
    assert site.find("#name").get_attribute("value") == "typed"

    with Server(emulator, port=port):
        site.click("#live")
        site.until(lambda: not site.text("#notice"))
        assert site.find("#live").get_attribute("class") == "only-script"

        def is_asked() -> bool:
            # The last click may have waited for a server, and is answered only now.
            if not site.find("#dialog").is_displayed():
                site.find("#delete-gone").click()
            return "Delete gone?" in site.text("#dialog")

        site.until(is_asked)
        site.press("Delete")
        site.wait_for("Deleted 1 task.", "#notice")
        site.press("Add a task")
        site.fill("#name", "typed")
    with Server(emulator, port=port):
        site.press("Add")
        site.wait_for("Task typed was added.", "#notice")
    assert [task.name for task in emulator.queue("pull").list_tasks()] == ["kept", "typed"]


def test_what_is_read_stays(site: Site, emulator: Emulator) -> None:
    """A chart does not move under the pointer, nor a text that is selected; the rest is live."""
    queue = emulator.queue("pull")
    queue.add(b"read this", name="first")
    site.open("/queues/pull")
    site.run("document.getElementById('chart').same = true")
    ActionChains(site.browser).move_to_element(site.find(".chart")).perform()
    queue.add(name="second")
    site.wait_for("second", "#tasks")
    assert site.run("return document.getElementById('chart').same")
    ActionChains(site.browser).move_to_element(site.find("h1")).perform()
    site.until(lambda: not site.run("return document.getElementById('chart').same"))
    site.run("getSelection().selectAllChildren(document.querySelector('td code'))")
    queue.add(name="third")
    site.wait_for("3", "#figures dd")
    assert "third" not in site.text("#tasks")
    site.run("getSelection().empty()")
    site.wait_for("third", "#tasks")


def test_the_actions_of_a_task_are_live(site: Site, emulator: Emulator) -> None:
    """What can be done with a task follows its state, but for a form that is being filled in."""
    queue = emulator.queue("pull")
    queue.add(b"work", name="a")
    site.open("/queues/pull/tasks/a")
    assert "Release" not in site.text("#actions")
    (task,) = queue.lease_tasks(60, 1)
    site.wait_for("Release", "#actions")
    site.press("Extend the lease")
    site.fill("#lease_seconds", "90")
    site.run("document.activeElement.blur()")
    queue.modify_task_lease(task, 0)
    site.wait_for("available", "#task")
    assert site.find("#lease_seconds").get_attribute("value") == "90"
    site.press("Extend the lease")
    queue.lease_tasks(0, 1)
    site.wait_for("Requeue", "#actions")
    assert "Extend" not in site.text("#actions")


def test_a_page_that_is_gone_says_so(site: Site, server: Server) -> None:
    requests.get(f"{server.url}/taskqueue/v1beta2/projects/p/taskqueues/pull", timeout=60)
    site.open("/requests/1")
    server.state.requests.clear()
    site.wait_for("This page cannot be refreshed (status 404)", "#notice")


def test_a_choice_of_a_filter_applies_at_once(site: Site, emulator: Emulator) -> None:
    emulator.queue("pull").add(name="here")
    site.open("/queues/pull")

    Select(site.find("#f-state")).select_by_visible_text("leased")

    site.wait_for("No task matches the filter.")


def test_rows_hold_still_under_the_pointer_or_selected(site: Site, emulator: Emulator) -> None:
    """The number of changes is shown, and shows them. What is selected stays so, also if it leaves
    the page.
    """
    queue = emulator.queue("pull")
    queue.add_many([NewTask(name=f"n{n}") for n in range(3)])
    site.open("/queues/pull")
    row = site.find("#task-n1")
    ActionChains(site.browser).move_to_element(row).perform()
    before = row.location
    queue.add(name="n3")
    site.wait_for("1 change", "#changes")
    assert site.find("#task-n1").location == before
    assert len(site.browser.find_elements(By.CSS_SELECTOR, "#tasks tbody tr")) == 3
    ActionChains(site.browser).move_to_element(site.find("h1")).perform()
    site.wait_for_rows(4)
    assert site.text("#changes") == ""

    site.run("document.getElementById('select-n1').click()")
    queue.delete_tasks(["n0", "n1"])
    site.wait_for("2 changes", "#changes")
    site.press("2 changes")
    site.wait_for("1 selected, 1 of them not on this page", "#tasks")
    site.wait_for_rows(2)
    site.click("#bulk-delete")
    site.wait_for("Delete n1?", "#dialog")


def test_selected_tasks_are_changed_at_once(site: Site, emulator: Emulator) -> None:
    """Rows are selected and stay so while the page follows; actions keep filter and order."""
    queue = emulator.queue("pull")
    queue.add_many([NewTask(f"work {n}", name=f"n{n}", tag=f"t{n % 2}") for n in range(6)])
    site.open("/queues/pull?tag=t0&sort=name&order=desc")
    site.wait_for_rows(3)
    site.click("#select-n4")
    site.click("#select-n0")
    queue.add(name="n8", tag="t0")
    site.press("1 change")
    site.wait_for("n8", "#tasks")
    assert site.find("#select-n4").is_selected()
    site.click("#bulk-delete")
    site.wait_for("Delete 2 tasks?", "#dialog")
    site.press("Delete")
    site.wait_for("Deleted 2 tasks.", "#notice")
    assert site.browser.current_url.endswith("/queues/pull?tag=t0&sort=name&order=desc")
    site.wait_for_rows(2)

    site.click("#bulk-delete")
    site.wait_for("No task is selected", "#notice")
    site.click("#select-page")
    assert site.text("#notice") == ""
    assert site.find("#select-n8").is_selected()
    site.click("#select-page")
    site.click("#select-all")
    site.click("#bulk-delete")
    site.wait_for("Delete 2 tasks?", "#dialog")
    site.press("Delete")
    site.wait_for("No task matches the filter.", "#tasks")
    assert [task.name for task in queue.list_tasks()] == ["n1", "n3", "n5"]


def test_keys_reach_the_filter_the_list_of_keys_and_the_refresh(
    site: Site, emulator: Emulator
) -> None:
    """`/`, `?` and `l`."""
    site.open("/queues/pull")
    ActionChains(site.browser).send_keys("?").perform()
    site.wait_for("Go to the filter", "#keys")
    assert violations(site.browser) == []
    ActionChains(site.browser).send_keys(Keys.ESCAPE).perform()
    site.until(lambda: not site.find("#keys").is_displayed())
    ActionChains(site.browser).send_keys("l").perform()
    assert site.find("#live").get_attribute("aria-pressed") == "false"
    emulator.queue("pull").add(name="later")
    ActionChains(site.browser).send_keys("r").perform()
    site.wait_for("later", "#tasks")
    ActionChains(site.browser).send_keys("l").send_keys("/").perform()
    assert site.focused == "f-search"


def test_a_dialog_loads_a_snapshot(
    site: Site, emulator: Emulator, tmp_path: Path, server: Server
) -> None:
    queue = emulator.queue("pull")
    queue.add(name="kept")
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_bytes(requests.get(f"{server.url}/_emulator/snapshot", timeout=60).content)
    queue.add(name="replaced")
    site.open("/server")
    site.press("Load…")
    site.wait_for("This deletes 2 tasks (0 exhausted), names and history", "#dialog")
    site.find("#file").send_keys(str(snapshot))
    site.press("Load")
    site.wait_for("Loaded 1 task.", "#notice")
    assert [task.name for task in queue.list_tasks()] == ["kept"]


def tab_to(text: str, site: Site) -> None:
    """Move the focus, which is always seen, to what has a text."""
    for _ in range(100):
        ActionChains(site.browser).send_keys(Keys.TAB).perform()
        shown, outline = site.run(
            "const element = document.activeElement;"
            "return [element.innerText.trim(), getComputedStyle(element).outlineStyle]",
        )
        assert outline != "none"
        if shown == text:
            return
    raise AssertionError(f"no key leads to {text}")


def test_the_keys_alone_lead_to_a_purged_queue(site: Site, emulator: Emulator) -> None:
    """The first queue is three keys away, by the link that skips what is above the list; focus is
    always seen.
    """
    emulator.queue("pull").add(name="a")
    site.open("/")
    ActionChains(site.browser).send_keys(Keys.TAB).perform()
    assert site.browser.switch_to.active_element.text == "Skip to the queues"
    ActionChains(site.browser).send_keys(Keys.ENTER, Keys.TAB).perform()
    assert site.focused == "queue-pull"
    ActionChains(site.browser).send_keys(Keys.ENTER).perform()
    site.wait_for("Scheduled")
    tab_to("Purge…", site)
    ActionChains(site.browser).send_keys(Keys.ENTER).perform()
    site.wait_for("Purge pull?", "#dialog")
    assert site.browser.switch_to.active_element.text == "Cancel"  # Enter alone deletes nothing
    back = ActionChains(site.browser).key_down(Keys.SHIFT).send_keys(Keys.TAB)
    back.key_up(Keys.SHIFT).send_keys(Keys.ENTER).perform()
    site.wait_for("Deleted 1 task.", "#notice")


def test_what_a_search_has_found_is_shown_on_a_phone(
    site: Site, emulator: Emulator, server: Server
) -> None:
    """Whatever is before it."""
    emulator.queue("pull").add("x" * 300 + " needle " + "y" * 300, name="a")
    show(site.browser, width=390)
    site.open("/tasks?search=needle")

    cell, mark = site.find("td.payload").rect, site.find("mark").rect
    assert cell["y"] <= mark["y"] < mark["y"] + mark["height"] <= cell["y"] + cell["height"]
    assert site.find("mark").is_displayed()
