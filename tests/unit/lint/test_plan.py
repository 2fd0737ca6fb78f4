"""`pullqueue plan`: what a deployment would do, by the rules of gcloud."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linting import committed, run_pullqueue, write
from tables import each_row

from pullqueue.config import loads
from pullqueue.config.view import View
from pullqueue.lint.convert import Place, convert_view
from pullqueue.lint.loading import load_view
from pullqueue.lint.plan import DeployedError, QueuePlan, deployed_queues, make_plan, read_deployed
from pullqueue.lint.plan_report import REPORTERS, FilePlan

PARENT = "projects/my-app/locations/us-central1/queues"
RETRY = {"maxAttempts": -1, "minBackoff": "0.100s", "maxBackoff": "3600s", "maxDoublings": 16}
RATES = {"maxDispatchesPerSecond": 5.0, "maxBurstSize": 5, "maxConcurrentDispatches": 1000}
MAIL = {"name": f"{PARENT}/mail", "rateLimits": RATES, "retryConfig": RETRY, "state": "RUNNING"}
PLAIN = "queue:\n- name: mail\n  rate: 5/s\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(text: str, *queues: dict[str, Any]) -> list[QueuePlan]:
    """Return the plan of a file against deployed queues."""
    deployed = read_deployed(json.dumps(queues).encode(), file="queues.json")
    return make_plan(viewed(text), deployed).queues


def viewed(text: str) -> View:
    """Return the tree of a valid file."""
    return load_view(text, file="queue.yaml", profile="gcloud")


def test_a_default_that_is_written_out_or_fewer_digits_are_not_a_change() -> None:
    written_out = (
        f"{PLAIN}  bucket_size: 5\n  max_concurrent_requests: 1000\n  retry_parameters:\n"
        "    min_backoff_seconds: 0.1\n    max_backoff_seconds: 3600\n    max_doublings: 16\n"
    )
    for text in (PLAIN, written_out, PLAIN.replace("5/s", "300/m")):
        assert planned(text, MAIL) == [QueuePlan("mail", line=2)]
    queue = {**MAIL, "rateLimits": {**RATES, "maxDispatchesPerSecond": 1 / 60}}
    queue["retryConfig"] = {**RETRY, "minBackoff": "0.333333333s"}
    backoff = "  retry_parameters:\n    min_backoff_seconds: 0.333333333\n"
    text = PLAIN.replace("5/s", "1/m") + backoff
    assert planned(text, queue) == [QueuePlan("mail", line=2)]


def test_a_change_has_its_values_in_the_terms_of_the_file() -> None:
    text = "queue:\n- name: mail\n  rate: 10/s\n  retry_parameters: {task_retry_limit: 0}\n"
    (plan,) = planned(text, MAIL)

    assert plan.actions == ("change",)
    assert [tuple(change) for change in plan.changes] == [
        ("rate", "5/s", "10/s"),
        ("task_retry_limit", "no limit", "0"),
    ]


@each_row(("attempts", "retries"), [(-1, None), (0, None), (1, "0"), (2, "1")])
def test_attempts_are_compared_as_retries(attempts: int, retries: str | None) -> None:
    """With -1 and 0 there is no limit, as in a file without one."""
    (plan,) = planned(PLAIN, {**MAIL, "retryConfig": {**RETRY, "maxAttempts": attempts}})

    expected = [] if retries is None else [("task_retry_limit", retries, "no limit")]
    assert [tuple(change) for change in plan.changes] == expected


def test_what_the_list_does_not_have_is_at_its_default() -> None:
    """But a rate, which has none."""
    (plan,) = planned(PLAIN, {"name": MAIL["name"]})

    assert plan.actions == ("change",)
    assert [tuple(change) for change in plan.changes] == [("rate", "not set", "5/s")]


def test_a_rate_is_shown_as_it_is_written_and_per_second() -> None:
    (plan,) = planned("queue:\n- name: mail\n  rate: 1800000/h\n", MAIL)

    assert [tuple(change) for change in plan.changes] == [("rate", "5/s", "1800000/h (500/s)")]


@each_row(
    ("rate", "mode", "actions", "runs"),
    [
        ("1/s", "", ("create",), False),
        ("0/s", "push", ("create", "pause"), False),
        ("0/s", "", ("create",), True),
        ("0/s", "~", ("create",), True),
        ("0.00005/d", "push", ("create",), False),
        ("0.00004/d", "push", ("create", "pause"), False),
    ],
)
def test_a_new_queue_with_rate_0_is_paused_only_if_its_mode_is_written(
    rate: str, mode: str, actions: tuple[str, ...], *, runs: bool
) -> None:
    """As in DeployQueuesYamlFile of gcloud 528; the next deployment pauses the others."""
    (plan,) = planned(PLAIN.replace("5/s", rate) + (f"  mode: {mode}\n" if mode else ""))

    assert (plan.line, plan.actions) == (2, actions)
    assert tuple(plan.changes[0]) == ("mode", None, "push")
    assert any(change.key == "rate" and rate in change.after for change in plan.changes)
    assert any(note.startswith("not paused") for note in plan.notes) is runs


@each_row(
    ("state", "rate", "resume", "actions", "stays"),
    [
        ("RUNNING", "5/s", "true", (), False),
        ("RUNNING", "5/s", "false", (), False),
        ("RUNNING", "0/s", "true", ("pause",), False),
        ("RUNNING", "0/s", "false", ("pause",), False),
        ("PAUSED", "5/s", "true", ("resume",), False),
        ("DISABLED", "5/s", "true", ("resume",), False),
        ("PAUSED", "5/s", "false", (), True),
        ("DISABLED", "5/s", "false", (), True),
        ("PAUSED", "0/s", "true", (), False),
        ("PAUSED", "0/s", "false", (), False),
    ],
)
def test_a_deployment_resumes_a_queue_with_a_rate_unless_the_file_says_no(
    state: str, rate: str, resume: str, actions: tuple[str, ...], *, stays: bool
) -> None:
    text = f"resume_paused_queues: {resume}\n{PLAIN.replace('5/s', rate)}"
    (plan,) = planned(text, {**MAIL, "state": state})

    notes = ("stays paused: resume_paused_queues is false",) if stays else ()
    assert (plan.actions, plan.notes, plan.changes) == (actions, notes, ())


def test_a_limit_that_the_file_does_not_have_is_removed() -> None:
    """The request has 0 for it, unlike for a rate of 0."""
    (plan,) = planned(PLAIN, {**MAIL, "retryConfig": {**RETRY, "maxRetryDuration": "3600s"}})

    assert [tuple(change) for change in plan.changes] == [("task_age_limit", "3600s", "no limit")]


def test_queues_that_the_file_does_not_name_stop_except_default() -> None:
    others = [{**MAIL, "name": f"{PARENT}/{name}"} for name in ("by-api", "default", "idle")]
    others[2]["state"] = "PAUSED"
    plans = {plan.name: plan for plan in planned(PLAIN, MAIL, *others)}

    assert plans["by-api"].actions == ("stop",)
    assert "gcloud pauses it, whoever created it" in plans["by-api"].notes[0]
    assert plans["default"].actions == plans["idle"].actions == ()


@pytest.mark.parametrize("pull", [{"type": "PULL"}, {"pullTarget": {}}])
def test_a_changed_mode_is_refused(pull: dict[str, Any]) -> None:
    (plan,) = planned(PLAIN, {**MAIL, **pull})

    assert plan.actions == ("refuse",)
    assert [tuple(change) for change in plan.changes] == [("mode", "pull", "push")]


@each_row(
    "routing",
    [
        {"appEngineRoutingOverride": {"service": "worker", "version": "v2"}},
        {"appEngineRoutingOverride": {"host": "v2.worker.my-app.uc.r.appspot.com"}},
        {"appEngineHttpQueue": {"appEngineRoutingOverride": {"host": "v2.worker.my-app.x"}}},
    ],
)
def test_a_target_is_found_in_the_routing_and_is_not_removed(routing: dict[str, Any]) -> None:
    queue = {**MAIL, **routing}
    assert planned(f"{PLAIN}  target: v2.worker\n", queue) == [QueuePlan("mail", line=2)]
    (plan,) = planned(f"{PLAIN}  target: other\n", queue)
    assert [tuple(change) for change in plan.changes] == [("target", "v2.worker", "other")]
    (plan,) = planned(PLAIN, queue)
    assert plan.actions == ()
    assert plan.notes == ("keeps the target v2.worker: a deployment does not remove it",)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "name": st.sampled_from("abcd"),
                "rate": st.sampled_from(["0/s", "5/s", "7/h", "0.00004/d", "0.00005/d"]),
            },
            optional={
                "target": st.sampled_from(["s", "v.s"]),
                "max_concurrent_requests": st.integers(-9, 9000),
                "retry_parameters": st.fixed_dictionaries(
                    {},
                    optional={
                        "task_retry_limit": st.integers(0, 9),
                        "task_age_limit": st.sampled_from(["1.5s", "2d"]),
                        "max_doublings": st.integers(0, 20),
                        "min_backoff_seconds": st.sampled_from([0, 0.001, 9000]),
                    },
                ),
            },
        ),
        unique_by=lambda queue: str(queue["name"]),
    )
)
def test_what_convert_writes_changes_nothing_if_it_is_deployed(queues: list[Any]) -> None:
    text = json.dumps({"queue": queues})
    view = viewed(text)
    written = convert_view(view, to="json", place=Place("my-app", "l")).text
    plan = make_plan(view, read_deployed(written.encode(), file="queues.json"))
    assert not plan.has_changes
    assert make_plan(view, deployed_queues(loads(text))).has_changes is False


@each_row(
    ("text", "message"),
    [
        ("", "not a JSON array of queues: write it with `gcloud beta tasks queues list"),
        ("[" * 100_000, "not a JSON array"),
        ('{"error": 1}', "not a JSON array"),
        ('[{"name": "mail"}]', "[0].name must be projects/PROJECT/locations/LOCATION/queues/NAME"),
        ("[1]", "[0].name must be"),
        (json.dumps([{**MAIL, "name": f"{PARENT}/a|b"}]), "[0].name must be"),
        (json.dumps([MAIL, MAIL]), '[1].name: queue "mail" is in the list twice'),
        (json.dumps([{**MAIL, "rateLimits": 5}]), "[0].rateLimits must be an object, but is 5"),
        (
            json.dumps([{**MAIL, "state": "STOPPED"}]),
            '[0].state must be RUNNING, PAUSED or DISABLED, but is "STOPPED"',
        ),
        (
            json.dumps([MAIL, {**MAIL, "name": "projects/p/locations/other/queues/mail"}]),
            "/locations/other: a queue.yaml is for one of them, so list that one, with --project",
        ),
        *(
            (
                json.dumps([{**MAIL, "rateLimits": {"maxDispatchesPerSecond": value}}]),
                f"[0].rateLimits.maxDispatchesPerSecond must be a number, but is {shown}",
            )
            for value, shown in (("5", '"5"'), (True, "True"), (math.inf, "inf"))
        ),
        (
            json.dumps([{**MAIL, "retryConfig": {"minBackoff": 5}}]),
            '[0].retryConfig.minBackoff must be seconds such as "3600s", but is 5',
        ),
    ],
)
def test_a_file_without_deployed_queues_is_refused(text: str, message: str) -> None:
    with pytest.raises(DeployedError) as refused:
        read_deployed(text.encode(), file="queues.json")
    assert message in str(refused.value)


def test_the_list_of_the_rest_api_is_read_as_well() -> None:
    document = json.dumps({"queues": [MAIL]}).encode()
    assert read_deployed(document, file="q") == read_deployed(json.dumps([MAIL]).encode(), file="q")
    assert read_deployed(b"{}", file="q") == {}


def test_the_command_shows_changes_and_its_exit_status_can_say_so(folder: Path) -> None:
    write("queue.yaml", PLAIN.replace("5/s", "10/s"))
    write("queues.json", json.dumps([MAIL]))
    done = run_pullqueue("plan", "--deployed", "queues.json")
    assert done.exit_code == 0
    assert done.stdout == (
        "What a deployment of queue.yaml changes, compared with queues.json\n\n"
        "  ~ mail  changed\n      rate: 5/s -> 10/s\n\nPlan: 1 to change.\n"
    )
    changed = ("plan", "--deployed", "queues.json", "--detailed-exitcode")
    assert run_pullqueue(*changed).exit_code == 2
    write("queue.yaml", PLAIN)
    done = run_pullqueue(*changed)
    assert done.exit_code == 0
    assert done.stdout.endswith("No changes: 1 unchanged.\n")


def test_the_command_compares_with_a_revision_and_with_a_file(folder: Path) -> None:
    committed("app/queue.yaml", text=f"{PLAIN}- name: old\n  rate: 1/s\n")
    write("before.yaml", Path("app/queue.yaml").read_text())
    write("app/queue.yaml", PLAIN.replace("5/s", "10/s"))
    for against in ("HEAD", "before.yaml"):
        done = run_pullqueue("plan", "app/queue.yaml", "--against", against, "--json")
        document = json.loads(done.stdout)
        assert [(each["name"], each["actions"]) for each in document["queues"]] == [
            ("mail", ["change"]),
            ("old", ["stop"]),
        ]
        assert document["counts"]["change"] == 1
    write("new.yaml", PLAIN)
    done = run_pullqueue("plan", "new.yaml", "--against", "HEAD")
    assert done.stderr == 'pullqueue: "new.yaml" is not in "HEAD": everything is new\n'
    assert "+ mail  created" in done.stdout
    done = run_pullqueue("plan", "none.yaml", "--against", "HEAD")
    assert done.stderr == 'pullqueue: cannot read "none.yaml": no such file or directory\n'


def test_a_changed_mode_ends_the_command_with_status_1(folder: Path) -> None:
    committed("queue.yaml", text=PLAIN)
    write("queue.yaml", "queue:\n- name: mail\n  mode: pull\n")
    for arguments in ((), ("--detailed-exitcode",)):
        done = run_pullqueue("plan", "--against", "HEAD", *arguments)
        assert done.exit_code == 1
        assert "! mail  mode changed, which breaks it" in done.stdout


@pytest.mark.parametrize("output_format", ["github", "gitlab"])
def test_a_comment_is_a_table_with_the_queues_that_change(folder: Path, output_format: str) -> None:
    write("queue.yaml", f"{PLAIN}- name: jobs\n  mode: pull\n- name: same\n  rate: 5/s\n")
    jobs, same, default = (
        {**MAIL, "name": f"{PARENT}/{name}"} for name in ("jobs", "same", "default")
    )
    paused = {**MAIL, "state": "PAUSED"}
    write("queues.json", json.dumps([paused, jobs, same, default]))
    done = run_pullqueue("plan", "--deployed", "queues.json", "--format", output_format)
    lines = done.stdout.splitlines()

    assert lines[0] == "<!-- pullqueue plan -->"
    assert "| `>` | `mail` | resumed |  |" in lines
    assert "A queue has another mode: adds to it fail." in done.stdout
    assert not any("`same`" in line for line in lines)
    assert lines[-3:] == [
        "- `default`: the file does not name it: default stays as it is",
        "",
        "**Plan**: 1 to resume, 1 with another mode, 2 unchanged.",
    ]


@each_row(
    ("arguments", "status", "message"),
    [
        ([], 3, "pass --deployed JSON or --against REV|FILE, one of them"),
        (["--detailed-exitcode"], 3, "pass --deployed JSON or --against REV|FILE, one of them"),
        (["--detailed-exitcode", "--deployd", "q.json"], 3, "there is no option `--deployd`"),
        (
            ["--deployed", "q.json", "--json", "--format", "json", "--detailed-exitcode"],
            3,
            "pass --json or --format, one of them",
        ),
        (["--deployed", "q.json", "--against", "HEAD"], 3, "one of them"),
        (["--deployed", "none.json"], 3, 'cannot read "none.json": no such file'),
        (["--deployed", "queue.yaml"], 1, "queue.yaml: not a JSON array of queues"),
        (
            ["--against", "nowhere"],
            3,
            'no file "nowhere" here, and this folder is in no git repository',
        ),
        (["--against", ""], 3, "--against is empty"),
        (["--against", "."], 3, '"." is a folder: pass a git revision or a file'),
        (["-", "--deployed", "-"], 3, "standard input can be read once"),
        (["-", "-", "--deployed", "q.json"], 3, "standard input can be read once"),
        (["--against", "bad.yaml"], 1, "QY307"),
        (["bad.yaml", "--deployed", "q.json"], 1, "QY307"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    folder: Path, arguments: list[str], status: int, message: str
) -> None:
    write("queue.yaml", PLAIN)
    write("bad.yaml", "queue:\n- name: mail\n")
    write("q.json", "[]")
    done = run_pullqueue("plan", *arguments)

    assert (done.exit_code, done.stdout) == (status, "")
    assert message in done.stderr


@pytest.mark.parametrize("output_format", ["github", "gitlab"])
def test_a_comment_on_an_invalid_file_has_its_errors(folder: Path, output_format: str) -> None:
    write("bad.yaml", "queue:\n- name: mail\n")
    write("q.json", "[]")
    done = run_pullqueue("plan", "bad.yaml", "--deployed", "q.json", "--format", output_format)
    assert done.exit_code == 1
    assert done.stdout.startswith("<!-- pullqueue plan -->\n")
    assert "**Not valid, no plan**:\n\n    bad.yaml:2" in done.stdout


def test_json_has_every_file_also_one_that_is_not_valid(folder: Path) -> None:
    write("queue.yaml", PLAIN)
    write("bad.yaml", "queue:\n- name: mail\n")
    write("q.json", json.dumps([MAIL]))
    done = run_pullqueue("plan", "queue.yaml", "bad.yaml", "--deployed", "q.json", "--json")
    good, bad = json.loads(done.stdout)
    assert (good["problems"], good["counts"]["unchanged"], bad["queues"]) == ([], 1, [])
    assert [problem.split(": ")[0] for problem in bad["problems"]] == ["bad.yaml:2:9"]
    assert (done.exit_code, json.loads(done.stderr)["error"]["exit_status"]) == (1, 1)
    alone = run_pullqueue("plan", "bad.yaml", "--deployed", "q.json", "--json")
    assert json.loads(alone.stdout) == bad


def test_the_repair_of_an_invalid_file_is_not_compared(folder: Path) -> None:
    committed("queue.yaml", text="queue:\n- name: mail\n")
    write("queue.yaml", PLAIN)
    for output_format in ("text", "json", "github", "gitlab"):
        done = run_pullqueue("plan", "--against", "HEAD", "--format", output_format)
        assert done.exit_code == 0
        assert "not compared with" in done.stdout


@each_row("output_format", ["github", "gitlab"])
@each_row(
    ("name", "shown"),
    [
        ("queue.yaml", "`queue.yaml`"),
        ("@all [x](http://evil) <img src=x>.yaml", "`@all [x](http://evil) <img src=x>.yaml`"),
        ("a`b``c.yaml", "``` a`b``c.yaml ```"),
        ("a\n# b.yaml", "`a\\n# b.yaml`"),
    ],
)
def test_a_name_of_a_file_is_only_a_name_in_a_comment(
    output_format: str, name: str, shown: str
) -> None:
    """A pull request chooses it, and the comment is written by a bot with more rights."""
    report = REPORTERS[output_format]([FilePlan(name, name)])

    title = f"### What a deployment of {shown} changes, compared with {shown}"
    assert report.splitlines()[1] == title


def test_a_removed_file_deploys_nothing(folder: Path) -> None:
    committed("queue.yaml", text=PLAIN)
    Path("queue.yaml").unlink()
    done = run_pullqueue("plan", "--against", "HEAD", "--detailed-exitcode")
    assert done.exit_code == 0
    assert "the file was removed: nothing is deployed, the queues stay" in done.stdout


def test_each_file_has_a_plan_with_its_path_from_the_root(folder: Path) -> None:
    committed("a/queue.yaml", "b/queue.yaml", text=PLAIN)
    os.chdir("a")
    files = ("queue.yaml", "../b/queue.yaml")
    done = run_pullqueue("plan", *files, "--against", "HEAD")
    titles = [line for line in done.stdout.splitlines() if line.startswith("What")]
    assert [title.split()[4] for title in titles] == ["a/queue.yaml", "b/queue.yaml"]
    done = run_pullqueue("plan", *files, "--against", "HEAD", "--json")
    assert [each["file"] for each in json.loads(done.stdout)] == ["a/queue.yaml", "b/queue.yaml"]


def test_a_file_is_read_from_standard_input(folder: Path) -> None:
    committed("queue.yaml", text=PLAIN)
    write("q.json", json.dumps([MAIL]))
    for compared in (("--deployed", "q.json"), ("--against", "queue.yaml")):
        done = run_pullqueue("plan", "-", *compared, stdin=PLAIN.replace("5/s", "9/s"))
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout.startswith("What a deployment of <stdin> changes, compared with ")
        assert "rate: 5/s -> 9/s" in done.stdout
    done = run_pullqueue("plan", "-", "--deployed", "q.json", stdin="queue:\n- name: a\n")
    assert (done.exit_code, done.stderr[:15]) == (1, "<stdin>:2:9: QY")
    done = run_pullqueue("plan", "-", "--against", "HEAD", stdin=PLAIN)
    assert (done.exit_code, done.stdout) == (3, "")
    assert "standard input has no version in `HEAD`: pass a file as --against" in done.stderr


def test_deployed_queues_are_read_from_pipes(folder: Path) -> None:
    write("queue.yaml", PLAIN)
    done = run_pullqueue("plan", "--deployed", "-", stdin=json.dumps([MAIL]))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "What a deployment of queue.yaml changes, compared with standard input\n"
    )
    reading, writing = os.pipe()
    os.write(writing, b"[]")
    os.close(writing)
    done = run_pullqueue("plan", "--deployed", f"/dev/fd/{reading}")
    os.close(reading)
    assert done.exit_code == 0
    assert done.stderr == "pullqueue: the list is empty: check project and location\n"
