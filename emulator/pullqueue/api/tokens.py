"""Who a caller is: access tokens, and the keys of service accounts for which they are issued.

A token contains the e-mail address it was issued to, the id of a key contains its public half, and
both are signed with a secret of this server. The keys it made are stored as well, for clients that
do not name the key they sign with. PyJWT and cryptography (extra `auth`) are
imported when a key is used for the first time.
"""

from __future__ import annotations

import json
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from itsdangerous import BadData, URLSafeSerializer

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.clock import USEC_PER_SECOND, Clock
from pullqueue.errors import PullQueueError
from pullqueue.extras import install_command
from pullqueue.text import shorten

SCOPES: Final = (
    "https://www.googleapis.com/auth/taskqueue",
    "https://www.googleapis.com/auth/taskqueue.consumer",
)
"""The scopes of the API (discovery)."""
CLOUD_PLATFORM: Final = "https://www.googleapis.com/auth/cloud-platform"
"""The scope of all of Google Cloud."""
DEFAULT_SCOPES: Final = (*SCOPES, CLOUD_PLATFORM)
"""The scopes of tokens that are issued without naming any: for v1beta2 and for Cloud Tasks."""
TOKEN_SECONDS = 3600
"""How long a token is valid (Google's documentation of service accounts)."""
GOOGLE_AUDIENCES = (
    "https://oauth2.googleapis.com/token",
    "https://www.googleapis.com/oauth2/v4/token",
    "https://accounts.google.com/o/oauth2/token",
)
"""Google's token endpoints, which clients name as the audience whatever the key file says: those of
google-auth, of Node's gtoken 2, and of oauth2client and gtoken 1."""

_PREFIX = "pullqueue-"
_LEEWAY_SECONDS = 60


class GrantError(PullQueueError):
    """a token is not issued"""

    def __init__(self, message: str, *, code: str = "invalid_grant") -> None:
        """Store the error code of OAuth (RFC 6749, section 5.2)."""
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """An access token."""

    text: str
    email: str
    scopes: frozenset[str]
    expires_usec: int


class _Key(NamedTuple):
    """What the id of a key contains."""

    email: str
    public_pem: str
    token_uri: str


