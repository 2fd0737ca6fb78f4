"""The whole app in one process, with the clock moved: no server, no waiting."""

from __future__ import annotations

from pathlib import Path

import counts
import pytest
import worker
from main import app

from pullqueue import Emulator
from pullqueue.testing import MovableClock

pytestmark = pytest.mark.usefixtures("pullqueue_sdk")


@pytest.fixture(autouse=True)
def _counts_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the counts of each test in its own file."""
    monkeypatch.setattr(counts, "FILE", tmp_path / "counts.sqlite")


def vote(*things: str) -> None:
    """Vote through the web app."""
    browser = app.test_client()
    for thing in things:
        assert browser.post(f"/votes/{thing}").status_code == 202


def test_votes_are_counted(pullqueue_emulator: Emulator) -> None:
    """Each step of the worker counts all votes for one thing."""
    vote("tea", "coffee", "tea")

    assert [worker.work(), worker.work(), worker.work()] == ["tea: 2", "coffee: 1", None]
    assert app.test_client().get("/").json == {"coffee": 1, "tea": 2}
    assert pullqueue_emulator.queue("counts").fetch_statistics().tasks == 0


def test_a_worker_that_dies(pullqueue_clock: MovableClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Votes that the worker had leased are counted a minute later."""
    vote("tea")
    with monkeypatch.context() as broken:
        broken.delattr(counts, "add")
        with pytest.raises(AttributeError):
            worker.work()

    assert worker.work() is None
    pullqueue_clock.advance(60)
    assert worker.work() == "tea: 1"
