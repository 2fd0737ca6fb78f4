"""What the tests from outside share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Leave plugins that change every run out of users' suites, unless a test gives them by -p."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:asyncio -p no:randomly")
    return pytester


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment that says nothing of colour or CI."""
    for name in ("GITHUB_ACTIONS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path
