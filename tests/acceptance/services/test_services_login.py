"""An unmodified app with users in a browser: signing in and out, and the user of `exec --user`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import requests
from executing import app_under_exec
from push_app import until

accounts = partial(app_under_exec, Path(__file__).parent / "accounts.py")


@pytest.mark.parametrize("legacy", ["true", "false"])
def test_exec_names_the_user(tmp_path: Path, legacy: str) -> None:
    """Of requests without a login; but tasks are nobody's, and who signs out is nobody."""
    options = ("--user", "boss@gmail.com:admin")
    with accounts(tmp_path, *options, READ_GAE_CONTEXT_FROM_OS_ENVIRON=legacy) as (url, server, _):
        browser = requests.Session()
        assert browser.get(url, timeout=60).text.startswith("boss boss@gmail.com 1")
        assert " admin " in browser.get(url, timeout=60).text
        shown = json.loads(browser.get(f"http://{server}/_emulator/server", timeout=60).text)[
            "users"
        ]
        assert shown == [{"email": "boss@gmail.com", "admin": True, "default": True}]
        browser.post(f"{url}/add", timeout=60)
        until((tmp_path / "task.txt").exists)
        until(lambda: (tmp_path / "task.txt").read_text() == "None\n")

        browser.get(f"{url}/_ah/logout?continue=/", timeout=60)
        assert browser.get(url, timeout=60).text.startswith("nobody ")
        login = {"email": "me@example.com", "continue": "/account"}
        page = browser.post(f"{url}/_ah/login", login, timeout=60)
        assert page.text == "account of me@example.com, /account?"
        assert requests.get(url, timeout=60).text.startswith("boss ")


def test_only_the_server_sends_requests_of_tasks(tmp_path: Path) -> None:
    """Which have no user, other than those of strangers with the same headers."""
    with accounts(tmp_path, "--user", "me@example.com") as (url, *_):
        requests.post(f"{url}/add", timeout=60)
        until((tmp_path / "task.txt").exists)
        until(lambda: (tmp_path / "task.txt").read_text() == "None\n")

        for strange in ({}, {"X-Pullqueue-Proof": "x"}):
            headers = {"X-AppEngine-QueueName": "default", **strange}
            assert requests.get(url, headers=headers, timeout=60).text.startswith("me@")


def test_a_form_of_another_site_signs_nobody_in(tmp_path: Path) -> None:
    with accounts(tmp_path) as (url, *_):
        form = {"email": "me@example.com", "continue": "/account"}
        for origin, status in (("http://evil.test", 403), (url, 303), ("null", 403)):
            response = requests.post(
                f"{url}/_ah/login", form, headers={"Origin": origin}, allow_redirects=False,
                timeout=60,
            )  # fmt: skip

            assert response.status_code == status
            assert ("Set-Cookie" in response.headers) == (status == 303)