class Tokens:
    """Issues tokens and finds them by their text. Safe under threads."""

    def __init__(self, clock: Clock) -> None:
        """Make tokens and keys that expire by the emulator's clock and are valid here alone."""
        secret = secrets.token_hex()
        self._clock = clock
        self._made: deque[_Key] = deque(maxlen=1000)
        # JSON, and so a claim of a client's, can hold what UTF-8 cannot.
        in_ascii = {"ensure_ascii": True}
        self._token_texts = URLSafeSerializer(secret, salt="token", serializer_kwargs=in_ascii)
        self._key_ids = URLSafeSerializer(secret, salt="key", serializer_kwargs=in_ascii)

    def issue(self, email: str, scopes: frozenset[str] = frozenset(DEFAULT_SCOPES)) -> Token:
        """Return a token for an e-mail address, valid for an hour."""
        expires_usec = self._clock.now_usec() + TOKEN_SECONDS * USEC_PER_SECOND
        signed = self._token_texts.dumps([email, sorted(scopes), expires_usec])
        text = f"{_PREFIX}{signed}"
        return Token(text=text, email=email, scopes=scopes, expires_usec=expires_usec)

    def find(self, text: str) -> Token | None:
        """Return the token with a text; None if there is none, or it has expired."""
        try:
            email, scopes, expires_usec = self._token_texts.loads(text.removeprefix(_PREFIX))
        except (BadData, UnicodeError):
            return None
        if expires_usec <= self._clock.now_usec():
            return None
        return Token(text=text, email=email, scopes=frozenset(scopes), expires_usec=expires_usec)

    def seconds_left(self, token: Token) -> int:
        """Return how long a token is still valid."""
        return (token.expires_usec - self._clock.now_usec()) // USEC_PER_SECOND

    def response(self, token: Token) -> Json:
        """Return a token as Google's token endpoint sends it."""
        return {
            "access_token": token.text,
            "expires_in": self.seconds_left(token),
            "token_type": "Bearer",
        }

    def make_key(self, email: str, *, project: str, root_url: str) -> Json:
        """Make a service account's key and return it as Google's key files contain it.

        The private half is in the result alone.

        Raises:
            ApiError: the extra `auth` is not installed.
        """
        with needs_extra():
            from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - slow
            from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

        private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public_pem = private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        key = _Key(email=email, public_pem=public_pem.decode(), token_uri=f"{root_url}token")
        self._made.append(key)
        return {
            "type": "service_account",
            "project_id": project,
            "private_key_id": self._key_ids.dumps(key),
            "private_key": pem.decode(),
            "client_email": email,
            "client_id": str(secrets.randbelow(10**21)),
            "auth_uri": f"{root_url}auth",
            "token_uri": key.token_uri,
            "universe_domain": "googleapis.com",
        }

    def grant(self, assertion: str) -> Token:
        """Return a token for a JWT that a service account signed.

        Signature, issuer, audience and times are verified, the times by the system's clock: they
        are the client's.

        Raises:
            GrantError: the assertion is not valid.
            ApiError: the extra `auth` is not installed.
        """
        claims = self._verified(assertion)
        email = claims["iss"]
        if claims.get("sub", email) != email:
            raise GrantError(
                f'"{email}" cannot act for "{claims["sub"]}": leave the subject out',
                code="unauthorized_client",
            )
        if int(claims["exp"]) - int(claims["iat"]) > TOKEN_SECONDS + _LEEWAY_SECONDS:
            raise GrantError(f"the JWT is valid for longer than {TOKEN_SECONDS} seconds")
        scope = claims.get("scope", "")
        if not isinstance(scope, str) or not scope.split():
            shown = shorten(json.dumps(scope))
            message = f"scope of the JWT is {shown}: use scopes separated by spaces"
            raise GrantError(message, code="invalid_scope")
        return self.issue(email, frozenset(scope.split()))

    def self_signed(self, text: str, *, audience: str, scopes: frozenset[str]) -> Token | None:
        """Return the token that a service account signed itself, or None (AIP-4111).

        It is for an audience, and then for all of `scopes`, or for the scopes that it names.
        """
        if text.count(".") != 2:
            return None
        try:
            claims = self._verified(text, audience=audience)
        except GrantError:
            return None
        email, scope = claims["iss"], claims.get("scope")
        if claims.get("sub", email) != email or not isinstance(scope, str | None):
            return None
        return Token(
            text=text,
            email=email,
            scopes=scopes if scope is None else frozenset(scope.split()),
            expires_usec=int(claims["exp"]) * USEC_PER_SECOND,
        )

    def _verified(self, assertion: str, *, audience: str | None = None) -> dict[str, Any]:
        """Return the claims of a JWT for the token endpoint, or for an audience."""
        with needs_extra():
            import jwt  # noqa: PLC0415 - slow to import
        try:
            unverified = jwt.decode_complete(assertion, options={"verify_signature": False})
            claims = unverified["payload"]
            # One for an audience may name scopes instead.
            has_audience = audience is None or "aud" in claims
            for key in self._keys(unverified["header"].get("kid"), issuer=claims.get("iss")):
                with suppress(jwt.InvalidSignatureError):
                    return jwt.decode(
                        assertion,
                        key.public_pem,
                        algorithms=["RS256"],
                        audience=[audience] if audience else [key.token_uri, *GOOGLE_AUDIENCES],
                        issuer=key.email,
                        leeway=_LEEWAY_SECONDS,
                        options={
                            "require": ["iss", "exp", "iat", *(["aud"] if has_audience else [])],
                            "verify_aud": has_audience,
                        },
                    )
        except (jwt.InvalidTokenError, ValueError, TypeError, OverflowError) as error:
            raise GrantError(f"Invalid JWT: {error}") from None
        raise GrantError(
            "Invalid JWT: signature verification failed. A JWT that does not name its key (kid in "
            "the header) must be signed with a key made since this server was started: get one "
            "with `pullqueue credentials`"
        )

    def _keys(self, identifier: str | None, *, issuer: str) -> list[_Key]:
        """Return the keys that may have signed a JWT: the one it names, or those of its issuer."""
        if identifier is None:
            return [key for key in self._made if key.email == issuer]
        try:
            return [_Key(*self._key_ids.loads(identifier))]
        except BadData:
            raise GrantError(
                "the key is unknown: it belongs to another server, or to an earlier run of this "
                "one; get one with `pullqueue credentials`, or in a test by "
                "credentials(email) of pullqueue_responses or pullqueue_server"
            ) from None


@contextmanager
def needs_extra() -> Iterator[None]:
    """Raise an ApiError where a block imports what the extra `auth` installs, and it is not."""
    try:
        yield
    except ImportError:
        raise ApiError(
            "keys of service accounts and ID tokens need an extra where the server runs: "
            f"{install_command('auth')}",
            status=501,
        ) from None
