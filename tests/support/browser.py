"""A browser that a test drives: Debian's chromium, without a window and without a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


@contextmanager
def started(profile: Path, *flags: str) -> Iterator[Browser]:
    """Yield a browser with a new profile; the test is skipped where none is installed."""
    chromium = program("chromium", package="chromium")
    driver = program("chromedriver", package="chromium-driver")
    options = Options()
    for flag in (*_FLAGS, *flags):
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
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
