"""`pullqueue cron`, and the option --cron of `serve` and `exec`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Run
from executing import Execute, python
from push_app import PushApp, push_app

from pullqueue import Emulator, ManualClock
from pullqueue.cron.file import parse_cron
from pullqueue.push.addresses import PushAddresses
from pullqueue.server.lifecycle import Server

JOBS = """\
cron:
- {description: daily report, url: /report, schedule: every day 09:00}
- {url: /status/503, schedule: every 5 minutes}
"""


@pytest.fixture
def app() -> Iterator[PushApp]:
    """An app that gets the requests."""
    with push_app() as app:
        yield app


@pytest.fixture
def server(app: PushApp) -> Iterator[Server]:
    """A server with two jobs."""
    emulator = Emulator.from_text("queue: []", clock=ManualClock())
    push_to = PushAddresses([app.url])
    with Server(emulator, push_to=push_to, cron=parse_cron(JOBS)) as server:
        yield server


def test_jobs_are_listed_and_run(run: Run, server: Server, app: PushApp) -> None:
    """With the next time, and the status of the last run."""
    assert run("cron run /status/503").out == "started\n"
    assert server.state.cron.settle(60)

    assert run("cron").out == run("cron list").out
    lines = [line.split("  ") for line in run("cron list").out.splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells == [
        ["NUMBER", "JOB", "URL", "SCHEDULE", "NEXT (UTC)", "LAST (UTC)", "STATUS"],
        ["1", "daily report", "/report", "every day 09:00", "2026-01-01 09:00:00", "-", "-"],
        [
            *("2", "/status/503", "/status/503", "every 5 minutes", "2026-01-01 00:05:00"),
            *("2026-01-01 00:00:00", "503: no /status/503"),
        ],
    ]
    assert app.paths() == ["/status/503"]


def test_an_unknown_job_is_refused(run: Run) -> None:
    done = run("cron run 'daily repotr'")

    assert done.status == 1
    assert done.err == (
        'pullqueue: there is no cron job "daily repotr": did you mean "daily report"?\n'
    )


def test_exec_runs_the_jobs_of_a_file(execute: Execute, app: PushApp, app_folder: Path) -> None:
    """While the program runs, which can run one itself."""
    (app_folder / "cron.yaml").write_text(JOBS)
    program = """
import json, os, urllib.request
root = f"http://{os.environ['PULLQUEUE_EMULATOR_HOST']}/_emulator"
data = json.dumps({"job": "daily report"}).encode()
request = urllib.request.Request(f"{root}/cron/run", data, {"Content-Type": "application/json"})
assert json.load(urllib.request.urlopen(request)) == {"started": True}
while not json.load(urllib.request.urlopen(f"{root}/cron"))["jobs"][0]["last"]:
    pass
"""
    status, _, errors = execute("--cron", "cron.yaml", "--push-to", app.url, *python(program))

    assert status == 0, errors
    assert app.paths() == ["/report"]


@pytest.mark.parametrize("command", ["exec", "serve"])
def test_a_file_with_faults_is_refused_before_anything_starts(
    run: Run, tmp_path: Path, command: str
) -> None:
    """Each fault has its line."""
    (tmp_path / "queue.yaml").write_text("queue: []\n")
    path = tmp_path / "cron.yaml"
    path.write_text("cron:\n- url: /a\n  schedule: every hour\n")
    more = ["--", "true"] if command == "exec" else []
    options = f"{tmp_path}/queue.yaml --cron {path} --push-to http://localhost:8080"

    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("PULLQUEUE_EMULATOR_HOST")
        done = run(f"{command} {options}", *more)

    assert (done.status, done.out) == (1, "")
    assert done.err == (
        f'{path}:3:13: schedule "every hour": the number is missing: write `every 1 hours`\n'
    )


def test_jobs_need_an_address(execute: Execute, app_folder: Path) -> None:
    (app_folder / "cron.yaml").write_text(JOBS)

    status, _, errors = execute("--cron", "cron.yaml", *python("pass"))

    assert status == 2
    assert "--cron requests the URLs of an app: name its address, as in --push-to http://" in errors
