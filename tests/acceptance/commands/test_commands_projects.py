"""The commands of a running server with `--project`: all are about that project, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests as http
from commands import Run

from pullqueue import Emulator
from pullqueue.server.lifecycle import Server

FILE = """\
queue:
- {name: mine, mode: pull}
- {name: sent, rate: 5/s}
"""
OF_PROJECT = (
    "queues list",
    "queues pause mine",
    "queues resume mine",
    "tasks list mine",
    "tasks get mine one",
    "tasks add mine more",
    "tasks lease mine",
    "tasks delete mine one",
    "tasks failures",
    "queues purge mine --yes",
    "activity",
    "clock show",
    "clock advance 60",
    "cron list",
    "faults add fail add",
    "faults list",
    "faults clear",
    "mails",
    "push-to --keep",
    "requests",
    "server",
    "snapshot diff {snapshot}",
    "snapshot load {snapshot} --yes",
    "workers",
    "reset --yes",
    "wait --empty mine --timeout 0",
)
"""In an order in which each of them succeeds."""


@pytest.fixture(autouse=True)
def project(server: Server) -> Emulator:
    made = {"name": "test-7", "clock": "manual", "queue_yaml": FILE}
    http.post(f"{server.url}/_emulator/projects", json=made, timeout=60).raise_for_status()
    emulator = server.states[1].emulator
    emulator.queue("mine").add(b"x", name="one")
    return emulator


def test_every_command_is_about_the_project(
    run: Run, server: Server, emulator: Emulator, tmp_path: Path
) -> None:
    emulator.queue("pull").add(b"own")
    before = (emulator.export(), emulator.now_usec())
    snapshot = tmp_path / "saved.json"
    run(f"snapshot save {snapshot} --project test-7")

    for command in OF_PROJECT:
        done = run(f"{command.format(snapshot=snapshot)} --project test-7")
        assert (done.status, done.err.count("pullqueue: ")) == (0, 0), (command, done)

    assert (emulator.export(), emulator.now_usec()) == before
    assert server.state.faults.list() == []
    assert server.state.requests.latest() == []


def test_the_project_of_a_group_is_that_of_its_command(run: Run) -> None:
    group, command = run("queues --project test-7"), run("queues list --project test-7")

    assert [line.split()[0] for line in group.out.splitlines()[1:3]] == ["mine", "sent"]
    assert group == command


def test_an_unknown_project_is_one_line(run: Run) -> None:
    message = 'pullqueue: there is no project "test-8": did you mean "test-7"?\n'
    for command in ("queues", "tasks list mine", "clock advance 60", "requests"):
        assert run(f"{command} --project test-8") == (1, "", message)


def test_a_queue_of_another_location_is_named_with_it(run: Run, server: Server) -> None:
    parent = "projects/test-7/locations/europe-west1"
    made = {"name": f"{parent}/queues/made"}
    http.post(f"{server.url}/v2/{parent}/queues", json=made, timeout=60).raise_for_status()

    listed = run("queues --project test-7").out
    assert [line.split()[0] for line in listed.splitlines()[1:]] == [
        *("mine", "sent", "made@europe-west1")
    ]
    added = run('tasks add made@europe-west1 --request "POST /x" --name two --project test-7')
    assert (added.status, added.err) == (0, "")
    assert '"two"' in run("tasks list made@europe-west1 --json --project test-7").out
