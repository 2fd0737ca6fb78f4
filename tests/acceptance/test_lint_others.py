"""`pullqueue explain`, `schema` and `convert`, as they are called."""

from __future__ import annotations

import json
from pathlib import Path

from linting import run_pullqueue

from pullqueue.lint.rules import all_rules


def test_explain_prints_a_rules_documentation() -> None:
    text = run_pullqueue("explain", "QY301").stdout
    assert text.startswith(
        "QY301 push-key-on-pull\n\nSeverity: error, warning in profile sdk\n"
        "Fix: unsafe (--fix --unsafe-fixes)\n\nA key of push queues on a pull queue.\n"
    )
    assert "\nBad:\n\n    queue:\n    - name: jobs\n      mode: pull\n" in text
    assert text.endswith('Source: gcloud: "must not be specified for pull-based queue".\n')
    assert "Cannot be suppressed" in run_pullqueue("explain", "yaml-syntax").stdout
    assert "Severity: off, info in profile rest" in run_pullqueue("explain", "QY407").stdout
    assert "(100000 times)" in run_pullqueue("explain", "QY011").stdout
    assert "Fix: none\nReported once per file and key." in run_pullqueue("explain", "QY232").stdout
    assert "Fix: safe (--fix) or unsafe" in run_pullqueue("explain", "QY205").stdout


def test_explain_lists_all_rules() -> None:
    lines = run_pullqueue("explain", "--list").stdout.splitlines()
    assert len(lines) == len(all_rules())
    assert lines[0] == f"QY001  {'yaml-syntax':<22} error    The file is not valid YAML."
    assert run_pullqueue("explain", "all").stdout.count("\nSource: ") == len(all_rules())
    assert run_pullqueue("explain").exit_code == run_pullqueue("explain", "zzz").exit_code == 2
    for name, meant in (("506", "QY506"), ("5", "QY5"), ("both", "both-limits"), ("bom-", "bom")):
        advice = f'unknown rule "{name}": did you mean `{meant}`?\n'
        assert advice in run_pullqueue("explain", name).stderr


def test_schema_is_printed_in_both_drafts() -> None:
    new = json.loads(run_pullqueue("schema").stdout)
    old = json.loads(run_pullqueue("schema", "--draft", "7").stdout)
    assert (new.pop("$schema"), old.pop("$schema")) == (
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema#",
    )
    assert new == old


XML = "<queue-entries><total-storage-limit>1M</total-storage-limit></queue-entries>"
YAML = "total_storage_limit: 1M\nqueue: []\n"


def test_convert_writes_a_queue_yaml(folder: Path) -> None:
    (folder / "queue.xml").write_text(XML)
    done = run_pullqueue("convert", "queue.xml")
    assert (done.exit_code, done.stdout, done.stderr) == (0, YAML, "")
    assert run_pullqueue("convert", "-", stdin=XML).stdout == YAML
    to_a_file = ("convert", "queue.xml", "-o", "queue.yaml")
    assert run_pullqueue(*to_a_file).exit_code == 0
    assert (folder / "queue.yaml").read_text() == YAML
    again = run_pullqueue(*to_a_file)
    assert again.exit_code == 1
    assert '"queue.yaml" exists: pass --force to replace it' in again.stderr
    assert run_pullqueue(*to_a_file, "--force").exit_code == 0


def test_convert_reports_what_is_lost_what_is_wrong_and_other_files(folder: Path) -> None:
    (folder / "queue.xml").write_text(
        "<queue-entries>\n  <queue><name>a_b</name><rate>1/s</rate>\n<foo/></queue></queue-entries>"
    )
    done = run_pullqueue("convert", "queue.xml")
    assert done.exit_code == 1
    assert 'queue.xml:3:1: queue "a_b": <foo> is not in queue.yaml: dropped\n' in done.stderr
    assert "queue.xml:2:10: QY201 name-format" in done.stderr
    (folder / "x").write_text("queue:")
    other = run_pullqueue("convert", "x")
    assert (other.exit_code, other.stderr.startswith("pullqueue: x: not XML: ")) == (1, True)
    assert run_pullqueue("convert", "nowhere.xml").exit_code == 3
