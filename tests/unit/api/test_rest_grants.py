"""pullqueue.api.oauth and tokens: what a signed assertion is worth."""

from __future__ import annotations

import base64
import json
import sys
from functools import cache
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from rest_app import CONFIG, ROOT, refusal
from tables import each_row
from werkzeug.test import Client, TestResponse

from pullqueue import Emulator, ManualClock
from pullqueue.clock import SystemClock
from pullqueue.extras import install_command
from pullqueue.server.app import create_app

SCOPE = "https://www.googleapis.com/auth/taskqueue"
GOOGLE = "https://oauth2.googleapis.com/token"
HALF = "\ud800"
"""Half of a character."""
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@pytest.fixture(scope="module")
def guarded() -> Client:
    """Return a client of an application that enforces the acl, and makes keys for all tests."""
    return Client(create_app(Emulator(CONFIG, clock=ManualClock(), project="app"), acl=True))


@pytest.fixture(scope="module")
def key(guarded: Client) -> dict[str, Any]:
    """Return a key file, the newer one of two for the worker."""
    return [key_of(guarded, "worker@example.com") for _ in range(2)][-1]


@pytest.fixture(scope="module")
def other_key(guarded: Client) -> dict[str, Any]:
    """Return the key file of somebody else."""
    return key_of(guarded, "both@example.com")


def key_of(client: Client, email: str) -> dict[str, Any]:
    return dict(client.post("/_emulator/credentials", json={"email": email}).get_json())


def claims(key: dict[str, Any], **changes: object) -> dict[str, Any]:
    """Return the claims google-auth makes, changed."""
    now = SystemClock().now_usec() // 1_000_000
    made = {"iss": key["client_email"], "aud": GOOGLE, "iat": now, "exp": now + 3600}
    return {**made, "scope": SCOPE, **changes}


private_key_of = cache(load_pem_private_key)
"""PyJWT would check the primes of a key for each assertion."""


def ask(
    client: Client,
    key: dict[str, Any],
    claims: dict[str, Any],
    *,
    kid: str | None = "",
    encoding: str = "data",
) -> TestResponse:
    """Send a signed assertion, which names its key unless `kid` is None."""
    named = {} if kid is None else {"kid": kid or key["private_key_id"]}
    private_key = private_key_of(key["private_key"].encode(), None)
    assertion = jwt.encode(claims, private_key, algorithm="RS256", headers=named)  # type: ignore[arg-type]
    body = {"grant_type": JWT_BEARER, "assertion": assertion, "extra": 5}
    return client.post("/token", **{encoding: body})


def test_a_key_file_points_at_the_emulator_and_its_project(key: dict[str, Any]) -> None:
    assert key["type"] == "service_account"
    assert key["client_email"] == "worker@example.com"
    assert key["token_uri"] == "http://localhost/token"
    assert key["private_key"].startswith("-----BEGIN PRIVATE KEY-----\n")
    assert key["project_id"] == "app"


