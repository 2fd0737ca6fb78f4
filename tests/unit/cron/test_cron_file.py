"""Reading cron.yaml."""

from __future__ import annotations

from datetime import UTC, datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tables import each_row

from pullqueue import ConfigFileError, InvalidCronError, RetryParameters
from pullqueue.clock import from_usec, to_usec
from pullqueue.cron.file import load_cron, parse_cron, read_cron
from pullqueue.cron.schedule import Interval

DOCUMENTED = """\
cron:
- description: "daily summary job"
  url: /tasks/summary
  schedule: every 24 hours
- description: "monday morning mailout"
  url: /mail/weekly?kind=all
  schedule: every monday 09:00
  timezone: Australia/NSW
- url: /tasks/retry
  schedule: every 10 mins from 10:00 to 14:00
  target: v1:worker
  retry_parameters:
    job_retry_limit: 3
    job_age_limit: 1d
    min_backoff_seconds: 2.5
    max_backoff_seconds: 60
    max_doublings: 5
"""


def test_the_documented_examples_are_read() -> None:
    """Every field of Google's reference."""
    summary, mailout, retry = parse_cron(DOCUMENTED)

    named = ("daily summary job", "/tasks/summary", None)
    assert (summary.name, summary.url, summary.target) == named
    assert summary.schedule == Interval(seconds=86_400)
    assert (summary.zone, summary.retry) == (UTC, None)
    assert (mailout.zone, str(mailout.zone)) == (ZoneInfo("Australia/NSW"), "Australia/NSW")
    # A Sunday in UTC: Sydney is 11 hours ahead in January.
    after = to_usec(datetime(2026, 1, 1, tzinfo=UTC))
    assert from_usec(mailout.next_usec(after)) == datetime(2026, 1, 4, 22, tzinfo=UTC)
    assert (retry.number, retry.name, retry.target) == (3, "/tasks/retry", "v1.worker")
    assert retry.schedule == Interval(seconds=600, between=(time(10), time(14)))
    assert retry.retry == RetryParameters(
        task_retry_limit=3,
        task_age_limit_seconds=86_400,
        min_backoff_seconds=2.5,
        max_backoff_seconds=60,
        max_doublings=5,
    )


SECOND_LINES = "cron:\n- url: /a\n  schedule: every 1 hours\n"
SCHEDULE = "\n  schedule: every 1 hours"
BACKOFF = f"{SECOND_LINES}  retry_parameters:\n    min_backoff_seconds: "


@each_row("text", ["cron:\n", "cron: []\n", "application:\ncron:\n", "%YAML 1.2\n---\ncron:\n"])
def test_a_file_may_have_no_jobs(text: str) -> None:
    """Nor is it refused for what is only a warning."""
    assert parse_cron(text) == ()


