"""`pullqueue exec`: the program, its status, streams and signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from executing import (
    CALL,
    QUEUE_YAML,
    SHOW_ENVIRONMENT,
    Execute,
    forked_exec,
    on_sdk,
    python,
)
from linting import run_pullqueue
from programs import completed, running
from push_app import until
from tables import each_row

from pullqueue import Emulator, ManualClock
from pullqueue.cli.serve import report_tasks_left
from pullqueue.sdk.environment import variables_for
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store
from pullqueue.testing import Faults, exhaust

ADD = f"{CALL}call('queues/pull/tasks', {{'tasks': [{{}}]}})\n"


def test_its_status_and_streams_are_its_own(app_folder: Path) -> None:
    program = "import sys; print(sys.stdin.read().upper()); sys.exit(7)"
    done = completed([*forked_exec(), *on_sdk(program)], cwd=app_folder, input="hello")

    assert (done.returncode, done.stdout) == (7, "HELLO\n")
    assert done.stderr.startswith("pullqueue listening on http://127.0.0.1:")


def test_signals_are_passed_on(app_folder: Path) -> None:
    """The command gets each signal, and how it ends is how this ends."""
    names = ["SIGHUP", "SIGUSR1", "SIGINT", "SIGTERM"]
    program = (
        "import signal, sys\n"
        "def receive(number, _):\n"
        "    print(signal.Signals(number).name, flush=True)\n"
        "    if number == signal.SIGTERM: sys.exit(42)\n"
        f"for name in {names}: signal.signal(getattr(signal, name), receive)\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()\n"
    )
    with running(
        sys.executable, "-m", "pullqueue", "exec", *python(program), cwd=app_folder
    ) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline()]
        for name in names:
            process.send_signal(getattr(signal, name))
            printed.append(process.stdout.readline())
        process.communicate(timeout=60)

    assert printed == [f"{line}\n" for line in ("ready", *names)]
    assert process.returncode == 42


def test_cloud_tasks_is_served_over_grpc(execute: Execute) -> None:
    program = (
        f"{CALL}import grpc\n"
        "from google.cloud.tasks_v2 import CloudTasksClient\n"
        "from google.cloud.tasks_v2.services.cloud_tasks import transports\n"
        "channel = grpc.insecure_channel(call('server')['grpc'])\n"
        "transport = transports.CloudTasksGrpcTransport(channel=channel)\n"
        "tasks = CloudTasksClient(transport=transport)\n"
        "parent = 'projects/my-app/locations/us-central1'\n"
        "made = tasks.create_queue(parent=parent, queue={'name': f'{parent}/queues/made'})\n"
        "print(made.state.name, os.environ.get('GRPC_VERBOSITY'))\n"
    )

    status, output, errors = execute("--grpc-port", "0", *on_sdk(program))

    assert (status, output) == (0, "RUNNING None\n"), errors
    assert re.search(r"^gRPC listening on 127\.0\.0\.1:\d+$", errors, re.MULTILINE)


def test_its_file_is_reloaded(execute: Execute) -> None:
    program = (
        f"{CALL}print(call('server')['profile'], call('reload', {{}})['added'])\n"
        "import time; open('queue.yaml', 'a').write('- name: later\\n  mode: pull\\n')\n"
        "while 'later' not in [queue['name'] for queue in call('queues')['queues']]:\n"
        "    time.sleep(0.02)\n"
    )

    status, output, errors = execute("--watch", *on_sdk(program))

    assert (status, output) == (0, "gcloud []\n"), errors


def test_tasks_that_go_away_with_the_server_are_reported(execute: Execute) -> None:
    status, _, errors = execute(*on_sdk(f"{ADD}exit(3)"))

    assert status == 3
    listening, *others = errors.splitlines()
    assert others == [
        f"pullqueue console: {listening.removeprefix('pullqueue listening on ')}/console/",
        "pullqueue: 1 task was left and is deleted with this server",
    ]


@pytest.mark.parametrize(
    ("tasks", "exhausted", "report"),
    [
        (0, 0, ""),
        (2, 0, "pullqueue: 2 tasks were left and are deleted with this server\n"),
        (0, 1, "pullqueue: exhausted tasks, whose work was not done: 1\n"),
    ],
)
def test_the_report_counts_tasks_left_and_exhausted(
    capsys: pytest.CaptureFixture[str], tasks: int, exhausted: int, report: str
) -> None:
    emulator = Emulator.from_text(
        "queue: [{name: pull, mode: pull, retry_parameters: {task_retry_limit: 1}}]",
        clock=ManualClock(),
    )
    for _ in range(exhausted):
        exhaust(emulator.queue("pull"), emulator.queue("pull").add())
    for _ in range(tasks):
        emulator.queue("pull").add()
    Faults(emulator).fail("fetch_statistics")

    report_tasks_left(Server(emulator))

    assert capsys.readouterr().err == report


def test_the_environment_names_the_server_to_every_client(execute: Execute) -> None:
    signs = {"GAE_ENV", "GAE_SERVICE", "GAE_INSTANCE", "SERVER_SOFTWARE"}
    signs |= {"APPENGINE_RUNTIME"}
    _, output, _ = execute(
        *on_sdk(SHOW_ENVIRONMENT), PYTHONPATH="/before", APPENGINE_USE_CLOUDTASK_PUSH_QUEUE="true"
    )
    reported = json.loads(output)

    assert (
        reported["PULLQUEUE_EMULATOR_HOST"]
        == reported["LOCAL_API_HOSTPORT"]  # what Java's runtime reads
        == reported["CLOUD_TASKS_EMULATOR_HOST"]  # what firebase-admin reads
        == reported["CLOUDTASKS_EMULATOR_HOST"]  # and gcloud-aio-taskqueue
        == f"{reported['API_HOST']}:{reported['API_PORT']}"
    )
    assert reported["HTTP_X_APPENGINE_API_TICKET"]
    assert reported["PYTHONPATH"].endswith(f"{os.pathsep}/before")
    assert reported["APPENGINE_USE_CLOUDTASK_PUSH_QUEUE"] == "false"
    assert signs & (reported.keys() - os.environ.keys()) == set()
    with pytest.raises(URLError):  # it is gone with the command
        urlopen(f"http://{reported['PULLQUEUE_EMULATOR_HOST']}/_emulator/clock", timeout=60)
    assert reported["GAE_PARTITION"] == "dev"
    assert reported["GOOGLE_CLOUD_PROJECT"] == "my-app"
    assert reported["APPLICATION_ID"] == reported["GAE_APPLICATION"] == "dev~my-app"


IDS = ("APPLICATION_ID", "GAE_APPLICATION", "GOOGLE_CLOUD_PROJECT")


@pytest.mark.parametrize(
    ("given", "project", "app_id"),
    [
        ({}, None, "dev~my-app"),
        ({}, "shop", "dev~shop"),
        ({}, "s~shop", "s~shop"),
        ({"GOOGLE_CLOUD_PROJECT": "mine"}, None, "dev~mine"),
        ({"GOOGLE_CLOUD_PROJECT": "mine", "GAE_PARTITION": "s"}, None, "s~mine"),
        ({"GOOGLE_CLOUD_PROJECT": "mine", "GAE_LONG_APP_ID": "other"}, None, "dev~other"),
        ({"GOOGLE_CLOUD_PROJECT": ""}, None, "dev~my-app"),
        ({"GAE_APPLICATION": "s~mine"}, None, "s~mine"),
        ({"GAE_APPLICATION": "s~mine", "GOOGLE_CLOUD_PROJECT": "other"}, None, "s~mine"),
        ({"APPLICATION_ID": "example.com:first"}, None, "example.com:first"),
        ({"APPLICATION_ID": "a", "GAE_APPLICATION": "b", "GOOGLE_CLOUD_PROJECT": "c"}, None, "a"),
        ({"APPLICATION_ID": "a", "GAE_APPLICATION": "b"}, "shop", "dev~shop"),
    ],
)
def test_all_variables_agree_on_the_app(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], project: str | None, app_id: str
) -> None:
    """--project names it, or else the first of these that the environment has."""
    for name in (*IDS, "GAE_LONG_APP_ID", "GAE_PARTITION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    variables = variables_for("127.0.0.1:8124", project=project)
    partition, _, app = app_id.rpartition("~")

    assert [variables[name] for name in IDS] == [app_id, app_id, app]
    assert variables["GAE_LONG_APP_ID"] == app
    assert variables["GAE_PARTITION"] == (partition or "dev")


def test_what_the_environment_has_of_an_app_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GAE_APPLICATION that is empty, too: by it some apps see that they are not in production."""
    monkeypatch.setenv("GAE_MODULE_NAME", "worker")
    monkeypatch.setenv("GAE_APPLICATION", "")
    variables = variables_for("127.0.0.1:8124")

    assert variables["GAE_MODULE_NAME"] == "worker"
    assert "GAE_APPLICATION" not in variables
    assert variables["APPLICATION_ID"] == "dev~my-app"


