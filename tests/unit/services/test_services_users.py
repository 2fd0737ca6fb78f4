"""The login page: what it accepts, where it leads, and what the server knows of users."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
import requests
from tables import each_row

from pullqueue.observe.users import User, parse_user
from pullqueue.sdk.startup.front_end import APP_HOST, FrontEnd
from pullqueue.server.lifecycle import Server

Serve = Callable[..., Server]
ME = "me@example.com:False:146138407206134090412"
BOSS = "boss@example.com:True:1"


@pytest.fixture
def url(serve: Serve) -> str:
    return serve().url


def sign_in(url: str, email: str = "me@example.com", **fields: str) -> requests.Response:
    return requests.post(
        f"{url}/_ah/login",
        {"email": email, **fields},
        headers={APP_HOST: "app.test:8080"},
        allow_redirects=False,
        timeout=60,
    )


def known(url: str) -> list[dict[str, Any]]:
    users: list[dict[str, Any]] = requests.get(f"{url}/_emulator/server", timeout=60).json()[
        "users"
    ]
    return users


class TestLoginPage:
    def test_the_cookie_is_that_of_dev_appserver(self, url: str) -> None:
        """With the user id by which entities of a user are found again, as recorded."""
        recorded = "test@example.com:False:185804764220139124118"
        assert sign_in(url, "test@example.com").cookies["dev_appserver_login"] == recorded
        response = sign_in(url, **{"continue": "/account"})

        assert (response.status_code, response.headers["Location"]) == (303, "/account")
        assert response.headers["Set-Cookie"] == (
            f"dev_appserver_login={ME}; HttpOnly; Path=/; SameSite=Lax"
        )
        admin = sign_in(url, admin="1").cookies["dev_appserver_login"]
        assert admin == ME.replace("False", "True")
        assert sign_in(url, "ME@example.com").cookies["dev_appserver_login"] == f"ME{ME[2:]}"

    def test_the_server_shows_who_is_signed_in(self, url: str) -> None:
        sign_in(url)
        sign_in(url, "boss@example.com", admin="1")
        me = {"email": "me@example.com", "admin": False, "default": False}
        boss = {"email": "boss@example.com", "admin": True, "default": False}
        assert known(url) == [me, boss]

        out = requests.get(
            f"{url}/_ah/logout?continue=/bye",
            cookies={"dev_appserver_login": BOSS},
            allow_redirects=False,
            timeout=60,
        )
        assert (out.status_code, out.headers["Location"]) == (303, "/bye")
        assert out.headers["Set-Cookie"].startswith("dev_appserver_login=; ")
        assert known(url) == [me]
        actions = requests.get(f"{url}/_emulator/activity", timeout=60).json()["actions"]
        assert [each["text"] for each in actions] == [
            "boss@example.com (administrator) signed out of the app",
            "boss@example.com (administrator) signed in to the app",
            "me@example.com signed in to the app",
        ]
        page = requests.get(f"{url}/console/server", timeout=60).text
        assert "<dt>Users of the app</dt><dd>me@example.com</dd>" in page
        nobody = requests.get(f"{url}/_ah/logout", allow_redirects=False, timeout=60)
        assert (nobody.status_code, nobody.headers["Location"]) == (303, "/")

    @each_row(
        "email",
        ["", "me", "@example.com", "me@", "a@b@c", "a b@example.com", "a:b@example.com", "é@é",
         f"{'a' * 246}@test.com",
         'a"@example.com', "a,b@example.com", "a;b@example.com", "a\r\nX: y@b", "<b>@<b>:"],
    )  # fmt: skip
    def test_what_is_not_an_address_is_refused(self, url: str, email: str) -> None:
        response = sign_in(url, email, **{"continue": "/account"})

        assert response.status_code == 400
        [problem] = re.findall(r'<p role="alert">(.*)</p>', response.text)
        assert html.unescape(problem).endswith(" e-mail address: use one such as me@example.com")
        assert 'name="continue" value="/account"' in response.text
        assert "<b>" not in response.text
        assert "Set-Cookie" not in response.headers
        assert known(url) == []

    @each_row(
        ("page", "expected"),
        [
            ("", "/"),
            ("/account?a=1&b=%2F", "/account?a=1&b=%2F"),
            ("http://app.test:8080/account", "http://app.test:8080/account"),
            ("https://app.test:8080/account", "https://app.test:8080/account"),
            ("http://localhost:3000/", "http://localhost:3000/"),
            ("http://127.0.0.1:3000/", "http://127.0.0.1:3000/"),
            ("http://app.test:8081/account", None),
            ("http://evil.test/", None),
            ("http://app.test:8080@evil.test/", None),
            ("http://localhost@evil.test/", None),
            ("//evil.test/", None),
            ("/\\evil.test/", None),
            ("\\\\evil.test/", None),
            ("/\t/evil.test", None),
            ("javascript:alert(1)", None),
            ("data:text/html,x", None),
            ("account", None),
            ("/a\r\nX-Evil: 1", None),
            ("http://[", None),
        ],
    )
    def test_it_leads_to_pages_of_the_app_only(
        self, url: str, page: str, expected: str | None
    ) -> None:
        response = sign_in(url, **{"continue": page})
        login = requests.get(f"{url}/_ah/login", {"continue": page}, headers={
            APP_HOST: "app.test:8080"}, timeout=60)  # fmt: skip

        if expected is None:
            assert (response.status_code, login.status_code) == (400, 400)
            assert "use a path of the app" in response.json()["error"]["message"]
            assert "Set-Cookie" not in response.headers
        else:
            assert (response.status_code, login.status_code) == (303, 200)
            assert response.headers["Location"] == expected

    def test_no_other_page_can_frame_it_or_run_scripts_in_it(self, url: str) -> None:
        page = requests.get(f"{url}/_ah/login", {"continue": '/"><script>'}, timeout=60)

        assert "<script" not in page.text
        policy = page.headers["Content-Security-Policy"]
        assert policy == "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


def test_an_option_names_a_user() -> None:
    for email in ("me@example.com", f"{'a' * 245}@test.com"):
        for role, admin in (("", False), (":admin", True)):
            assert parse_user(email + role) == User(email=email, admin=admin, default=True)
    for text, message in (
        ("me@example.com:Admin", 'role "Admin" does not exist: use EMAIL or EMAIL:admin'),
        ("me@example.com:", 'role "" does not exist: use EMAIL or EMAIL:admin'),
        ("me", '"me" is not an e-mail address: use one such as me@example.com'),
        (":admin", '"" is not an e-mail address: use one such as me@example.com'),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            parse_user(text)


DOMAIN = {"AUTH_DOMAIN": "gmail.com"}


def seen_by_the_app(sent: dict[str, str]) -> dict[str, str]:
    """Return the headers that an app gets if some are sent."""
    seen: dict[str, Any] = {}

    def app(environ: dict[str, Any], _start: object) -> list[bytes]:
        seen.update(environ)
        return []

    environ = {f"HTTP_{name}": value for name, value in sent.items()}
    environ |= {"REQUEST_METHOD": "GET", "PATH_INFO": "/"}
    FrontEnd(app, lambda: ("127.0.0.1", 1), lambda: "app")(environ, lambda *_: lambda _: None)
    return {k.removeprefix("HTTP_"): v for k, v in seen.items() if k.startswith("HTTP_")}


@each_row(
    ("default", "sent", "named"),
    [
        ("", {}, {}),
        (ME, {}, {"USER_EMAIL": "me@example.com", "USER_ID": "146138407206134090412",
                  "USER_IS_ADMIN": "0"}),
        ("", {"COOKIE": f"a=b; dev_appserver_login={BOSS}"},
         {"USER_EMAIL": "boss@example.com", "USER_ID": "1", "USER_IS_ADMIN": "1"}),
        ("", {"COOKIE": f'dev_appserver_login="{BOSS}"; {{"not": a cookie'},
         {"USER_EMAIL": "boss@example.com", "USER_ID": "1", "USER_IS_ADMIN": "1"}),
        (ME, {"COOKIE": f"dev_appserver_login={BOSS}"},
         {"USER_EMAIL": "boss@example.com", "USER_ID": "1", "USER_IS_ADMIN": "1"}),
        (ME, {"COOKIE": "dev_appserver_login="}, {}),
        ("", {"COOKIE": "dev_appserver_login=a@b"},
         {"USER_EMAIL": "a@b", "USER_ID": "", "USER_IS_ADMIN": "0"}),
        ("", {"COOKIE": f"x{BOSS}; xdev_appserver_login={BOSS}"}, {}),
        (ME, {"X_APPENGINE_USER_EMAIL": "test@b"}, {"USER_EMAIL": "test@b"}),
        (ME, {"X_APPENGINE_QUEUENAME": "q"}, {"QUEUENAME": "q"}),
        (ME, {"X_APPENGINE_CRON": "true"}, {"CRON": "true"}),
        (ME, {"X_APPENGINE_AUTH_DOMAIN": "example.com"},
         {"AUTH_DOMAIN": "example.com", "USER_EMAIL": "me@example.com", "USER_IS_ADMIN": "0",
          "USER_ID": "146138407206134090412"}),
    ],
)  # fmt: skip
def test_each_request_names_its_user(
    monkeypatch: pytest.MonkeyPatch, default: str, sent: dict[str, str], named: dict[str, str]
) -> None:
    """That of the cookie, or the default; an empty cookie is that of somebody who signed out."""
    monkeypatch.setenv("PULLQUEUE_USER", default)

    seen = seen_by_the_app(sent)

    prefix = "X_APPENGINE_"
    found = {name.removeprefix(prefix): seen[name] for name in seen if name.startswith(prefix)}
    assert found == {**DOMAIN, **named}


OF_A_TASK = {
    "X_APPENGINE_QUEUENAME": "q",
    "X_APPENGINE_TASKNAME": "t",
    "X_APPENGINE_TASKRETRYCOUNT": "0",
    "X_APPENGINE_CRON": "true",
    "X_APPENGINE_FAILFAST": "1",
    "X_APPENGINE_INBOUND_APPID": "other",
    "X_GOOGLE_INTERNAL_SKIPADMINCHECK": "true",
}
OF_ANYBODY = {"X_APPENGINE_COUNTRY": "DE", "X_APPENGINE_USER_EMAIL": "a@b", "COOKIE": "a=b"}


@pytest.mark.parametrize(
    ("proof", "sent", "are_kept"),
    [
        ("s", {"X_PULLQUEUE_PROOF": "s"}, True),
        ("s", {"X_PULLQUEUE_PROOF": "S"}, False),
        ("s", {"X_PULLQUEUE_PROOF": "s,s"}, False),
        ("s", {"X_PULLQUEUE_PROOF": ""}, False),
        ("s", {}, False),
        ("s", {"COOKIE": f"dev_appserver_login={ME}"}, False),
        ("s", {"COOKIE": f"dev_appserver_login={BOSS}"}, True),
        (None, {}, True),
    ],
)
def test_headers_of_tasks_are_kept_in_requests_of_the_server_and_of_administrators(
    monkeypatch: pytest.MonkeyPatch, proof: str | None, sent: dict[str, str], *, are_kept: bool
) -> None:
    """No app sees the proof."""
    if proof is not None:
        monkeypatch.setenv("PULLQUEUE_PROOF", proof)

    seen = seen_by_the_app(OF_A_TASK | OF_ANYBODY | sent)

    kept = (
        OF_ANYBODY
        | sent
        | (OF_A_TASK if are_kept else {})
        | {"X_APPENGINE_AUTH_DOMAIN": "gmail.com"}
    )
    kept.pop("X_PULLQUEUE_PROOF", None)
    assert seen == kept