@each_row(
    ("text", "message"),
    [
        (
            f"{BACKOFF}61\n    max_backoff_seconds: 60\n",
            "5:5: min_backoff_seconds is 61, and max_backoff_seconds is 60: it must not be less",
        ),
        (f"{BACKOFF}3601\n", "5:5: min_backoff_seconds is 3601, and max_backoff_seconds is 3600: "),
        ("", "1:1: there is no `cron:`: write it, and the jobs as a list under it"),
        ("\nqueue: []", "2:1: there is no `cron:`: write it, and the jobs as a list under it"),
        ("<cronentries/>", "1:1: this looks like cron.xml, not YAML: convert it with `gcloud beta"),
        (
            b"cron: []  # \xff",
            "1:13: byte 0xff is not UTF-8 (perhaps Latin-1): save the file as UTF-8",
        ),
        ("cron: 7", '1:7: `cron` is "7": it must be a list of jobs'),
        ("cron: [7]", '1:8: a job is "7": it must have `url` and `schedule`'),
        ("cron:\n- url: /a\n", "2:3: job 1 has no `schedule`: add one"),
        ("cron:\n- schedule: every 1 hours\n", "2:3: job 1 has no `url`: add one"),
        ("cron:\n- url:\n  schedule: every 1 hours\n", "2:3: job 1 has no `url`: add one"),
        ("cron:\n- {url: /a, schedule: }\n", "2:3: job 1 has no `schedule`: add one"),
        ("cron:\n- target: w\n", "2:3: job 1 has no `url` and no `schedule`: add them"),
        (f"cron:\n- url: a{SCHEDULE}", '2:8: url "a": use a path of the app'),
        (f"cron:\n- url: https://a/b{SCHEDULE}", '2:8: url "https://a/b": use a path of the app'),
        (
            "cron:\n- url: /a\n  schedule: every hour",
            '3:13: schedule "every hour": the number is missing: write `every 1 hours`',
        ),
        (
            "cron:\n- url: /a\n  scedule: every 1 hours",
            '3:3: job 1 has no key "scedule": did you mean "schedule"?',
        ),
        (f"cron:\n- url: [/a]{SCHEDULE}", "2:8: `url` is a list: it must be a"),
        (
            f"{SECOND_LINES}  timezone: Berlin",
            (
                '4:13: timezone "Berlin": there is no such time zone: use a name of the tz '
                "database, such as Europe/Berlin (on a machine without one, pip install tzdata)"
            ),
        ),
        (f"{SECOND_LINES}  timezone: ../a", '4:13: timezone "../a": there is no such time zone'),
        (f"{SECOND_LINES}  target: W", '4:11: target "W": use the name of a service or a version'),
        (f"{SECOND_LINES}  target: v1.w", '4:11: target "v1.w": use the name of a service or a'),
        (f"{SECOND_LINES}  description: {'x' * 500}", "the maximum is 499"),
        (
            f"{SECOND_LINES}  attempt_deadline: 15s",
            '4:3: job 1 has no key "attempt_deadline": remove it, a request has 10 minutes',
        ),
        (
            f"{SECOND_LINES}  retry_parameters: 3",
            '4:21: `retry_parameters` is "3": it must have keys such as `job_retry_limit`',
        ),
        *(
            (f"{SECOND_LINES}  retry_parameters: {{{key}: {value}}}", message)
            for key, value, message in (
                ("job_retry_limit", "6", 'job_retry_limit "6": the maximum is 5'),
                ("job_retry_limit", "-1", 'job_retry_limit "-1": use a whole number, 0 or more'),
                *(
                    ("job_age_limit", value, f'job_age_limit "{value}": use a number with a unit')
                    for value in ("1 day", "0s", "0.5s", "1e1d", "1.s")
                ),
                ("min_backoff_seconds", "x", 'min_backoff_seconds "x": use a number of seconds'),
                ("max_doublings", "1.5x", 'max_doublings "1.5x": use a whole number, 0 or more'),
                ("task_retry_limit", "3", 'retry_parameters of job 1 has no key "task_'),
            )
        ),
        ("cron:\n  - url: /a\n schedule: b", "3:2: this line begins in column 2, the key above in"),
        ("cron: &a []", "1:7: anchor `&a` is not supported by App Engine: write the value out"),
        (f"application: x\n{SECOND_LINES}", "1:1: gcloud refuses `application`, since the"),
        (f"cron:\n- url: a  # queue-lint: ignore[all]{SCHEDULE}", '2:8: url "a": use a path'),
        ("cron: []\ncorn: []", '2:1: cron.yaml has no key "corn": did you mean "cron"?'),
        ("cron:\n- {url: /a, url: /b, schedule: every 1 hours}", "2:13: "),
    ],
)
def test_a_fault_is_reported_with_its_line(text: str | bytes, message: str) -> None:
    """And with what to do."""
    with pytest.raises(InvalidCronError) as raised:
        parse_cron(text)
    [line] = str(raised.value).splitlines()
    assert line.startswith("cron.yaml:")
    place, rule = line.removeprefix("cron.yaml:").split(" QY")
    assert message in f"{place} {rule.split(': ', 1)[1]}"


def test_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    """In the order of the file, which is named as the user did."""
    path = tmp_path / "jobs.yaml"
    path.write_text("cron:\n- url: a\n  schedule: b\n- schedule: c\n")

    with pytest.raises(InvalidCronError) as raised:
        load_cron(path)

    places = [line.split(": ")[0] for line in str(raised.value).splitlines()]
    assert places == [f"{path}:2:8", f"{path}:3:13", f"{path}:4:3", f"{path}:4:13"]


JOB = ("cron", 2)


@each_row(
    ("text", "paths"),
    [
        (
            "cron: [1, {url: [a], schedule: b, x: 1}, {retry_parameters: {max_doublings: -1}}]",
            [
                ("cron", 0),
                ("cron", 1, "x"),
                ("cron", 1, "url"),
                ("cron", 1, "schedule"),
                (*JOB, "retry_parameters", "max_doublings"),
                JOB,
            ],
        ),
        ("", [()]),
        ("application: x\ncron: 7", [("application",), ("cron",)]),
        ("cron:\n" + 251 * "- {url: /a, schedule: every 1 hours}\n", [("cron",)]),
    ],
)
def test_each_fault_has_the_path_of_what_is_wrong(
    text: str, paths: list[tuple[str | int, ...]]
) -> None:
    result = read_cron(text, "cron.yaml")
    reports = result.reports["invalid-cron"]
    assert [each.path for each in reports] == paths
    assert all(each.at.end <= len(text) for each in reports)
    assert result.source.file == "cron.yaml"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match=r"none\.yaml"):
        load_cron(tmp_path / "none.yaml")


@each_row(
    ("field", "least", "most"),
    [
        ("description: {}", "x", "x" * 499),
        ("retry_parameters: {{job_retry_limit: {}}}", "0", "5"),
        ("retry_parameters: {{job_age_limit: {}}}", "1s", ".5d"),
        ("retry_parameters: {{min_backoff_seconds: {}}}", "0", "3600"),
        ("target: {}", "w", "v1:w"),
    ],
)
def test_what_is_at_a_limit_is_permitted(field: str, least: str, most: str) -> None:
    for value in (least, most):
        assert len(parse_cron(SECOND_LINES + "  " + field.format(value))) == 1


def test_a_file_has_250_jobs_at_most() -> None:
    job = "- url: /a\n  schedule: every 1 hours\n"

    assert len(parse_cron("cron:\n" + 250 * job)) == 250
    with pytest.raises(InvalidCronError, match="there are 251 jobs; the maximum is 250"):
        parse_cron("cron:\n" + 251 * job)
