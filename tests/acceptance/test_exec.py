"""`pullqueue exec`, run as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from served import serving

from pullqueue.sdk.imports import remote_api

QUEUE_YAML = "queue:\n- name: pull\n  mode: pull\n"
SHOW_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"
USE_QUEUE = """
import threading
from google.appengine.api import taskqueue

def work():
    queue = taskqueue.Queue("pull")
    queue.add(taskqueue.Task(payload=b"work", method="PULL", name="mine"))
    print([task.name for task in queue.lease_tasks(60, 10)])

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a queue.yaml."""
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    return tmp_path


def start(*arguments: str, folder: Path, **variables: str) -> subprocess.Popen[str]:
    """Start `pullqueue exec` in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "pullqueue", "exec", *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments: str, folder: Path, given: str = "", **variables: str) -> tuple[int, str, str]:
    """Run `pullqueue exec` to its end and give status, output and errors."""
    process = start(*arguments, folder=folder, **variables)
    output, errors = process.communicate(given, timeout=30)
    return process.returncode, output, errors


def python(program: str) -> list[str]:
    """Give the command that runs a program of this interpreter's."""
    return ["--", sys.executable, "-W", "ignore", "-c", program]


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
            urlopen(f"http://{address}/_emulator/clock", timeout=5)

    def test_what_it_is_told(self, folder: Path) -> None:
        """The environment names the server in every way that clients look for it."""
        _, output, _ = run(
            *python(SHOW_ENVIRONMENT),
            folder=folder,
            PYTHONPATH="/before",
            APPENGINE_USE_CLOUDTASK_PUSH_QUEUE="true",
        )
        told = json.loads(output)

        assert told["PULLQUEUE_EMULATOR_HOST"] == f"{told['API_HOST']}:{told['API_PORT']}"
        assert told["HTTP_X_APPENGINE_API_TICKET"]
        assert told["HTTP_HOST"] == "localhost"
        assert told["PYTHONPATH"].endswith(f"{os.pathsep}/before")
        assert told["APPENGINE_USE_CLOUDTASK_PUSH_QUEUE"] == "false"

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
        process.communicate(timeout=10)

        assert process.returncode == 42

    def test_a_command_that_a_signal_ends(self, folder: Path) -> None:
        """The status is that of shells: 128 and the signal's number."""
        program = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

        status, _, _ = run(*python(program), folder=folder)

        assert status == 128 + signal.SIGKILL

    def test_a_command_that_is_not_there(self, folder: Path) -> None:
        """A missing program and a file that is none are told as shells tell them."""
        missing = run("--", "no-such-program", folder=folder)
        (folder / "text").write_text("no program")
        text = run("--", str(folder / "text"), folder=folder)

        assert missing[0] == 127
        assert "'no-such-program' is not found" in missing[2]
        assert text[0] == 126
        assert "cannot be run" in text[2]

    def test_no_command(self, folder: Path) -> None:
        """Without a command, or without the dashes before it, the usage is told."""
        forgotten = (["python", "-V"], ["python", "main.py"])
        for arguments in ([], ["queue.yaml"], ["queue.yaml", "--"], *forgotten):
            status, _, errors = run(*arguments, folder=folder)

            assert status == 2
            assert "pullqueue exec [OPTIONS] [QUEUE_YAML] -- COMMAND..." in errors
            assert "there is no command: give one behind `--`" in errors

    def test_other_wrong_usage(self, folder: Path) -> None:
        """An upstream without a port is refused, and nothing is run."""
        status, output, errors = run(
            "--api-upstream", "foo", *python("print('ran')"), folder=folder
        )

        assert (status, output) == (2, "")
        assert "'foo' is no address: give HOST:PORT, such as localhost:8080" in errors

    def test_dashes_of_the_command(self, folder: Path) -> None:
        """Only the first pair of dashes is exec's own."""
        program = "import sys; print(sys.argv[1:])"

        _, output, _ = run(*python(program), "-x", "--", "--port", folder=folder)

        assert output == "['-x', '--', '--port']\n"

    def test_a_queue_yaml_that_is_not_there(self, tmp_path: Path) -> None:
        """Nothing is run where there is no queue.yaml."""
        status, output, errors = run(*python("print('ran')"), folder=tmp_path)

        assert (status, output) == (2, "")
        assert "there is neither queue.yaml nor queue.yml" in errors


