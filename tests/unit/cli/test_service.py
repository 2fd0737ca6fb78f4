"""What `pullqueue serve` logs and reports to a service manager, and the file with its secret."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import socket
import sys
from pathlib import Path

import pytest

from pullqueue import ConfigFileError
from pullqueue.cli._service import LogFormatter, notify_systemd, secret_of


def record(message: str) -> logging.LogRecord:
    """Return the record of an error whose text came with a request."""
    fields = {"name": "pullqueue.server", "levelname": "ERROR", "msg": message, "verb": "GET"}
    try:
        raise ValueError("a\nERROR forged\x1b[31m\x85INFO forged")
    except ValueError:
        return logging.makeLogRecord({**fields, "exc_info": sys.exc_info()})


def test_logs_cannot_be_forged() -> None:
    """Control characters, which forge lines and control terminals, are escaped; the lines of a
    traceback are indented.
    """
    shown = LogFormatter(as_json=False).format(record("GET /\r\nERROR forged\x1b[31m\x9b"))

    first, *lines = shown.split("\n")
    assert first == r"ERROR pullqueue.server: GET /\r\nERROR forged\x1b[31m\x9b"
    assert all(line.startswith("  ") and line.isprintable() for line in lines)
    assert r"  ERROR forged\x1b[31m" in lines


def test_logs_as_json_cannot_be_forged() -> None:
    """A record is one line of JSON with the fields of its request."""
    shown = LogFormatter(as_json=True).format(record("GET /\r\nforged\x1b[31m\x9b"))

    assert shown.isprintable()
    line = json.loads(shown)
    assert (line["level"], line["verb"], "forged" in line["traceback"]) == ("error", "GET", True)


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_a_service_manager(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the state at the address in the environment."""
    address = str(tmp_path / "notify") if kind == "file" else f"\0pullqueue-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", address.replace("\0", "@"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        notify_systemd("READY=1")

        assert manager.recv(100) == b"READY=1"


def test_a_service_manager_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That is logged, and is not an error."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))

    notify_systemd("READY=1")

    (message,) = caplog.messages
    assert message.startswith('cannot report "READY=1" to the service manager: ')


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a secret that does not exist yet."""
    return tmp_path / "secret.txt"


class TestSecretFile:
    @pytest.mark.parametrize("links", [True, False])
    def test_it_is_made_for_the_owner_alone(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
    ) -> None:
        """Where there is no file, one is made that nobody else can read, also without links."""

        def refuse(*_: Path) -> None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

        if not links:
            monkeypatch.setattr(os, "link", refuse)

        assert re.fullmatch("[0-9a-f]{64}", secret_of(path))
        assert secret_of(path) == path.read_text().strip()
        assert path.stat().st_mode & 0o777 == 0o600
        assert {each.name for each in path.parent.iterdir()} == {path.name}

    def test_it_is_whole_or_not_there(self, path: Path) -> None:
        """Where it cannot be written, nothing is left that the next server would stumble over."""
        resource = pytest.importorskip("resource")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        try:
            with pytest.raises(ConfigFileError, match=r"the secret file .*: file too large"):
                secret_of(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

        assert list(path.parent.iterdir()) == []
        assert len(secret_of(path)) == 64

    def test_servers_that_start_at_once(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """All use the secret of the first one."""
        link = os.link
        first: list[str] = []

        def link_second(source: Path, target: Path) -> None:
            monkeypatch.setattr(os, "link", link)
            first.append(secret_of(path))
            link(source, target)

        monkeypatch.setattr(os, "link", link_second)

        assert [secret_of(path)] == first

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (
                b"short\n",
                'the secret in "{}" has 5 characters, and could be guessed: use 32 or more',
            ),
            (b"", 'the secret in "{}" has 0 characters, and could be guessed'),
            (b"\xff" * 40, 'cannot use the secret file "{}": it is not UTF-8'),
        ],
    )
    def test_an_invalid_secret(self, path: Path, content: bytes, problem: str) -> None:
        """A file that holds none is refused and left as it is."""
        path.write_bytes(content)

        with pytest.raises(ConfigFileError, match=f"^{re.escape(problem.format(path))}"):
            secret_of(path)

        assert path.read_bytes() == content

    def test_one_in_a_missing_folder(self, tmp_path: Path) -> None:
        """The error has the path and the reason."""
        path = tmp_path / "none" / "secret.txt"

        with pytest.raises(ConfigFileError, match=f'"{path}": no such file or directory'):
            secret_of(path)

    @pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o640, True), (0o600, False)])
    def test_one_that_others_can_read(
        self, path: Path, capsys: pytest.CaptureFixture[str], mode: int, *, warned: bool
    ) -> None:
        """It is used, with a warning."""
        path.write_text("x" * 32)
        path.chmod(mode)

        assert secret_of(path) == "x" * 32
        warning = (
            f'warning: the secret in "{path}" can be read by other users (mode {mode:04o}): run '
            "`chmod 600` on it\n"
        )
        assert capsys.readouterr().err == (warning if warned else "")

    def test_it_is_not_made_through_a_link(self, path: Path) -> None:
        """Somebody who can make a link cannot have the secret written elsewhere."""
        path.symlink_to(path.with_name("elsewhere"))

        with pytest.raises(ConfigFileError, match=r"cannot use the secret file .*: file exists"):
            secret_of(path)

        assert not path.with_name("elsewhere").exists()
