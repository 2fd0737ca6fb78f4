"""pre-commit hooks and the problem matcher fit what the linter does."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from pullqueue.cli.lint import lint
from pullqueue.cli.schema import schema

ROOT = Path(__file__).parents[2]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["id"]))
def test_hook_takes_queue_yaml_files_and_runs(hook: dict[str, str], tmp_path: Path) -> None:
    """A hook is for files called queue.yaml or queue.yml, and its command takes them."""
    files = ["queue.yaml", "app/queue.yml", "app/queue.yaml.bak", "my-queue.yaml", "queue.py"]
    assert [name for name in files if re.search(hook["files"], name)] == files[:2]
    path = tmp_path / "queue.yaml"
    path.write_text("queue:\n- name: mail\n  rate: 0\n")
    program, command, *options = shlex.split(hook["entry"])
    assert (program, command) == ("pullqueue", "lint")
    assert CliRunner().invoke(lint, [*options, str(path)]).exit_code == 0
    assert ("0/s" in path.read_text()) == ("--fix" in options)


def test_problem_matcher_reads_the_full_format() -> None:
    """GitHub's problem matcher finds file, line, column, severity, code and message."""
    (matcher,) = json.loads(CliRunner().invoke(schema, ["--problem-matcher"]).stdout)[
        "problemMatcher"
    ]
    cases = sorted((ROOT / "tests" / "lint_cases").glob("pull_*.yaml"))
    full = CliRunner().invoke(lint, [*map(str, cases), "--format", "full"]).stdout
    lines = CliRunner().invoke(lint, [*map(str, cases), "--format", "jsonl"]).stdout.splitlines()
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
