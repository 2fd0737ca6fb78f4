"""What the files of CI services and of pre-commit have a machine do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

_HOOKS = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"
_INSTALLING = re.compile(r"^\s*pip install .*\n?|pipx run --spec \S+ ", re.MULTILINE)


def scripts_of(path: Path) -> list[str]:
    """Return the scripts of a file, as they are where everything is installed; none of others."""
    for ending, read in _READERS.items():
        if path.as_posix().endswith(ending) or ending in path.parent.as_posix():
            scripts = read(yaml.safe_load(path.read_text("utf-8")))
            return [_installed(script) for script in scripts]
    return []


def _installed(script: str) -> str:
    return _INSTALLING.sub("", script)


def _of_github(workflow: Mapping[str, Any]) -> Iterator[str]:
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        for step in job["steps"]:
            assert "run" in step or re.fullmatch(r"[\w/-]+@v\d+(\.\d+\.\d+)?", step["uses"]), step
            yield step.get("run", "")


def _of_gitlab(jobs: Mapping[str, Any]) -> Iterator[str]:
    for job in jobs.values():
        yield "\n".join(job["script"])


def _of_precommit(config: Mapping[str, Any]) -> Iterator[str]:
    ours = {hook["id"]: hook for hook in yaml.safe_load(_HOOKS.read_text("utf-8"))}
    for repository in config["repos"]:
        for hook in repository["hooks"]:
            assert re.search(ours[hook["id"]]["files"], "queue.yaml"), hook
            yield f"{ours[hook['id']]['entry']} {' '.join(ours[hook['id']]['args'])} queue.yaml"


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    ".github/workflows": _of_github,
    ".gitlab-ci.yml": _of_gitlab,
    ".pre-commit-config.yaml": _of_precommit,
}
