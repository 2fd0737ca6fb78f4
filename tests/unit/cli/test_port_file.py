"""The file with the port of a server: how it is written, and what `wait` reads from it."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from click.exceptions import Exit
from linting import run_pullqueue

from pullqueue.cli import _port_file
from pullqueue.cli._port_file import ServerOfFile, port_file
from pullqueue.cli.client import FailedError
from pullqueue.errors import ConfigFileError
from pullqueue.server.lifecycle import Server

HAS_ENDED = r'^the server of ".+/port" has ended: see what it printed$'


@pytest.fixture
def config_text() -> str:
    """Return the text of queue.yaml."""
    return "queue:\n- name: pull\n  mode: pull\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a port file that does not exist yet."""
    return tmp_path / "port"


@contextmanager
def running(path: Path, port: int = 8000) -> Iterator[None]:
    """Lock and write the file as a server does that runs until the block ends."""
    with port_file(path) as write:
        write(port)
        yield


@pytest.mark.parametrize("left", ["1\n", "x" * 100_000, None])
def test_the_file_has_the_port_while_the_server_runs(path: Path, left: str | None) -> None:
    """What an earlier server has left is replaced, and afterwards the file is gone."""
    if left is not None:
        path.write_text(left)
    with running(path):
        assert path.read_text() == "8000\n"

    assert not path.exists()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_another_server_has_written_is_left_alone(
    path: Path, *, replaced: bool
) -> None:
    """When the server stops, also if it is a new file with the same port."""
    with running(path):
        if replaced:
            path.unlink()
        path.write_text("8000\n" if replaced else "2\n")

    assert path.exists()


def test_the_file_of_a_running_server_is_kept(path: Path) -> None:
    """A second server refuses it, and the first one's stays as it is."""
    with running(path):
        with (
            pytest.raises(ConfigFileError, match='/port" is the port file of a running server'),
            port_file(path),
        ):
            pytest.fail("it was locked twice")
        assert path.read_text() == "8000\n"


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Its folder is missing, or it is a link, by which other files could be overwritten."""
    target, link = tmp_path / "precious", tmp_path / "port"
    target.write_text("kept")
    link.symlink_to(target)

    for path, reason in ((tmp_path / "no" / "port", "no such file"), (link, "is a symbolic link")):
        with (
            pytest.raises(ConfigFileError, match=f'^cannot write "{path}": {reason}'),
            running(path),
        ):
            pass
    assert target.read_text() == "kept"


def test_the_file_shows_each_state_of_a_server(path: Path) -> None:
    server = ServerOfFile(path)

    url, missing = server.look()
    assert (url, str(missing).partition('"')[0]) == (None, "there is no port file ")
    with port_file(path) as write:
        assert server.look() == (None, f'the server of "{path}" does not listen yet')
        write(8000)
        assert server.look() == ("http://127.0.0.1:8000", None)
    with pytest.raises(FailedError, match=HAS_ENDED):
        server.look()
    with running(path), pytest.raises(FailedError, match=HAS_ENDED):
        server.look()  # another, in its place


def test_a_killed_server_leaves_its_file_unlocked(path: Path) -> None:
    server = ServerOfFile(path)
    with path.open("w+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        print(8000, file=file, flush=True)
        assert server.look() == ("http://127.0.0.1:8000", None)

    with pytest.raises(FailedError, match=HAS_ENDED):
        server.look()


@pytest.mark.parametrize("server", [running, port_file])
def test_a_server_that_fails_leaves_an_empty_file(
    path: Path, server: Callable[[Path], AbstractContextManager[object]]
) -> None:
    """Which shows that it has ended; the next one that fails, too."""
    for _ in range(2):
        seen = ServerOfFile(path)
        with pytest.raises(Exit), server(path):
            raise Exit

        assert path.read_text() == ""
        with pytest.raises(FailedError, match=HAS_ENDED):
            seen.look()


def test_a_file_that_was_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next server has a few seconds to take it over."""
    path.write_text("1\n")
    server, other = ServerOfFile(path), ServerOfFile(path)

    assert server.look() == (None, f'the server of "{path}" has ended, and no other has started')
    with running(path):
        assert server.look() == ("http://127.0.0.1:8000", None)
        path.write_text("1\n")
    monkeypatch.setattr(_port_file, "_LEFT_OVER_SECONDS", 0)
    with pytest.raises(FailedError, match=HAS_ENDED):
        other.look()


def test_wrong_options_are_reported_while_the_file_is_locked(path: Path) -> None:
    """So that `wait` does not wait any longer."""
    server = ServerOfFile(path)
    for option in ("--prot", "--port"):
        done = run_pullqueue("serve", option, "http", "--port-file", str(path))

        assert done.exit_code == 2
        assert path.read_text() == ""
        with pytest.raises(FailedError, match=HAS_ENDED):
            server.look()
        path.unlink()


def test_waiting_asks_at_another_address(path: Path, server: Server) -> None:
    """With --url the server is asked there; the file still shows whether it runs."""
    command = ("wait", "--timeout", "0", "--port-file", str(path))
    with running(path, 1):
        assert run_pullqueue(*command, "--url", server.url).exit_code == 0
        done = run_pullqueue(*command)
    ended = run_pullqueue(*command, "--url", server.url)

    assert "after 0 s, no pullqueue responds at http://127.0.0.1:1" in done.stderr
    assert done.stderr.endswith("or PULLQUEUE_EMULATOR_HOST\n")
    assert (ended.exit_code, "there is no port file" in ended.stderr) == (1, True)


def test_a_file_that_cannot_come_is_not_waited_for(tmp_path: Path) -> None:
    """A file that cannot come into being is not waited for."""
    done = run_pullqueue("wait", "--timeout", "1000", "--port-file", str(tmp_path / "no" / "port"))

    assert (done.exit_code, done.stderr) == (
        3,
        f'pullqueue: cannot read "{tmp_path}/no/port": its folder does not exist\n',
    )
