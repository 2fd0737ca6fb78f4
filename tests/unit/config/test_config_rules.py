"""Corners of the rules and the reader, samples of their documentation, and hostile files."""

from __future__ import annotations

import sys

import pytest
from tables import each_row

from pullqueue.config.findings import Finding, Severity
from pullqueue.config.reader import parse
from pullqueue.config.settings import Settings
from pullqueue.cron.file import read_cron
from pullqueue.lint.check import check, check_parsed
from pullqueue.lint.rules import Rule, all_rules, no_such_rule, parse_docs, rules_named

PUSH = "queue:\n- name: a\n  rate: 5/s\n"
AGE = PUSH + "  retry_parameters:\n    task_age_limit: {}\n"


def look(text: str, *, profile: str = "gcloud") -> list[Finding]:
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


@each_row(
    ("rule", "text", "in_sdk"),
    [
        *(
            ("push-key-on-pull", f"queue:\n- name: a\n  mode: pull\n  {line}\n", Severity.WARNING)
            for line in ("rate: 5/s", "rate: 0", "rate: 0/s", "bucket_size: 0")
        ),
        ("application-ignored", f"application: a\n{PUSH}", Severity.INFO),
        ("rate-bare-zero", PUSH.replace("5/s", "0"), Severity.WARNING),
        ("rate-bare-zero", PUSH.replace("5/s", "'0'"), Severity.WARNING),
        ("age-limit-exponent", AGE.format("1e1d"), Severity.WARNING),
        ("age-limit-exponent", AGE.format("1.s"), Severity.WARNING),
    ],
)
def test_profiles_of_production_refuse_what_gcloud_refuses(
    rule: str, text: str, in_sdk: Severity
) -> None:
    for profile in ("gcloud", "rest", "migration"):
        found = look(text, profile=profile)
        assert [f.rule for f in found if f.severity is Severity.ERROR] == [rule]
    assert [(f.rule, f.severity) for f in look(text, profile="sdk")] == [(rule, in_sdk)]


@each_row(
    "lines",
    ["rate: 0/s", "bucket_size: 0", "retry_parameters:\n    min_backoff_seconds: 9999"],
)
def test_what_is_wrong_for_push_queues_alone_is_not_of_a_pull_queue(lines: str) -> None:
    """Also where its key is accepted."""
    settings = Settings(levels={"push-key-on-pull": None})
    text = f"queue:\n- name: a\n  mode: pull\n  {lines}\n"

    assert check(text, file="queue.yaml", settings=settings).findings == []


@each_row(
    ("line", "rules"),
    [
        ("name: {}", ["implicit-type"]),
        ("name: a\n  target: {}", ["target-format"]),
        ("name: a\n  mode: {}", ["mode-value"]),
        ("name: '{}'", []),
        ("name: !!str {}", []),
        ("name: a\nresume_paused_queues: {}", []),
        ("name: a\nresume_paused_queues: !!bool {}", []),
    ],
)
def test_one_letter_is_a_truth_value_as_in_the_library_of_app_engine(
    line: str, rules: list[str]
) -> None:
    for letter in "yYnN":
        text = f"queue:\n- rate: 5/s\n  {line.format(letter)}\n"
        assert [finding.rule for finding in look(text)] == rules, text


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
AGE = PUSH + "  retry_parameters:\n    task_age_limit: {}\n"
PULL = "queue:\n- name: a\n  mode: pull\n  acl:"
MAIL = "user_email: a@b.cd"


