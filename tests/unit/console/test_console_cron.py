"""The console's page of cron jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from console_client import ConsoleClient
from push_app import PushApp, push_app

from pullqueue import Emulator, ManualClock
from pullqueue.cron.file import parse_cron
from pullqueue.push.addresses import PushAddresses
from pullqueue.runtime.state import ServerState

JOBS = """\
cron:
- {description: daily, url: /daily, schedule: "every day 09:00", timezone: Europe/Berlin}
- {url: /status/503, schedule: every 1 hours, target: worker}
"""


@pytest.fixture
def app() -> Iterator[PushApp]:
    """An app that gets the requests."""
    with push_app() as app:
        yield app


def console_of(state: ServerState) -> ConsoleClient:
    """Return the console of a server."""
    return ConsoleClient(state)


def test_the_page_shows_each_job_and_runs_it(app: PushApp) -> None:
    """With its schedule, next time and last status."""
    emulator = Emulator.from_text("queue: []", clock=ManualClock())
    state = ServerState(emulator, push_to=PushAddresses([app.url]), cron=parse_cron(JOBS))
    console = console_of(state)

    page = console.page("/cron")
    assert "daily <code>/daily</code>" in page
    assert "every day 09:00" in page
    assert "(Europe/Berlin)" in page
    assert '<time datetime="2026-01-01T08:00:00+00:00">2026-01-01 08:00:00' in page

    assert "Job 2 is started." in console.send("/cron", job="2")
    assert state.cron.settle(60)
    assert app.paths() == ["/status/503"]
    assert "status 503 (no /status/503)" in console.page("/cron")
    assert "there is no cron job" in console.send("/cron", job="7")
    state.stop()


def test_without_jobs_there_is_no_link_to_the_page() -> None:
    """The page itself says how to have some."""
    console = console_of(ServerState(Emulator.from_text("queue: []", clock=ManualClock())))

    assert 'id="to-cron"' not in console.page("/clock")
    assert "--cron cron.yaml" in console.page("/cron")