class TestApp:
    @pytest.mark.parametrize("mode", ["true", "false"])
    def test_a_thread_outside_any_request(self, folder: Path, mode: str) -> None:
        """An app uses its queues anywhere, with no line changed, in both modes of context."""
        status, output, errors = run(
            "queue.yaml",
            *python(USE_QUEUE),
            folder=folder,
            READ_GAE_CONTEXT_FROM_OS_ENVIRON=mode,
        )

        assert (status, output) == (0, "['mine']\n"), errors

    @pytest.mark.parametrize("mode", ["true", "false"])
    @pytest.mark.parametrize("legacy", ["True", "False"])
    def test_threads_of_a_wrapped_app(self, folder: Path, legacy: str, mode: str) -> None:
        """They find the server, though from Python 3.13 on they begin with no environment."""
        program = (
            "import os\nfrom google.appengine.api import wrap_wsgi_app\n"
            f"wrap_wsgi_app(None, use_legacy_context_mode={legacy})\n"
            + USE_QUEUE.replace("def work():", "def work():\n    os.environ.clear()")
        )

        status, output, errors = run(
            *python(program), folder=folder, READ_GAE_CONTEXT_FROM_OS_ENVIRON=mode
        )

        assert (status, output) == (0, "['mine']\n"), errors

    def test_the_default_stub_first(self, folder: Path) -> None:
        """An app may import the module that is changed for it before any other of the SDK's."""
        program = "from google.appengine.runtime import default_api_stub\n" + USE_QUEUE

        status, output, errors = run(*python(program), folder=folder)

        assert (status, output) == (0, "['mine']\n"), errors

    def test_an_app_that_imports_no_sdk(self, folder: Path) -> None:
        """Other programs are left as they are; the SDK is not imported for them."""
        program = "import sys; print('google.appengine' in sys.modules, len(sys.meta_path))"
        plain = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )

        _, output, _ = run(*python(program), folder=folder)

        count = int(plain.stdout.split()[1])
        assert output.split() == ["False", str(count + 1)]

    def test_an_interpreter_without_the_sdk(self, folder: Path) -> None:
        """A program that ends for want of the SDK tells what to install, and where."""
        program = (
            "import sys\nsys.path = [p for p in sys.path if 'packages' not in p]\n"
            "sys.modules.pop('google', None)\nfrom google.appengine.api import taskqueue\n"
        )

        status, _, errors = run(*python(program), folder=folder)

        assert status == 1
        assert errors.endswith(
            f"pullqueue: {sys.executable} has no App Engine SDK: install it there with "
            "pip install 'pullqueue[appengine]'\n"
        )

    def test_a_sitecustomize_of_the_users(self, folder: Path) -> None:
        """The user's own start-up module runs as well, and is the one that is imported."""
        (folder / "sitecustomize.py").write_text("print('mine')\n")
        program = "import sitecustomize, sys; print(sitecustomize.__file__); print(sys.path[1])"

        _, output, _ = run(*python(program), folder=folder, PYTHONPATH=str(folder))

        _, mine, file, first = output.splitlines()  # pullqueue's own Python runs it first
        assert (mine, file) == ("mine", str(folder / "sitecustomize.py"))
        assert first == str(folder)

    def test_errors_have_their_sentences(self, folder: Path) -> None:
        """What the emulator has to say reaches the app."""
        program = (
            "from google.appengine.api import taskqueue\n"
            "try:\n    taskqueue.Queue('pul').lease_tasks(1, 1)\n"
            "except taskqueue.UnknownQueueError as error:\n    print(error)\n"
        )

        _, output, _ = run(*python(program), folder=folder)

        assert output == "queue 'pul' is not in queue.yaml: did you mean 'pull'?\n"

    def test_other_services(self, folder: Path) -> None:
        """Calls to other services fail with a message that says what this server is."""
        program = (
            "from google.appengine.api import apiproxy_stub_map, taskqueue\n"
            "from google.appengine.api.memcache import memcache_service_pb2 as pb\n"
            "try:\n    apiproxy_stub_map.MakeSyncCall('memcache', 'Stats', "
            "pb.MemcacheStatsRequest(), pb.MemcacheStatsResponse())\n"
            "except Exception as error:\n    print(type(error).__name__, error)\n"
        )

        _, output, errors = run(*python(program), folder=folder)

        assert output.startswith("CallNotFoundError "), errors
        assert "this is pullqueue" in output
        assert "'memcache'" in output

    @pytest.mark.parametrize("kind", ["pull", "push"])
    def test_transactions(self, folder: Path, datastore: str, kind: str) -> None:
        """A transactional add is refused, and the app's exception says why."""
        task = "payload=b'work', method='PULL'" if kind == "pull" else "url='/work'"
        queue = "pull" if kind == "pull" else "default"
        program = (
            "from google.appengine.api import datastore_errors, taskqueue\n"
            "from google.appengine.ext import db\n"
            f"def add():\n    taskqueue.Queue({queue!r}).add(taskqueue.Task({task}), True)\n"
            "try:\n    db.run_in_transaction(add)\n"
            "except taskqueue.DatastoreError as error:\n"
            "    print(isinstance(error, datastore_errors.BadRequestError), error)\n"
        )

        _, output, errors = run(
            "--api-upstream", datastore, *python(program), folder=folder, APPLICATION_ID="app"
        )

        assert output.startswith("True "), errors
        assert "there is no datastore that could send them when it commits" in output
        assert errors.count("\n") == 1


