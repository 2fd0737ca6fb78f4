"""The hooks for pre-commit and the problem matcher fit what the linter does."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from linting import ZERO_RATE, git, run_pullqueue, write
from packaging.requirements import Requirement
from programs import completed

ROOT = Path(__file__).parents[2]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


MANIFEST = "apiVersion: v1\nkind: ConfigMap\n"
TREE = {
    "queue.yaml": ZERO_RATE,
    "app/queue.yml": ZERO_RATE,
    "app/shop-queue.yaml": ZERO_RATE,
    "app/Queue.prod.yaml": ZERO_RATE,
    "k8s/queue.yaml": MANIFEST,
    "k8s/worker-queue.yaml": MANIFEST,
    "app/queue.yaml.bak": ZERO_RATE,
    "app/requeue.yaml": ZERO_RATE,
    "build/queue.yaml": ZERO_RATE,
    ".hidden/queue.yaml": ZERO_RATE,
    "node_modules/x/queue.yaml": ZERO_RATE,
}


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["id"]))
def test_a_hook_reports_what_lint_reports_in_the_same_tree(
    hook: dict[str, Any], folder: Path
) -> None:
    for name, text in TREE.items():
        write(name, text)
    write(".gitignore", "build/\n")
    git("init", "-q")
    matched = sorted(name for name in TREE if re.search(hook["files"], name))
    program, command, *options = shlex.split(hook["entry"])
    assert (program, command) == ("pullqueue", "lint")

    searched = run_pullqueue("lint", "--format", "concise")
    hooked = run_pullqueue("lint", *options, "--format", "concise", *hook["args"], *matched)
    if "--fix" not in options:
        assert hooked.stdout == searched.stdout
        assert "4 files checked" in hooked.stderr
    assert hooked.exit_code == ("--fix" not in options)
    fixed = [name for name in TREE if "0/s" in Path(name).read_text()]
    assert len(fixed) == (4 if "--fix" in options else 0)


def test_a_hook_that_gets_a_file_of_another_program_only_passes(folder: Path) -> None:
    write("k8s/queue.yaml", MANIFEST)
    done = run_pullqueue("lint", "--force-exclude", "--", "k8s/queue.yaml")
    assert (done.exit_code, done.stdout) == (0, "")
    assert 'skipped "k8s/queue.yaml": it looks like a Kubernetes manifest' in done.stderr


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["id"]))
def test_hook_takes_no_file_name_for_an_option(hook: dict[str, Any], folder: Path) -> None:
    """pre-commit passes names as they are; a tree may have a folder called `--ignore=all`."""
    path = Path("--ignore=all/queue.yaml")
    path.parent.mkdir()
    path.write_text("queue:\n- name: a_b\n  rate: 1/s\n")
    options = shlex.split(hook["entry"])[2:]
    assert run_pullqueue("lint", *options, *hook["args"], str(path)).exit_code == 1


ISOLATED = """
import sys
others = [path for path in sys.path if "site-packages" not in path]
sys.path = [*sys.argv.pop(1).split(":"), *others]
from pullqueue.cli import main
raise SystemExit(main())
"""


def test_hooks_install_what_the_linter_needs(tmp_path: Path) -> None:
    """The linter runs with the distributions of a hook alone, none of them for the server."""
    hook, *others = HOOKS
    no_deps, *requirements = hook["additional_dependencies"]
    assert [other["additional_dependencies"] for other in others] == [[no_deps, *requirements]]
    assert no_deps == "--no-deps"
    needed = {Requirement(text).name: text for text in requirements}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {needed.get(Requirement(text).name, text) for text in declared} == set(declared)
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in needed:
        for file in distribution(name).files or ():
            top = file.parts[0]
            if not top.startswith("..") and not (packages / top).exists():
                (packages / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "queue.yaml").write_text("queue:\n- name: mail\n  rate: 0\n  colour: red\n")
    path = ":".join(str(p) for p in (packages, ROOT / "emulator", ROOT / "schemas"))
    done = completed(
        [sys.executable, "-I", "-c", ISOLATED, path, *shlex.split(hook["entry"])[1:], "."],
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "`colour` is not a key" in done.stdout
    assert "1 file checked" in done.stderr


def test_problem_matcher_reads_the_full_format() -> None:
    (matcher,) = json.loads(run_pullqueue("schema", "--problem-matcher").stdout)["problemMatcher"]
    cases = sorted((ROOT / "tests" / "lint_cases").glob("pull_*.yaml"))
    full = run_pullqueue("lint", *map(str, cases), "--format", "full").stdout
    lines = run_pullqueue("lint", *map(str, cases), "--format", "jsonl").stdout.splitlines()
    first, second = (re.compile(pattern["regexp"]) for pattern in matcher["pattern"])
    text = full.splitlines()
    read = [
        (*begin.groups(), *place.groups())
        for one, two in pairwise(text)
        if (begin := first.search(one)) and (place := second.search(two))
    ]
    assert read == [
        (
            item["severity"],
            item["code"],
            f"{item['rule']}: {item['message']}",
            item["file"],
            str(item["line"]),
            str(item["column"]),
        )
        for item in map(json.loads, lines)
    ]
    assert read
