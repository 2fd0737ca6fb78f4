"""Authorization: the token of a request, and the acl of a queue."""

from __future__ import annotations

from enum import Enum
from typing import Final

from flask import Request, g

from pullqueue.api import messages
from pullqueue.api.errors import ApiError
from pullqueue.api.requests import Parameters
from pullqueue.api.tokens import CLOUD_PLATFORM, SCOPES, Token, Tokens
from pullqueue.engine.interceptors import amend_origin
from pullqueue.engine.queue import Queue

ACCEPTED_SCOPES: Final = frozenset(
    {
        *SCOPES,
        # In no discovery document, but in the guide or in the code of workers:
        "https://www.googleapis.com/auth/cloud-taskqueue",
        "https://www.googleapis.com/auth/cloud-taskqueue.consumer",
        CLOUD_PLATFORM,
    }
)

_REALM = 'Bearer realm="https://accounts.google.com/"'
_ADVICE = "GET /_emulator/token?email=EMAIL returns one"


class Right(Enum):
    """What an entry of a queue's acl permits."""

    USE = "user_email"
    """List, get, lease, update, delete."""
    INSERT = "writer_email"
    """Insert."""


class Authorizer:
    """Accepts callers whose token is valid and whose e-mail address the queue's acl lists.

    Where the acl is not enforced, it accepts any caller, who then has no token.
    """

    def __init__(
        self,
        tokens: Tokens,
        *,
        enforced: bool = True,
        scopes: frozenset[str] = ACCEPTED_SCOPES,
        audience: str | None = None,
    ) -> None:
        """Accept tokens for one of some scopes, and for an audience those that callers sign."""
        self._tokens = tokens
        self._enforced = enforced
        self._scopes = scopes
        self._audience = audience

    def identify(self, request: Request, parameters: Parameters) -> Token | None:
        """Authenticate a request; the log of requests finds the e-mail address in `flask.g`."""
        if not self._enforced:
            return None
        text = (
            bearer_text(request.headers.get("Authorization", ""))
            or parameters.text("access_token")
            or parameters.text("oauth_token")
            or ""
        )
        if token := self._tokens.find(text):
            g.caller = token.email
            amend_origin(client=token.email)
        return self.authenticate(text)

    def authenticate(self, text: str) -> Token:
        """Return the token with a text.

        Raises:
            ApiError: it is missing or not valid (401), or is not for this API (403).
        """
        if not text:
            raise _unauthorized(
                messages.LOGIN_REQUIRED,
                "the request has no access token: send one in the header Authorization: Bearer "
                f"TOKEN; {_ADVICE}",
                reason="required",
            )
        token = self._tokens.find(text)
        if token is None and self._audience is not None:
            token = self._tokens.self_signed(text, audience=self._audience, scopes=self._scopes)
        if token is None:
            raise _unauthorized(
                messages.INVALID_CREDENTIALS,
                f"the access token is unknown or has expired; {_ADVICE}",
                challenge=f'{_REALM}, error="invalid_token"',
            )
        if not token.scopes & self._scopes:
            raise ApiError(
                messages.INSUFFICIENT_PERMISSION,
                status=403,
                reason="insufficientPermissions",
                explanation=f"the token has the scopes {' '.join(sorted(token.scopes))}: use one "
                f"of {' '.join(sorted(self._scopes))}",
                headers={"WWW-Authenticate": f'{_REALM}, error="insufficient_scope"'},
            )
        return token

    def check(self, token: Token | None, queue: Queue, right: Right) -> None:
        """Check that the acl of a queue grants a right to the holder of a token (403)."""
        if token is not None and not grants(queue, token.email, right):
            explanation = (
                f'"{token.email}" is not a {right.value} in the acl of queue "{queue.name}": add '
                "it there in queue.yaml"
            )
            raise ApiError(messages.FORBIDDEN, status=403, explanation=explanation)


def grants(queue: Queue, email: str, right: Right) -> bool:
    """Return whether the acl of a queue grants a right to an e-mail address."""
    listed = (getattr(entry, right.value) for entry in queue.settings.acl or ())
    return _lower(email) in [_lower(one) for one in listed if one is not None]


def bearer_text(header: str) -> str:
    """Return the token in an Authorization header; empty if there is none."""
    scheme, _, text = header.partition(" ")
    return text.strip() if scheme.lower() in ("bearer", "oauth") else ""


def _lower(email: str) -> bytes:
    """Lower the ASCII letters alone: others, such as U+017F, would become an `s`."""
    return email.encode("utf-8", "surrogatepass").lower()


def _unauthorized(
    message: str, explanation: str, *, reason: str | None = None, challenge: str = _REALM
) -> ApiError:
    return ApiError(
        message,
        status=401,
        reason=reason,
        location_type="header",
        location="Authorization",
        explanation=explanation,
        headers={"WWW-Authenticate": challenge},
    )
