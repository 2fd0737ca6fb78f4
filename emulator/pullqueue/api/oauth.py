"""Google's token endpoint, and what proves the ID tokens that HTTP tasks carry."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, request

from pullqueue.api.encoding import JSON_TYPE, Json, encode
from pullqueue.api.requests import Parameters, as_json, read_body, served
from pullqueue.api.tokens import GrantError, Tokens, needs_extra
from pullqueue.clock import USEC_PER_SECOND
from pullqueue.push.tokens import ALGORITHM, TokenSigner, certificates, key_set

_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


blueprint = Blueprint("oauth", __name__)


@blueprint.post("/token")
def issue_token() -> Response:
    """Issue a token to whoever has signed a request for it."""
    tokens, parameters = served(Tokens), _parameters()
    if parameters.text("grant_type") != _JWT_BEARER:
        message = f"grant_type must be {_JWT_BEARER}"
        raise GrantError(message, code="unsupported_grant_type")
    return _response(tokens.response(tokens.grant(parameters.text("assertion") or "")))


@blueprint.route("/tokeninfo", methods=["GET", "POST"])
def describe_token() -> Response:
    """Return whose token it is, what it is for, and how long it is valid."""
    tokens = served(Tokens)
    found = tokens.find(_parameters().text("access_token") or "")
    if found is None:
        raise GrantError("Invalid Value", code="invalid_token")
    return _response(
        {
            "azp": found.email,
            "aud": found.email,
            "scope": " ".join(sorted(found.scopes)),
            "exp": str(found.expires_usec // USEC_PER_SECOND),
            "expires_in": str(tokens.seconds_left(found)),
            "email": found.email,
            "email_verified": "true",
            "access_type": "offline",
        }
    )


@blueprint.get("/oauth2/v3/certs")
def describe_key() -> Response:
    """Return the key that signs the ID tokens of HTTP tasks, as a JSON Web Key Set."""
    return _public(key_set)


@blueprint.get("/oauth2/v1/certs")
def describe_certificate() -> Response:
    """Return a certificate of the same key, which Google's libraries read."""
    return _public(certificates)


def _public(key: Callable[[], Json]) -> Response:
    with needs_extra():
        found = key()
    return _response(found)


@blueprint.get("/.well-known/openid-configuration")
def describe_issuer() -> Response:
    """Return who issues ID tokens, and where the key is."""
    issuer = served(TokenSigner).issuer
    return _response(
        {
            "issuer": issuer,
            "token_endpoint": f"{request.host_url}token",
            "jwks_uri": f"{request.host_url}oauth2/v3/certs",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }
    )


@blueprint.errorhandler(GrantError)
def refuse(error: GrantError) -> Response:
    """Return the error as OAuth has it (RFC 6749, section 5.2), which is not the envelope."""
    return _response({"error": error.code, "error_description": str(error)}, 400)


def _parameters() -> Parameters:
    """Return the parameters of the query and of a body that is a form or JSON."""
    body = read_body()
    if request.mimetype != "application/json":
        return Parameters(request.query_string, body)
    return Parameters.of_json(as_json(body))


def _response(answer: Json, status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(encode(answer), status, headers, content_type=JSON_TYPE)
