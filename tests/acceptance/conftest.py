"""What the tests from outside share."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def loaded() -> None:
    """Load what users' suites import.

    A run in this process unloads what it imports, and some modules can be loaded only once.
    """
    for name in (
        "google.cloud.tasks_v2beta2",
        "googleapiclient.discovery",
        "pullqueue.cloudtasks.grpc_server",
        "pullqueue.config",
        "pullqueue.sdk.imports",
        "pullqueue.server.lifecycle",
        "requests",
        "responses",
        "yaml",
    ):
        import_module(name)


@pytest.fixture
def pytester(
    loaded: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """Leave plugins that change every run out of users' suites, unless a test names them with -p.

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


@pytest.fixture
def run(
    request: pytest.FixtureRequest, pytester: pytest.Pytester
) -> Callable[..., pytest.RunResult]:
    """Run one test module beside the QUEUE_YAML of the test's module."""

    def run(source: str, *args: str) -> pytest.RunResult:
        pytester.path.joinpath("queue.yaml").write_text(request.module.QUEUE_YAML)
        pytester.makepyfile(test_it=source)
        # pytest-asyncio does not work for a run inside another's, and old releases of protobuf's
        # library refuse to load a file twice.
        alone = "asyncio" in args or "google.cloud" in source
        run = pytester.runpytest_subprocess if alone else pytester.runpytest
        return run("-W", "error", "-p", "no:cacheprovider", *args)

    return run
