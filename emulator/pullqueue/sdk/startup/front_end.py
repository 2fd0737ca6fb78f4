"""What App Engine's front end does with users, blobs and headers, for a WSGI app without one.

The login page is the server's. Who has signed in there is in a cookie, from which each request gets
the headers that name the user.

A form that is sent to an upload URL of the app goes to the server, which stores its files. The app
gets a form with their keys, at the path that it has named. A response of the app with the header
X-AppEngine-BlobKey gets the blob as its body.

The headers of tasks and cron jobs are removed from requests that the server has not sent.

Like `sitecustomize` it imports nothing of pullqueue, which need not be installed where the app is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    _Error = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]

LOGIN_PATH = "/_ah/login"
LOGOUT_PATH = "/_ah/logout"
"""Where users sign in and out, in the app as at the server."""
USER_COOKIE = "dev_appserver_login"
"""The cookie of a user who has signed in, as dev_appserver had it; empty: signed out."""
USER_VARIABLE = "PULLQUEUE_USER"
"""The variable with the user of requests without that cookie, in the same form."""
APP_HOST = "X-Pullqueue-App-Host"
"""The header by which the server gets the host of the app."""

PROOF = "X-Pullqueue-Proof"
PROOF_VARIABLE = "PULLQUEUE_PROOF"
"""The header, and the variable with its value, by which an app knows the requests of the server."""

UPLOAD_PATH = "/_ah/upload/"
"""What the paths of upload URLs begin with, in the app as at the server."""
BLOB_PATH = "/_ah/blobs/"
"""Where the server has blobs, by their keys."""

_KEY = "x-appengine-blobkey"
_RANGE = "x-appengine-blobrange"
_OF_THE_BLOB = ("content-length", "content-range", "accept-ranges")
_NO_TYPES = ("", "None", "application/vnd.google.appengine.auto")
"""Types of a response in place of which that of the blob is sent; frameworks write None as text."""
_BLOCK_BYTES = 1 << 16
_FORM_BYTES = 1 << 16
"""Maximum size of the form of the login page."""
_OF_THE_PAGE = ("content-type", "content-security-policy", "location", "set-cookie")
_USER = "HTTP_X_APPENGINE_USER_"
_WITHOUT_USER = ("HTTP_X_APPENGINE_QUEUENAME", "HTTP_X_APPENGINE_CRON", f"{_USER}EMAIL")
"""Requests of queues and cron have no user, and one that the headers name is not replaced."""
_OF_TASKS = (
    *(f"HTTP_X_APPENGINE_{n}" for n in ("QUEUENAME", "TASK", "CRON", "FAILFAST", "INBOUND_APPID")),
    "HTTP_X_GOOGLE_INTERNAL_SKIPADMINCHECK",
)
"""Beginnings of the headers by which apps recognize requests of queues, cron and other apps."""


class FrontEnd:
    """A WSGI app whose users sign in, and whose blobs are stored and served, at a server."""

    def __init__(
        self,
        app: WSGIApplication,
        address: Callable[[], tuple[str, int]],
        client: Callable[[], str],
    ) -> None:
        """Wrap an app; `address` returns the server's host and port, `client` the app's name."""
        self._app = app
        self._address = address
        self._client = client
        self._default_user = os.environ.get(USER_VARIABLE, "")
        self._proof = os.environ.get(PROOF_VARIABLE)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Respond to a request."""
        path = environ.get("PATH_INFO", "")
        if path in (LOGIN_PATH, LOGOUT_PATH):
            return self._show_login(environ, start_response)
        self._remove_headers(environ)
        self._name_user(environ)
        if environ["REQUEST_METHOD"] == "POST" and path.startswith(UPLOAD_PATH):
            refusal = self._store(environ, path)
            if refusal is not None:
                status, body = refusal
                start_response(status, [("Content-Type", "application/json")])
                return [body]
        response = _Response(start_response)
        blocks = self._app(environ, response.start)
        return blocks if response.is_passed_on else self._respond(blocks, response, environ)

    def _show_login(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        """Respond with what the server does to a request of the login page."""
        host, origin = environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN")
        if origin and urlsplit(origin).netloc != host:
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"this form was sent by a page of another site\n"]
        names = {"Content-Type": "CONTENT_TYPE", "Cookie": "HTTP_COOKIE"}
        headers = {name: environ[key] for name, key in names.items() if environ.get(key)}
        length = min(int(environ.get("CONTENT_LENGTH") or 0), _FORM_BYTES)
        body = b"".join(_blocks_of(environ["wsgi.input"], length))
        url = f"{environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}"
        headers |= {APP_HOST: host, "Content-Length": str(length)}
        with self._ask(environ["REQUEST_METHOD"], url, headers, [body]) as response:
            page = response.read()
        kept = [each for each in response.getheaders() if each[0].lower() in _OF_THE_PAGE]
        start_response(f"{response.status} {response.reason}", kept)
        return [page]

    def _remove_headers(self, environ: WSGIEnvironment) -> None:
        """Remove the headers of tasks and cron jobs from a request of anybody but the server.

        As documented, an administrator of the app may set them, to try a handler.
        """
        if self._proof is None:  # the server sends nothing, or is started on its own
            return
        is_sent = environ.pop(f"HTTP_{PROOF.upper().replace('-', '_')}", None) == self._proof
        if is_sent or ":True:" in _user_of(environ, self._default_user):
            return
        for name in [name for name in environ if name.startswith(_OF_TASKS)]:
            del environ[name]

    def _name_user(self, environ: WSGIEnvironment) -> None:
        """Add the headers that name the user of a request."""
        environ.setdefault("HTTP_X_APPENGINE_AUTH_DOMAIN", "gmail.com")
        if any(name in environ for name in _WITHOUT_USER):
            return
        email, _, rest = _user_of(environ, self._default_user).partition(":")
        admin, _, user_id = rest.partition(":")
        if email:
            environ[f"{_USER}EMAIL"] = email
            environ[f"{_USER}ID"] = user_id
            environ[f"{_USER}IS_ADMIN"] = "1" if admin == "True" else "0"

    def _store(self, environ: WSGIEnvironment, path: str) -> tuple[str, bytes] | None:
        """Store an upload and make the request that of the app; return what refuses it."""
        length = environ.get("CONTENT_LENGTH") or "0"
        headers = {"Content-Type": environ.get("CONTENT_TYPE", ""), "Content-Length": length}
        sent = _blocks_of(environ["wsgi.input"], int(length))
        with self._ask("POST", quote(path), headers, sent) as response:
            answer = response.read()
        if response.status != 200:
            return f"{response.status} {response.reason}", answer
        form = json.loads(answer)
        url, body = urlsplit(form["path"]), form["body"].encode()
        environ["PATH_INFO"] = unquote(url.path, "latin-1")
        environ["QUERY_STRING"] = url.query
        environ["CONTENT_TYPE"] = form["content_type"]
        environ["CONTENT_LENGTH"] = str(len(body))
        environ["wsgi.input"] = BytesIO(body)
        return None

    def _respond(
        self, blocks: Iterable[bytes], response: _Response, environ: WSGIEnvironment
    ) -> Iterator[bytes]:
        try:
            for block in blocks:
                if response.blob_key:
                    break
                yield block
        finally:
            if hasattr(blocks, "close"):
                blocks.close()
        if not response.blob_key:
            return
        wanted = response.blob_range or environ.get("HTTP_RANGE")
        verb = "HEAD" if environ["REQUEST_METHOD"] == "HEAD" else "GET"
        headers = {"Range": wanted} if wanted else {}
        with self._ask(verb, f"{BLOB_PATH}{quote(response.blob_key, '')}", headers) as blob:
            response.start_blob(blob)
            while block := blob.read(_BLOCK_BYTES):
                yield block

    @contextmanager
    def _ask(
        self, verb: str, path: str, headers: dict[str, str], body: Iterable[bytes] = ()
    ) -> Iterator[HTTPResponse]:
        with closing(HTTPConnection(*self._address())) as connection:
            headers = {**headers, "User-Agent": self._client()}
            connection.request(verb, path, body or None, headers)
            yield connection.getresponse()