@pytest.fixture
def datastore() -> Iterator[str]:
    """Serve a stand-in for App Engine's other services, by whom all transactions begin."""
    transaction = b"\x09\x01" + bytes(7) + b"\x12\x03app"  # its handle, 1, and its app
    answer = remote_api.Response(response=transaction).SerializeToString()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def no_sdk(tmp_path: Path) -> Path:
    """Give a folder for PYTHONPATH with which no SDK is found."""
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(
        "import sys\nsys.modules['google'] = None\n"
    )
    return tmp_path / "without"


class TestJoining:
    def test_two_commands_share_a_server(self, folder: Path) -> None:
        """With PULLQUEUE_EMULATOR_HOST set no server is started, and its queues are used."""
        with serving(folder=folder) as served:
            address = served.url.removeprefix("http://")
            first = run(*python(USE_QUEUE), folder=folder, PULLQUEUE_EMULATOR_HOST=address)
            second = run(*python(USE_QUEUE), folder=folder, PULLQUEUE_EMULATOR_HOST=address)

        assert first == (0, "['mine']\n", "")
        assert "TaskAlreadyExistsError" in second[2]

    def test_a_command_inside_a_command(self, folder: Path) -> None:
        """A command that runs exec itself joins the server it was given."""
        inner = [sys.executable, "-m", "pullqueue", "exec", *python(SHOW_ENVIRONMENT)]

        status, output, errors = run("--", *inner, folder=folder)

        assert status == 0
        assert errors.count("listening") == 1
        assert json.loads(output)["PULLQUEUE_EMULATOR_HOST"] in errors

    @pytest.mark.parametrize(
        ("address", "reason"),
        [
            ("127.0.0.1:1", "where no server answers"),
            ("nonsense", "which is no address: give HOST:PORT, such as localhost:8124"),
            ("http://127.0.0.1:1", "which is no address: give HOST:PORT"),
            ("127.0.0.1:99999", "which is no address: give HOST:PORT"),
        ],
    )
    def test_nobody_there(self, folder: Path, address: str, reason: str) -> None:
        """Where no server answers nothing is run."""
        status, output, errors = run(
            *python("print('ran')"), folder=folder, PULLQUEUE_EMULATOR_HOST=address
        )

        assert (status, output) == (2, "")
        assert f"PULLQUEUE_EMULATOR_HOST is '{address}', {reason}" in errors

    def test_no_server_of_this_kind(self, folder: Path) -> None:
        """An address at which something else than HTTP is spoken is refused."""
        with socket.create_server(("127.0.0.1", 0)) as other:

            def hang_up() -> None:
                other.accept()[0].close()

            thread = Thread(target=hang_up)
            thread.start()
            status, output, errors = run(
                *python("print('ran')"),
                folder=folder,
                PULLQUEUE_EMULATOR_HOST=f"127.0.0.1:{other.getsockname()[1]}",
            )
            thread.join()

        assert (status, output) == (2, "")
        assert "where no server answers" in errors

    def test_a_server_without_the_sdk(
        self, folder: Path, no_sdk: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is told before the program runs what to install; other programs need it not."""
        with monkeypatch.context() as patched:
            patched.setenv("PYTHONPATH", str(no_sdk))
            with serving(folder=folder) as served:
                patched.undo()
                address = served.url.removeprefix("http://")
                joined = run(
                    *python("print('ran')"), folder=folder, PULLQUEUE_EMULATOR_HOST=address
                )
        own = run(*python("print('ran')"), folder=folder, PYTHONPATH=str(no_sdk))

        reason = "App Engine's SDK is not installed: pip install 'pullqueue[appengine]'\n"
        cannot = "pullqueue: a program on App Engine's SDK cannot use"
        assert joined == (0, "ran\n", f"{cannot} the server at {address}: {reason}")
        assert own[:2] == (0, "ran\n")
        assert own[2].endswith(f"\n{cannot} this server: {reason}")

    def test_two_configurations(self, folder: Path) -> None:
        """A queue.yaml beside a running server is refused: which one would count?"""
        status, _, errors = run(
            "queue.yaml", *python(""), folder=folder, PULLQUEUE_EMULATOR_HOST="127.0.0.1:1"
        )

        assert status == 2
        assert "a server with a queue.yaml of its own" in errors
