"""Who a caller is: access tokens, and the keys of service accounts that they are given for.

Everything is kept in memory and forgotten with the server. PyJWT and cryptography are imported
when a key is used for the first time.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pullqueue.clock import USEC_PER_SECOND, Clock
from pullqueue.errors import PullQueueError
from pullqueue.rest.answers import Json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

TOKEN_SECONDS = 3600
"""How long a token is good (Google's documentation of service accounts)."""
GOOGLE_AUDIENCE = "https://oauth2.googleapis.com/token"
"""google-auth names it as the audience, whatever the key file says."""

_KEY_BITS = 2048
_LEEWAY_SECONDS = 60


class GrantError(PullQueueError):
    """a token is not given"""

    def __init__(self, message: str, *, code: str = "invalid_grant") -> None:
        """Carry the error code of OAuth (RFC 6749, section 5.2)."""
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """An access token."""

    text: str
    email: str
    scopes: frozenset[str]
    expires_usec: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Key:
    email: str
    public: RSAPublicKey
    token_uri: str


class Tokens:
    """Gives tokens and knows whose they are. Safe under threads."""

    def __init__(self, clock: Clock) -> None:
        """Let tokens expire by the emulator's clock."""
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[str, Token] = {}
        self._keys: dict[str, _Key] = {}

    def issue(self, email: str, scopes: frozenset[str]) -> Token:
        """Give a token for an e-mail address, good for an hour."""
        now_usec = self._clock.now_usec()
        token = Token(
            text=f"pullqueue-{secrets.token_urlsafe(32)}",
            email=email,
            scopes=scopes,
            expires_usec=now_usec + TOKEN_SECONDS * USEC_PER_SECOND,
        )
        with self._lock:
            live = {text: each for text, each in self._tokens.items() if _is_live(each, now_usec)}
            self._tokens = {**live, token.text: token}
        return token

    def find(self, text: str) -> Token | None:
        """Give a token by its text, if it is still good."""
        token = self._tokens.get(text)
        return token if token and _is_live(token, self._clock.now_usec()) else None

    def seconds_left(self, token: Token) -> int:
        """Tell how long a token is still good."""
        return (token.expires_usec - self._clock.now_usec()) // USEC_PER_SECOND

    def make_key(self, email: str, *, project: str, root_url: str) -> Json:
        """Make a service account's key and give it as Google's key files hold it.

        The private half is in the answer alone.
        """
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - slow to import
        from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

        private = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        pem = private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        identifier = secrets.token_hex(20)
        token_uri = f"{root_url}token"
        key = _Key(email=email, public=private.public_key(), token_uri=token_uri)
        with self._lock:
            self._keys[identifier] = key
        return {
            "type": "service_account",
            "project_id": project,
            "private_key_id": identifier,
            "private_key": pem.decode(),
            "client_email": email,
            "client_id": str(secrets.randbelow(10**21)),
            "auth_uri": f"{root_url}auth",
            "token_uri": token_uri,
            "universe_domain": "googleapis.com",
        }

    def grant(self, assertion: str) -> Token:
        """Give a token for a JWT that a service account signed.

        Signature, issuer, audience and times are verified, the times by the system's clock: they
        are the client's.

        Raises:
            GrantError: the assertion does not hold.
        """
        claims = self._verified(assertion)
        email = claims["iss"]
        if claims.get("sub", email) != email:
            raise GrantError(
                f"{email!r} cannot act for {claims['sub']!r}: leave the subject out",
                code="unauthorized_client",
            )
        if int(claims["exp"]) - int(claims["iat"]) > TOKEN_SECONDS + _LEEWAY_SECONDS:
            raise GrantError(f"the JWT is good for longer than {TOKEN_SECONDS} seconds")
        scopes = frozenset(str(claims.get("scope", "")).split())
        if not scopes:
            raise GrantError("the JWT asks for no scope: name one", code="invalid_scope")
        return self.issue(email, scopes)

    def _verified(self, assertion: str) -> dict[str, Any]:
        import jwt  # noqa: PLC0415 - slow to import

        try:
            key = self._keys.get(str(jwt.get_unverified_header(assertion).get("kid")))
            if key is None:
                raise GrantError(
                    "the key is unknown: the server made it in an earlier run, or never; get one "
                    "with `pullqueue credentials`"
                )
            return jwt.decode(
                assertion,
                key.public,
                algorithms=["RS256"],
                audience=[key.token_uri, GOOGLE_AUDIENCE],
                issuer=key.email,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["iss", "aud", "exp", "iat"]},
            )
        except (jwt.InvalidTokenError, ValueError, TypeError, OverflowError) as error:
            raise GrantError(f"Invalid JWT: {error}") from None


def _is_live(token: Token, now_usec: int) -> bool:
    return now_usec < token.expires_usec
