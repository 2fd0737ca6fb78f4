"""pullqueue.api.auth and tokens: who may do what."""

from __future__ import annotations

import base64

import pytest
from rest_app import ROOT, refusal
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator, ManualClock
from pullqueue.api.auth import Right
from pullqueue.api.routes import ROUTES
from pullqueue.api.tokens import Tokens
from pullqueue.config.model import AclEntry, QueueConfig, QueueMode, QueueSettings
from pullqueue.server.app import create_app

SCOPE = "https://www.googleapis.com/auth/taskqueue"
WORKER = "worker@example.com"


def bearer(tokens: Tokens, email: str, scope: str = SCOPE) -> dict[str, str]:
    return {"Authorization": f"Bearer {tokens.issue(email, frozenset(scope.split())).text}"}


class TestAcl:
    def test_only_inserts_need_a_writer_email(self) -> None:
        """Only tasks.insert needs a writer_email; all others need a user_email."""
        routes = ROUTES["v1beta2"]

        assert [each.method_id for each in routes if each.right is Right.INSERT] == ["tasks.insert"]

    @pytest.mark.parametrize(
        ("email", "statuses"),
        [
            (WORKER, (200, 403)),
            ("writer@example.com", (403, 200)),
            ("both@example.com", (200, 200)),
            ("stranger@example.com", (403, 403)),
        ],
    )
    def test_calls_that_the_acl_does_not_permit_change_nothing(
        self,
        guarded: Client,
        tokens: Tokens,
        emulator: Emulator,
        email: str,
        statuses: tuple[int, int],
    ) -> None:
        headers, body = bearer(tokens, email), {"payloadBase64": ""}
        got = guarded.get(f"{ROOT}/limited", headers=headers)
        inserted = guarded.post(f"{ROOT}/limited/tasks", json=body, headers=headers)

        assert (got.status_code, inserted.status_code) == statuses
        assert len(emulator.queue("limited").list_tasks()) == (statuses[1] == 200)

    def test_letters_that_fold_to_ascii_are_other_letters(
        self, emulator: Emulator, tokens: Tokens
    ) -> None:
        """Only ASCII letters are compared without regard to case: a long s is not an s."""
        acl = (AclEntry(user_email="user@example.com"), AclEntry(user_email="kim@example.com"))
        settings = QueueSettings(name="pull", mode=QueueMode.PULL, acl=acl)
        emulator.reconfigure(QueueConfig(queues=(settings,)))
        guarded = Client(create_app(emulator, tokens=tokens, acl=True))

        def status(email: str) -> int:
            return guarded.get(f"{ROOT}/pull", headers=bearer(tokens, email)).status_code

        assert [status("USER@example.com"), status("KIM@example.com")] == [200, 200]
        assert [status("u\u017fer@example.com"), status("\u212aim@example.com")] == [403, 403]

    def test_nobody_has_rights_by_default(self, guarded: Client, tokens: Tokens) -> None:
        """A queue without an acl is closed, and the answer says what to add."""
        response = guarded.get(f"{ROOT}/pull", headers=bearer(tokens, WORKER))

        assert refusal(response) == (403, "forbidden", "Forbidden")
        assert response.get_json()["error"]["details"][0]["message"] == (
            '"worker@example.com" is not a user_email in the acl of queue "pull": '
            "add it there in queue.yaml"
        )

    def test_tokens_are_ignored_without_auth_acl(self, client: Client) -> None:
        response = client.get(f"{ROOT}/limited", headers={"Authorization": "Bearer whatever"})

        assert response.status_code == 200

    def test_the_discovery_document_needs_no_token(self, guarded: Client) -> None:
        assert guarded.get("/discovery/v1/apis/taskqueue/v1beta2/rest").status_code == 200


