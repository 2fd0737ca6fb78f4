"""An unmodified app with users: the user of `exec --user`, and who signs in or out instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from executing import app_under_exec
from push_app import until


@pytest.fixture(scope="module", params=["true", "false"], ids=["legacy", "not legacy"])
def app(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Path]]:
    """Yield the URL of the app, HOST:PORT of its server, and its folder."""
    folder = tmp_path_factory.mktemp("accounts")
    with app_under_exec(
        *(Path(__file__).with_name("accounts.py"), folder, "--user", "boss@gmail.com:admin"),
        READ_GAE_CONTEXT_FROM_OS_ENVIRON=request.param,
    ) as (url, server, _):
        yield url, server, folder


def test_exec_names_the_user(app: tuple[str, str, Path]) -> None:
    """Of requests without a login; but tasks are nobody's, and who signs out is nobody."""
    url, server, folder = app
    browser = requests.Session()
    assert browser.get(url, timeout=60).text.startswith("boss boss@gmail.com 1")
    assert " admin " in browser.get(url, timeout=60).text
    shown = browser.get(f"http://{server}/_emulator/server", timeout=60).json()["users"]
    assert {"email": "boss@gmail.com", "admin": True, "default": True} in shown
    browser.post(f"{url}/add", timeout=60)
    until((folder / "task.txt").exists)
    until(lambda: (folder / "task.txt").read_text() == "None\n")
    assert {path.name for path in folder.iterdir()} == {"queue.yaml", "task.txt"}  # without --data

    browser.get(f"{url}/_ah/logout?continue=/", timeout=60)
    assert browser.get(url, timeout=60).text.startswith("nobody ")
    login = {"email": "me@example.com", "continue": "/account"}
    page = browser.post(f"{url}/_ah/login", login, timeout=60)
    assert page.text == "account of me@example.com, /account?"
    assert requests.get(url, timeout=60).text.startswith("boss ")


def test_requests_of_strangers_are_not_those_of_tasks(app: tuple[str, str, Path]) -> None:
    """Whatever headers they have, unless they are administrators; those of tasks have no user."""
    browser = requests.Session()
    browser.post(f"{app[0]}/_ah/login", {"email": "me@example.com", "continue": "/"}, timeout=60)
    for strange in ({}, {"X-Pullqueue-Proof": "x"}):
        headers = {"X-AppEngine-QueueName": "default", **strange}
        assert browser.get(app[0], headers=headers, timeout=60).text.startswith("me@")


def test_a_form_of_another_site_signs_nobody_in(app: tuple[str, str, Path]) -> None:
    form = {"email": "me@example.com", "continue": "/account"}
    for origin, status in (("http://evil.test", 403), (app[0], 303), ("null", 403)):
        response = requests.post(
            f"{app[0]}/_ah/login", form, headers={"Origin": origin}, allow_redirects=False,
            timeout=60,
        )  # fmt: skip

        assert response.status_code == status
        assert ("Set-Cookie" in response.headers) == (status == 303)
