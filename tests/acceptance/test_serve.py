"""`pullqueue serve`, run as a user runs it."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from cloudtasks_interface import grpc_client
from linting import pullqueue
from programs import completed
from served import FIRST_WORDS, serving, start_serve

QUEUE_YAML = """\
queue:
- name: pull-queue
  mode: pull
- name: three-times
  mode: pull
  retry_parameters:
    task_retry_limit: 3
- name: default
  rate: 1/s
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a queue.yaml."""
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    return tmp_path


def call(url: str, verb: str = "GET", body: object = None) -> dict[str, Any]:
    """Make a request and return the JSON of its answer."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, method=verb), timeout=60) as response:  # noqa: S310
        return dict(json.load(response))


def finished(*arguments: str, folder: Path) -> tuple[int, str, str]:
    """Run serve where it is to refuse, and return status, output and errors."""
    process = start_serve(*arguments, folder=folder)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


class TestGreeting:
    def test_address_queues_and_a_line_to_try(self, folder: Path) -> None:
        """The address comes first, then the queues, then a curl line that works."""
        process = start_serve("--port", "0", folder=folder)
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip("\n") for _ in range(7)]
        tried = completed(["sh", "-c", lines[6]])
        process.terminate()
        _, errors = process.communicate(timeout=60)

        assert re.fullmatch(rf"{FIRST_WORDS}http://127\.0\.0\.1:\d+", lines[0])
        assert lines[1:6] == [
            "queue.yaml: 2 pull queues, 1 push queue",
            "  pull-queue",
            "  three-times (each task can be leased 3 times)",
            "  default (push)",
            "Add a task:",
        ]
        assert shlex.split(lines[6])[0] == "curl"
        assert json.loads(tried.stdout)["payloadBase64"] == "aGVsbG8="
        assert process.returncode == 0
        assert errors.startswith(
            "pullqueue: 1 task was left and is deleted with this server; to keep"
        )

    def test_the_store(self, folder: Path) -> None:
        """It is shown as it was given, also a file with an @ in its name."""
        process = start_serve("--port", "0", "--store", "sqlite:///a@b.db", folder=folder)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(8)]
        process.terminate()
        process.communicate(timeout=60)

        assert lines[7] == "Tasks are stored in sqlite:///a@b.db\n"

    def test_it_answers_once_it_has_said_where(self, folder: Path) -> None:
        """The first line comes when requests are answered, and no sooner."""
        with serving(folder=folder) as served:
            answer = call(f"{served.url}/taskqueue/v1beta2/projects/p/taskqueues/pull-queue")

        assert answer["id"] == "projects/s~p/taskqueues/pull-queue"

    def test_a_file_without_pull_queues(self, folder: Path) -> None:
        """Push queues are listed as well; one with `rate: 0` sends nothing."""
        (folder / "queue.yaml").write_text(
            "queue:\n- name: default\n  rate: 1/s\n- name: web\n  rate: 0\n"
        )
        process = start_serve("--port", "0", folder=folder)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        process.terminate()
        process.communicate(timeout=60)

        assert lines[1:] == [
            "queue.yaml: 2 push queues\n",
            "  default (push)\n",
            "  web (push; not sent: rate is 0)\n",
        ]

    def test_a_warning_where_others_can_reach_it(self, folder: Path) -> None:
        """A server on every interface says what that means."""
        process = start_serve("--port", "0", "--host", "0.0.0.0", folder=folder)
        assert process.stderr is not None
        warning = process.stderr.readline()
        process.terminate()
        output, _ = process.communicate(timeout=60)

        assert re.match(r"pullqueue listening on http://0\.0\.0\.0:\d+\n", output)
        assert warning == (
            "warning: 0.0.0.0 can be reached from other machines, and whoever reaches it can use "
            "every queue\n"
        )

    def test_the_grpc_address_comes_second(self, folder: Path) -> None:
        """It is that of Cloud Tasks, and answers once it was said."""
        process = start_serve("--port", "0", "--grpc-port", "0", folder=folder)
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip("\n") for _ in range(2)]
        match = re.fullmatch(r"gRPC listening on (127\.0\.0\.1:\d+)", lines[1])
        assert match
        with grpc_client(match[1]) as client:
            queues = client.list_queues(parent="projects/p/locations/us-central1")
            names = [queue.name.rpartition("/")[2] for queue in queues]
        process.terminate()
        _, errors = process.communicate(timeout=60)

        assert names == ["default", "pull-queue", "three-times"]
        assert (process.returncode, errors) == (0, "")

    def test_wait_until_grpc_is_ready(self, folder: Path) -> None:
        """Once `pullqueue wait` returns, gRPC accepts connections as well."""
        with (
            socket.create_server(("127.0.0.1", 0)) as http,
            socket.create_server(("127.0.0.1", 0)) as grpc,
        ):
            ports = [listener.getsockname()[1] for listener in (http, grpc)]
        options = ("--port", str(ports[0]), "--grpc-port", str(ports[1]))
        process = start_serve(*options, folder=folder)
        try:
            waited = pullqueue("wait", "--url", f"127.0.0.1:{ports[0]}")
            with socket.create_connection(("127.0.0.1", ports[1]), timeout=60):
                pass
        finally:
            process.terminate()
            process.communicate(timeout=60)

        assert waited.exit_code == 0


