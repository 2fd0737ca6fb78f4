"""Every written case: its faults are named on its first lines, its report is kept beside it.

`PULLQUEUE_REGENERATE=1` writes the files again; look at the difference before it is committed.
The page on the JSON of `lint` and `plan` has the fields and the values that they print.
"""

from __future__ import annotations

import json
import os
import re
from importlib.metadata import metadata
from pathlib import Path
from typing import get_args

import pytest
from lint_agreement import errors_of, refused_for, schema_agrees
from linting import run_pullqueue, write
from tables import each_row

from pullqueue.lint.deployment import FIELDS
from pullqueue.lint.plan import Action
from pullqueue.lint.report import FileReport, LintOptions, RunReport, lint_data
from pullqueue.lint.reporters import FORMATS, reporter
from pullqueue.lint.rules import rules_named
from pullqueue.lint.rules.base import SAFE, UNSAFE

CASES = Path(__file__).parents[2] / "lint_cases"
FILES = sorted(CASES.glob("*.yaml"))
SHOWN = [
    "acl_duplicate",
    "bucket_octal",
    "nul_byte",
    "pull_rate_before_mode",
    "name_non_ascii",
    "crlf_ok",
    "unicode_columns",
    "utf8_bom",
]
"""The cases whose findings are kept in every format."""


EXPECTED = re.compile(rb"# expect: (\S+)(?: line (\d+))?")


def _lint(case: Path, *, fix: bool = False) -> FileReport:
    options = LintOptions(fix=fix, unsafe=True)
    return lint_data(case.read_bytes(), file=case.name, options=options)


def _full(report: FileReport) -> str:
    return reporter("full")(RunReport([report]))


def _compare(path: Path, text: str) -> None:
    if os.environ.get("PULLQUEUE_REGENERATE"):
        path.write_bytes(text.encode())
    kept = path.read_bytes().decode() if path.exists() else ""
    again = (
        f"{path} differs: if it should, run this with PULLQUEUE_REGENERATE=1, and look at the diff"
    )
    assert text == kept, again


def test_each_case_has_its_findings_and_its_fix_and_no_others() -> None:
    for case in FILES:
        report = _lint(case)
        expected = [match for match in EXPECTED.finditer(case.read_bytes()) if match[2]]
        assert [(finding.rule, finding.line) for finding in report.findings] == [
            (match[1].decode(), int(match[2])) for match in expected
        ], case
        # Only what is wrong with a whole file, or a comment, is not at a key.
        assert all(bool(each.path) == ("QY1" < each.code < "QY9") for each in report.findings), case
        fixes = {(each.rule, each.fix.safe) for each in report.findings if each.fix}
        for name, is_safe in fixes:
            (rule,) = rules_named(name)
            assert (SAFE if is_safe else UNSAFE) in rule.fixes, case
        text = _full(report)
        fixable = any(finding.fix for finding in report.findings)
        if fixable and (fixed := _lint(case, fix=True)).fixed:
            text += f"{fixed.diff()}{_full(fixed)}"
        kept = CASES / "expected" / f"{case.stem}.txt"
        if text:
            _compare(kept, text)
        else:
            assert not kept.exists()


def test_loading_refuses_what_the_linter_calls_an_error() -> None:
    texts = {case.name: case.read_bytes() for case in FILES}

    assert [name for name, text in texts.items() if refused_for(text) != errors_of(text)] == []


def test_schema_refuses_what_the_linter_calls_an_error() -> None:
    """As far as it can."""
    texts = {case.name: case.read_bytes().replace(b"queue-lint", b"no more") for case in FILES}

    assert [name for name, text in texts.items() if not schema_agrees(text)] == []


def test_nothing_is_kept_of_cases_that_are_gone() -> None:
    kept = {path.stem for path in (CASES / "expected").glob("*.txt")}
    assert kept <= {case.stem for case in FILES}


@each_row("name", FORMATS)
def test_every_format_writes_the_findings_as_they_are_kept(name: str) -> None:
    report = RunReport([_lint(CASES / f"{case}.yaml") for case in SHOWN])
    project = metadata("pullqueue")
    text = reporter(name)(report).replace(f'"{project["Version"]}"', '"VERSION"')
    # The longest first: the address of the documentation can begin with that of the source.
    urls = [each.split(", ", 1) for each in project.get_all("Project-URL", ())]
    for label, url in sorted(urls, key=lambda each: len(each[1]), reverse=True):
        text = text.replace(url, label.upper())
    _compare(CASES / "formats" / f"{name}.txt", text)


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
