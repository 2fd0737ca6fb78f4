"""The tokens that HTTP tasks carry, as a handler verifies them with google-auth."""

from __future__ import annotations

import importlib
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier
from typing import Any
from urllib.request import urlopen

import pytest
from cloudtasks_api import PUSH, Call, GrpcApi, refused
from cryptography.x509 import load_pem_x509_certificate
from google.auth.exceptions import InvalidValue, MalformedError
from google.auth.transport.requests import Request
from google.oauth2 import id_token
from jwt import InvalidAudienceError, PyJWK

from pullqueue import Emulator, HttpRequest, PullQueueError, RequestToken
from pullqueue.cloudtasks.versions import V2
from pullqueue.push.addresses import PushAddresses
from pullqueue.push.request import PushRequest
from pullqueue.resources.models import PushState
from pullqueue.server.lifecycle import Server
from pullqueue.testing import run_tasks

URL = "https://api.example.com/work?a=b"
WORKER = "worker@app.iam.gserviceaccount.com"
VERSION = V2


def sent(call: Call, emulator: Emulator, **request: Any) -> PushRequest:
    """Create an HTTP task, send it, and return the request."""
    call("CreateTask", parent=PUSH, task={"httpRequest": {"url": URL, **request}})
    [attempt] = run_tasks(emulator, send=lambda _: 200)
    return attempt.request


def fetched(server: Server, path: str) -> dict[str, Any]:
    with urlopen(f"{server.url}{path}") as response:  # noqa: S310
        return dict(json.load(response))


@pytest.mark.parametrize(("given", "audience"), [({}, URL), ({"audience": "me"}, "me")])
def test_an_id_token_is_signed_for_the_audience_or_the_url(
    call: Call, server: Server, emulator: Emulator, given: dict[str, str], audience: str
) -> None:
    token = {"serviceAccountEmail": WORKER, **given}
    request = sent(call, emulator, oidcToken=token, headers={"authorization": "Basic mine"})
    configuration = fetched(server, "/.well-known/openid-configuration")
    keys = configuration["jwks_uri"]
    kind, _, text = request.headers["Authorization"].partition(" ")

    claims = id_token.verify_token(text, Request(), audience, keys)

    assert configuration["issuer"] == server.url == server.state.signer.issuer
    assert keys == f"{server.url}/oauth2/v3/certs"
    assert kind == "Bearer"
    assert "authorization" not in list(request.headers)
    assert (claims["email"], claims["email_verified"]) == (WORKER, True)
    assert claims["exp"] - claims["iat"] == 3600
    assert claims["iss"] == "https://accounts.google.com"
    assert claims["azp"] == claims["sub"] == "16675918241775105368"
    with pytest.raises(InvalidAudienceError):
        id_token.verify_token(text, Request(), "somebody else", keys)


@pytest.mark.parametrize(
    "day", [datetime(2012, 1, 1, tzinfo=UTC), datetime(2041, 1, 1, tzinfo=UTC)]
)
def test_the_certificate_has_the_key(server: Server, day: datetime) -> None:
    [(identifier, text)] = fetched(server, "/oauth2/v1/certs").items()
    [key] = fetched(server, "/oauth2/v3/certs")["keys"]

    certificate = load_pem_x509_certificate(text.encode())

    assert key == {
        "kty": "RSA", "key_ops": ["verify"], "n": key["n"], "e": "AQAB",
        "kid": identifier, "alg": "RS256", "use": "sig",
    }  # fmt: skip
    assert certificate.subject.rfc4514_string() == "CN=pullqueue"
    assert certificate.public_key() == PyJWK(key).key
    assert certificate.not_valid_before_utc < day < certificate.not_valid_after_utc
    certificate.verify_directly_issued_by(certificate)


def test_an_id_token_is_verified_by_the_certificate(
    call: Call, server: Server, emulator: Emulator
) -> None:
    request = sent(call, emulator, oidcToken={"serviceAccountEmail": WORKER})
    text = request.headers["Authorization"].removeprefix("Bearer ")
    keys = f"{server.url}/oauth2/v1/certs"

    assert id_token.verify_token(text, Request(), URL, keys)["email"] == WORKER
    with pytest.raises(InvalidValue, match="wrong audience"):
        id_token.verify_token(text, Request(), "somebody else", keys)
    with pytest.raises(MalformedError):
        id_token.verify_token("junk", Request(), URL, keys)


def test_an_access_token_is_opaque_and_valid_at_its_server(
    call: Call, server: Server, emulator: Emulator
) -> None:
    request = sent(call, emulator, oauthToken={"serviceAccountEmail": WORKER})
    task = HttpRequest(URL, token=RequestToken("oauth_token", WORKER, "scope"))
    of_server = server.state.signer.authorization(task)
    found = server.tokens.find((of_server or "").removeprefix("Bearer "))

    assert re.fullmatch("Bearer [A-Za-z0-9_-]{43}", request.headers["Authorization"])
    assert found is not None
    assert (found.email, found.scopes) == (WORKER, frozenset({"scope"}))


def test_a_header_of_the_user_is_passed_on_without_a_token(call: Call, emulator: Emulator) -> None:
    request = sent(call, emulator, headers={"Authorization": "Basic mine"})

    assert request.headers["Authorization"] == "Basic mine"


def test_without_the_extra_tasks_with_tokens_stay(
    call: Call, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task stays, `run` is refused, and each message says what to install.

    Access tokens need no extra.
    """
    monkeypatch.setitem(sys.modules, "jwt", None)
    opaque = sent(call, emulator, oauthToken={"serviceAccountEmail": WORKER})
    assert opaque.headers["Authorization"].startswith("Bearer ")
    needed = r"its token needs an extra: pip install .*\[auth\]"
    queue = emulator.queue("push")

    with pytest.raises(PullQueueError, match=needed):
        sent(call, emulator, url="http://localhost:1", oidcToken={"serviceAccountEmail": WORKER})
    [task] = queue.list_tasks()
    with Server(emulator, push_to=PushAddresses()) as delivering:
        api = GrpcApi(delivering, version=V2)
        with refused("FAILED_PRECONDITION", needed):
            api("RunTask", name=f"{PUSH}/tasks/{task.name}")
        api.channel.close()
        shown = PushState.of(task, queue, delivering.state, "available")

    assert shown is not None
    assert re.match(needed, shown.kept or "")
    assert queue.list_tasks() == [task]


def test_tasks_sent_at_the_same_time_have_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is first makes it, the others wait."""
    pytest.importorskip("jwt")
    monkeypatch.delitem(sys.modules, "pullqueue.push.tokens", raising=False)
    tokens = importlib.import_module("pullqueue.push.tokens")
    together = Barrier(4)

    def identifier(_: int) -> str:
        together.wait()
        return str(tokens.key_set()["keys"][0]["kid"])

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(identifier, range(4)))) == 1