class TestEnd:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("options", [(), ("--grpc-port", "0")])
    def test_a_signal_stops_it_cleanly(
        self, folder: Path, number: signal.Signals, options: tuple[str, ...]
    ) -> None:
        """Ctrl-C and a request to terminate end it with status 0 and without a word."""
        process = start_serve("--port", "0", *options, folder=folder)
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)

        assert (process.returncode, errors) == (0, "")


class TestRefusals:
    def test_a_bad_file_with_all_its_problems(self, folder: Path) -> None:
        """Each problem of a queue.yaml is one line, and the status is 2."""
        (folder / "queue.yaml").write_text("queue:\n- name: a b\n  mode: pul\n")

        status, output, errors = finished(folder=folder)

        assert (status, output) == (1, "")
        assert [line.split(": ")[0] for line in errors.splitlines()] == [
            "queue.yaml:2:9",
            "queue.yaml:3:9",
        ]

    def test_no_file(self, tmp_path: Path) -> None:
        """A folder without a queue.yaml is named in the error."""
        status, output, errors = finished(folder=tmp_path)

        assert (status, output) == (3, "")
        assert errors == (
            f'pullqueue: there is neither queue.yaml nor queue.yml in "{tmp_path}": name a file, '
            "as in `pullqueue serve path/to/queue.yaml`\n"
        )

    def test_a_taken_port(self, folder: Path) -> None:
        """A port that is taken is one clear line and status 2."""
        with serving(folder=folder) as served:
            port = served.url.rpartition(":")[2]
            status, output, errors = finished("--port", port, folder=folder)

        assert (status, output) == (3, "")
        assert errors == (
            f"pullqueue: port {port} is in use: stop the process using it, or pass --port\n"
        )

    def test_a_port_that_grpc_cannot_have(self, folder: Path) -> None:
        """It is one clear line as well, and nothing is served."""
        with serving(folder=folder) as served:
            port = served.url.rpartition(":")[2]
            status, output, errors = finished("--port", "0", "--grpc-port", port, folder=folder)

        assert (status, output) == (3, "")
        assert errors == (
            f"pullqueue: gRPC cannot listen on 127.0.0.1:{port}: stop the process using the port, "
            "or pass another --grpc-port\n"
        )

    @pytest.mark.parametrize(
        ("option", "value", "reason"),
        [
            ("--prot", "1", "No such option"),
            (
                "--project",
                "a b",
                '"a b" is not a valid project id: use letters, digits and hyphens',
            ),
            ("--project", "", '"" is not a valid project id'),
            ("--allow-host", "a b", '"a b" is not a valid host name: use one without a port'),
            ("--allow-host", "queues:8124", '"queues:8124" is not a valid host name: use one'),
            ("--api-upstream", "foo", '"foo" is not a valid address: use HOST:PORT'),
            ("--api-upstream", "foo:0", '"foo:0" is not a valid address: use HOST:PORT'),
            ("--store", "foo", 'store "foo" is unknown: use memory, sqlite:///FILE or postgresql'),
        ],
    )
    def test_wrong_values(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        option: str,
        value: str,
        reason: str,
    ) -> None:
        """What is not an option, a project id, an address or a store is refused at the start."""
        monkeypatch.chdir(folder)
        done = pullqueue("serve", option, value)

        assert (done.exit_code, done.stdout) == (2, "")
        assert reason in done.stderr

    def test_the_store_of_a_server_that_cannot_start(self, folder: Path) -> None:
        """It is closed as after a run: SQLite's side files are gone."""
        with serving(folder=folder) as served:
            port = served.url.rpartition(":")[2]
            status, _, _ = finished("--port", port, "--store", "sqlite:///tasks.db", folder=folder)

        assert status == 3
        assert sorted(path.name for path in folder.glob("tasks.db*")) == ["tasks.db"]


