"""Parts of the linter that its command shows only in part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tables import each_row

from pullqueue.cli._linter import run
from pullqueue.config.document import Source
from pullqueue.config.findings import Edit, Finding, Fix, Label, Severity
from pullqueue.config.settings import Settings
from pullqueue.lint.check import CheckResult, check
from pullqueue.lint.fixes import fix_text
from pullqueue.lint.options import Arguments
from pullqueue.lint.queue_xml import QueueXmlError, convert_xml
from pullqueue.lint.report import FileReport, RunReport
from pullqueue.lint.reporters.data import report_github, report_sarif
from pullqueue.lint.reporters.text import report_full
from pullqueue.lint.search import find_inputs


def finding(
    *,
    file: str = "queue.yaml",
    column: int = 1,
    end: tuple[int, int] = (1, 6),
    labels: tuple[Label, ...] = (),
    fix: Fix | None = None,
) -> Finding:
    return Finding(
        file=file,
        line=1,
        column=column,
        end_line=end[0],
        end_column=end[1],
        code="QY301",
        rule="push-key-on-pull",
        severity=Severity.ERROR,
        message="wrong",
        labels=labels,
        fix=fix,
    )


def test_label_and_finding_of_several_lines_end_with_their_first() -> None:
    label = Label(line=2, column=1, end_line=3, end_column=2, message="and here")
    long = finding(end=(2, 1), labels=(label,))
    source = Source("queue: x\n- name: a\n", file="queue.yaml")
    report = RunReport([FileReport("queue.yaml", source, [long], [""])])
    assert report_full(report) == (
        "error[QY301] push-key-on-pull: wrong\n"
        " --> queue.yaml:1:1\n"
        "  |\n"
        "1 | queue: x\n"
        "  | ^^^^^^^^\n"
        "2 | - name: a\n"
        "  | --------- and here\n"
        "\n"
    )
    assert ",col=" not in report_github(report)


def test_long_lines_are_shown_in_part() -> None:
    source = Source("x" * 5000 + "queue" + "y" * 5000, file="queue.yaml")
    long = finding(column=5001, end=(1, 5006))
    text = report_full(RunReport([FileReport("q", source, [long], [""])]))
    assert "queue" in text
    assert max(len(line) for line in text.splitlines()) < 140


def test_absolute_path_is_a_file_address_in_sarif(tmp_path: Path) -> None:
    """SARIF permits relative references and complete addresses only."""
    file = str(tmp_path / "queue.yaml")
    source = Source("queue:", file=file)
    report = RunReport([FileReport(file, source, [finding(file=file)], [""])])
    assert f'"{Path(file).as_uri()}"' in report_sarif(report)


def _check(text: str) -> CheckResult:
    return check(text, file="f", settings=Settings())


@pytest.mark.parametrize(
    ("rate", "left", "applied"), [("0", "0/s", 1), ("5/s", "5/s", 0)], ids=["others", "alone"]
)
def test_fix_that_would_make_things_worse_is_left_out(rate: str, left: str, applied: int) -> None:
    """A fix that spoils the file is not made; the others are, one by one."""

    def spoiling(content: str) -> CheckResult:
        checked = _check(content)
        spoil = Fix(title="spoil", edits=(Edit(0, 5, "["),), safe=True)
        return checked._replace(findings=[finding(fix=spoil), *checked.findings])

    fixed = fix_text(f"queue:\n- name: a\n  rate: {rate}\n", spoiling, unsafe=False)
    assert fixed.text == f"queue:\n- name: a\n  rate: {left}\n"
    assert fixed.applied == applied


@each_row("after", ["", "\r\n", "\n# end", "\n\n- {name: b, rate: 5/s}\n"])
@each_row("style", ["|", ">", ">-", "|+"])
def test_what_follows_a_block_scalar_stays(style: str, after: str) -> None:
    text = "queue:\n- name: a\n  rate: "
    fixed = fix_text(f"{text}{style}\n    5/min{after}", _check, unsafe=True)
    assert fixed.text == f"{text}5/m{after}"


@each_row(
    ("value", "is_kept"),
    [
        ("\n    max_doublings: 3  # d\n    # after\n", False),
        ("\n    # only\n    max_doublings: 3\n", True),
        (" {  # only\n    max_doublings: 3}\n", True),
    ],
)
def test_a_key_with_a_comment_inside_its_value_is_not_removed(value: str, *, is_kept: bool) -> None:
    text = f"queue:\n- name: a\n  mode: pull\n  retry_parameters:{value}"
    fixed = fix_text(text, _check, unsafe=True)
    assert (fixed.text == text) is is_kept


def test_the_first_key_of_a_queue_is_removed_and_its_dash_stays() -> None:
    text = "queue:\n- rate: 5/s\n  name: a\n  mode: pull\n"
    fixed = fix_text(text, _check, unsafe=True)
    assert fixed.text == "queue:\n- name: a\n  mode: pull\n"


@each_row("limit", ["", "    task_retry_limit: 3\n"])
@each_row("is_before", [True, False])
def test_keys_that_are_moved_keep_their_order(limit: str, *, is_before: bool) -> None:
    start = "queue:\n- name: a\n  rate: 5/s\n"
    opened = "  retry_parameters:\n" + limit
    keys = ("min_backoff_seconds: 1\n", "max_backoff_seconds: 2\n", "max_doublings: 3\n")
    wrong = "".join(f"  {key}" for key in keys)
    if limit:
        wrong = wrong + opened if is_before else opened + wrong
    fixed = fix_text(start + wrong, _check, unsafe=True)
    assert fixed.text == start + opened + "".join(f"    {key}" for key in keys)


@pytest.mark.parametrize(
    ("count_left", "applied"),
    [
        pytest.param(lambda fixes: max(50 - fixes, 0), 20, id="each is better"),
        pytest.param(lambda _: 50, 0, id="none is better"),
        pytest.param(lambda fixes: int(fixes < 4), 4, id="the third that is revealed"),
        pytest.param(lambda fixes: int(fixes < 5), 0, id="the fourth that is revealed"),
    ],
)
def test_fixes_without_end_are_stopped(count_left: Callable[[int], int], applied: int) -> None:
    def endless(content: str) -> CheckResult:
        checked = _check(content)
        fix = Fix(title="add", edits=(Edit(0, 0, "#\n"),), safe=True)
        return checked._replace(findings=[finding(fix=fix)] * count_left(content.count("#")))

    assert fix_text("queue:\n", endless, unsafe=False).applied == applied


@pytest.mark.parametrize(("value", "left"), [("5/min", "  rate: 5/m"), ("fast", "  rat: fast")])
def test_how_often_a_file_is_checked_does_not_depend_on_its_fixes(value: str, left: str) -> None:
    checks = Counter[int]()
    for count in (2, 50):

        def counting(content: str) -> CheckResult:
            checks[count] += 1  # noqa: B023 - called in this iteration
            return _check(content)

        text = "queue:\n" + "".join(f"- name: q{i}\n  rat: {value}\n" for i in range(count))
        fixed = fix_text(text, counting, unsafe=True)
        assert {line for line in fixed.text.splitlines() if "ra" in line} == {left}
    assert checks[2] == checks[50] <= 4


def test_touching_fixes_are_made_one_after_the_other() -> None:
    text = (
        "queue:\n- name: a\n  mode: pull\n  rate: 5/s\n  bucket_size: 5\n  target: x\n"
        "  max_concurrent_requests: 5\n"
    )
    fixed = fix_text(text, _check, unsafe=True)
    assert fixed.text == "queue:\n- name: a\n  mode: pull\n"
    assert fixed.applied == 4


def test_file_that_is_named_twice_is_checked_once(tmp_path: Path) -> None:
    path = tmp_path / "queue.yaml"
    path.write_text("queue:")
    inputs = find_inputs([str(tmp_path), str(path)]).files
    assert [(item.path, item.searched) for item in inputs] == [(path, False)]


def test_watching_checks_again_after_each_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are checked when they change, come or go for a time, and until Ctrl-C."""
    monkeypatch.chdir(tmp_path)
    path = Path("queue.yaml")
    path.write_text("queue: [{name: a}]")
    between: Iterator[Callable[[], object]] = iter(
        [lambda: None, lambda: path.write_text("queue:"), path.unlink, lambda: path.write_text("")]
    )

    def waited(_event: object, _seconds: float) -> None:
        step = next(between, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr("threading.Event.wait", waited)
    assert run(Arguments(paths=("queue.yaml",), watch=True)) == 0
    assert capsys.readouterr().err.splitlines() == [
        "1 file checked: 1 error",
        "1 file checked, nothing found",
        'pullqueue: cannot read "queue.yaml": no such file or directory',
        "1 file checked: 1 error",
        "stopped",
    ]


@each_row(
    ("data", "message"),
    [
        (b"queue:", "not XML: "),
        (b"<queues/>", "the root is <queues>: it must be <queue-entries>"),
        (
            '<!DOCTYPE x [<!ENTITY a "b">]><queue-entries>&a;</queue-entries>'.encode("utf-16"),
            "the document type has declarations: remove them",
        ),
        (b"<!DOCTYPE x><queue-entries>&a;</queue-entries>", "not XML: "),
        (
            b'<!DOCTYPE x SYSTEM "x.dtd"><queue-entries>&a;</queue-entries>',
            "the entity &a; is not declared: write its text",
        ),
        (b"<queue-entries><!ENTITY a 'b'></queue-entries>", "not XML: "),
        (b" " * 1_048_577, "the file is larger than 1,048,576 bytes"),
        (b'<?xml version="1.0" encoding="nonsense"?><queue-entries/>', "not XML: "),
    ],
)
def test_what_is_not_a_queue_xml_is_refused_in_one_line(data: bytes, message: str) -> None:
    with pytest.raises(QueueXmlError, match="^" + message.replace("(", r"\(")):
        convert_xml(data)


FULL_XML = """\
<?xml version="1.0" encoding="utf-8"?><!DOCTYPE queue-entries PUBLIC "-//example//EN" "queue.dtd">
<!-- before -->
<queue-entries version="2" xmlns="http://appengine.google.com/ns/1.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:noNamespaceSchemaLocation="queue.xsd">
  <total-storage-limit>1024</total-storage-limit>
  <!-- mail -->
  <queue id="q">
    <!-- named so -->
    <name>0123</name>
    <rate>20/s</rate>
    <rate><!-- half -->30/s</rate>
    <task-retry-limit>5</task-retry-limit>
    <bucket-size>ten</bucket-size>
    <target>yes</target>
    <retry-parameters>
      <!-- seldom -->
      <task-retry-limit>7<b/><!-- x --></task-retry-limit>
      <min-backoff-seconds>0.5</min-backoff-seconds>
      <age>1</age>
    </retry-parameters>
  </queue>
  <queue/>
  <queue>
    <name>jobs</name>
    <mode>pull</mode>
    <acl><user-email>a@example.com</user-email></acl>
    <acl><writer-email>b@example.com</writer-email></acl>
  </queue>
  <!-- last -->
</queue-entries>
<!-- after -->
"""
FULL_YAML = """\
# before
total_storage_limit: 1024
queue:
# mail
- name: "0123"
  # named so
  rate: 30/s  # half
  bucket_size: ten
  target: "yes"
  retry_parameters:
    # seldom
    task_retry_limit: 7  # x
    min_backoff_seconds: 0.5
- name:
- name: jobs
  mode: pull
  acl:
  - user_email: a@example.com
  - writer_email: b@example.com
# last
# after
"""


def test_queue_xml_is_kept_as_far_as_it_goes() -> None:
    """Values, comments and order are kept; what has no place is reported where it is."""
    done = convert_xml(FULL_XML.encode())
    assert done.text == FULL_YAML
    assert [remark[:3] for remark in done.dropped] == [
        (3, 1, "attribute `version` of <queue-entries> is not in queue.yaml: dropped"),
        (7, 3, 'queue "0123": attribute `id` of <queue> is not in queue.yaml: dropped'),
        (11, 5, 'queue "0123": <rate> is defined twice: the last one was kept'),
        (12, 5, 'queue "0123": <task-retry-limit> belongs in <retry-parameters>: dropped'),
        (19, 7, 'queue "0123": <age> is not in queue.yaml: dropped'),
        (17, 26, "<b> is not allowed in <task-retry-limit>: dropped"),
    ]
    lines = zip(done.text.splitlines(), done.places, strict=True)
    places = {line.strip(): place for line, place in lines if "#" not in line or "x" in line}
    assert places == {
        "total_storage_limit: 1024": (5, 3),
        "queue:": (3, 1),
        '- name: "0123"': (9, 5),
        "bucket_size: ten": (13, 5),
        'target: "yes"': (14, 5),
        "retry_parameters:": (15, 5),
        "task_retry_limit: 7  # x": (17, 7),
        "min_backoff_seconds: 0.5": (18, 7),
        "- name:": (22, 3),
        "- name: jobs": (24, 5),
        "mode: pull": (25, 5),
        "acl:": (26, 5),
        "- user_email: a@example.com": (26, 10),
        "- writer_email: b@example.com": (27, 10),
    }


@each_row(
    ("limit", "written"),
    [
        ("120M", "120M"),
        ("0", "0"),
        ("0100", '"0100"'),
        ("1.5", '"1.5"'),
        ("9" * 15, "9" * 15),
        ("9" * 16, f'"{"9" * 16}"'),
        ("9" * 400, f'"{"9" * 400}"'),
        ("a b", '"a b"'),
    ],
)
def test_values_are_quoted_where_yaml_would_read_others(limit: str, written: str) -> None:
    xml = f"<queue-entries><total-storage-limit>{limit}</total-storage-limit></queue-entries>"
    assert convert_xml(xml.encode()).text == f"total_storage_limit: {written}\nqueue: []\n"


def test_a_rate_of_zero_is_written_as_gcloud_accepts_it() -> None:
    xml = b"<queue-entries><queue><name>mail</name><rate>0</rate></queue></queue-entries>"
    assert convert_xml(xml).text == "queue:\n- name: mail\n  rate: 0/s\n"
