"""What the fixtures of the REST API share: tokens, keys, and errors that must not be lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pullqueue.api.schema import SCOPES
from pullqueue.api.tokens import Tokens

_LOGGER = logging.getLogger("pullqueue.server")

ServiceAccountKey = dict[str, object]
"""What a key file of Google's holds."""


class Identities:
    """Callers of the API: whoever the test says they are."""

    def __init__(self, tokens: Tokens, *, project: str | None, root_url: str) -> None:
        self._tokens = tokens
        self._project = project or "my-app"
        self._root_url = root_url

    def token(self, email: str) -> str:
        """Give an access token for an e-mail address, good for an hour of the test's time."""
        return self._tokens.issue(email, frozenset(SCOPES)).text

    def credentials(self, email: str) -> ServiceAccountKey:
        """Give the key of a service account, as google-auth takes it.

        `service_account.Credentials.from_service_account_info(key, scopes=[...])` makes
        credentials of it; written to a file as JSON, it is a key file.
        """
        return self._tokens.make_key(email, project=self._project, root_url=self._root_url)


@contextmanager
def errors_raised() -> Iterator[None]:
    """Raise in the test, when it is over, what went wrong in the server meanwhile."""
    faults = _Faults()
    _LOGGER.addHandler(faults)
    try:
        yield
    finally:
        _LOGGER.removeHandler(faults)
    if faults.errors:
        raise faults.errors[0]


class _Faults(logging.Handler):
    """Keeps the errors that the server could only log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])
