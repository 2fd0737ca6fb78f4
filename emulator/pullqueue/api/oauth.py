"""The routes that tokens come from: Google's token endpoint, and the emulator's own short cuts."""

from __future__ import annotations

from ipaddress import ip_address

from flask import Flask, Response, request

from pullqueue.api import answers, bodies, schema
from pullqueue.api.answers import Json
from pullqueue.api.errors import ApiError
from pullqueue.api.parameters import Parameters
from pullqueue.api.tokens import GrantError, Token, Tokens
from pullqueue.clock import USEC_PER_SECOND
from pullqueue.control import PREFIX

_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_DEFAULT_SCOPE = next(iter(schema.SCOPES))


def install(app: Flask, tokens: Tokens, project: str | None) -> None:
    """Add the routes to an app."""

    def token() -> Response:
        parameters = _parameters()
        if parameters.text("grant_type") != _JWT_BEARER:
            message = f"grant_type must be {_JWT_BEARER}"
            raise GrantError(message, code="unsupported_grant_type")
        return _response(_token_json(tokens, tokens.grant(parameters.text("assertion") or "")))

    def tokeninfo() -> Response:
        found = tokens.find(_parameters().text("access_token") or "")
        if found is None:
            raise GrantError("Invalid Value", code="invalid_token")
        return _response(_info_json(tokens, found))

    def own_token() -> Response:
        parameters = _parameters()
        scopes = frozenset((parameters.text("scope") or _DEFAULT_SCOPE).split())
        return _response(
            _token_json(tokens, tokens.issue(_email(parameters.text("email")), scopes))
        )

    def credentials() -> Response:
        _check_local()
        email = _email(bodies.as_json(request, bodies.read(request)).get("email"))
        key = tokens.make_key(email, project=project or "my-app", root_url=request.host_url)
        return _response(key)

    app.add_url_rule("/token", view_func=token, methods=["POST"])
    app.add_url_rule("/tokeninfo", view_func=tokeninfo, methods=["GET", "POST"])
    app.add_url_rule(f"{PREFIX}/token", view_func=own_token, methods=["GET"])
    app.add_url_rule(f"{PREFIX}/credentials", view_func=credentials, methods=["POST"])
    app.register_error_handler(GrantError, _refusal)


def _parameters() -> Parameters:
    """Give the parameters of the query and of a body that is a form or JSON."""
    body = bodies.read(request)
    if request.mimetype != "application/json":
        return Parameters(request.query_string, body)
    return Parameters.of_json(bodies.as_json(request, body))


def _email(value: object) -> str:
    if not isinstance(value, str) or "@" not in value.strip("@"):
        message = f"email is {value!r:.100}: give an address, such as worker@example.com"
        raise ApiError.parameter(message, "email")
    return value


def _check_local() -> None:
    address = request.remote_addr
    if address and not ip_address(address).is_loopback:
        raise ApiError(
            f"keys are made for this machine alone, and {address} is another: run `pullqueue "
            "credentials` where the server runs",
            status=403,
            reason="forbidden",
        )


def _token_json(tokens: Tokens, token: Token) -> Json:
    return {
        "access_token": token.text,
        "expires_in": tokens.seconds_left(token),
        "token_type": "Bearer",
    }


def _info_json(tokens: Tokens, token: Token) -> Json:
    return {
        "azp": token.email,
        "aud": token.email,
        "scope": " ".join(sorted(token.scopes)),
        "exp": str(token.expires_usec // USEC_PER_SECOND),
        "expires_in": str(tokens.seconds_left(token)),
        "email": token.email,
        "email_verified": "true",
        "access_type": "offline",
    }


def _response(answer: Json, status: int = 200) -> Response:
    body = answers.pretty(answer)
    return Response(body, status, {"Cache-Control": "no-store"}, content_type=answers.JSON_TYPE)


def _refusal(error: GrantError) -> Response:
    """Answer as OAuth has it (RFC 6749, section 5.2), which is not the envelope."""
    return _response({"error": error.code, "error_description": str(error)}, 400)
