"""pullqueue.api.oauth and tokens: what a signed assertion is worth."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import jwt
import pytest
from rest_answers import refusal
from rest_app import CONFIG, ROOT
from werkzeug.test import Client, TestResponse

from pullqueue import Emulator
from pullqueue.clock import SystemClock
from pullqueue.extras import install_command
from pullqueue.server.app import create_app

SCOPE = "https://www.googleapis.com/auth/taskqueue"
GOOGLE = "https://oauth2.googleapis.com/token"
HALF = "\ud800"
"""Half of a character."""
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class TestGrant:
    @pytest.fixture
    def key(self, guarded: Client) -> dict[str, Any]:
        """Return a key file."""
        response = guarded.post("/_emulator/credentials", json={"email": "worker@example.com"})
        return dict(response.get_json())

    def claims(self, key: dict[str, Any], **changes: object) -> dict[str, Any]:
        """Return the claims google-auth makes, changed."""
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
        self,
        client: Client,
        key: dict[str, Any],
        claims: dict[str, Any],
        *,
        kid: str | None = "",
    ) -> TestResponse:
        """Send a signed assertion, which names its key unless `kid` is None."""
        named = {} if kid is None else {"kid": kid or key["private_key_id"]}
        assertion = jwt.encode(claims, key["private_key"], algorithm="RS256", headers=named)
        return client.post("/token", data={"grant_type": JWT_BEARER, "assertion": assertion})

    def test_the_key_file(self, key: dict[str, Any]) -> None:
        """It is a service account's, and points at the emulator."""
        assert key["type"] == "service_account"
        assert key["client_email"] == "worker@example.com"
        assert key["token_uri"] == "http://localhost/token"
        assert key["private_key"].startswith("-----BEGIN PRIVATE KEY-----\n")

    @pytest.mark.parametrize("missing", ["cryptography.hazmat.primitives", "jwt"])
    def test_without_the_extra(
        self, guarded: Client, monkeypatch: pytest.MonkeyPatch, missing: str
    ) -> None:
        """The refusal names what to install; tokens need no extra."""
        monkeypatch.setitem(sys.modules, missing, None)
        if missing == "jwt":
            data = {"grant_type": JWT_BEARER, "assertion": "x.y.z"}
            refused = guarded.post("/token", data=data)
        else:
            refused = guarded.post("/_emulator/credentials", json={"email": "a@b"})

        assert refused.status_code == 501
        assert refused.get_json()["error"]["message"] == (
            "keys of service accounts and ID tokens need an extra where the server runs: "
            f"{install_command('auth')}"
        )
        assert guarded.get("/_emulator/token?email=a@b").status_code == 200

    @pytest.mark.parametrize("audience", [GOOGLE, "http://localhost/token"])
    def test_a_token_for_a_signature(
        self, guarded: Client, key: dict[str, Any], audience: str
    ) -> None:
        """A signed assertion is worth a token for its issuer."""
        granted = self.ask(guarded, key, self.claims(key, aud=audience)).get_json()
        headers = {"Authorization": f"Bearer {granted['access_token']}"}

        assert granted["expires_in"] == 3600
        assert guarded.get(f"{ROOT}/limited", headers=headers).status_code == 200

    def test_characters_that_utf8_has_not(self, guarded: Client, key: dict[str, Any]) -> None:
        """A JWT may contain them in a scope; a body may not."""
        granted = self.ask(guarded, key, self.claims(key, scope=HALF)).get_json()
        path = f"/tokeninfo?access_token={granted['access_token']}"
        refused = guarded.post("/_emulator/credentials", json={"email": f"{HALF}@example.com"})

        assert guarded.get(path).get_json()["scope"] == HALF
        assert refused.status_code == 400
        assert refused.get_json()["error"]["errors"][0]["reason"] == "parseError"

    @pytest.mark.parametrize("scope", [["https://x"], None, 5, "", " "])
    def test_a_scope_that_is_not_text(
        self, guarded: Client, key: dict[str, Any], scope: object
    ) -> None:
        """Scopes are one text with blanks between them."""
        answer = self.ask(guarded, key, self.claims(key, scope=scope))

        assert (answer.status_code, answer.get_json()["error"]) == (400, "invalid_scope")

    def test_as_json(self, guarded: Client, key: dict[str, Any]) -> None:
        """The grant may be asked for in JSON."""
        named = {"kid": key["private_key_id"]}
        assertion = jwt.encode(self.claims(key), key["private_key"], "RS256", named)
        body = {"grant_type": JWT_BEARER, "assertion": assertion, "extra": 5}

        assert guarded.post("/token", json=body).status_code == 200

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"aud": "https://elsewhere.example.com/token"}, "invalid_grant"),
            ({"aud": ["https://elsewhere.example.com/token"]}, "invalid_grant"),
            ({"aud": None}, "invalid_grant"),
            ({"iss": "both@example.com"}, "invalid_grant"),
            ({"sub": "both@example.com"}, "unauthorized_client"),
            ({"iat": 1, "exp": 3601}, "invalid_grant"),
            ({"exp": 2**33}, "invalid_grant"),
            ({"exp": "soon"}, "invalid_grant"),
            ({"exp": "9999999999"}, "invalid_grant"),
            ({"exp": float("inf")}, "invalid_grant"),
            ({"exp": [1]}, "invalid_grant"),
            ({"iat": None}, "invalid_grant"),
        ],
    )
    def test_claims_that_do_not_hold(
        self, guarded: Client, key: dict[str, Any], changes: dict[str, Any], code: str
    ) -> None:
        """Issuer, subject, audience, times and scope are verified."""
        response = self.ask(guarded, key, self.claims(key, **changes))

        assert response.status_code == 400
        assert response.get_json()["error"] == code
        assert response.get_json()["error_description"]

    def test_another_key(self, guarded: Client, key: dict[str, Any]) -> None:
        """A key signs for no other key's address."""
        other = guarded.post("/_emulator/credentials", json={"email": "both@example.com"})
        forged = {**other.get_json(), "private_key_id": key["private_key_id"]}

        response = self.ask(guarded, forged, self.claims(key))

        assert response.get_json()["error"] == "invalid_grant"

    def test_an_unknown_key(self, guarded: Client, key: dict[str, Any]) -> None:
        """A key of an earlier run is reported with how to replace it."""
        response = self.ask(guarded, key, self.claims(key), kid="unknown")

        assert "pullqueue credentials" in response.get_json()["error_description"]

    @pytest.mark.parametrize(
        "audience",
        [
            "https://www.googleapis.com/oauth2/v4/token",
            "https://accounts.google.com/o/oauth2/token",
        ],
    )
    def test_a_key_that_is_not_named(
        self, guarded: Client, key: dict[str, Any], audience: str
    ) -> None:
        """Old libraries leave it out: any key that the server made for the issuer will do."""
        for email in ("worker@example.com", "both@example.com"):
            guarded.post("/_emulator/credentials", json={"email": email})

        granted = self.ask(guarded, key, self.claims(key, aud=audience), kid=None)

        headers = {"Authorization": f"Bearer {granted.get_json()['access_token']}"}
        assert guarded.get(f"{ROOT}/limited", headers=headers).status_code == 200

    def test_a_key_that_is_not_named_and_not_known(
        self, guarded: Client, key: dict[str, Any]
    ) -> None:
        """The key of another issuer, or of an earlier run of the server, is refused."""
        other = guarded.post("/_emulator/credentials", json={"email": "both@example.com"})
        claims = self.claims(key)

        for signer, iss in ((other.get_json(), key["client_email"]), (key, "x@example.com")):
            refused = self.ask(guarded, signer, {**claims, "iss": iss}, kid=None)

            assert refused.get_json()["error"] == "invalid_grant"
            assert "made since this server was started" in refused.get_json()["error_description"]

    @pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "HS256", "RS512", ""])
    @pytest.mark.parametrize("signature", [b"", b"x" * 256])
    def test_no_signature(
        self, guarded: Client, key: dict[str, Any], algorithm: str, signature: bytes
    ) -> None:
        """Another algorithm than RS256, `none` first of all, is worth nothing."""
        head = {"alg": algorithm, "kid": key["private_key_id"]}
        unsigned = ".".join(
            base64.urlsafe_b64encode(each).decode().rstrip("=")
            for each in (
                json.dumps(head).encode(),
                json.dumps(self.claims(key)).encode(),
                signature,
            )
        )
        body = {"grant_type": JWT_BEARER, "assertion": unsigned}

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
    def test_an_invalid_grant(self, guarded: Client, body: dict[str, str], code: str) -> None:
        """Other grants, and assertions that are none, are OAuth errors."""
        response = guarded.post("/token", data=body)

        assert (response.status_code, response.get_json()["error"]) == (400, code)

    def test_keys_stay_on_this_machine(self, guarded: Client) -> None:
        """A key is made for no other machine."""
        response = guarded.post(
            "/_emulator/credentials",
            json={"email": "worker@example.com"},
            environ_overrides={"REMOTE_ADDR": "192.0.2.7"},
        )

        assert refusal(response)[:2] == (403, "forbidden")
        assert "192.0.2.7 is another" in refusal(response)[2]

    def test_the_project_of_the_key(self) -> None:
        """A key file names the emulator's project."""
        client = Client(create_app(Emulator(CONFIG, project="mine")))
        key = client.post("/_emulator/credentials", json={"email": "a@b"}).get_json()

        assert key["project_id"] == "mine"
