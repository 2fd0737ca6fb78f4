"""`pullqueue exec`: the program, its status, streams and signals."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from executing import QUEUE_YAML, SHOW_ENVIRONMENT, python, run, start
from linting import pullqueue

from pullqueue import Emulator, ManualClock
from pullqueue.cli.serve import report_tasks_left
from pullqueue.testing import exhaust

ADD = """
from google.appengine.api import taskqueue

def add(payloads):
    tasks = [taskqueue.Task(payload=payload, method="PULL") for payload in payloads]
    taskqueue.Queue("pull").add(tasks)

"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a queue.yaml."""
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    return tmp_path


class TestCommand:
    def test_its_status_and_streams_are_its_own(self, folder: Path) -> None:
        """Input, output and exit status pass through."""
        program = "import sys; print(sys.stdin.read().upper()); sys.exit(7)"

        status, output, errors = run(*python(program), folder=folder, given="hello")

        assert (status, output) == (7, "HELLO\n")
        assert errors.startswith("pullqueue listening on http://127.0.0.1:")

    def test_the_server_is_gone_with_it(self, folder: Path) -> None:
        """After the command nothing listens any more."""
        _, output, _ = run(*python(SHOW_ENVIRONMENT), folder=folder)
        address = json.loads(output)["PULLQUEUE_EMULATOR_HOST"]

        with pytest.raises(URLError):
            urlopen(f"http://{address}/_emulator/clock", timeout=60)

    def test_its_file_is_reloaded(self, folder: Path) -> None:
        """On request, and with --watch whenever it changes; the profile is shown."""
        program = (
            "import json, os, time, urllib.request as http\n"
            "url = f'http://{os.environ[\"PULLQUEUE_EMULATOR_HOST\"]}/_emulator/'\n"
            "def call(path, data=None): return json.load(http.urlopen(url + path, data, 60))\n"
            "print(call('server')['profile'], call('reload', b'')['added'])\n"
            "open('queue.yaml', 'a').write('- name: later\\n  mode: pull\\n')\n"
            "while 'later' not in [queue['name'] for queue in call('queues')['queues']]:\n"
            "    time.sleep(0.05)\n"
        )

        status, output, errors = run("--watch", *python(program), folder=folder)

        assert (status, output) == (0, "gcloud []\n"), errors

    @pytest.mark.parametrize(
        ("payloads", "last"),
        [
            ([], []),
            (["a"], ["pullqueue: 1 task was left and is deleted with this server"]),
            (["a", "b"], ["pullqueue: 2 tasks were left and are deleted with this server"]),
        ],
    )
    def test_what_was_left(self, folder: Path, payloads: list[str], last: list[str]) -> None:
        """Tasks that go away with the server are reported; nothing is said where there are none."""
        status, _, errors = run(*python(f"{ADD}add({payloads})\nexit(3)"), folder=folder)

        assert status == 3
        assert [line for line in errors.splitlines() if " deleted " in line] == last

    def test_exhausted_tasks_are_reported(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Their number is in the report at the end of a server."""
        emulator = Emulator.from_text(
            "queue:\n- name: pull\n  mode: pull\n  retry_parameters: {task_retry_limit: 1}\n",
            clock=ManualClock(),
        )
        exhaust(emulator.queue("pull"), emulator.queue("pull").add())

        report_tasks_left(emulator)

        assert capsys.readouterr().err == (
            "pullqueue: exhausted tasks, whose work was not done: 1\n"
        )

    def test_what_was_left_under_faults(self, folder: Path) -> None:
        """The faults that a program has set are not for the count."""
        fault = '{"kind": "fail", "call": "fetch_statistics"}'
        program = (
            f"{ADD}add(['a'])\nimport os, urllib.request\n"
            "url = f'http://{os.environ[\"PULLQUEUE_EMULATOR_HOST\"]}/_emulator/faults'\n"
            f"urllib.request.urlopen(url, {fault.encode()!r}, 10).close()\n"
        )
        status, _, errors = run(*python(program), folder=folder)

        assert status == 0
        last = errors.splitlines()[-1]
        assert last == "pullqueue: 1 task was left and is deleted with this server"

    def test_its_environment(self, folder: Path) -> None:
        """It names the server in every way that clients look for it, and is not production's."""
        signs = {"GAE_ENV", "GAE_SERVICE", "GAE_INSTANCE", "GAE_APPLICATION", "SERVER_SOFTWARE"}
        signs |= {"GOOGLE_CLOUD_PROJECT", "APPENGINE_RUNTIME"}
        _, output, _ = run(
            *python(SHOW_ENVIRONMENT),
            folder=folder,
            PYTHONPATH="/before",
            APPENGINE_USE_CLOUDTASK_PUSH_QUEUE="true",
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
        assert reported["GAE_PARTITION"] == "dev"

    @pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"])
    def test_signals_are_passed_on(self, folder: Path, name: str) -> None:
        """The command gets the signal, and how it ends is how this ends."""
        program = (
            "import signal, sys\n"
            f"signal.signal(signal.{name}, lambda *_: sys.exit(42))\n"
            "print('ready', flush=True)\n"
            "signal.pause()\n"
        )
        process = start(*python(program), folder=folder)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        process.send_signal(getattr(signal, name))
        process.communicate(timeout=60)

        assert process.returncode == 42

    def test_a_command_that_a_signal_ends(self, folder: Path) -> None:
        """The status is that of shells: 128 and the signal's number."""
        program = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

        status, _, _ = run(*python(program), folder=folder)

        assert status == 128 + signal.SIGKILL

    def test_a_command_that_is_not_there(self, folder: Path) -> None:
        """A missing program and a file that is none are reported as shells tell them."""
        missing = run("--", "no-such-program", folder=folder)
        (folder / "text").write_text("no program")
        text = run("--", str(folder / "text"), folder=folder)

        assert missing[0] == 127
        assert '"no-such-program" is not found' in missing[2]
        assert text[0] == 126
        assert "cannot be run" in text[2]

    @pytest.mark.parametrize(
        "arguments", ["", "queue.yaml", "queue.yaml --", "python -V", "python main.py"]
    )
    def test_no_command(self, arguments: str) -> None:
        """Without a command, or without the dashes before it, the usage is reported."""
        done = pullqueue("exec", *arguments.split())

        assert done.exit_code == 2
        assert "pullqueue exec [OPTIONS] [QUEUE_YAML] -- COMMAND..." in done.stderr
        assert "there is no command to run: write it after `--`" in done.stderr

    def test_other_wrong_usage(self) -> None:
        """An upstream without a port is refused."""
        done = pullqueue("exec", "--api-upstream", "foo", "--", "true")

        assert done.exit_code == 2
        assert '"foo" is not a valid address: use HOST:PORT, such as localhost:8080' in done.stderr

    def test_dashes_of_the_command(self, folder: Path) -> None:
        """Only the first pair of dashes is exec's own."""
        program = "import sys; print(sys.argv[1:])"

        _, output, _ = run(*python(program), "-x", "--", "--port", folder=folder)

        assert output == "['-x', '--', '--port']\n"

    def test_a_queue_yaml_that_is_not_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing is run where there is no queue.yaml."""
        monkeypatch.chdir(tmp_path)
        done = pullqueue("exec", "--", "touch", "ran")

        assert done.exit_code == 3
        assert "there is neither queue.yaml nor queue.yml" in done.stderr
        assert done.stderr.endswith("name a file, as in `pullqueue exec path/to/queue.yaml`\n")
        assert list(tmp_path.iterdir()) == []
