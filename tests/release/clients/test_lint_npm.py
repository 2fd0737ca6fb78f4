"""What packages from npm say: an editor's YAML language server, ajv, and the schema of SARIF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from linting import run_pullqueue
from programs import completed, npm_packages, program

from pullqueue.config.schema import published
from pullqueue.config.shape import validator

CASES = Path(__file__).parents[2] / "lint_cases"
FOLDER = Path(__file__).parent / "npm_lint"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the packages are installed in; install them where they are missing."""
    return npm_packages(FOLDER, tmp_path_factory.mktemp("npm"))


def output_of(script: str, *arguments: str, data: object) -> Any:
    """Return what a script prints that reads JSON and has nothing to complain about."""
    command = [program("node", package="nodejs"), str(FOLDER / script), *arguments]
    done = completed(command, input=json.dumps(data))
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=["2020-12", "7"])
def editor(request: pytest.FixtureRequest, node_modules: Path) -> Json:
    """What an editor shows that knows the schema, in one of its two drafts."""
    schema = published() if request.param == "2020-12" else published(draft="7")
    files = {name: (CASES / f"{name}.yaml").read_text() for name in [*RIGHT, *WRONG]}
    typed = "queue:\n- name: mail\n  rate: 5/s\n  b\n"
    shown: Json = output_of("editor.js", data=[schema, files, typed])
    return shown


RIGHT = ("indented_list_and_comments_ok", "json_style_ok", "pull_retry_limit_ok", "empty_queue_ok")


def test_editor_finds_nothing_in_right_files(editor: Json) -> None:
    assert [name for name in RIGHT if editor["found"][name] != []] == []


NOT_ON_PULL = " is not allowed on a pull queue: remove it, or set `mode: push`"
WRONG = {
    "unknown_key_xml_dialect": (5, ""),
    "misplaced_storage_limit": (5, ""),
    "missing_name": (3, ""),
    "acl_list_of_strings": (6, "each acl entry must be user_email or writer_email with an add"),
    "name_underscore": (3, "use letters, digits and hyphens"),
    "mode_typo": (4, "use `pull` or `push`"),
    "rate_long_unit": (4, "use a number, a slash and s, m, h or d"),
    "bucket_too_large": (5, ""),
    "bucket_word": (5, "use a whole number, for example `10`"),
    "rate_30001_per_min": (4, ""),
    "retry_limit_negative": (6, ""),
    "age_limit_week": (6, ""),
    "backoff_with_unit": (6, ""),
    "target_upper": (5, ""),
    "storage_mb_suffix": (2, ""),
    "resume_maybe": (2, ""),
    "pull_rate_before_mode": (4, f"`rate`{NOT_ON_PULL}"),
    "pull_max_doublings": (6, f"`max_doublings`{NOT_ON_PULL}"),
    "pull_target": (5, ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_editor_marks_the_line_the_linter_marks(editor: Json, name: str) -> None:
    line, message = WRONG[name]
    found = editor["found"][name]
    assert {item["range"]["start"]["line"] + 1 for item in found} == {line}
    assert any(message in item["message"] for item in found), found


def test_editor_completes_and_explains(editor: Json) -> None:
    completed = {item["label"] for item in editor["completed"]["items"]}
    assert {"bucket_size", "mode", "acl"} <= completed
    assert "a slash and" in str(editor["hover"]["contents"])


@pytest.mark.parametrize("draft", ["2020-12", "7"])
def test_ajv_accepts_the_schema_in_strict_mode(node_modules: Path, draft: str) -> None:
    schema = json.loads(published(draft="7") if draft == "7" else published())
    files = [
        yaml.safe_load(case.read_text())
        for pattern in ("*_ok.yaml", "pull_*.yaml", "rate_*.yaml", "bucket_*.yaml", "target_*.yaml")
        for case in sorted(CASES.glob(pattern))
    ]
    assert output_of("ajv.js", draft, data=[schema, files]) == [
        validator().is_valid(file) for file in files
    ]


def test_sarif_is_valid_by_its_schema(node_modules: Path) -> None:
    path = node_modules / "@microsoft" / "sarif-multitool-linux" / "sarif-2.1.0.json"
    validator = jsonschema.Draft202012Validator(json.loads(path.read_bytes()))
    cases = [str(path) for path in sorted(CASES.glob("*.yaml"))]
    report = json.loads(run_pullqueue("lint", *cases, "--format", "sarif").stdout)
    assert [error.message for error in validator.iter_errors(report)] == []
    (run,) = report["runs"]
    driver = run["tool"]["driver"]
    assert driver["informationUri"].startswith("https://")
    for rule in driver["rules"]:
        assert rule["help"]["text"]
        assert rule["helpUri"].endswith(f"/docs/reference/rules.md#{rule['id'].lower()}")
    prints = [result["partialFingerprints"]["pullqueueFinding/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)
    run["results"][0]["level"] = "fatal"
    assert not validator.is_valid(report)
