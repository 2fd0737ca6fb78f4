"""`pullqueue exec` with a server that runs already."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
import requests
from executing import QUEUE_YAML, SHOW_ENVIRONMENT, USE_QUEUE, python, run
from linting import pullqueue
from odd_servers import answering
from served import serving

from pullqueue.cli import main
from pullqueue.extras import install_command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a queue.yaml."""
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    return tmp_path


@pytest.fixture
def no_sdk(tmp_path: Path) -> Path:
    """Return a folder for PYTHONPATH with which no SDK is found."""
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(
        "import sys\nsys.modules['google'] = None\n"
    )
    return tmp_path / "without"


class TestAnotherServer:
    """One that runs at the usual address, and was not named."""

    @pytest.fixture
    def execute(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> Callable[..., list[str]]:
        """Return a function that runs exec with the usual address and returns its lines."""
        monkeypatch.chdir(folder)
        monkeypatch.delenv("PULLQUEUE_EMULATOR_HOST", raising=False)

        def execute(*arguments: str, usual: str) -> list[str]:
            monkeypatch.setattr("pullqueue.cli.exec.DEFAULT_ADDRESS", usual)
            assert main(["exec", *arguments, "--", sys.executable, "-c", ""]) == 0
            return capfd.readouterr().err.splitlines()

        return execute

    def test_it_is_hinted_at(self, folder: Path, execute: Callable[..., list[str]]) -> None:
        """The message says how to join it."""
        with serving(folder=folder) as served:
            usual = served.url.removeprefix("http://")
            lines = execute(usual=usual)

        assert lines[0].startswith("pullqueue listening")
        (hint,) = lines[1:]
        assert hint.startswith(f"pullqueue: a server runs at {usual}, which this command does not")
        assert hint.endswith(f" use: pass --url {usual} to use it")

    @pytest.mark.parametrize("body", [b"no", b"3", b"{}"])
    def test_something_else(self, execute: Callable[..., list[str]], body: bytes) -> None:
        """Nothing is reported about another program's server, or if there is no server."""
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
        with answering(head.encode() + body) as usual:
            something = execute(usual=usual)

        assert [len(something), len(execute(usual="127.0.0.1:1"))] == [1, 1]


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
        ("address", "status", "reason"),
        [
            ("127.0.0.1:1", 3, "no pullqueue responds at http://127.0.0.1:1"),
            ("nonsense", 2, '"nonsense" is not a valid address: use HOST:PORT, such as localhost:'),
            ("http://127.0.0.1:1", 2, "is not a valid address: use HOST:PORT"),
            ("127.0.0.1:99999", 2, "is not a valid address: use HOST:PORT"),
        ],
    )
    def test_nobody_there(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, address: str, status: int, reason: str
    ) -> None:
        """Where no server answers nothing is run."""
        monkeypatch.chdir(folder)
        named = pullqueue("exec", "--url", address, "--", "touch", "ran")
        monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", address)
        usual = pullqueue("exec", "--", "touch", "ran")

        assert named.exit_code == usual.exit_code == status
        assert reason in named.stderr
        assert reason in usual.stderr
        assert not (folder / "ran").exists()

    def test_no_server_of_this_kind(self) -> None:
        """An address at which something else than HTTP is spoken is refused."""
        with socket.create_server(("127.0.0.1", 0)) as other:

            def hang_up() -> None:
                other.accept()[0].close()

            thread = Thread(target=hang_up)
            thread.start()
            done = pullqueue("exec", "--url", f"127.0.0.1:{other.getsockname()[1]}", "--", "true")
            thread.join()

        assert done.exit_code == 3
        assert "no pullqueue responds at " in done.stderr

    def test_something_else_answers(self) -> None:
        """A server that is none of this kind is not joined."""
        with answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n") as address:
            done = pullqueue("exec", "--url", address, "--", "true")

        assert done.exit_code == 3
        text = f"the server at http://{address} is not a pullqueue, or another version"
        assert text in done.stderr

    def test_a_server_that_may_not_be_called_so(self, folder: Path) -> None:
        """A name that the server does not answer to is reported before the program runs."""
        with serving(folder=folder) as served:
            refused = requests.get(
                f"{served.url}/_emulator/version", headers={"Host": "elsewhere"}, timeout=60
            )
        head = f"HTTP/1.1 {refused.status_code} Forbidden\r\n\r\n"
        with answering(head.encode() + refused.content) as address:
            done = pullqueue("exec", "--url", address, "--", "true")

        assert done.exit_code == 1
        assert 'the Host header is "elsewhere"' in done.stderr
        assert "start the server with --allow-host NAME" in done.stderr

    def test_a_server_without_the_sdk(
        self, folder: Path, no_sdk: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The error of a call says what to install where the server runs."""
        with monkeypatch.context() as patched:
            patched.setenv("PYTHONPATH", str(no_sdk))
            with serving(folder=folder) as served:
                patched.undo()
                address = served.url.removeprefix("http://")
                joined = run(*python(USE_QUEUE), folder=folder, PULLQUEUE_EMULATOR_HOST=address)

        assert joined[1] == ""
        assert (
            "where the server runs, App Engine's SDK is not installed: "
            f"{install_command('appengine')}" in joined[2]
        )

    def test_two_configurations(self) -> None:
        """A queue.yaml beside a running server is refused: which one would count?"""
        done = pullqueue("exec", "queue.yaml", "--url", "127.0.0.1:1", "--", "true")

        assert done.exit_code == 2
        assert 'has a queue.yaml of its own: leave "queue.yaml" out' in done.stderr
