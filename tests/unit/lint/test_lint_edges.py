"""Every limit of a rule at its edge: the last value that is permitted, the first that is not."""

from __future__ import annotations

from tables import each_row

from pullqueue.config.findings import Severity
from pullqueue.config.settings import Settings
from pullqueue.lint.report import LintOptions, lint_data

PUSH = "queue:\n- name: mail\n  rate: 5/s\n  {}\n"
RETRY = "queue:\n- name: mail\n  rate: 5/s\n  retry_parameters:\n    {}\n"
PULL = "queue:\n- name: jobs\n  mode: pull\n  {}\n"
MOST_INTEGER = 2**31 - 1


def queues(count: int, *default: str) -> str:
    """Return a file with so many queues beside `default`, which does not count."""
    names = [*default, *(f"q{number}" for number in range(count))]
    return "queue:\n" + "".join(f"- {{name: {name}, rate: 5/s}}\n" for name in names)


def doublings(number: int, *, longest: int) -> str:
    """Return a file with so many doublings from one second to the longest backoff."""
    backoffs = f"min_backoff_seconds: 1\n    max_backoff_seconds: {longest}"
    return RETRY.format(f"{backoffs}\n    max_doublings: {number}")


EDGES: list[tuple[str, str, str]] = []
"""A rule, a file that it permits, and one that it does not."""


def edge(rule: str, text: str, *pairs: tuple[object, object]) -> None:
    """Add the edges of a rule: values in a text."""
    EDGES.extend((rule, text.format(permitted), text.format(not_)) for permitted, not_ in pairs)


edge("name-length", "queue:\n- name: {}\n  rate: 5/s\n", ("n" * 100, "n" * 101))
edge("rate-too-high", "queue:\n- name: mail\n  rate: {}\n", ("500/s", "501/s"))
edge("rate-too-high", "queue:\n- name: mail\n  rate: {}\n", ("30000/m", "30001/m"))
edge("rate-too-high", "queue:\n- name: mail\n  rate: {}\n", ("1800000/h", "1800001/h"))
edge("rate-too-high", "queue:\n- name: mail\n  rate: {}\n", ("43200000/d", "43200001/d"))
edge("queue-paused", "queue:\n- name: mail\n  rate: {}\n", ("0.001/d", "0/d"))
edge("bucket-size-range", PUSH.format("bucket_size: {}"), (0, -1), (500, 501))
edge("max-concurrent-range", PUSH.format("max_concurrent_requests: {}"), (1, -1), (5000, 5001))
for key in ("task_retry_limit", "max_doublings"):
    edge("retry-range", RETRY.format(f"{key}: {{}}"), (0, -1), (MOST_INTEGER, MOST_INTEGER + 1))
for key in ("min_backoff_seconds", "max_backoff_seconds"):
    edge("retry-range", RETRY.format(f"{key}: {{}}"), (0, -1), (0.0, -0.1))
edge("age-limit-range", RETRY.format("task_age_limit: {}"), ("1s", "0.999s"))
BACKOFFS = RETRY.format("min_backoff_seconds: 60\n    max_backoff_seconds: {}")
edge("backoff-order", BACKOFFS, (60, 59.9))
edge("backoff-implied", RETRY.format("min_backoff_seconds: {}"), (3600, 3601))
edge("backoff-implied", RETRY.format("max_backoff_seconds: {}"), (0.1, 0.09))
PULL_LIMIT = PULL.format("retry_parameters:\n    task_retry_limit: {}")
edge("pull-retry-limit-drops", PULL_LIMIT, (2, 1), (2, 0))
edge("bucket-size-default", "queue:\n- name: mail\n  rate: {}\n", ("20/s", "20.1/s"))
edge("integer-coerced", RETRY.format("max_doublings: {}"), ("+5", "010"))
edge("storage-limit-zero", "total_storage_limit: {}\n" + PUSH.format(""), (1, 0))
EDGES += [
    ("doublings-pointless", doublings(36, longest=64), doublings(37, longest=64)),
    ("doublings-pointless", doublings(30, longest=1), doublings(31, longest=1)),
    *(
        (rule, queues(permitted, *default), queues(not_, *default))
        for rule, permitted, not_ in (
            ("too-many-queues-free", 10, 11),
            ("too-many-queues-free", 101, 100),
            ("too-many-queues", 100, 101),
        )
        for default in ((), ("default",))
    ),
    ("too-deep", f"queue: {'[' * 31}{']' * 31}\n", f"queue: {'[' * 32}{']' * 32}\n"),
    ("file-too-large", "#".ljust(2**20 - 1, "x") + "\n", "#".ljust(2**20, "x") + "\n"),
]


@each_row(("rule", "permitted", "refused"), EDGES)
def test_a_rule_permits_what_is_at_its_limit_and_nothing_past_it(
    rule: str, permitted: str, refused: str
) -> None:
    options = LintOptions(settings=Settings(levels={rule: Severity.ERROR}))
    reports = (lint_data(text.encode(), file="q", options=options) for text in (permitted, refused))

    assert [rule in {each.rule for each in report.findings} for report in reports] == [False, True]


ACCESS = PULL.format("acl:\n  - user_email: a@b.example")
NOT_DEPLOYED = "is not deployed by current versions of gcloud"


@each_row(
    ("rule", "text", "message"),
    [
        (
            "acl-no-writer",
            ACCESS,
            (
                "nobody can insert over REST: add `- writer_email: ADDRESS`, unless only the "
                "application adds tasks"
            ),
        ),
        (
            "acl-missing",
            PULL.format(""),
            'queue "jobs" has no `acl`: every request over REST is refused; add one',
        ),
        (
            "too-many-queues-free",
            queues(11, "default"),
            "11 queues besides `default`; the maximum without billing is 10",
        ),
        (
            "key-not-deployed",
            "total_storage_limit: 1\n" + PUSH.format(""),
            f"`total_storage_limit` {NOT_DEPLOYED}",
        ),
        (
            "key-not-deployed",
            ACCESS,
            f"`acl` {NOT_DEPLOYED}: grant access with IAM roles instead",
        ),
        (
            "pull-to-pubsub",
            PULL.format(""),
            (
                'queue "jobs" is a pull queue, which Cloud Tasks does not have: move it to '
                "Pub/Sub, which has no leases by tag and no unique task names"
            ),
        ),
        (
            "bucket-size-default",
            "queue:\n- name: mail\n  rate: 21/s\n",
            (
                "a rate of 21/s starts at most 5 tasks at once: set `bucket_size: 4`, or as many "
                "as may start together"
            ),
        ),
    ],
)
def test_a_rule_that_is_off_reports_what_to_do_where_it_is_on(
    rule: str, text: str, message: str
) -> None:
    options = LintOptions(settings=Settings(levels={rule: Severity.INFO}))
    findings = lint_data(text.encode(), file="q", options=options).findings

    assert [each.message for each in findings if each.rule == rule] == [message]
