"""`gtaskqueue` against a running server."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from pullqueue import Emulator, NewTask, Queue, TransientError
from pullqueue.api.tokens import SCOPES
from pullqueue.cli.gtaskqueue import gtaskqueue
from pullqueue.server.lifecycle import Server
from pullqueue.testing import Faults

Run = Callable[..., Result]


@pytest.fixture
def run(queue_flags: list[str]) -> Run:
    return lambda command, *flags: CliRunner().invoke(gtaskqueue, [command, *queue_flags, *flags])


def test_getqueue_shows_statistics_if_asked(run: Run, queue: Queue) -> None:
    queue.add(b"work")

    for dashes in ("-", "--"):
        with_stats = json.loads(run("getqueue", f"{dashes}get_stats").stdout)
        without = json.loads(run("getqueue", f"{dashes}noget_stats").stdout)
        assert with_stats["id"] == without["id"] == "projects/s~app/taskqueues/pull"
        assert with_stats["stats"]["totalTasks"] == 1
        assert "stats" not in without


def test_tasks_are_listed_shown_leased_and_deleted(run: Run, queue: Queue) -> None:
    queue.add(b"one", name="a", tag="t")
    queue.add(b"two", name="b")

    assert [task["id"] for task in json.loads(run("listtasks").stdout)["items"]] == ["a", "b"]
    assert json.loads(run("gettask", "--task_name=b").stdout)["payloadBase64"] == "dHdv"
    leased = json.loads(run("leasetask", "-lease_secs=60", "-num_tasks", "5").stdout)["items"]
    assert [task["id"] for task in leased] == ["a", "b"]
    assert json.loads(run("leasetask").stdout) == {"kind": "taskqueue#tasks"}
    assert run("deletetask", "--task_name", "a").exit_code == 0
    again = run("deletetask", "--task_name", "a")
    assert again.exit_code == 1
    assert 'task "a" of queue "pull" was done' in again.stderr


@pytest.mark.parametrize("command", ["gettask", "deletetask"])
@pytest.mark.parametrize(
    ("flags", "message"),
    [([], "Missing option '--task_name'."), (["--task_name="], '"" is not a valid task name')],
)
def test_the_name_of_a_task_must_be_set(
    run: Run, command: str, flags: list[str], message: str
) -> None:
    """Without it the path is that of the queue, or of all tasks."""
    done = run(command, *flags)

    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


def test_only_tasks_with_a_tag_are_leased(run: Run, queue: Queue) -> None:
    queue.add_many([NewTask(name="a"), NewTask(name="b", tag="t"), NewTask(name="c", tag="t")])

    leased = json.loads(run("leasetask", "--tag=t", "--num_tasks=3").stdout)["items"]

    assert [task["id"] for task in leased] == ["b", "c"]


def test_an_enforced_acl_gets_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    acl = "acl: [{user_email: worker@example.com}]"
    emulator = Emulator.from_text(f"queue: [{{name: pull, mode: pull, {acl}}}]")
    with Server(emulator, acl=True) as server:
        token = server.tokens.issue("worker@example.com", frozenset(SCOPES)).text
        flags = ["leasetask", "--taskqueue_name=pull", f"--api_host={server.url}"]
        refused = CliRunner().invoke(gtaskqueue, flags)
        by_flag = CliRunner().invoke(gtaskqueue, [*flags, f"--access_token={token}"])
        monkeypatch.setenv("GTASKQUEUE_ACCESS_TOKEN", token)
        by_variable = CliRunner().invoke(gtaskqueue, flags)
    monkeypatch.setenv("GTASKQUEUE_ACCESS_TOKEN", "secret")
    shown = CliRunner().invoke(gtaskqueue, ["leasetask", "-h"]).stdout

    assert (refused.exit_code, by_flag.exit_code, by_variable.exit_code) == (1, 0, 0)
    assert "the request has no access token" in refused.stderr
    assert "GTASKQUEUE_ACCESS_TOKEN" in shown
    assert "secret" not in shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "(8 more bytes)"), (7, "MDEyMzQ(1 more bytes)"), (8, "MDEyMzQ1"), (9, "MDEyMzQ1")],
)
def test_a_long_payload_is_cut_as_asked(run: Run, queue: Queue, size: int, shown: str) -> None:
    queue.add(b"012345")

    leased = run("leasetask", f"--payload_size_to_display={size}")

    assert json.loads(leased.stdout)["items"][0]["payloadBase64"] == shown


def test_clear_deletes_a_hundred_tasks_or_as_many_as_asked(run: Run, queue: Queue) -> None:
    for place in range(110):
        queue.add(b"work", name=f"n{place}")
    queue.lease_tasks(60, 3)

    assert run("clear").stdout.startswith("Deleting: n3\nDeleting: n4\n")
    assert queue.fetch_statistics().tasks == 10
    for most, deleted in (("5", 5), ("1000", 5), ("1", 0)):
        shown = run("clear", "--max_delete", most).stdout
        assert json.loads(shown[shown.index("{") :]) == {"deleted": deleted}


def test_clearing_what_cannot_be_deleted(run: Run, server: Server, queue: Queue) -> None:
    """What one call cannot delete the next one tries; where none can be deleted it ends."""
    queue.add_many([NewTask(name="a"), NewTask(name="b")])
    Faults(server.emulator).fail("delete_tasks", TransientError, after=1)

    done = run("clear")

    assert done.exit_code == 1
    assert "none of 1 tasks can be deleted" in done.stderr
    assert [task.name for task in queue.list_tasks()] == ["b"]


def test_calls_are_made_in_the_version_that_is_asked_for_and_can_be_shown(run: Run) -> None:
    for version in ("v1beta1", "v1beta2"):
        done = run("listtasks", f"--service_version={version}", "--dump_request")
        shown, _, answer = done.stdout.partition("--request-end--\n")
        assert f"/taskqueue/{version}/projects/app/taskqueues/pull/tasks\n" in shown
        assert json.loads(answer) == {"kind": "taskqueues#tasks"}


def test_flags_of_all_commands_may_come_first(server: Server, queue: Queue) -> None:
    queue.add(b"work", name="a")
    first = ["-project_name=app", "--taskqueue_name=other", f"--api_host={server.url}/"]

    done = CliRunner().invoke(
        gtaskqueue, [*first, "gettask", "-taskqueue_name=pull", "-task_name=a"]
    )

    assert json.loads(done.stdout)["id"] == "a"


def test_project_and_queue_have_defaults() -> None:
    """They are Google's, and files with keys are not read."""
    with Server(Emulator.from_text("queue: [{name: myqueue, mode: pull}]")) as server:
        done = CliRunner().invoke(
            gtaskqueue,
            ["getqueue", "--use_developer_key", "--credentials_file=x", "--developer_key_file=y"],
            env={"PULLQUEUE_EMULATOR_HOST": f"{server.host}:{server.port}"},
        )

    assert json.loads(done.stdout)["id"] == "projects/s~default/taskqueues/myqueue"