def test_the_status_of_a_command_that_a_signal_ends_is_that_of_shells(execute: Execute) -> None:
    assert execute("--", "sh", "-c", "kill -9 $$")[0] == 128 + signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")
def test_a_program_ends_with_its_children_if_exec_is_killed(app_folder: Path) -> None:
    """They share its standard output, which ends when the last of them has ended."""
    program = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "print('child', flush=True); input()"])
print(os.getppid(), flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        [*forked_exec(), *python(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as exec_:
        assert exec_.stdout is not None
        try:
            child, pid = sorted([exec_.stdout.readline(), exec_.stdout.readline()], reverse=True)
            children = ("ps", "-ww", "-o", "args=", "--ppid", pid.strip())
            until(lambda: "_watcher.py" in completed(children).stdout)
        finally:
            exec_.kill()

        assert child == "child\n"
        assert exec_.stdout.read() == ""


def test_a_command_that_is_not_there(execute: Execute, app_folder: Path) -> None:
    (app_folder / "text").write_text("no program")
    missing, text = execute("--", "no-such-program"), execute("--", str(app_folder / "text"))

    assert (missing[0], text[0]) == (127, 126)
    assert '"no-such-program" is not found' in missing[2]
    assert "cannot be run" in text[2]


def test_only_the_first_pair_of_dashes_is_that_of_exec(execute: Execute) -> None:
    assert execute("--", "echo", "-x", "--", "--port")[1] == "-x -- --port\n"


USAGE = "pullqueue exec [OPTIONS] [QUEUE_YAML] -- COMMAND..."
NO_COMMAND = "there is no command to run: write it after `--`"


@each_row(
    ("arguments", "status", "message"),
    [
        ("", 2, USAGE),
        *(
            (words, 2, NO_COMMAND)
            for words in ("", "a.yaml", "a.yaml --", "python -V", "python a.py")
        ),
        ("queue.yaml -- touch ran", 3, 'cannot read "queue.yaml": no such file'),
        ("--services memcache,datastore -- touch ran", 2, 'did you mean "datastore_v3"?'),
        ("--user boss@gmail.com:root -- touch ran", 2, 'role "root" does not exist: use EMAIL or'),
        ("--data a.file -- touch ran", 2, "'a.file' is a file"),
    ],
)
def test_nothing_is_run_by_wrong_usage(
    folder: Path, arguments: str, status: int, message: str
) -> None:
    (folder / "a.file").touch()

    done = run_pullqueue("exec", *arguments.split())

    assert (done.exit_code, message in done.stderr) == (status, True), done.stderr
    assert [path.name for path in folder.iterdir()] == ["a.file"]


def test_the_server_knows_the_program_and_its_process(execute: Execute) -> None:
    """As the client of its calls, in place of the name of a library."""
    program = (
        f"{CALL}import sys\n"
        "from google.appengine.api import taskqueue\n"
        "for sys.argv[0] in ('-c', '/app/worker.py'):\n"
        "    taskqueue.Queue('pull').add(taskqueue.Task(payload='a', method='PULL'))\n"
        "    taskqueue.Queue('pull').lease_tasks(60, 1)\n"
        "workers = [(w['client'], w['leased']) for w in call('workers')['workers']]\n"
        "print(json.dumps([os.getpid(), workers]))\n"
    )
    _, output, _ = execute(*on_sdk(program))

    pid, workers = json.loads(output)
    assert sorted(workers) == [[f"python (pid {pid})", 1], [f"worker.py (pid {pid})", 1]]


def test_a_manual_clock_stops_time_for_the_queues_alone(execute: Execute) -> None:
    program = (
        f"{ADD}import time\n"
        "before, real = call('clock')['now'], time.time()\n"
        "while time.time() == real: pass\n"
        "print(call('clock')['now'] == before, call('clock', {'advance': 60})['now'] > before)\n"
    )
    status, output, errors = execute("--clock", "manual", *on_sdk(program))

    assert (status, output) == (0, "True True\n"), errors
    hint = errors.splitlines()[2]
    assert re.fullmatch(
        r"The clock is manual, at \S+: move it with `pullqueue clock advance 60 --url http\S+`",
        hint,
    )


def test_tasks_are_kept_in_a_store(execute: Execute, app_folder: Path) -> None:
    for number, options in enumerate([("--store", "sqlite:///mine.db"), ("--data", "new/data")]):
        for _ in range(2):
            status, _, errors = execute(*options, *on_sdk(ADD))
            assert (status, "deleted with this server" in errors) == (0, False), errors
        path = ("mine.db", "new/data/tasks.db")[number]
        emulator = Emulator.from_text(QUEUE_YAML, store=open_store(f"sqlite:///{path}"))
        assert len(emulator.queue("pull").list_tasks()) == 2
        emulator.close()
