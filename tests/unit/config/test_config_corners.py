"""Corners of the rules and the reader that the written cases leave out."""

from __future__ import annotations

import pytest

from pullqueue.config.findings import Finding, Severity
from pullqueue.config.settings import Settings
from pullqueue.lint.check import check


def look(text: str, *, profile: str = "gcloud") -> list[Finding]:
    """Check a text."""
    return check(text, file="queue.yaml", settings=Settings(profile=profile)).findings


def test_java_reader_knows_fewer_keys() -> None:
    """The Java SDK's reader has neither acl nor application nor resume_paused_queues."""
    text = (
        "application: a\nresume_paused_queues: true\nqueue:\n- name: a\n  mode: pull\n"
        "  target: worker\n  acl:\n  - user_email: a@b.cd\n  - writer_email: a@b.cd\n"
        f"- name: {'a' * 101}\n  mode: pull\n"
    )
    assert [(f.rule, f.line) for f in look(text, profile="java")] == [
        ("unknown-key", 1),
        ("unknown-key", 2),
        ("unknown-key", 7),
        ("name-length", 10),
    ]


@pytest.mark.parametrize("profile", ["rest", "migration"])
def test_profiles_of_production_refuse_what_gcloud_refuses(profile: str) -> None:
    found = look("queue:\n- name: a\n  mode: pull\n  rate: 5/s\n", profile=profile)
    assert [f.rule for f in found if f.severity is Severity.ERROR] == ["push-key-on-pull"]


def test_migration_names_what_does_not_survive() -> None:
    text = (
        "total_storage_limit: 1G\nqueue:\n- name: a\n  mode: pull\n  acl:\n"
        "  - user_email: a@b.cd\n  - writer_email: a@b.cd\n"
    )
    found = [(f.rule, f.line) for f in look(text, profile="migration")]
    assert found == [("key-not-deployed", 1), ("pull-to-pubsub", 4), ("key-not-deployed", 5)]


def test_a_rate_that_is_added_keeps_the_line_ends_of_its_file() -> None:
    for text, added in (
        ("queue:\r\n- name: a", "\r\n  rate: 5/s"),
        ("queue:\r\n- name: a\r\n", "  rate: 5/s\r\n"),
    ):
        (fix,) = [finding.fix for finding in look(text) if finding.fix]
        (edit,) = fix.edits
        assert (edit.start, edit.end, edit.replacement) == (len(text), len(text), added)


PUSH = "queue:\n- name: a\n  rate: 5/s\n"
PULL = "queue:\n- name: a\n  mode: pull\n  acl:"
MAIL = "user_email: a@b.cd"


@pytest.mark.parametrize(
    "text",
    [
        "queue:\n- name: [a]\n",
        "queue:\n- bucket_size: 5\n",
        "queue: [{name: a}]\n",
        "queue:\n- rate: 5/s  # why\n  name: a\n  mode: pull\n",
        PUSH + "  task_retry_limit: [3]\n",
        PUSH + "  task_retry_limit: 3\n  retry_parameters: {max_doublings: 3}\n",
        PUSH + "  task_retry_limit: 3\n  retry_parameters:\n    task_retry_limit: 3\n",
        PULL + "\n  - {}\n",
        PULL + f" [{{{MAIL}}}, {{{MAIL}}}, {{writer_email: a@b.cd}}]\n",
        PULL + f"\n  - writer_email: a@b.cd\n  - {MAIL}\n  - {MAIL}  # me\n",
        "queue:\n- name: a\n  rate: &x\n    - 1\n- name: b\n  rate: *x\n",
        "queue: &x\n- &y {name: a, rate: 5/s}\n",
        "queue: &x [*x]\n",
        "queue: [*x, &x a]\n",
        "queue: !!seq &x []\n",
        "a: &x b\nc: *x\nd: [\n",
        PUSH + "  user_email: a@b.cd\n",
        "total_storage_limit: 1G\n" + PUSH + "  total_storage_limit: 1G\n",
        "queue:\n- mode: pull\n  name: a\n  ? rate\n  : 5/s\n",
        "queue:\n- ? rate\n  : 5/s\n  name: a\n  mode: pull\n",
    ],
)
def test_what_is_not_simple_is_not_fixed(text: str) -> None:
    findings = look(text)
    assert findings
    assert [finding.fix for finding in findings if finding.fix] == []


@pytest.mark.parametrize(
    "text", ['"${QUEUES}"\n', "queue: [\n${X}\n", "# ok\nqueue: !Ref '${X}'\n"]
)
def test_template_has_one_finding(text: str) -> None:
    """What is wrong in a file only because of its markers is not reported."""
    assert [finding.rule for finding in look(text)] == ["unrendered-template"]


@pytest.mark.parametrize("text", ["queue:\n", "queue: []\n", "queue: [{name: a, mode: pull}]"])
def test_empty_queue_is_reported_by_a_strict_look_alone(text: str) -> None:
    assert look(text) == []
    strict = check(text, file="queue.yaml", settings=Settings(strict=True)).findings
    expected = [] if "name" in text else ["`queue` is empty"]
    assert [finding.message.partition(":")[0] for finding in strict] == expected
