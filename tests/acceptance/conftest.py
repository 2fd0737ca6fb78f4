"""What the tests from outside share."""

from __future__ import annotations

import pytest


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Leave plugins that change every run out of users' suites, unless a test gives them by -p."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:asyncio -p no:randomly")
    return pytester
