"""`pullqueue cron`, and the option --cron of `serve` and `exec`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Run
from executing import CALL, Execute, python
from forking import forked
from programs import running
from push_app import PushApp, until

from pullqueue import Emulator, ManualClock
from pullqueue.cron.file import parse_cron
from pullqueue.push.addresses import PushAddresses
from pullqueue.server.lifecycle import Server

JOBS = """\
cron:
- {description: daily report, url: /report, schedule: every day 09:00}
- {url: /status/503, schedule: every 5 minutes}
"""
MORE_JOBS = """\
- {url: /status/500, schedule: every day 09:00, retry_parameters: {job_retry_limit: 2}}
- {url: /slow, schedule: every day 09:00}
- {url: /nonsense, schedule: every day 09:00}
- {url: /empty, schedule: every day 09:00}
"""
NOT_HTTP = "the response is not valid HTTP: illegal status line: bytearray(b'what?')"


@pytest.fixture
def server(app: PushApp) -> Iterator[Server]:
    emulator = Emulator.from_text("queue: []", clock=ManualClock())
    push_to = PushAddresses([app.url])
    with Server(emulator, push_to=push_to, cron=parse_cron(JOBS + MORE_JOBS)) as server:
        yield server


def test_jobs_are_listed_and_run(run: Run, server: Server, app: PushApp) -> None:
    assert run("cron run --no-wait /status/503") == (0, "started\n", "")
    assert server.state.cron.settle(60)

    lines = [line.split("  ") for line in run("cron list").out.splitlines()[:3]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells == [
        ["NUMBER", "JOB", "URL", "SCHEDULE", "NEXT (UTC)", "LAST (UTC)", "RESULT"],
        ["1", "daily report", "/report", "every day 09:00", "2026-01-01 09:00:00", "-", "-"],
        [
            *("2", "/status/503", "/status/503", "every 5 minutes", "2026-01-01 00:05:00"),
            *("2026-01-01 00:00:00", "status 503 (no /status/503)"),
        ],
    ]
    assert app.paths() == ["/status/503"]


@pytest.mark.parametrize(
    ("job", "status", "printed"),
    [
        (1, 0, "succeeded: status 200"),
        (2, 1, "failed: status 503 (no /status/503)"),
        (3, 1, "failed: status 500 (no /status/500); is repeated at 2026-01-01 00:00:05"),
        (5, 1, f"failed: no response ({{}}: {NOT_HTTP})"),
        (6, 1, "failed: status 500 (the response is empty)"),
    ],
)
def test_a_run_is_waited_for(run: Run, app: PushApp, job: int, status: int, printed: str) -> None:
    printed = printed.format(app.url.removeprefix("http://"))
    assert run(f"cron run {job}") == (status, f"{printed}\n", "")
    shown = json.loads(run(f"cron run {job} --json").out)

    assert (shown["started"], shown["number"], shown["job"]["number"]) == (True, job, job)
    assert bool(shown["job"]["last"]["reason"]) == bool(status)


def test_a_run_that_takes_long_is_waited_for(run: Run, server: Server, app: PushApp) -> None:
    address = f"{server.host}:{server.port}"
    with running(
        forked("pullqueue"), "cron", "run", "/slow", PULLQUEUE_EMULATOR_HOST=address
    ) as waiting:
        until(lambda: app.paths() == ["/slow"])
        for more in ("", " --no-wait"):
            assert run(f"cron run 4{more}") == (1, "the job is running already\n", "")
        assert waiting.poll() is None
        app.released.set()

        assert waiting.communicate(timeout=60)[0] == "succeeded: status 200\n"
        assert waiting.returncode == 0


def test_exec_runs_the_jobs_of_a_file(execute: Execute, app: PushApp, app_folder: Path) -> None:
    (app_folder / "cron.yaml").write_text(JOBS)
    program = (
        f"{CALL}started = call('cron/run', {{'job': 'daily report'}})\n"
        "assert started == {'started': True, 'number': 1}\n"
        "while not call('cron')['jobs'][0]['last']: pass\n"
    )
    status, _, errors = execute("--cron", "cron.yaml", "--push-to", app.url, *python(program))

    assert status == 0, errors
    assert app.paths() == ["/report"]


@pytest.mark.parametrize("command", ["exec", "serve"])
def test_a_file_with_faults_is_refused_before_anything_starts(
    run: Run, tmp_path: Path, command: str
) -> None:
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
        f'{path}:3:13: QY021 invalid-cron: schedule "every hour": the number is missing: '
        "write `every 1 hours`\n"
    )


def test_jobs_need_an_address(execute: Execute, app_folder: Path) -> None:
    (app_folder / "cron.yaml").write_text(JOBS)

    status, _, errors = execute("--cron", "cron.yaml", *python("pass"))

    assert status == 2
    assert "--cron requests the URLs of an app: name its address, as in --push-to http://" in errors