class TestOptions:
    def test_queue_yml_is_found_too(self, folder: Path) -> None:
        """Where there is no queue.yaml, queue.yml is served."""
        (folder / "queue.yaml").rename(folder / "queue.yml")

        with serving(folder=folder) as served:
            answer = call(f"{served.url}/taskqueue/v1beta2/projects/p/taskqueues/pull-queue")

        assert answer["id"] == "projects/s~p/taskqueues/pull-queue"

    def test_a_manual_clock(self, folder: Path) -> None:
        """With --clock manual, time stops at the present until it is moved over HTTP."""
        with serving("--clock", "manual", folder=folder) as served:
            clock = f"{served.url}/_emulator/clock"
            assert served.process.stdout is not None
            hint = next(line for line in served.process.stdout if "The clock is manual" in line)
            before, again = call(clock), call(clock)
            advanced = call(clock, "POST", {"advance": 90})
            moved = call(clock, "POST", {"move_to": "2999-01-02T00:00:00Z"})

        assert hint.endswith(f"with `pullqueue clock advance 60 --url {served.url}`\n")
        start = datetime.fromisoformat(before["now"])
        assert start == datetime.fromisoformat(again["now"])
        assert before["manual"]
        assert datetime.fromisoformat(advanced["now"]) - start == timedelta(seconds=90)
        assert moved["now"] == "2999-01-02T00:00:00+00:00"

    def test_leases_are_limited_as_in_production(self, folder: Path) -> None:
        """More than ten leases in a second return nothing, by default."""
        lease = "taskqueue/v1beta2/projects/p/taskqueues/pull-queue/tasks"
        answers = {}
        for option in ("--lease-rate-limit", "--no-lease-rate-limit"):
            with serving("--clock", "manual", option, folder=folder) as served:
                root = f"{served.url}/{lease}"
                for _ in range(11):
                    call(root, "POST", {"payloadBase64": ""})
                leases = [call(f"{root}/lease?numTasks=1&leaseSecs=9", "POST") for _ in range(11)]
                answers[option] = sum("items" in answer for answer in leases)

        assert answers == {"--lease-rate-limit": 10, "--no-lease-rate-limit": 11}

    def test_one_project(self, folder: Path) -> None:
        """With --project, other projects have no queues."""
        with serving("--project", "mine", folder=folder) as served:
            root = f"{served.url}/taskqueue/v1beta2/projects"
            mine = call(f"{root}/e~mine/taskqueues/pull-queue")
            with pytest.raises(OSError, match="404"):
                call(f"{root}/other/taskqueues/pull-queue")

        assert mine["id"] == "projects/e~mine/taskqueues/pull-queue"


def test_help_waits_for_no_server() -> None:
    """`pullqueue --help` imports neither Flask nor the server."""
    program = (
        "import sys; from pullqueue.cli import main; main(['--help']); "
        "print({'flask', 'waitress', 'yaml', 'jsonschema'} & set(sys.modules))"
    )
    shown = completed([sys.executable, "-c", program], check=True)

    assert "  serve " in shown.stdout
    assert shown.stdout.endswith("set()\n")
