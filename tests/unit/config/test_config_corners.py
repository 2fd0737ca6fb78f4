"""Corners of the rules and the reader that the written cases leave out."""

from __future__ import annotations

import pytest

from pullqueue.config.check import check
from pullqueue.config.findings import Finding, Severity
from pullqueue.config.settings import Settings


def look(text: str, *, profile: str = "gcloud") -> list[Finding]:
    """Check a text."""
    return check(text, file="queue.yaml", settings=Settings(profile=profile)).findings


def rules(text: str, *, profile: str = "gcloud") -> list[str]:
    """Return the names of the rules a text breaks."""
    return [finding.rule for finding in look(text, profile=profile)]


def fixed(text: str) -> str:
    """Make the edits of a text's one fix."""
    (fix,) = [finding.fix for finding in look(text) if finding.fix]
    for edit in sorted(fix.edits, key=lambda edit: -edit.start):
        text = text[: edit.start] + edit.replacement + text[edit.end :]
    return text


def unfixed(text: str) -> None:
    """Hold that a text has a fault, and no fix for it."""
    findings = look(text)
    assert findings
    assert [finding.fix for finding in findings if finding.fix] == []


def test_java_reader_knows_fewer_keys() -> None:
    """The Java SDK's reader has neither acl nor application nor resume_paused_queues."""
    text = (
        "application: a\nresume_paused_queues: true\nqueue:\n- name: a\n  mode: pull\n"
        "  target: worker\n  acl:\n  - user_email: a@b.cd\n  - writer_email: a@b.cd\n"
    )
    found = look(text, profile="java")
    assert [(f.rule, f.line) for f in found] == [
        ("unknown-key", 1),
        ("unknown-key", 2),
        ("unknown-key", 7),
    ]
    assert rules(f"queue:\n- name: {'a' * 101}\n  mode: pull\n", profile="java") == ["name-length"]


@pytest.mark.parametrize("profile", ["gcloud", "rest", "migration"])
def test_profiles_of_production_refuse_what_gcloud_refuses(profile: str) -> None:
    """The profiles rest and migration add to gcloud's."""
    found = look("queue:\n- name: a\n  mode: pull\n  rate: 5/s\n", profile=profile)
    assert [f.rule for f in found if f.severity is Severity.ERROR] == ["push-key-on-pull"]


def test_migration_names_what_does_not_survive() -> None:
    """Keys that are not deployed and pull queues are named for a team that moves away."""
    text = (
        "total_storage_limit: 1G\nqueue:\n- name: a\n  mode: pull\n  acl:\n"
        "  - user_email: a@b.cd\n  - writer_email: a@b.cd\n"
    )
    first, second = (f for f in look(text, profile="migration") if f.rule != "acl-placeholder")
    assert (first.rule, second.rule) == ("key-not-deployed", "pull-to-pubsub")
    assert first.message.endswith("(also on line 5)")


def test_one_rule_reports_one_place_once() -> None:
    """Several faults of one rule are in the order of the file."""
    assert rules("queue:\n- name: a_b\n  rate: 1/s\n- name: c_d\n  rate: 1/s\n") == [
        "name-format",
        "name-format",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "queue:\n- {name: a, mode: pull, rate: 5/s}\n",
        "queue:\n- {rate: 5/s, name: a, mode: pull}\n",
        "queue: [{name: a, rate: 5/s, mode: pull}]\n",
    ],
)
def test_key_is_removed_from_flow_mappings(text: str) -> None:
    """A key leaves a mapping in braces with its comma."""
    repaired = fixed(text)
    assert rules(repaired) == []
    assert "rate" not in repaired


def test_key_behind_a_dash_is_not_removed_with_a_comment() -> None:
    """A comment between the first key and the second would be lost: no fix."""
    unfixed("queue:\n- rate: 5/s  # why\n  name: a\n  mode: pull\n")


def test_retry_key_goes_alone_while_others_stay() -> None:
    """Of retry_parameters only the key concerned is removed."""
    text = (
        "queue:\n- name: a\n  mode: pull\n  retry_parameters:\n    max_doublings: 3\n"
        "    task_retry_limit: 5\n"
    )
    assert fixed(text) == text.replace("    max_doublings: 3\n", "")


def test_rate_is_added_at_the_end_of_a_file_without_a_line_break() -> None:
    """A line that is added keeps the file's line ends."""
    assert fixed("queue:\r\n- name: a") == "queue:\r\n- name: a\r\n  rate: 5/s"
    assert fixed("queue:\r\n- name: a\r\n") == "queue:\r\n- name: a\r\n  rate: 5/s\r\n"


PUSH = "queue:\n- name: a\n  rate: 5/s\n"
PULL = "queue:\n- name: a\n  mode: pull\n  acl:"
MAIL = "user_email: a@b.cd"


