"""`pullqueue serve --auth acl` and `--secret-file`, as a user runs them."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import requests
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.service_account import Credentials
from programs import completed
from rest_clients import CLIENTS_YAML
from served import serve_here, serving

from pullqueue import ConfigFileError
from pullqueue.cli._service import secret_of

PULL_QUEUE = "/taskqueue/v1beta2/projects/my-app/taskqueues/pull-queue"
CLOSED = "- name: closed\n  mode: pull\n  retry_parameters: {task_retry_limit: 1}\n"


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    """Return the working folder, with a queue.yaml that has acls."""
    (folder / "queue.yaml").write_text(CLIENTS_YAML + CLOSED)
    return folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the place of a secret that does not exist yet."""
    return tmp_path / "secret.txt"


def test_a_line_that_works_with_an_acl(folder: Path) -> None:
    """The curl line has a token of one who may insert; closed queues are pointed out."""
    with serving("--auth", "acl", folder=folder) as served:
        assert served.process.stdout is not None
        lines = [served.process.stdout.readline().rstrip("\n") for _ in range(6)]
        tried = completed(["sh", "-c", lines[5]])

    assert lines[:5] == [
        "queue.yaml: 3 pull queues",
        "  pull-queue",
        "  read-only",
        "  closed (each task can be leased 1 time; no acl: nobody may use it)",
        "Add a task:",
    ]
    assert json.loads(tried.stdout)["queueName"] == "pull-queue"


def test_nobody_may_insert(folder: Path) -> None:
    """Where no acl lets anybody insert, there is no line to try."""
    (folder / "queue.yaml").write_text("queue:\n- name: closed\n  mode: pull\n")
    done, _ = serve_here("--auth", "acl")

    assert done.stdout.splitlines()[2] == "  closed (no acl: nobody may use it)"
    assert "curl" not in done.stdout


def test_a_key_outlives_its_server() -> None:
    """With the same secret, another run of the server accepts the keys and tokens of this one."""
    email = "worker@example.com"

    def make(url: str) -> list[Any]:
        key = requests.post(f"{url}/_emulator/credentials", json={"email": email}, timeout=60)
        token = requests.get(f"{url}/_emulator/token?email={email}", timeout=60)
        return [key.json(), token.json()["access_token"]]

    options = ("--auth", "acl", "--secret-file", "secret.txt")
    key, token = serve_here(*options, use=make)[1]

    def use(url: str) -> list[int]:
        scopes = ["https://www.googleapis.com/auth/taskqueue"]
        account = Credentials.from_service_account_info(key, scopes=scopes)  # type: ignore[no-untyped-call]
        headers = {"Authorization": f"Bearer {token}"}
        with AuthorizedSession(account.with_token_uri(f"{url}/token")) as session:  # type: ignore[no-untyped-call]
            return [
                session.get(f"{url}{PULL_QUEUE}").status_code,
                requests.get(f"{url}{PULL_QUEUE}", headers=headers, timeout=60).status_code,
            ]

    assert serve_here(*options, use=use)[1] == [200, 200]


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
        assert {each.name for each in path.parent.iterdir()} == {"queue.yaml", path.name}

    def test_it_is_whole_or_not_there(self, path: Path) -> None:
        """Where it cannot be written, nothing is left that the next server would stumble over."""
        resource = pytest.importorskip("resource")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = list(path.parent.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        try:
            with pytest.raises(ConfigFileError, match=r"the secret file .*: file too large"):
                secret_of(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

        assert list(path.parent.iterdir()) == before
        assert len(secret_of(path)) == 64

    def test_servers_that_start_at_once(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """All go by the secret of the one that was first."""
        link = os.link
        first: list[str] = []

        def link_second(source: Path, target: Path) -> None:
            monkeypatch.setattr(os, "link", link)
            first.append(secret_of(path))
            link(source, target)

        monkeypatch.setattr(os, "link", link_second)

        assert [secret_of(path)] == first

    @pytest.mark.parametrize(
        ("name", "content", "complaint"),
        [
            (
                "secret.txt",
                b"short\n",
                'the secret in "secret.txt" has 5 characters, and could be guessed: use 32 or more',
            ),
            (
                "secret.txt",
                b"",
                'the secret in "secret.txt" has 0 characters, and could be guessed',
            ),
            (
                "secret.txt",
                b"\xff" * 40,
                'cannot use the secret file "secret.txt": it is not UTF-8',
            ),
            (
                "none/secret.txt",
                None,
                'cannot use the secret file "none/secret.txt": no such file or directory',
            ),
        ],
    )
    def test_an_invalid_secret(self, name: str, content: bytes | None, complaint: str) -> None:
        """A file that holds none is refused and left as it is."""
        if content is not None:
            Path(name).write_bytes(content)

        with pytest.raises(ConfigFileError) as refused:
            secret_of(Path(name))

        assert str(refused.value).startswith(complaint)
        assert content is None or Path(name).read_bytes() == content

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
