"""The fixture `pullqueue_responses`: Google's addresses, answered in process without a socket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import responses
from requests import PreparedRequest
from responses.registries import FirstMatchRegistry
from werkzeug.test import Client

from pullqueue.address import is_loopback
from pullqueue.api.tokens import Tokens
from pullqueue.engine.emulator import Emulator
from pullqueue.server.app import create_app
from pullqueue.testing.live_server import Identities, errors_raised

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_API = re.compile(
    r"https://(www|content|taskqueue|content-taskqueue)\.googleapis\.com"
    r"/(taskqueue/|batch|discovery/|\$discovery/)"
    r"|https://cloudtasks\.googleapis\.com/(v2|v2beta2|v2beta3)/"
)
_TOKEN = re.compile(
    r"https://(oauth2|www|accounts)\.(googleapis|google)\.com"
    r"/(oauth2/v[34]/token|o/oauth2/token|token)$"
)
_TOKEN_INFO = re.compile(
    r"https://(oauth2|www)\.googleapis\.com/(oauth2/v[123]/tokeninfo|tokeninfo)(\?|$)"
)
_CERTS = re.compile(r"https://www\.googleapis\.com/oauth2/v[13]/certs$")
"""The keys of ID tokens; the first is the address that google-auth has in its code."""
_OAUTH_URL = "https://oauth2.googleapis.com/"

_JWT_GRANT = b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
"""In the body of a service account's request for a token (RFC 7523)."""

_Response = tuple[int, dict[str, str], bytes]


class _Registry(FirstMatchRegistry):
    """Passes requests to this machine on, and explains requests for tokens at unknown addresses."""

    def find(self, request: PreparedRequest) -> tuple[responses.BaseResponse | None, list[str]]:
        """Return the response for a request, or the reasons for which there is none."""
        match, reasons = super().find(request)
        if match is None and is_loopback(urlsplit(str(request.url)).hostname or ""):
            return responses.PassthroughResponse(str(request.method), str(request.url)), []
        is_plain = isinstance(request.body, str | bytes)
        if match is None and reasons and is_plain and _JWT_GRANT in _body(request):
            reasons[-1] += (
                f"\n\npullqueue_responses issues no tokens at {request.url}, the token_uri of the "
                "key: make a key with pullqueue_responses.credentials(email)"
            )
        return match, reasons


class InterceptedRequests(Identities):
    """Requests that are answered in process, and the identities of the callers."""

    def __init__(self, emulator: Emulator, mock: responses.RequestsMock, *, acl: bool) -> None:
        self.mock = mock
        """The `responses.RequestsMock` that answers: add other addresses to it as usual."""
        tokens = Tokens(emulator.clock)
        super().__init__(tokens, project=emulator.project, root_url=_OAUTH_URL)
        self._client = Client(create_app(emulator, tokens=tokens, acl=acl))
        self._answer(_API, None)
        self._answer(_TOKEN, "/token")
        self._answer(_TOKEN_INFO, "/tokeninfo")
        self._answer(_CERTS, None)

    def _answer(self, pattern: re.Pattern[str], path: str | None) -> None:
        def answer(request: PreparedRequest) -> _Response:
            return self._ask(request, path)

        for method in _METHODS:
            self.mock.add_callback(method, pattern, callback=answer, content_type=None)

    def _ask(self, request: PreparedRequest, path: str | None) -> _Response:
        url = urlsplit(str(request.url))
        response = self._client.open(
            path or url.path,
            base_url=f"{url.scheme}://{url.netloc}/",
            query_string=url.query,
            method=request.method,
            headers=list(request.headers.items()),
            data=_body(request),
            environ_overrides={"wsgi.input_terminated": True},  # also with no Content-Length
        )
        return response.status_code, dict(response.headers), response.get_data()


@contextmanager
def requests_of_test(emulator: Emulator, *, acl: bool) -> Iterator[InterceptedRequests]:
    """Answer calls that are made with `requests`, until the block ends."""
    mocked = responses.RequestsMock(assert_all_requests_are_fired=False, registry=_Registry)
    with errors_raised(), mocked as mock:
        yield InterceptedRequests(emulator, mock, acl=acl)


def _body(request: PreparedRequest) -> bytes:
    body = request.body or b""
    if isinstance(body, str | bytes):
        return body.encode() if isinstance(body, str) else body
    return b"".join(body)  # a file or another iterable