def test_the_log_has_every_call_at_debug(
    run: Run, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")

    assert run("listtasks", "--log_level=DEBUG").exit_code == 0
    assert run("listtasks", "--log_level=LOUD").exit_code == 2
    assert caplog.messages[0].startswith("GET http://")


def test_help_marks_flags_that_are_not_of_google() -> None:
    shown = CliRunner().invoke(gtaskqueue, ["help", "leasetask"])
    same = CliRunner().invoke(gtaskqueue, ["leasetask", "--help"])
    unknown = CliRunner().invoke(gtaskqueue, ["help", "lease"])
    everything = CliRunner().invoke(gtaskqueue, ["help"])

    assert shown.stdout == same.stdout
    assert "--tag TEXT" in shown.stdout
    assert shown.stdout.count("[pullqueue's") == 2
    assert "listtasks" in everything.stdout
    assert unknown.exit_code == 2
    assert "there is no command `lease`: did you mean `leasetask`?" in unknown.stderr


@pytest.mark.parametrize(
    ("host", "status", "message"),
    [
        (
            "http://127.0.0.1:9",
            1,
            "no pullqueue responds at http://127.0.0.1:9 (connection refused",
        ),
        ("{}/console", 1, "/console is not a pullqueue, or another version"),
        ("localhost", 2, '"localhost" is not a valid address'),
    ],
)
def test_an_address_without_task_queues_is_one_line_that_says_what_to_do(
    run: Run, server: Server, host: str, status: int, message: str
) -> None:
    done = run("getqueue", f"--api_host={host.format(server.url)}")

    assert done.exit_code == status
    assert message in done.stderr
    advice = "pass its address with --api_host or PULLQUEUE_EMULATOR_HOST\n"
    assert done.stderr.endswith(advice) == (status == 1)