class _Response:
    """The beginning of a response, held back if a blob is to follow."""

    def __init__(self, start_response: StartResponse) -> None:
        self._start = start_response
        self._status = ""
        self._headers: list[tuple[str, str]] = []
        self.is_passed_on = False
        self.blob_key = ""
        self.blob_range = ""

    def start(
        self, status: str, headers: list[tuple[str, str]], error: _Error | None = None
    ) -> Callable[[bytes], Any]:
        """Begin the response, as `start_response` of WSGI."""
        values = {name.lower(): value for name, value in headers}
        self.blob_key = values.get(_KEY, "")
        if not self.blob_key:
            self.is_passed_on = True
            return self._start(status, headers, *([error] if error else []))
        self.blob_range = values.get(_RANGE, "")
        self._status, self._headers = status, headers
        return lambda _: None  # the body of the app is not sent

    def start_blob(self, blob: HTTPResponse) -> None:
        """Begin the response to which the server has sent the body."""
        from_blob = {_KEY, _RANGE, *_OF_THE_BLOB}
        types = [value for name, value in self._headers if name.lower() == "content-type"]
        if not blob.status < 300 or not types or types[-1] in _NO_TYPES:
            from_blob.add("content-type")
        served = {"content-type", *_OF_THE_BLOB} & from_blob
        headers = [each for each in self._headers if each[0].lower() not in from_blob]
        headers += [each for each in blob.getheaders() if each[0].lower() in served]
        status = self._status if blob.status == 200 else f"{blob.status} {blob.reason}"
        self._start(status, headers)


def _user_of(environ: WSGIEnvironment, default: str) -> str:
    """Return the value of the cookie of a user, or the default if a request has none."""
    for cookie in environ.get("HTTP_COOKIE", "").split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == USER_COOKIE:
            return str(value).strip('"')
    return default


def _blocks_of(stream: Any, length: int) -> Iterator[bytes]:
    while length > 0 and (block := stream.read(min(length, _BLOCK_BYTES))):
        length -= len(block)
        yield block
