"""What the tests from outside share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Leave plugins that change every run out of users' suites, unless a test gives them by -p.

    Importing hypothesis would take as long as the rest of such a run.
    """
    blocked = "-p no:asyncio -p no:hypothesispytest -p no:randomly"
    monkeypatch.setenv("PYTEST_ADDOPTS", blocked)
    return pytester


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment that says nothing of colour or CI."""
    for name in ("GITHUB_ACTIONS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path
