"""The page on the JSON of `lint` and `plan` has the fields and the values that they print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from linting import run_pullqueue, write

from pullqueue.lint.deployment import FIELDS
from pullqueue.lint.plan import Action

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a new folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def named_in(section: str, head: str) -> set[str]:
    """Return the names in the first column of a table of the page."""
    text = PAGE.read_text("utf-8").partition(f"\n## {section}")[2]
    rows = text.partition(f"\n| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_the_page_has_the_fields_of_a_finding(folder: Path) -> None:
    write("queue.yaml", "queue:\n- name: mail\n  rate: 0\n")
    (finding,) = json.loads(run_pullqueue("lint", "--format", "json").stdout)

    assert named_in("lint", "field") == finding.keys()
    assert named_in("lint", "field of `fix`") == finding["fix"].keys()


def test_the_page_has_the_fields_and_texts_of_a_plan(folder: Path) -> None:
    write("queue.yaml", "queue:\n- name: mail\n  rate: 5/s\n")
    write("q.json", "[]")
    plan = json.loads(run_pullqueue("plan", "--deployed", "q.json", "--json").stdout)

    assert named_in("plan", "field") == plan.keys()
    assert named_in("plan", "field of `queues`") == plan["queues"][0].keys()
    assert named_in("plan", "action") == {*get_args(Action)}
    assert named_in("plan", "`key`") == {"mode", *(field.key for field in FIELDS)}
