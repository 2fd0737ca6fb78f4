"""`pullqueue serve --auth acl` and `--secret-file`, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.service_account import Credentials
from programs import completed
from rest_app import CLIENTS_YAML
from served import serve_here, serving

PULL_QUEUE = "/taskqueue/v1beta2/projects/my-app/taskqueues/pull-queue"
CLOSED = "- name: closed\n  mode: pull\n  retry_parameters: {task_retry_limit: 1}\n"


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    """Return the working folder, with a queue.yaml that has acls."""
    (folder / "queue.yaml").write_text(CLIENTS_YAML + CLOSED)
    return folder


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
