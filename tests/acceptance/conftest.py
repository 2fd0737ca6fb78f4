"""What the tests from outside share."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from executing import QUEUE_YAML, Execute

from pullqueue.address import DEFAULT_ADDRESS
from pullqueue.cli import main


@pytest.fixture(scope="session")
def loaded() -> None:
    """Load what users' suites import.

    A run in this process unloads what it imports, and some modules can be loaded only once.
    """
    for name in (
        "google.cloud.tasks_v2",
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

    Importing hypothesis would take as long as the rest of such a run, schemathesis longer.
    """
    blocked = "-p no:anyio -p no:asyncio -p no:hypothesispytest -p no:randomly -p no:schemathesis"
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
def app_folder(folder: Path) -> Path:
    (folder / "queue.yaml").write_text(QUEUE_YAML)
    return folder


@pytest.fixture
def execute(
    app_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Execute:
    """Return a function that runs `pullqueue exec` in this process, beside a queue.yaml.

    The errors leave out the hint at a server at the default address, which somebody may use.
    """
    monkeypatch.delenv("PULLQUEUE_EMULATOR_HOST", raising=False)

    def execute(*arguments: str, **variables: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patched:
            for name, value in variables.items():
                patched.setenv(name, value)
            status = main(["exec", *arguments])
        output, errors = capfd.readouterr()
        hint = f"pullqueue: a server runs at {DEFAULT_ADDRESS}, "
        lines = [line for line in errors.splitlines(keepends=True) if not line.startswith(hint)]
        return status, output, "".join(lines)

    return execute


@pytest.fixture
def run(
    request: pytest.FixtureRequest, pytester: pytest.Pytester
) -> Callable[..., pytest.RunResult]:
    """Run the tests of a folder, and one more module, beside the QUEUE_YAML of the test's module.

    Warnings are errors.
    """

    def run(source: str = "", *args: str) -> pytest.RunResult:
        if config := getattr(request.module, "QUEUE_YAML", None):
            pytester.path.joinpath("queue.yaml").write_text(config)
        pytester.makepyfile(test_it=source)
        return pytester.runpytest("-W", "error", "-p", "no:cacheprovider", *args)

    return run
