"""Apps under `exec` in a browser: what an upload may do there, and how a user signs in and out."""

from __future__ import annotations

from pathlib import Path

import requests
from browser import Browser
from executing import app_under_exec
from push_app import until
from selenium.webdriver.common.by import By

APPS = Path(__file__).parents[1] / "acceptance" / "services"
ID = "185804764220139124118"
PAGE = b"""<title>blob</title><script>
const ask = (verb, path, headers = {}, body) => {
  const request = new XMLHttpRequest();
  request.open(verb, path, false);
  Object.entries(headers).forEach(header => request.setRequestHeader(...header));
  request.send(body);
  return request.responseText;
};
const token = ask('GET', '/console/').match(/pullqueue_token" content="(.*?)"/)[1];
const headers = {'X-Pullqueue-Token': token, 'Content-Type': 'application/json'};
document.title = ask('POST', '/_emulator/push_to', headers, '{"push_to": []}');
</script>"""
"""A page that, of the console's origin, would stop the delivery of push tasks."""


def test_a_script_in_a_blob_cannot_use_the_server(tmp_path: Path, browser: Browser) -> None:
    """In a browser, an uploaded page neither reads the console nor calls a route."""
    with app_under_exec(APPS / "photos.py", tmp_path) as (url, server, _):
        sent = {"photo": ("page.html", PAGE, "text/html")}
        stored = requests.post(requests.get(url, timeout=60).text, files=sent, timeout=60)
        key = stored.json()["photos"][0][0]

        browser.get(f"http://{server}/_ah/blobs/{key}")

        push_to = requests.get(f"http://{server}/_emulator/server", timeout=60).json()["push_to"]
        assert push_to == [url]


def test_a_user_signs_in_and_out_in_a_browser(tmp_path: Path, browser: Browser) -> None:
    with app_under_exec(APPS / "accounts.py", tmp_path) as (url, server, _):

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