@pytest.mark.parametrize(
    "text",
    [
        "queue:\n- name: [a]\n",
        "queue:\n- bucket_size: 5\n",
        "queue: [{name: a}]\n",
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
    """Where a fix could go wrong, none is offered."""
    unfixed(text)


def test_same_grant_of_an_entry_with_two_keys_is_removed() -> None:
    """A second grant leaves its entry, the other key stays."""
    text = (
        "queue:\n- name: a\n  mode: pull\n  acl:\n  - user_email: a@b.cd\n"
        "  - user_email: a@b.cd\n    writer_email: a@b.cd\n"
    )
    fixes = {finding.rule: finding.fix for finding in look(text)}
    assert fixes["acl-duplicate"] is not None
    assert [edit.replacement for edit in fixes["acl-duplicate"].edits] == [""]


def test_empty_entry_is_removed() -> None:
    """An entry that grants nothing goes with its line."""
    text = (
        "queue:\n- name: a\n  mode: pull\n  acl:\n  - {}\n  - user_email: a@b.cd\n"
        "  - writer_email: a@b.cd\n"
    )
    assert fixed(text) == text.replace("  - {}\n", "")


def test_template_as_the_whole_file_is_one_finding() -> None:
    """A file that is nothing but a marker is a template, and nothing else."""
    assert rules('"${QUEUES}"\n') == ["unrendered-template"]
    assert rules("queue: [\n${X}\n") == ["unrendered-template"]
    assert rules("# ok\nqueue: !Ref '${X}'\n") == ["unrendered-template"]


def test_byte_order_mark_alone() -> None:
    """A file of a byte-order mark and no data has both faults at its beginning."""
    assert [(f.rule, f.line, f.column) for f in look("\ufeff# nothing\n")] == [
        ("bom", 1, 1),
        ("empty-file", 1, 1),
    ]


def test_name_of_two_lines_with_a_colon_has_its_hint() -> None:
    """A colon without a space joins two lines to one name."""
    (finding,) = look("queue:\n- name: a:b\n  rate: 5/s\n")
    assert finding.hint == "a space is missing after a colon: the lines were read as one value"


def test_space_missing_after_a_dash_in_front_of_a_key() -> None:
    """`-name:` in a mapping is reported to be a list entry."""
    (first, *_) = look("-name: a\n")
    assert first.hint == "a space is missing after the dash: write `- name:`"


def test_syntax_errors_of_other_kinds() -> None:
    """What PyYAML reports of rarer faults is passed on."""
    (finding,) = look("queue: [a]: b: c\nrate:5\n")
    assert finding.rule == "yaml-syntax"
    (escape,) = look('queue: "\\q"\n')
    assert escape.message.startswith("invalid YAML: found unknown escape character")


@pytest.mark.parametrize("value", ['"="', "!!str =", "'<<'"])
def test_signs_of_yaml_are_texts_in_quotes(value: str) -> None:
    """A quoted or tagged `=` is text, here not a valid name."""
    assert rules(f"queue:\n- name: {value}\n  rate: 5/s\n") == ["name-format"]


def test_findings_show_as_one_line() -> None:
    """A finding's text has file, line, column, code, rule and message."""
    (finding,) = look("queue:\n- name: a\n  mode: PULL\n")
    assert str(finding) == (
        'queue.yaml:3:9: QY206 mode-value: invalid mode "PULL": did you mean `pull`?'
    )


@pytest.mark.parametrize("text", ["queue:\n", "queue: []\n"])
def test_empty_queue_is_reported_when_asked_for(text: str) -> None:
    """An empty `queue` is silent, but for a strict look."""
    assert rules(text) == []
    strict = check(text, file="queue.yaml", settings=Settings(strict=True)).findings
    assert [finding.message.partition(":")[0] for finding in strict] == ["`queue` is empty"]
    full = check("queue: [{name: a, mode: pull}]", file="f", settings=Settings(strict=True))
    assert full.findings == []


def test_file_of_another_name_is_reported_where_it_was_searched_for() -> None:
    """gcloud knows the name queue.yaml only."""
    settings = Settings(misnamed=True)
    (finding,) = check("queue:", file="app/sandbox-queue.yaml", settings=settings).findings
    message = 'gcloud does not accept "sandbox-queue.yaml" as a queue.yaml'
    assert finding.message.startswith(message)


@pytest.mark.parametrize(("above", "hinted"), [("name: a", True), ("{name: a, rate: 1/s}", False)])
def test_dash_in_front_of_the_second_key_has_its_hint(above: str, *, hinted: bool) -> None:
    """An entry without a name after one that has only a name may be the rest of it."""
    findings = look(f"queue:\n- {above}\n- mode: pull\n")
    (missing,) = [finding for finding in findings if finding.rule == "missing-name"]
    hint = "if these keys belong to the queue above, remove the dash"
    assert missing.hint == (hint if hinted else None)
