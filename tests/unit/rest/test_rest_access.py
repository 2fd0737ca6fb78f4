"""pullqueue.rest.access, tokens and oauth: who may do what."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from flask.testing import FlaskClient
from rest_app import CONFIG, ROOT
from werkzeug.test import TestResponse

from pullqueue import Emulator, ManualClock
from pullqueue.clock import SystemClock
from pullqueue.rest.app import create_app
from pullqueue.rest.tokens import Tokens

SCOPE = "https://www.googleapis.com/auth/taskqueue"
GOOGLE = "https://oauth2.googleapis.com/token"
WORKER = "worker@example.com"
HALF = "\ud800"
"""Half of a character."""
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@pytest.fixture
def tokens(clock: ManualClock) -> Tokens:
    """Give the tokens of the guarded application."""
    return Tokens(clock)


@pytest.fixture
def guarded(emulator: Emulator, tokens: Tokens) -> FlaskClient:
    """Give a client of an application that enforces the acl."""
    return create_app(emulator, tokens=tokens, acl=True).test_client()


def bearer(tokens: Tokens, email: str, scope: str = SCOPE) -> dict[str, str]:
    """Give the header of a caller."""
    return {"Authorization": f"Bearer {tokens.issue(email, frozenset(scope.split())).text}"}


def reason(response: TestResponse) -> tuple[int, str, str]:
    """Give status, reason and message of a refusal."""
    error = response.get_json()["error"]
    return response.status_code, error["errors"][0]["reason"], error["message"]


CALLS = [
    ("GET", "", None, "use"),
    ("GET", "/tasks", None, "use"),
    ("GET", "/tasks/one", None, "use"),
    ("POST", "/tasks/lease?numTasks=1&leaseSecs=60", None, "use"),
    ("PATCH", "/tasks/one?newLeaseSeconds=5", {"queueName": "limited"}, "use"),
    ("POST", "/tasks/one?newLeaseSeconds=5", {"id": "one", "leaseTimestamp": "1"}, "use"),
    ("DELETE", "/tasks/one", None, "use"),
    ("POST", "/tasks", {"payloadBase64": ""}, "insert"),
]


class TestAcl:
    @pytest.mark.parametrize(("verb", "path", "body", "right"), CALLS)
    @pytest.mark.parametrize(
        ("email", "rights"),
        [
            ("worker@example.com", {"use"}),
            ("Worker@Example.COM", {"use"}),
            ("writer@example.com", {"insert"}),
            ("both@example.com", {"use", "insert"}),
            ("stranger@example.com", set()),
        ],
    )
    def test_who_may_call_what(
        self,
        *,
        guarded: FlaskClient,
        tokens: Tokens,
        emulator: Emulator,
        verb: str,
        path: str,
        body: object,
        right: str,
        email: str,
        rights: set[str],
    ) -> None:
        """writer_email inserts, user_email does the rest, and nobody else does anything."""
        emulator.queue("limited").add(b"", name="one")
        before = emulator.queue("limited").list_tasks()

        response = guarded.open(
            f"{ROOT}/limited{path}", method=verb, json=body, headers=bearer(tokens, email)
        )

        if right in rights:
            assert response.status_code != 403
        else:
            assert reason(response) == (403, "forbidden", "Forbidden")
            assert emulator.queue("limited").list_tasks() == before

    def test_nobody_has_rights_by_default(self, guarded: FlaskClient, tokens: Tokens) -> None:
        """A queue without an acl is closed, and the answer says what to add."""
        response = guarded.get(f"{ROOT}/pull", headers=bearer(tokens, "worker@example.com"))

        assert reason(response) == (403, "forbidden", "Forbidden")
        assert response.get_json()["error"]["errors"][0]["debugInfo"] == (
            "'worker@example.com' is no user_email in the acl of queue 'pull': "
            "add it there in queue.yaml"
        )

    def test_off(self, client: FlaskClient) -> None:
        """Without acl, tokens are not looked at."""
        response = client.get(f"{ROOT}/limited", headers={"Authorization": "Bearer whatever"})

        assert response.status_code == 200

    def test_discovery_is_open(self, guarded: FlaskClient) -> None:
        """The discovery document needs no token."""
        assert guarded.get("/discovery/v1/apis/taskqueue/v1beta2/rest").status_code == 200


class TestToken:
    @pytest.mark.parametrize("name", ["access_token", "oauth_token"])
    def test_in_the_query(self, guarded: FlaskClient, tokens: Tokens, name: str) -> None:
        """A token may stand in the query."""
        token = tokens.issue("worker@example.com", frozenset({SCOPE}))

        assert guarded.get(f"{ROOT}/limited?{name}={token.text}").status_code == 200

    @pytest.mark.parametrize("scheme", ["Bearer", "bearer", "OAuth"])
    def test_in_the_header(self, guarded: FlaskClient, tokens: Tokens, scheme: str) -> None:
        """The scheme is Bearer, or OAuth as it was once, in any case."""
        text = bearer(tokens, "worker@example.com")["Authorization"].partition(" ")[2]
        headers = {"Authorization": f"{scheme} {text}"}

        assert guarded.get(f"{ROOT}/limited", headers=headers).status_code == 200

    @pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic eDp5"}])
    def test_none(self, guarded: FlaskClient, headers: dict[str, str]) -> None:
        """Without a token the answer is 401 and says how to authenticate."""
        response = guarded.get(f"{ROOT}/limited?key=an-api-key", headers=headers)

        assert reason(response) == (401, "required", "Login Required")
        assert response.headers["WWW-Authenticate"] == (
            'Bearer realm="https://accounts.google.com/"'
        )

    def test_an_unknown_one(self, guarded: FlaskClient) -> None:
        """A token the emulator did not give is not good."""
        response = guarded.get(f"{ROOT}/limited", headers={"Authorization": "Bearer x"})

        assert reason(response) == (401, "authError", "Invalid Credentials")
        assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]

    def test_an_hour(self, guarded: FlaskClient, tokens: Tokens, clock: ManualClock) -> None:
        """A token is good for an hour by the emulator's clock."""
        headers = bearer(tokens, "worker@example.com")

        clock.advance(3599.999999)
        still = guarded.get(f"{ROOT}/limited", headers=headers)
        clock.advance(0.000001)
        after = guarded.get(f"{ROOT}/limited", headers=headers)

        assert (still.status_code, after.status_code) == (200, 401)

    @pytest.mark.parametrize(
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
    def test_scopes(self, guarded: FlaskClient, tokens: Tokens, scope: str, status: int) -> None:
        """One of the scopes must be for this API."""
        headers = bearer(tokens, "worker@example.com", scope)

        response = guarded.get(f"{ROOT}/limited", headers=headers)

        assert response.status_code == status
        if status == 403:
            assert reason(response)[1:] == ("insufficientPermissions", "Insufficient Permission")

    def test_a_batch_hands_it_on(self, guarded: FlaskClient, tokens: Tokens) -> None:
        """The token of a batch counts for its calls."""
        response = guarded.post(
            "/batch",
            data=f"--sep\r\n\r\nGET {ROOT}/limited HTTP/1.1\r\n\r\n\r\n--sep--",
            content_type="multipart/mixed; boundary=sep",
            headers=bearer(tokens, "worker@example.com"),
        )

        assert "HTTP/1.1 200 OK" in response.text

    def test_at_another_server(self, tokens: Tokens, clock: ManualClock) -> None:
        """Servers that share a secret take each other's tokens, and nobody else does."""
        here, there = (Tokens(clock, secret="s" * 32) for _ in range(2))
        app = create_app(Emulator(CONFIG, clock=clock), tokens=here, acl=True)
        statuses = [
            app.test_client().get(f"{ROOT}/limited", headers=bearer(each, WORKER)).status_code
            for each in (there, tokens)
        ]

        assert statuses == [200, 401]

    def test_with_more_rights_than_were_given(self, guarded: FlaskClient, tokens: Tokens) -> None:
        """A token says whom it was given to, and is not good with another name in it."""
        prefix, _, signed = tokens.issue("nobody@example.com", frozenset({SCOPE})).text.partition(
            "-"
        )
        claims, _, signature = signed.partition(".")
        padded = base64.urlsafe_b64decode(f"{claims}{'=' * (-len(claims) % 4)}")
        forged = base64.urlsafe_b64encode(padded.replace(b"nobody@", b"worker@")).decode()
        headers = {"Authorization": f"Bearer {prefix}-{forged.rstrip('=')}.{signature}"}

        assert b"nobody@" in padded
        assert guarded.get(f"{ROOT}/limited", headers=headers).status_code == 401

    def test_a_key_is_no_token(self, guarded: FlaskClient) -> None:
        """What is signed for one purpose is not good for another."""
        key = guarded.post("/_emulator/credentials", json={"email": WORKER}).get_json()
        headers = {"Authorization": f"Bearer {key['private_key_id']}"}

        assert guarded.get(f"{ROOT}/limited", headers=headers).status_code == 401

    def test_for_a_shell(self, guarded: FlaskClient) -> None:
        """/_emulator/token gives a token for any address."""
        answer = guarded.get("/_emulator/token?email=worker@example.com").get_json()
        headers = {"Authorization": f"Bearer {answer['access_token']}"}

        assert (answer["expires_in"], answer["token_type"]) == (3600, "Bearer")
        assert guarded.get(f"{ROOT}/limited", headers=headers).status_code == 200

    @pytest.mark.parametrize("query", ["", "email=", "email=x", "email=@", "email=x@"])
    def test_for_no_address(self, guarded: FlaskClient, query: str) -> None:
        """What is no address gets no token."""
        response = guarded.get(f"/_emulator/token?{query}")

        assert reason(response)[:2] == (400, "invalidParameter")

    def test_tokeninfo(self, guarded: FlaskClient, tokens: Tokens, clock: ManualClock) -> None:
        """What a token is worth can be asked, as of Google."""
        token = tokens.issue("worker@example.com", frozenset({SCOPE}))
        clock.advance(100)

        answer = guarded.get(f"/tokeninfo?access_token={token.text}").get_json()

        assert answer["email"] == "worker@example.com"
        assert answer["scope"] == SCOPE
        assert answer["expires_in"] == "3500"
        assert guarded.post("/tokeninfo", data={"access_token": token.text}).status_code == 200

    def test_tokeninfo_of_nothing(self, guarded: FlaskClient) -> None:
        """An unknown token is an OAuth error."""
        response = guarded.get("/tokeninfo?access_token=x")

        assert response.status_code == 400
        assert response.get_json() == {
            "error": "invalid_token",
            "error_description": "Invalid Value",
        }


class TestGrant:
    @pytest.fixture
    def key(self, guarded: FlaskClient) -> dict[str, Any]:
        """Give a key file."""
        response = guarded.post("/_emulator/credentials", json={"email": "worker@example.com"})
        return dict(response.get_json())

    def claims(self, key: dict[str, Any], **changes: object) -> dict[str, Any]:
        """Give the claims google-auth makes, changed."""
        now = SystemClock().now_usec() // 1_000_000
        return {
            "iss": key["client_email"],
            "aud": GOOGLE,
            "iat": now,
            "exp": now + 3600,
            "scope": SCOPE,
            **changes,
        }

    def ask(
        self, client: FlaskClient, key: dict[str, Any], claims: dict[str, Any], **headers: str
    ) -> TestResponse:
        """Send a signed assertion."""
        named = {"kid": key["private_key_id"], **headers}
        assertion = jwt.encode(claims, key["private_key"], algorithm="RS256", headers=named)
        return client.post("/token", data={"grant_type": JWT_BEARER, "assertion": assertion})

    def test_the_key_file(self, key: dict[str, Any]) -> None:
        """It is a service account's, and points at the emulator."""
        assert key["type"] == "service_account"
        assert key["client_email"] == "worker@example.com"
        assert key["token_uri"] == "http://localhost/token"
        assert key["private_key"].startswith("-----BEGIN PRIVATE KEY-----\n")

    @pytest.mark.parametrize("audience", [GOOGLE, "http://localhost/token"])
    def test_a_token_for_a_signature(
        self, guarded: FlaskClient, key: dict[str, Any], audience: str
    ) -> None:
        """A signed assertion is worth a token for its issuer."""
        granted = self.ask(guarded, key, self.claims(key, aud=audience)).get_json()
        headers = {"Authorization": f"Bearer {granted['access_token']}"}

        assert granted["expires_in"] == 3600
        assert guarded.get(f"{ROOT}/limited", headers=headers).status_code == 200

    def test_characters_that_utf8_has_not(self, guarded: FlaskClient) -> None:
        """JSON can hold them, in a name and in a scope; they are kept like any other."""
        answer = guarded.post("/_emulator/credentials", json={"email": f"{HALF}@example.com"})
        key = answer.get_json()
        granted = self.ask(guarded, key, self.claims(key, scope=HALF)).get_json()
        told = guarded.post("/tokeninfo", json={"access_token": granted["access_token"]}).get_json()

        assert (told["email"], told["scope"]) == (f"{HALF}@example.com", HALF)
        refused = guarded.post("/tokeninfo", json={"access_token": HALF})
        assert (refused.status_code, refused.get_json()["error"]) == (400, "invalid_token")

    def test_as_json(self, guarded: FlaskClient, key: dict[str, Any]) -> None:
        """The grant may be asked for in JSON."""
        assertion = jwt.encode(
            self.claims(key),
            key["private_key"],
            algorithm="RS256",
            headers={"kid": key["private_key_id"]},
        )
        body = {"grant_type": JWT_BEARER, "assertion": assertion, "extra": 5}

        assert guarded.post("/token", json=body).status_code == 200

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"aud": "https://elsewhere.example.com/token"}, "invalid_grant"),
            ({"iss": "both@example.com"}, "invalid_grant"),
            ({"sub": "both@example.com"}, "unauthorized_client"),
            ({"iat": 1, "exp": 3601}, "invalid_grant"),
            ({"exp": 2**33}, "invalid_grant"),
            ({"scope": ""}, "invalid_scope"),
            ({"scope": "  "}, "invalid_scope"),
            ({"exp": "soon"}, "invalid_grant"),
            ({"exp": "9999999999"}, "invalid_grant"),
            ({"exp": float("inf")}, "invalid_grant"),
            ({"exp": [1]}, "invalid_grant"),
            ({"iat": None}, "invalid_grant"),
        ],
    )
    def test_claims_that_do_not_hold(
        self, guarded: FlaskClient, key: dict[str, Any], changes: dict[str, Any], code: str
    ) -> None:
        """Issuer, subject, audience, times and scope are verified."""
        response = self.ask(guarded, key, self.claims(key, **changes))

        assert response.status_code == 400
        assert response.get_json()["error"] == code
        assert response.get_json()["error_description"]

    def test_another_key(self, guarded: FlaskClient, key: dict[str, Any]) -> None:
        """A key signs for no other key's address."""
        other = guarded.post("/_emulator/credentials", json={"email": "both@example.com"})
        forged = {**other.get_json(), "private_key_id": key["private_key_id"]}

        response = self.ask(guarded, forged, self.claims(key))

        assert response.get_json()["error"] == "invalid_grant"

    def test_an_unknown_key(self, guarded: FlaskClient, key: dict[str, Any]) -> None:
        """A key of an earlier run is told how to be replaced."""
        response = self.ask(guarded, key, self.claims(key), kid="unknown")

        assert "pullqueue credentials" in response.get_json()["error_description"]

    def test_no_signature(self, guarded: FlaskClient, key: dict[str, Any]) -> None:
        """An assertion that names the algorithm none is refused."""
        head = {"alg": "none", "kid": key["private_key_id"]}
        unsigned = ".".join(
            base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=")
            for each in (head, self.claims(key))
        )
        body = {"grant_type": JWT_BEARER, "assertion": f"{unsigned}."}

        assert guarded.post("/token", data=body).get_json()["error"] == "invalid_grant"

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            ({}, "unsupported_grant_type"),
            ({"grant_type": "password"}, "unsupported_grant_type"),
            ({"grant_type": JWT_BEARER}, "invalid_grant"),
            ({"grant_type": JWT_BEARER, "assertion": "x.y.z"}, "invalid_grant"),
        ],
    )
    def test_what_is_no_grant(self, guarded: FlaskClient, body: dict[str, str], code: str) -> None:
        """Other grants, and assertions that are none, are OAuth errors."""
        response = guarded.post("/token", data=body)

        assert (response.status_code, response.get_json()["error"]) == (400, code)

    def test_keys_stay_on_this_machine(self, guarded: FlaskClient) -> None:
        """A key is made for no other machine."""
        response = guarded.post(
            "/_emulator/credentials",
            json={"email": "worker@example.com"},
            environ_overrides={"REMOTE_ADDR": "192.0.2.7"},
        )

        assert reason(response)[:2] == (403, "forbidden")
        assert "192.0.2.7 is another" in reason(response)[2]

    def test_the_project_of_the_key(self) -> None:
        """A key file names the emulator's project."""
        client = create_app(Emulator(CONFIG, project="mine")).test_client()
        key = client.post("/_emulator/credentials", json={"email": "a@b"}).get_json()

        assert key["project_id"] == "mine"
