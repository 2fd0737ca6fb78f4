"""`pullqueue credentials`: key files, and what they never replace."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from commands import Done, Run

GOOGLE = {
    "type": "service_account",
    "private_key_id": "0123456789abcdef0123456789abcdef01234567",
    "auth_uri": "https://accounts.google.com/o/oauth2/auth",
}
OTHER_FILES = [
    *(b"notes", b"\xff", b"[]", b"{}"),
    json.dumps(GOOGLE | {"token_uri": "https://oauth2.googleapis.com/token"}).encode(),
    json.dumps(GOOGLE | {"token_uri": "https://accounts.google.com/o/oauth2/token"}).encode(),
]
"""Text, bytes, JSON, and Google's keys as they are and were."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "key.json"


def test_credentials_prints_the_key_file_without_output(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No proxy is between."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    done = run("credentials worker@example.com")

    key = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert key["client_email"] == "worker@example.com"
    assert key["token_uri"] == f"http://{os.environ['PULLQUEUE_EMULATOR_HOST']}/token"


def test_credentials_writes_a_file_for_its_owner_alone(run: Run, path: Path) -> None:
    """Also where a file with more rights stood; a key is overwritten."""
    path.touch(0o644)
    for email in ("first@example.com", "second@example.com"):
        done = run("credentials", email, "--output", str(path))

        assert done == Done(0, f"{path}: the key of {email}\n", "")
        assert json.loads(path.read_text())["client_email"] == email
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_somebody_elses_is_replaced_by_force_alone(run: Run, path: Path) -> None:
    """A device is not."""
    refused = (
        "exists, and is not a key of pullqueue's: name another file, or replace it with --force"
    )
    order = f"credentials a@example.com --output {path}"
    for content in OTHER_FILES:
        path.write_bytes(content)

        assert run(order) == Done(1, "", f'pullqueue: "{path}" {refused}\n')
        assert path.read_bytes() == content
    assert run(order, "--force") == Done(0, f"{path}: the key of a@example.com\n", "")
    assert json.loads(path.read_text())["client_email"] == "a@example.com"
    device = run("credentials a@example.com --output", os.devnull)
    assert device == Done(1, "", f'pullqueue: "{os.devnull}" {refused}\n')


def test_a_file_that_cannot_be_written_is_refused(run: Run, path: Path) -> None:
    """Also by force: its folder is missing, or it is a link, which somebody else may have made."""
    missing, link = path.parent / "none" / "key.json", path
    link.symlink_to(path.with_name("linked.json"))

    for file, reason in (
        (missing, "no such file or directory"),
        (link, "is a symbolic link, not a regular file"),
    ):
        order = f"credentials a@example.com --output {file}"
        refused = Done(3, "", f'pullqueue: cannot write "{file}": {reason}\n')
        assert run(order) == run(order, "--force") == refused
    assert link.is_symlink()
    assert not link.exists()
