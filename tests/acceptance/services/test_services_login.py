"""An unmodified app with users in a browser: signing in and out, and the user of `exec --user`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import requests
from browser import Browser
from executing import app_under_exec
from push_app import until
from selenium.webdriver.common.by import By

accounts = partial(app_under_exec, Path(__file__).parent / "accounts.py")
ID = "185804764220139124118"


def test_a_user_signs_in_and_out_in_a_browser(tmp_path: Path, browser: Browser) -> None:
    with accounts(tmp_path) as (url, server, _):

        def shows(text: str) -> None:
            script = "return document.body ? document.body.innerText : ''"
            until(lambda: text in browser.execute_script(script))  # type: ignore[no-untyped-call]

        browser.get(f"{url}/account?tab=2")  # which redirects
        shows("Sign in to the app")
        email = browser.find_element(By.NAME, "email")
        email.clear()
        email.send_keys("test@example.com")
        browser.find_element(By.NAME, "admin").click()
        email.submit()
        shows("account of test@example.com, /account?tab=2")
        browser.get(url)
        shows(f"test@example.com test@example.com {ID} admin Sign out")
        browser.get(f"http://{server}/console/server")
        assert browser.find_element(By.ID, "users").text.endswith(
            "test@example.com (administrator)"
        )
        browser.get(f"http://{server}/console/activity")
        shows("test@example.com (administrator) signed in to the app")

        browser.get(url)
        browser.find_element(By.LINK_TEXT, "Sign out").click()
        shows("nobody Sign in")
        browser.get(f"http://{server}/console/server")
        shows("nobody is signed in")
        browser.get(url)
        browser.find_element(By.LINK_TEXT, "Sign in").click()
        shows("Sign in to the app")
        browser.find_element(By.TAG_NAME, "button").click()
        shows("account of test@example.com, /account?tab=1")


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
