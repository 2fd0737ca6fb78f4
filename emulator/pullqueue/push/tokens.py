"""The tokens of service accounts that HTTP tasks carry in the header Authorization.

ID tokens are signed with a key of this process, and are valid for an hour by the machine's time:
who verifies them has no other. PyJWT and cryptography (extra `auth`) are imported when the first
one is made.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from pullqueue.clock import USEC_PER_SECOND, SystemClock
from pullqueue.errors import PullQueueError
from pullqueue.extras import install_command
from pullqueue.tasks import HttpRequest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

PRODUCTION_ISSUER: Final = "https://accounts.google.com"
TOKEN_SECONDS: Final = 3600
ALGORITHM: Final = "RS256"
_KEY_BITS = 2048
_FIRST_DAY, _LAST_DAY = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
"""Of a certificate; tests are at any time."""

_clock = SystemClock()
_key_lock = Lock()


class TokenSigner:
    """Makes the tokens that tasks ask for."""

    def __init__(self, access_token: Callable[[str, frozenset[str]], str] | None = None) -> None:
        """Use a function that returns an access token for an e-mail address and scopes."""
        self.issuer = PRODUCTION_ISSUER
        """Who issues the ID tokens; a server sets its own address."""
        self._access_token = access_token or (lambda _email, _scopes: secrets.token_urlsafe())

    def authorization(self, request: HttpRequest) -> str | None:
        """Return the value of the header for a request; None: it has no token.

        Raises:
            PullQueueError: the extra `auth` is not installed.
        """
        token = request.token
        if token is None:
            return None
        if missing := missing_extra(request):
            raise PullQueueError(f"{request.url} cannot be sent: {missing}")
        if token.kind == "oauth_token":
            return f"Bearer {self._access_token(token.email, frozenset(token.detail.split()))}"
        import jwt  # noqa: PLC0415 - slow to import

        now = _clock.now_usec() // USEC_PER_SECOND
        subject = str(int.from_bytes(sha256(token.email.encode()).digest()[:8]))
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "aud": token.detail or request.url,
            "azp": subject,
            "sub": subject,
            "email": token.email,
            "email_verified": True,
            "iat": now,
            "exp": now + TOKEN_SECONDS,
        }
        identifier, key = _key()
        return f"Bearer {jwt.encode(claims, key, ALGORITHM, headers={'kid': identifier})}"


def missing_extra(request: HttpRequest) -> str | None:
    """Return what is missing to make the token of a request; None: nothing is."""
    if request.token is None or request.token.kind == "oauth_token":
        return None
    if all(map(find_spec, ("jwt", "cryptography"))):
        return None
    return f"its token needs an extra: {install_command('auth')}"


def key_set() -> dict[str, Any]:
    """Return the public key of this process as a JSON Web Key Set (RFC 7517).

    Raises:
        ImportError: the extra `auth` is not installed.
    """
    from jwt.algorithms import RSAAlgorithm  # noqa: PLC0415 - slow to import

    identifier, key = _key()
    public = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
    return {"keys": [public | {"kid": identifier, "alg": ALGORITHM, "use": "sig"}]}


def certificates() -> dict[str, str]:
    """Return a certificate of the key of this process in PEM, by the key's id.

    Raises:
        ImportError: the extra `auth` is not installed.
    """
    from cryptography import x509  # noqa: PLC0415 - slow to import
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - slow to import
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - slow to import

    identifier, key = _key()
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "pullqueue")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(_FIRST_DAY)
        .not_valid_after(_LAST_DAY)
        .sign(key, SHA256())
    )
    return {identifier: certificate.public_bytes(Encoding.PEM).decode()}


def _key() -> tuple[str, RSAPrivateKey]:
    """Return the id and the private half of the key: one, whoever asks at the same time."""
    with _key_lock:
        return _made_key()


@cache
def _made_key() -> tuple[str, RSAPrivateKey]:
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415 - slow to import

    return secrets.token_hex(20), rsa.generate_private_key(65_537, _KEY_BITS)