@pytest.mark.parametrize(
    ("missing", "verb", "path", "options"),
    [
        (
            "cryptography.hazmat.primitives",
            "POST",
            "_emulator/credentials",
            {"json": {"email": "a@example.com"}},
        ),
        ("jwt", "POST", "token", {"data": {"grant_type": JWT_BEARER, "assertion": "x.y.z"}}),
        ("jwt.algorithms", "GET", "oauth2/v3/certs", {}),
    ],
)
def test_without_the_extra_a_key_is_refused_with_what_to_install(
    guarded: Client,
    monkeypatch: pytest.MonkeyPatch,
    *,
    missing: str,
    verb: str,
    path: str,
    options: dict[str, Any],
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    refused = guarded.open(f"/{path}", method=verb, **options)

    assert refused.status_code == 501
    assert refused.get_json()["error"]["message"] == (
        "keys of service accounts and ID tokens need an extra where the server runs: "
        f"{install_command('auth')}"
    )
    assert guarded.get("/_emulator/token?email=a@example.com").status_code == 200


@pytest.mark.parametrize(
    ("audience", "kid", "encoding"),
    [
        (GOOGLE, "", "data"),
        ("http://localhost/token", "", "json"),
        ("https://www.googleapis.com/oauth2/v4/token", None, "data"),
        ("https://accounts.google.com/o/oauth2/token", None, "data"),
    ],
)
def test_a_signature_gets_a_token_for_its_issuer(
    guarded: Client, key: dict[str, Any], audience: str, kid: str | None, encoding: str
) -> None:
    """A signed assertion is worth a token for its issuer, in a form or in JSON.

    Old libraries do not name the key: any that the server made for the issuer will do.
    """
    granted = ask(guarded, key, claims(key, aud=audience), kid=kid, encoding=encoding).get_json()
    headers = {"Authorization": f"Bearer {granted['access_token']}"}

    assert granted["expires_in"] == 3600
    assert guarded.get(f"{ROOT}/limited", headers=headers).status_code == 200


def test_characters_that_utf8_has_not(guarded: Client, key: dict[str, Any]) -> None:
    """A JWT may contain them in a scope; a body may not."""
    granted = ask(guarded, key, claims(key, scope=HALF)).get_json()
    path = f"/tokeninfo?access_token={granted['access_token']}"
    refused = guarded.post("/_emulator/credentials", json={"email": f"{HALF}@example.com"})

    assert guarded.get(path).get_json()["scope"] == HALF
    assert refused.status_code == 400
    assert refused.get_json()["error"]["errors"][0]["reason"] == "parseError"


@each_row(
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
        *(({"scope": scope}, "invalid_scope") for scope in (["https://x"], None, 5, "", " ")),
    ],
)
def test_issuer_subject_audience_times_and_scope_are_verified(
    guarded: Client, key: dict[str, Any], changes: dict[str, Any], code: str
) -> None:
    response = ask(guarded, key, claims(key, **changes))

    assert response.status_code == 400
    assert response.get_json()["error"] == code
    assert response.get_json()["error_description"]


@pytest.mark.parametrize(("seconds", "status"), [(3660, 200), (3661, 400)])
def test_a_jwt_is_valid_for_at_most_an_hour_and_a_minute(
    guarded: Client, key: dict[str, Any], seconds: int, status: int
) -> None:
    made = claims(key)
    made["exp"] = made["iat"] + seconds

    assert ask(guarded, key, made).status_code == status


def test_a_key_signs_only_for_its_own_address(
    guarded: Client, key: dict[str, Any], other_key: dict[str, Any]
) -> None:
    forged = {**other_key, "private_key_id": key["private_key_id"]}

    assert ask(guarded, forged, claims(key)).get_json()["error"] == "invalid_grant"


def test_a_key_that_is_not_known_is_refused(
    guarded: Client, key: dict[str, Any], other_key: dict[str, Any]
) -> None:
    """Or whose name is not: of another issuer, or of an earlier run of the server."""
    unknown = ask(guarded, key, claims(key), kid="unknown").get_json()
    assert "pullqueue credentials" in unknown["error_description"]
    for signer, issuer in ((other_key, "worker@example.com"), (key, "x@example.com")):
        refused = ask(guarded, signer, claims(key, iss=issuer), kid=None).get_json()

        assert refused["error"] == "invalid_grant"
        assert "made since this server was started" in refused["error_description"]


@each_row("algorithm", ["none", "None", "NONE", "HS256", "RS512", ""])
@each_row("signature", [b"", b"x" * 256])
def test_an_algorithm_other_than_rs256_is_refused(
    guarded: Client, key: dict[str, Any], algorithm: str, signature: bytes
) -> None:
    head = json.dumps({"alg": algorithm, "kid": key["private_key_id"]}).encode()
    parts = (head, json.dumps(claims(key)).encode(), signature)
    unsigned = ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts)
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
def test_other_grants_are_oauth_errors(guarded: Client, body: dict[str, str], code: str) -> None:
    response = guarded.post("/token", data=body)

    assert (response.status_code, response.get_json()["error"]) == (400, code)


def test_keys_stay_on_this_machine(guarded: Client) -> None:
    response = guarded.post(
        "/_emulator/credentials",
        json={"email": "worker@example.com"},
        environ_overrides={"REMOTE_ADDR": "192.0.2.7"},
    )

    assert refusal(response)[:2] == (403, "forbidden")
    assert "192.0.2.7 is another" in refusal(response)[2]
