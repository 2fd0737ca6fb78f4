"""What the tests from outside share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pullqueue import config as queue_yaml


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


@pytest.fixture(scope="module")
def yaml_loaded() -> None:
    """Load PyYAML before pytester remembers what is loaded: it works once in a process."""
    queue_yaml.loads("queue:\n- name: pull-queue\n  mode: pull\n")


@pytest.fixture
def run(
    request: pytest.FixtureRequest, pytester: pytest.Pytester
) -> Callable[..., pytest.RunResult]:
    """Run one test module beside the QUEUE_YAML of the test's module, in a process of its own."""

    def run(source: str, *args: str) -> pytest.RunResult:
        pytester.path.joinpath("queue.yaml").write_text(request.module.QUEUE_YAML)
        pytester.makepyfile(test_it=source)
        return pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider", *args)

    return run
