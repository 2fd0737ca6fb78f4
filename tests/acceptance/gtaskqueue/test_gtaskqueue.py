"""`gtaskqueue` against a running server."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from pullqueue import Queue
from pullqueue.gtaskqueue.command import gtaskqueue
from pullqueue.server.lifecycle import Server

Run = Callable[..., Result]


@pytest.fixture
def run(server: Server) -> Run:
    """Give a function that runs `gtaskqueue` with a method and further flags."""

    def run(method: str, *flags: str) -> Result:
        server_flags = ["--project=app", "--taskqueue_name=pull", f"--api_host={server.url}"]
        return CliRunner().invoke(gtaskqueue, [method, *server_flags, *flags])

    return run


def test_the_queue(run: Run, queue: Queue) -> None:
    """Its name and statistics are shown."""
    queue.add(b"work")

    shown = json.loads(run("getqueue").stdout)

    assert shown["id"] == "projects/s~app/taskqueues/pull"
    assert shown["stats"]["totalTasks"] == 1


def test_tasks(run: Run, queue: Queue) -> None:
    """Listed, shown, leased and deleted."""
    queue.add(b"one", name="a", tag="t")
    queue.add(b"two", name="b")

    assert [task["id"] for task in json.loads(run("listtasks").stdout)["items"]] == ["a", "b"]
    assert json.loads(run("gettask", "--task_name=b").stdout)["payloadBase64"] == "dHdv"
    leased = json.loads(run("leasetask", "--lease_secs=60", "--num_tasks=5").stdout)["items"]
    assert [task["id"] for task in leased] == ["a", "b"]
    assert json.loads(run("leasetask", "--tag=t").stdout) == {"kind": "taskqueue#tasks"}
    assert run("deletetask", "--task_name", "a").exit_code == 0
    again = run("deletetask", "--task_name", "a")
    assert again.exit_code == 1
    assert "The task name is invalid." in again.stderr


def test_clearing(run: Run, queue: Queue) -> None:
    """All tasks are deleted, more than one list has."""
    for _ in range(230):
        queue.add(b"work")
    queue.lease_tasks(60, 3)

    assert run("clear").stdout == "230 tasks deleted\n"
    queue.add(b"work")
    assert run("clear").stdout == "1 task deleted\n"
    assert queue.list_tasks() == []


def test_the_spelling_of_the_project(server: Server) -> None:
    """--project and --project_name are one flag; a queue must be named."""
    flags = ["--project_name=app", "--taskqueue_name=pull", f"--api_host={server.url}"]

    assert CliRunner().invoke(gtaskqueue, ["getqueue", *flags]).exit_code == 0
    assert CliRunner().invoke(gtaskqueue, ["getqueue", flags[0]]).exit_code == 2


def test_no_server(run: Run) -> None:
    """What went wrong is told in one line, with what to do."""
    done = run("getqueue", "--api_host=http://127.0.0.1:9")
    nowhere = run("getqueue", "--api_host=localhost")

    assert done.exit_code == nowhere.exit_code == 1
    assert done.stderr == (
        "Error: no task queue answers at http://127.0.0.1:9 (connection refused): start one with "
        "`pullqueue serve`, or say where it is with --api_host or PULLQUEUE_EMULATOR_HOST\n"
    )
    assert nowhere.stderr == (
        "Error: --api_host is 'localhost', which is no address: give HOST:PORT, such as "
        "localhost:8124\n"
    )


def test_another_server(run: Run, server: Server) -> None:
    """What has no task queues is told from a queue that is not there."""
    done = run("getqueue", f"--api_host={server.url}/console")

    assert done.exit_code == 1
    assert f"no task queue answers at {server.url}/console (it answers 404 " in done.stderr