class TestToken:
    @pytest.mark.parametrize(
        "form", ["access_token={}", "oauth_token={}", "Bearer {}", "bearer {}", "OAuth {}"]
    )
    def test_a_token_is_read_from_the_query_or_the_header(
        self, guarded: Client, tokens: Tokens, form: str
    ) -> None:
        sent = form.format(tokens.issue(WORKER).text)
        query, headers = ("", {"Authorization": sent}) if " " in sent else (sent, {})

        assert guarded.get(f"{ROOT}/limited?{query}", headers=headers).status_code == 200

    @pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic eDp5"}])
    def test_a_request_without_a_token_learns_how_to_authenticate(
        self, guarded: Client, headers: dict[str, str]
    ) -> None:
        response = guarded.get(f"{ROOT}/limited?key=an-api-key", headers=headers)

        assert refusal(response) == (401, "required", "Login Required")
        assert "GET /_emulator/token?email=EMAIL returns one" in response.text
        assert response.headers["WWW-Authenticate"] == (
            'Bearer realm="https://accounts.google.com/"'
        )

    def test_only_tokens_of_this_server_are_valid(
        self, guarded: Client, tokens: Tokens, clock: ManualClock
    ) -> None:
        issued = tokens.issue("nobody@example.com", frozenset({SCOPE})).text
        prefix, signed = issued[: len("pullqueue-")], issued[len("pullqueue-") :]
        claims, _, signature = signed.partition(".")
        changed = base64.urlsafe_b64decode(f"{claims}==").replace(b"nobody@", b"worker@")
        forged = f"{prefix}{base64.urlsafe_b64encode(changed).decode().rstrip('=')}.{signature}"
        key = guarded.post("/_emulator/credentials", json={"email": WORKER}).get_json()

        assert forged != issued
        for text in ("x", forged, Tokens(clock).issue(WORKER).text, key["private_key_id"]):
            response = guarded.get(f"{ROOT}/limited", headers={"Authorization": f"Bearer {text}"})

            assert refusal(response) == (401, "authError", "Invalid Credentials")
            assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]

    def test_a_token_expires_after_an_hour_of_the_emulator_s_clock(
        self, guarded: Client, tokens: Tokens, clock: ManualClock
    ) -> None:
        headers = bearer(tokens, WORKER)

        clock.advance(3599.999999)
        still = guarded.get(f"{ROOT}/limited", headers=headers)
        clock.advance(0.000001)
        after = guarded.get(f"{ROOT}/limited", headers=headers)

        assert (still.status_code, after.status_code) == (200, 401)

    @each_row(
        ("scope", "status"),
        [
            (SCOPE, 200),
            (f"{SCOPE}.consumer", 200),
            ("https://www.googleapis.com/auth/cloud-taskqueue", 200),
            ("https://www.googleapis.com/auth/cloud-taskqueue.consumer", 200),
            ("https://www.googleapis.com/auth/cloud-platform", 200),
            (f"https://www.googleapis.com/auth/drive {SCOPE}", 200),
            ("https://www.googleapis.com/auth/drive", 403),
        ],
    )
    def test_a_token_needs_a_scope_of_this_api(
        self, guarded: Client, tokens: Tokens, scope: str, status: int
    ) -> None:
        headers = bearer(tokens, WORKER, scope)

        response = guarded.get(f"{ROOT}/limited", headers=headers)

        assert response.status_code == status
        if status == 403:
            assert refusal(response)[1:] == ("insufficientPermissions", "Insufficient Permission")

    def test_a_batch_hands_its_token_on(self, guarded: Client, tokens: Tokens) -> None:
        response = guarded.post(
            "/batch",
            data=f"--sep\r\n\r\nGET {ROOT}/limited HTTP/1.1\r\n\r\n\r\n--sep--",
            content_type="multipart/mixed; boundary=sep",
            headers=bearer(tokens, WORKER),
        )

        assert "HTTP/1.1 200 OK" in response.text

    def test_the_token_route_issues_a_token_for_any_address(self, guarded: Client) -> None:
        answer = guarded.get("/_emulator/token?email=worker@example.com").get_json()
        headers = {"Authorization": f"Bearer {answer['access_token']}"}

        assert (answer["expires_in"], answer["token_type"]) == (3600, "Bearer")
        assert guarded.get(f"{ROOT}/limited", headers=headers).status_code == 200

    @pytest.mark.parametrize("query", ["", "email=", "email=x", "email=@", "email=x@"])
    def test_the_token_route_refuses_what_is_not_an_address(
        self, guarded: Client, query: str
    ) -> None:
        response = guarded.get(f"/_emulator/token?{query}")

        assert refusal(response)[:2] == (400, "invalidParameter")

    def test_tokeninfo_describes_a_token_as_google_does(
        self, guarded: Client, tokens: Tokens, clock: ManualClock
    ) -> None:
        text = tokens.issue(WORKER, frozenset({SCOPE})).text
        clock.advance(100)

        info = guarded.get(f"/tokeninfo?access_token={text}").get_json()
        unknown = guarded.get("/tokeninfo?access_token=x")

        assert (info["email"], info["scope"], info["expires_in"]) == (WORKER, SCOPE, "3500")
        assert guarded.post("/tokeninfo", data={"access_token": text}).get_json() == info
        assert (unknown.status_code, unknown.get_json()) == (
            400,
            {"error": "invalid_token", "error_description": "Invalid Value"},
        )
