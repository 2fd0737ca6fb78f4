"""A browser that a test drives: Debian's chromium, without a window and without a network."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from programs import program
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

Browser = webdriver.Chrome
LABELS = "'label-content-name-mismatch': {enabled: true}"
"""What can be read of a button is in its name: for those who speak to their computer."""
WCAG = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']"


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    """Yield a browser with a new profile; the test is skipped where none is installed."""
    chromium = program("chromium", package="chromium")
    driver = program("chromedriver", package="chromium-driver")
    options = Options()
    for flag in _FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = chromium
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield browser
    finally:
        browser.quit()


def show(browser: Browser, *, dark: bool = False, width: int = 1280, height: int = 900) -> None:
    """Set the size of a browser's screen and its colour scheme."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    resize(browser, width=width, height=height)


def resize(browser: Browser, *, width: int, height: int = 900) -> None:
    """Set the size of a browser's screen."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def evaluate(browser: Browser, script: str) -> Any:
    """Return the result of a script."""
    return browser.execute_script(script)  # type: ignore[no-untyped-call]


def violations(browser: Browser, only: str = WCAG, *, but: str = "") -> list[str]:
    """Return what axe finds on the page shown, against WCAG 2.1, levels A and AA, or some rules;
    one rule can be left out.
    """
    if not evaluate(browser, "return !!window.axe"):
        # By the driver: the policy of the page permits no other script.
        script = importlib.resources.files("axe_core_python").joinpath("axe.min.js")
        evaluate(browser, script.read_text("utf-8"))
    rules = [LABELS, *([f"'{but}': {{enabled: false}}"] if but else [])]
    found: Any = browser.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        f"const rules = {{{', '.join(rules)}}};"
        f"axe.run(document, {{runOnly: {only}, rules, resultTypes: ['violations']}})"
        ".then((result) => done(result.violations.flatMap((v) => v.nodes.map((n) => "
        "v.id + ': ' + n.html.slice(0, 120)))));"
    )
    return [str(each) for each in found]
