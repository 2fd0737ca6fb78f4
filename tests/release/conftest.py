"""What the tests of a release share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, show, started

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from the sdist, with what is installed here."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="session")
def _browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Yield a browser in which pages wait a tenth of the time."""
    with started(tmp_path_factory.mktemp("profile")) as browser:
        source = "const wait = setTimeout; setTimeout = (call, time) => wait(call, time / 10)"
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        yield browser


@pytest.fixture
def browser(_browser: Browser) -> Browser:
    """Return a browser without cookies, on a wide screen in the light."""
    _browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    show(_browser)
    return _browser
