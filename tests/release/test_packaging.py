"""The distribution: what the wheel and the sdist hold, and that a wheel can be used."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distribution, entry_points
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = {
    "pullqueue": ROOT / "emulator" / "pullqueue",
    "pytest_pullqueue": ROOT / "pytest_plugin" / "pytest_pullqueue",
    "pullqueue_schemas": ROOT / "schemas" / "pullqueue_schemas",
}


def tracked(folder: Path) -> set[str]:
    """Return the files below a source root, as they should are in a wheel."""
    return {
        path.relative_to(folder.parent).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_three_packages_and_nothing_else(built: Path) -> None:
    """Every file of the source roots is in it, `py.typed` and schemas included."""
    (wheel,) = built.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    assert names == set().union(*map(tracked, SOURCES.values()))
    assert {f"{package}/py.typed" for package in SOURCES} <= names
    assert "pullqueue_schemas/queue.schema.json" in names


def test_the_links_of_the_readme_work_where_it_is_published(built: Path) -> None:
    """The page of a package index has no other files of the repository."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [path] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        links = re.findall(r"\]\((.*?)\)", archive.read(path).decode())

    assert "https://git.example.com/pullqueue/blob/main/docs/index.md" in links
    assert [link for link in links if not link.startswith(("https:", "http:", "#"))] == []


def test_the_sdist_can_be_tested(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {
        "LICENSE",
        "CHANGELOG.md",
        "README.md",
        "pyproject.toml",
        "samples/quickstart/queue.yaml",
        "tests/release/test_packaging.py",
    } <= names


def test_the_wheel_works_from_where_it_lies(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    code = (
        f"import sys; sys.path.insert(0, {str(wheel)!r})\n"
        "import pullqueue\n"
        f"assert pullqueue.__file__.startswith({str(wheel)!r}), pullqueue.__file__\n"
        "emulator = pullqueue.Emulator.from_text('queue: [{name: a, mode: pull}]')\n"
        "print(emulator.queue('a').add(b'work').payload)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )

    assert done.stdout == "b'work'\n"


def test_the_command_and_the_plugin_are_announced() -> None:
    offered = {(point.group, point.name): point.value for point in entry_points(name="pullqueue")}

    assert offered["console_scripts", "pullqueue"] == "pullqueue.__main__:main"
    assert offered["pytest11", "pullqueue"] == "pytest_pullqueue.plugin"
    extras = distribution("pullqueue").metadata.get_all("Provides-Extra") or []
    assert {"pytest", "appengine", "dev"} <= set(extras)
