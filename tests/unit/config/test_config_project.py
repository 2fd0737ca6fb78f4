"""Where the path of a file may lead: to files of its project, whatever links are on the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pullqueue.config.files import read_project_file
from pullqueue.config.project import real_path
from pullqueue.errors import ConfigFileError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a work tree that contains another, beside a file that is not its own; go there."""
    project = tmp_path / "project"
    for name in ("app/queue.yaml", "app/deep/queue.yaml", "part/queue.yaml", ".git/config"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("inside")
    (project / "part" / ".git").write_text("gitdir: ../.git/modules/part")
    (tmp_path / "outside" / ".git").mkdir(parents=True)
    (tmp_path / "outside" / "queue.yaml").write_text("outside")
    monkeypatch.chdir(project)
    return project


INSIDE = {
    "a file": ({"queue.yaml": "app/queue.yaml"}, "queue.yaml"),
    "a folder": ({"link": "app/deep"}, "link/queue.yaml"),
    "links to links": ({"a": "b", "b": "app", "app/c": "../app/queue.yaml"}, "a/c"),
    "out and in again": ({"queue.yaml": "../project/app/queue.yaml"}, "queue.yaml"),
    "through /proc": ({"queue.yaml": "/proc/self/cwd/app/queue.yaml"}, "queue.yaml"),
    "a nested work tree": ({"link": "part"}, "link/queue.yaml"),
    "up from a link": ({"link": "app/deep"}, "link/../queue.yaml"),
    "the folder itself": ({"link": "."}, "link/app/queue.yaml"),
}


@pytest.mark.parametrize("name", INSIDE)
def test_links_within_the_project_are_followed(project: Path, name: str) -> None:
    links, path = INSIDE[name]
    for link, target in links.items():
        (project / link).symlink_to(target)
    assert read_project_file(path) == b"inside"
    assert read_project_file(project / path) == b"inside"


OUTSIDE = {
    "a file": ({"queue.yaml": "../outside/queue.yaml"}, "queue.yaml"),
    "an absolute target": ({"queue.yaml": "/proc/self/environ"}, "queue.yaml"),
    "a process's files": ({"queue.yaml": "/proc/self/root/etc/passwd"}, "queue.yaml"),
    "an open file": ({"queue.yaml": "/proc/self/fd/0"}, "queue.yaml"),
    "a missing file": ({"queue.yaml": "../nothing"}, "queue.yaml"),
    "a folder": ({"link": "../outside"}, "link/queue.yaml"),
    "a folder, named itself": ({"link": "../outside"}, "link"),
    "the folder above": ({"link": ".."}, "link/outside/queue.yaml"),
    "the root": ({"link": "/"}, "link/etc/passwd"),
    "a link to a link": ({"a": "b", "b": "../outside/queue.yaml"}, "a"),
    "a link in a linked folder": ({"a": "app", "app/b": "../../outside"}, "a/b/queue.yaml"),
    "up from a link": ({"link": "."}, "link/../outside/queue.yaml"),
    "up and down again": ({"link": "../outside"}, "app/../link/../link/queue.yaml"),
    "credentials": ({"queue.yaml": ".git/config"}, "queue.yaml"),
    "a repository": ({"link": ".git"}, "link/config"),
    "a repository of a part": ({"queue.yaml": "part/.git"}, "queue.yaml"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_links_out_of_the_project_are_refused(project: Path, name: str) -> None:
    """A link that leads to another folder, or into `.git`, is refused by the path as given."""
    links, path = OUTSIDE[name]
    for link, target in links.items():
        (project / link).symlink_to(target)
    for given in (path, project / path):
        with pytest.raises(ConfigFileError) as caught:
            read_project_file(given)
        assert str(caught.value).startswith(
            f'cannot use "{given}": a symbolic link leads out of the project "{project}'
        )


def test_nested_work_tree_is_a_project(project: Path) -> None:
    """From a nested work tree no link leads to the outer one; from there both may be read."""
    Path("part/link").symlink_to("../app")
    assert read_project_file("part/link/queue.yaml") == b"inside"
    os.chdir("part")
    for path in ("link/queue.yaml", project / "part/link/queue.yaml"):
        with pytest.raises(ConfigFileError):
            read_project_file(path)


def test_repository_is_recognised_by_any_name(project: Path) -> None:
    """A file system that ignores case has other names for `.git`."""
    Path(".git").rename(".GIT")
    Path(".git").symlink_to(".GIT")
    Path("queue.yaml").symlink_to(".GIT/config")
    with pytest.raises(ConfigFileError):
        real_path("queue.yaml")


def test_paths_as_written_are_trusted(project: Path) -> None:
    """Who names a file outside, without a link, means it."""
    assert read_project_file("../outside/queue.yaml") == b"outside"
    assert read_project_file("app/../../outside/queue.yaml") == b"outside"
    assert read_project_file(project.parent / "outside/queue.yaml") == b"outside"


def test_links_above_the_project_are_followed(project: Path, tmp_path: Path) -> None:
    """A project may be reached through a link, as `/tmp` is one on macOS; its own links count."""
    (tmp_path / "link").symlink_to(project)
    Path("inner").symlink_to("app")
    Path("queue.yaml").symlink_to(tmp_path / "outside/queue.yaml")
    os.chdir("/")
    assert real_path(tmp_path / "link/inner/queue.yaml") == project / "app/queue.yaml"
    with pytest.raises(ConfigFileError):
        real_path(tmp_path / "link/queue.yaml")
    os.chdir(tmp_path / "link")
    assert real_path("inner/queue.yaml") == project / "app/queue.yaml"
    with pytest.raises(ConfigFileError):
        real_path("queue.yaml")


def test_without_git_the_working_directory_is_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file elsewhere may be a link to a file beside it, as in a mounted ConfigMap."""
    for name in ("config/..data", "work/app", "work/config"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "config/..data/queue.yaml").write_text("inside")
    (tmp_path / "config/queue.yaml").symlink_to("..data/queue.yaml")
    (tmp_path / "config/out.yaml").symlink_to("../work/queue.yaml")
    (tmp_path / "work/queue.yaml").write_text("inside")
    (tmp_path / "work/app/queue.yaml").symlink_to("../queue.yaml")
    (tmp_path / "work/app/out.yaml").symlink_to("../../config/queue.yaml")
    monkeypatch.chdir(tmp_path / "work")
    for path in (tmp_path / "config/queue.yaml", "../config/queue.yaml", "app/queue.yaml"):
        assert read_project_file(path) == b"inside"
    for path in (tmp_path / "work/app/out.yaml", "app/out.yaml"):
        with pytest.raises(ConfigFileError):
            read_project_file(path)
    assert read_project_file(tmp_path / "config/out.yaml") == b"inside"  # the working directory's
    os.chdir("/")
    with pytest.raises(ConfigFileError):
        read_project_file(tmp_path / "config/out.yaml")


def test_shells_path_of_the_working_directory_counts(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links of a project lead no shell out of it; links above a project do not matter, nor does a
    path of another folder.
    """
    above, outside = project.parent / "above", project.parent / "outside"
    above.symlink_to(project)
    Path("inside").symlink_to("app")
    Path("link").symlink_to(outside)
    for folder, shown in (("app", "inside"), ("app", above / "inside"), (outside, outside)):
        monkeypatch.chdir(project / folder)
        monkeypatch.setenv("PWD", str(project / shown))
        assert real_path("queue.yaml") == project / folder / "queue.yaml"
    for shown in ("", "link", f"{project}/app/../link", str(project), f"{project}/nothing"):
        monkeypatch.setenv("PWD", shown)
        assert real_path("queue.yaml") == outside / "queue.yaml"
    for shown in (project / "link", above / "link"):
        monkeypatch.setenv("PWD", str(shown))
        with pytest.raises(ConfigFileError, match=r'^cannot use the working directory ".+/link"'):
            real_path("queue.yaml")


def test_without_git_a_linked_folder_is_a_working_directory_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing shows where a project ends, and `/tmp` may be a link."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    monkeypatch.chdir(tmp_path / "folder")
    monkeypatch.setenv("PWD", str(tmp_path / "link"))
    assert real_path("queue.yaml") == tmp_path / "folder/queue.yaml"
    Path("queue.yaml").symlink_to("../queue.yaml")
    with pytest.raises(ConfigFileError):
        real_path("queue.yaml")