@each_row(
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


@each_row("text", ['"${QUEUES}"\n', "queue: [\n${X}\n", "# ok\nqueue: !Ref '${X}'\n"])
def test_template_has_one_finding(text: str) -> None:
    """What is wrong in a file only because of its markers is not reported."""
    assert [finding.rule for finding in look(text)] == ["unrendered-template"]


@each_row("text", ["queue:\n", "queue: []\n", "queue: [{name: a, mode: pull}]"])
def test_empty_queue_is_reported_by_a_strict_look_alone(text: str) -> None:
    assert look(text) == []
    strict = check(text, file="queue.yaml", settings=Settings(strict=True)).findings
    expected = [] if "name" in text else ["`queue` is empty"]
    assert [finding.message.partition(":")[0] for finding in strict] == expected


def _rules_found(rule: Rule, content: bytes, note: str) -> set[str]:
    levels = {rule.name: rule.severity}
    profile = note.removeprefix("profile ") if note.startswith("profile ") else "gcloud"
    previous = dict.fromkeys(note.removeprefix("against ").split(" and "), "push")
    settings = Settings(
        profile=profile,
        levels=levels,
        previous_modes=previous if note.startswith("against") else {},
    )
    if "a hundred more" in content.decode(errors="replace"):
        more = "".join(f"- {{name: more{i}, mode: pull}}\n" for i in range(100))
        content = content.replace(b"# and a hundred more\n", more.encode())
    read = read_cron if note == "file cron.yaml" else parse
    findings = check_parsed(read(content, "queue.yaml"), settings).findings
    return {finding.rule for finding in findings}


def test_samples_show_what_the_rule_finds() -> None:
    for rule in all_rules():
        docs = parse_docs(rule)
        assert docs.summary, rule
        assert docs.source, rule
        assert [sample for sample in docs.samples if not sample.good], rule
        for sample in docs.samples:
            if sample.note == "file sandbox-queue.yaml":
                continue  # reported where a search finds it
            found = _rules_found(rule, sample.content, sample.note)
            if sample.good:
                assert rule.name not in found
                assert not [name for name in found if _is_bad(name)], rule
            else:
                assert rule.name in found


def _is_bad(name: str) -> bool:
    (rule,) = rules_named(name)
    return rule.severity is not Severity.INFO


def test_codes_and_names_of_rules_are_unique_well_formed_and_in_order() -> None:
    rules = all_rules()
    assert [rule.code for rule in rules] == sorted({rule.code for rule in rules})
    assert len({rule.name for rule in rules}) == len(rules)
    assert all(rule.code.startswith("QY") and len(rule.code) == 5 for rule in rules)


def test_advice_is_reported_once_per_file() -> None:
    assert [
        rule.name for rule in all_rules() if rule.severity is Severity.INFO and not rule.once
    ] == []


def test_rules_are_found_by_name_code_and_the_beginning_of_codes() -> None:
    for name in ("rate-format", "QY208", "qy208", "Rate-Format"):
        assert [rule.name for rule in rules_named(name)] == ["rate-format"]
    assert [rule.name for rule in rules_named("QY90")] == ["unused-ignore", "unknown-rule"]
    assert rules_named("ALL") == all_rules()
    assert rules_named("QY8") == ()


def test_near_rules_are_proposed() -> None:
    assert no_such_rule("rate-fromat") == 'unknown rule "rate-fromat": did you mean `rate-format`?'
    assert no_such_rule("208") == 'unknown rule "208": did you mean `QY208`?'
    assert no_such_rule("Email") == 'unknown rule "Email": did you mean `acl-email-format`?'
    assert no_such_rule("zzzz") == 'unknown rule "zzzz": see `pullqueue explain --list`'


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(8)
)
FILES = {
    "empty": (b"", "empty-file"),
    "brackets": (b"queue: " + b"[" * 50_000, "too-deep"),
    "braces": (b"queue: " + b"{ " * 200_000, "too-deep"),
    "dashes": (b"- " * 200_000, "too-deep"),
    "question marks": (b"? " * 200_000, "too-deep"),
    "ten megabytes": (b"#" + b"x" * 10_000_000, "file-too-large"),
    "many values": (b"queue:\n" + b"- a\n" * 20_000, "file-too-large"),
    "bomb": (BOMB.encode(), "anchor-or-alias"),
    "next line": ("queue: # \x85\n".encode(), "control-character"),
    "second byte-order mark": ("\ufeff\ufeffqueue: []\n".encode(), "control-character"),
    "byte-order mark inside": ("queue:\n\ufeff- name: a\n".encode(), "control-character"),
    "utf-16": ("queue: []\n".encode("utf-16"), "encoding"),
    "utf-16 without mark": ("queue: []\n".encode("utf-16-le"), "encoding"),
    "object": (b"queue: !!python/object/apply:os.system [ls]\n", "yaml-tag"),
    "scalar object": (b"queue: !!python/name:os.system ls\n", "yaml-tag"),
    "misfit tag": (b"queue: !!int ls\n", "yaml-tag"),
    "two documents, first empty": (b"---\n---\nqueue: []\n", "empty-file"),
    "sign in a list": (b"queue: [=]\n", "yaml-tag"),
    "digits": (b"queue:\ntotal_storage_limit: " + b"1" * 200_000 + b"X", "storage-limit-format"),
    "dots": (
        b"queue:\n- name: a\n  mode: pull\n  acl:\n  - user_email: a@%s@" % (b"a." * 100_000),
        "acl-email-format",
    ),
    "sexagesimal": (b"queue:\ntotal_storage_limit: " + b"1:30" * 100_000, "storage-limit-format"),
}


@each_row("name", FILES)
def test_hostile_file_has_one_clear_finding(name: str) -> None:
    data, rule = FILES[name]
    findings = check(data, file="queue.yaml", settings=Settings()).findings
    expected = [rule] if "documents, first" not in name else [rule, "multiple-documents"]
    assert sorted(finding.rule for finding in findings) == sorted(expected)
    assert all("\n" not in finding.message for finding in findings)


@pytest.mark.parametrize("name", ["brackets", "dashes", "bomb"])
def test_hostile_file_costs_little(name: str) -> None:
    """A file is read up to where it exceeds a limit, or as far as libyaml reads ahead."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        check(FILES[name][0], file="f", settings=Settings())
    finally:
        sys.setprofile(None)
    assert calls < 100_000


def test_text_with_lone_surrogates_is_refused() -> None:
    findings = check("queue: \ud800", file="f", settings=Settings()).findings
    assert [finding.rule for finding in findings] == ["control-character"]
