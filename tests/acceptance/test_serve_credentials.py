"""`pullqueue serve --auth acl` and `--secret-file`, as a user runs them."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import pytest
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.service_account import Credentials
from programs import completed
from rest_clients import CLIENTS_YAML, key_file
from served import serving, start_serve

from pullqueue import ConfigFileError
from pullqueue.cli._service import secret_of

PULL_QUEUE = "/taskqueue/v1beta2/projects/my-app/taskqueues/pull-queue"


def session(key: Path, url: str) -> AuthorizedSession:
    """Return a session that asks a server for tokens with a key file."""
    scopes = ["https://www.googleapis.com/auth/taskqueue"]
    account = Credentials.from_service_account_file(str(key), scopes=scopes)  # type: ignore[no-untyped-call]
    return AuthorizedSession(account.with_token_uri(f"{url}/token"))  # type: ignore[no-untyped-call]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a queue.yaml that has acls."""
    (tmp_path / "queue.yaml").write_text(
        f"{CLIENTS_YAML}- name: closed\n  mode: pull\n  retry_parameters:\n"
        "    task_retry_limit: 1\n"
    )
    return tmp_path


class TestServe:
    def test_a_line_that_works_with_an_acl(self, folder: Path) -> None:
        """The curl line has a token of one who may insert; closed queues are pointed out."""
        process = start_serve("--port", "0", "--auth", "acl", folder=folder)
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip("\n") for _ in range(7)]
        tried = completed(["sh", "-c", lines[6]])
        process.terminate()
        process.communicate(timeout=60)

        assert lines[1:6] == [
            "queue.yaml: 3 pull queues",
            "  pull-queue",
            "  read-only",
            "  closed (each task can be leased 1 time; no acl: nobody may use it)",
            "Add a task:",
        ]
        assert json.loads(tried.stdout)["queueName"] == "pull-queue"

    def test_nobody_may_insert(self, folder: Path) -> None:
        """Where no acl lets anybody insert, there is no line to try."""
        (folder / "queue.yaml").write_text("queue:\n- name: closed\n  mode: pull\n")
        process = start_serve("--port", "0", "--auth", "acl", folder=folder)
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(3)]
        process.terminate()
        rest, _ = process.communicate(timeout=60)

        assert first[2] == "  closed (no acl: nobody may use it)\n"
        assert "curl" not in rest


class TestSecretFile:
    def test_a_key_outlives_its_server(self, folder: Path) -> None:
        """With the same secret, another run of the server issues tokens for the key of this one."""
        secret = ("--auth", "acl", "--secret-file", "secret.txt")
        with serving(*secret, folder=folder) as served:
            key = key_file(served, folder / "key.json")
            with session(key, served.url) as first:
                assert first.get(f"{served.url}{PULL_QUEUE}").status_code == 200
                with serving(*secret, folder=folder) as other:
                    assert first.get(f"{other.url}{PULL_QUEUE}").status_code == 200

        # Not at the same port: another process may have taken it.
        with serving(*secret, folder=folder) as again, session(key, again.url) as second:
            assert second.get(f"{again.url}{PULL_QUEUE}").status_code == 200

    def test_it_is_made_for_the_owner_alone(self, folder: Path) -> None:
        """Where there is no file, one is made, with a new secret that nobody else can read."""
        with serving("--secret-file", "secret.txt", folder=folder):
            pass
        path = folder / "secret.txt"
        first = path.read_text()
        with serving("--secret-file", "secret.txt", folder=folder):
            pass

        assert path.stat().st_mode & 0o777 == 0o600
        assert re.fullmatch("[0-9a-f]{64}\n", first)
        assert path.read_text() == first

    def test_it_is_whole_or_not_there(self, tmp_path: Path) -> None:
        """Where it cannot be written, nothing is left that the next server would stumble over."""
        resource = pytest.importorskip("resource")
        path = tmp_path / "secret.txt"
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        try:
            with pytest.raises(
                ConfigFileError, match=r"cannot use the secret file .*: file too large"
            ):
                secret_of(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

        assert list(tmp_path.iterdir()) == []
        assert len(secret_of(path)) == 64

    def test_servers_that_start_at_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All go by the secret of the one that was first."""
        path = tmp_path / "secret.txt"
        link = os.link
        first: list[str] = []

        def link_second(source: Path, target: Path) -> None:
            monkeypatch.setattr(os, "link", link)
            first.append(secret_of(path))
            link(source, target)

        monkeypatch.setattr(os, "link", link_second)

        assert [secret_of(path)] == first
        assert list(tmp_path.iterdir()) == [path]

    def test_in_a_folder_without_links(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is made there, too, for the owner alone."""
        path = tmp_path / "secret.txt"

        def refuse(*_: Path) -> None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "link", refuse)

        assert secret_of(path) == secret_of(path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [
            (
                b"short\n",
                'the secret in "secret.txt" has 5 characters, and could be guessed: use ',
            ),
            (b"", 'the secret in "secret.txt" has 0 characters, and could be guessed: use '),
            (b"\xff" * 40, 'cannot use the secret file "secret.txt": it is not UTF-8'),
        ],
    )
    def test_an_invalid_secret(self, folder: Path, content: bytes, complaint: str) -> None:
        """A file that holds none is refused and left as it is."""
        (folder / "secret.txt").write_bytes(content)
        process = start_serve("--secret-file", "secret.txt", folder=folder)
        output, errors = process.communicate(timeout=60)

        assert (process.returncode, output) == (3, "")
        assert errors.startswith(f"pullqueue: {complaint}")
        assert (folder / "secret.txt").read_bytes() == content

    @pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o640, True), (0o600, False)])
    def test_one_that_others_can_read(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int, *, warned: bool
    ) -> None:
        """It is used, with a warning."""
        path = tmp_path / "secret.txt"
        path.write_text("x" * 32)
        path.chmod(mode)

        assert secret_of(path) == "x" * 32
        warning = (
            f'warning: the secret in "{path}" can be read by other users (mode {mode:04o}): run '
            "`chmod 600` on it\n"
        )
        assert capsys.readouterr().err == (warning if warned else "")

    def test_it_is_not_made_through_a_link(self, tmp_path: Path) -> None:
        """Somebody who can make a link cannot have the secret written elsewhere."""
        path = tmp_path / "secret.txt"
        path.symlink_to(tmp_path / "elsewhere")

        with pytest.raises(ConfigFileError, match=r"cannot use the secret file .*: file exists"):
            secret_of(path)

        assert not (tmp_path / "elsewhere").exists()

    def test_where_it_cannot_be_made(self, folder: Path) -> None:
        """A directory that does not exist is one clear line."""
        process = start_serve("--secret-file", "none/secret.txt", folder=folder)
        _, errors = process.communicate(timeout=60)

        problem = 'cannot use the secret file "none/secret.txt": no such file or directory'
        assert errors == f"pullqueue: {problem}\n"
