"""What a release says of itself agrees with itself, and its files pass the checks of the index."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any
from zipfile import Path as ZipPath
from zipfile import ZipFile

import pytest
import yaml
from programs import completed

import pullqueue

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CHANGES = ("Security", "Removed", "Deprecated", "Added", "Changed", "Fixed")


def workflow(name: str) -> dict[str, Any]:
    text = (ROOT / ".github" / "workflows" / name).read_text("utf-8")
    return dict(yaml.safe_load(text))


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"])


class TestVersion:
    def test_everybody_reads_it_from_there(self, project: dict[str, Any]) -> None:
        done = completed([sys.executable, "-m", "pullqueue", "--version"], check=True)

        assert pullqueue.__version__ == project["version"]
        assert done.stdout.split() == ["pullqueue", project["version"]]

    def test_no_source_repeats_it(self, project: dict[str, Any]) -> None:
        folders = [ROOT / name for name in ("emulator", "pytest_plugin", "schemas")]
        sources = [path for folder in folders for path in folder.rglob("*.py")]
        literal = f'"{project["version"]}"'

        assert [path for path in sources if literal in path.read_text("utf-8")] == []


class TestChangeLog:
    def test_its_newest_part_is_unreleased_or_the_version(self, project: dict[str, Any]) -> None:
        parts = re.findall(r"^## (.+)$", self.text(), re.MULTILINE)

        assert parts[0] == "Unreleased" or re.fullmatch(
            rf"{re.escape(project['version'])} - \d{{4}}-\d\d-\d\d", parts[0]
        )
        assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", part) for part in parts[1:])

    def test_its_sections_are_those_of_the_format_in_order(self) -> None:
        for part in re.split(r"^## ", self.text(), flags=re.MULTILINE)[1:]:
            sections = re.findall(r"^### (.+)$", part, re.MULTILINE)

            assert sections == [name for name in CHANGES if name in sections]

    @staticmethod
    def text() -> str:
        return (ROOT / "CHANGELOG.md").read_text("utf-8")


class TestMetadata:
    def test_metadata_are_complete(self, built: Path) -> None:
        (wheel,) = built.glob("*.whl")
        (name,) = {
            name.partition("/")[0] for name in ZipFile(wheel).namelist() if "dist-info" in name
        }
        reported = PathDistribution(ZipPath(wheel, f"{name}/")).metadata

        assert reported["License-Expression"] == "Apache-2.0"
        assert reported["License-File"] == "LICENSE"
        assert reported["Requires-Python"] == ">=3.11"
        assert reported["Description-Content-Type"] == "text/markdown"
        assert all(reported[name] for name in ("Author", "Summary", "Keywords", "Project-URL"))
        assert "App Engine" in reported["Description"]
        assert "Typing :: Typed" in reported.get_all("Classifier", [])

    def test_no_dependency_is_without_a_lowest_version(self, project: dict[str, Any]) -> None:
        """The lowest is what the wheel is tested with; stubs for types need none."""
        extras = project["optional-dependencies"]
        wanted = [*project["dependencies"], *(each for group in extras.values() for each in group)]
        own = [each for each in wanted if not each.startswith(("pullqueue[", "types-"))]

        assert [each for each in own if ">=" not in each] == []


class TestFiles:
    @pytest.mark.parametrize("check", ["twine check --strict", "check_wheel_contents"])
    def test_nothing_is_wrong_with_them(self, built: Path, check: str) -> None:
        files = map(str, built.iterdir()) if "twine" in check else [str(built)]
        done = completed([sys.executable, "-m", *check.split(), *files], cwd=ROOT)

        assert done.returncode == 0, done.stdout


class TestWorkflows:
    """The workflows do what the project can do by itself, and may do no more than they need."""

    @pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
    def test_each_action_is_pinned(self, path: Path) -> None:
        """Third parties are named with a commit, which cannot be moved, and tell its version."""
        used = re.findall(r"uses: (?!\./)(.+)", path.read_text("utf-8"))
        pinned = re.compile(r"[\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")

        assert used
        assert [each for each in used if not pinned.fullmatch(each)] == []

    @pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
    def test_workflows_have_minimal_rights(self, path: Path) -> None:
        content = workflow(path.name)

        assert content["permissions"] == {"contents": "read"}
        for name, job in content["jobs"].items():
            assert job.get("permissions", {}) in ({}, {"id-token": "write"})
            assert ("permissions" in job) == (name in ("publish", "done"))
            for step in job.get("steps", ()):
                if str(step.get("uses")).startswith("actions/checkout@"):
                    assert step["with"] == {"persist-credentials": False}

    def test_the_gates_are_called(self) -> None:
        for job, file, command in (
            ("gate", "ci.yml", ".ci/run"),
            ("nightly", "nightly.yml", "nox -s nightly"),
        ):
            assert str(workflow(file)["jobs"][job]["steps"][-1]["run"]).endswith(command)

    def test_every_supported_python_is_tested(self, project: dict[str, Any]) -> None:
        prefix = "Programming Language :: Python :: 3."
        pythons = [f"3.{c.removeprefix(prefix)}" for c in project["classifiers"] if prefix in c]
        matrix = workflow("ci.yml")["jobs"]["wheel"]["strategy"]["matrix"]["session"]

        newest = [f"wheel(newest-{python})" for python in pythons]
        assert matrix == [f"wheel(lowest-{pythons[0]})", *newest]

    def test_only_what_was_tested_is_published(self) -> None:
        jobs = workflow("release.yml")["jobs"]

        assert jobs["ci"]["uses"] == "./.github/workflows/ci.yml"
        assert jobs["publish"]["needs"] == "ci"
        assert [step.get("run") for step in jobs["publish"]["steps"]] == [None, None]
        assert not any("with" in step for step in jobs["publish"]["steps"][1:])
