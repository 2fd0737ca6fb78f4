"""A server as a test sees it: where it is, who may call it, and what went wrong in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pullqueue.address import DEFAULT_PROJECT
from pullqueue.sdk.environment import variables_for

if TYPE_CHECKING:
    from pullqueue.api.tokens import Tokens
    from pullqueue.engine.emulator import Emulator
    from pullqueue.server.lifecycle import Server

_THREADS = 4
"""Requests that are answered at the same time, and so the most clients that `race_test` can stop at
their calls. A thread costs each test 0.2 ms."""
_LOGGER = logging.getLogger("pullqueue.server")


class Identities:
    """Tokens and keys for the callers of the REST API that a test needs."""

    def __init__(self, tokens: Tokens, *, project: str | None, root_url: str) -> None:
        self._tokens = tokens
        self._project = project or DEFAULT_PROJECT
        self._root_url = root_url

    def token(self, email: str) -> str:
        """Return an access token for an e-mail address, valid for an hour of the test's time."""
        return self._tokens.issue(email).text

    def credentials(self, email: str) -> dict[str, object]:
        """Return a service account's key, for google-auth's `from_service_account_info`."""
        return self._tokens.make_key(email, project=self._project, root_url=self._root_url)


class LiveServer(Identities):
    """A running server of the REST API."""

    def __init__(self, server: Server) -> None:
        self._server = server
        project = server.emulator.project
        super().__init__(server.tokens, project=project, root_url=f"{server.url}/")

    def __repr__(self) -> str:
        return f"<pullqueue server at {self.url}>"

    @property
    def url(self) -> str:
        """The root of every address, without a slash at the end."""
        return self._server.url

    def push_to(self, *addresses: str) -> None:
        """Deliver push tasks to these addresses from now on; without any, keep them.

        Each is `[TARGET=]URL`, such as `live_server.url()` or `"worker=http://localhost:8081"`.

        Raises:
            ValueError: one is not valid, or two are for the same tasks; nothing is changed.
        """
        self._server.push_to(*addresses)

    @property
    def grpc_address(self) -> str:
        """`host:port` of the gRPC server of Cloud Tasks, which starts when this is first read.

        Raises:
            ApiError: the extra `cloudtasks` is not installed.
        """
        return self._server.start_grpc()

    @property
    def discovery_url(self) -> str:
        """`discoveryServiceUrl` for Google's API client."""
        return f"{self.url}/discovery/v1/apis/{{api}}/{{apiVersion}}/rest"

    @property
    def env(self) -> dict[str, str]:
        """Environment variables for an app that runs in another process.

        They are those that `pullqueue exec` sets. Merge them with the test's own:
        `os.environ | pullqueue_server.env`. The time of other processes is not frozen, and the SDK
        sends it as the eta of each task: do not use `pullqueue_clock` with such an app.
        """
        return variables_for(f"{self._server.host}:{self._server.port}")


@contextmanager
def live_server(emulator: Emulator, *, acl: bool = False) -> Iterator[LiveServer]:
    """Run a server of an emulator in the block; raise the first error inside it at the end.

    It has a port of its own, so that a client that outlives the block is refused: it reaches no
    server that is started later.
    """
    from pullqueue.server.lifecycle import Server  # noqa: PLC0415 - imports Flask

    with errors_raised(), Server(emulator, acl=acl, threads=_THREADS) as server:
        yield LiveServer(server)


@contextmanager
def errors_raised() -> Iterator[None]:
    """Raise, at the end of the block, the first error that was logged inside the server."""
    errors = _Errors()
    _LOGGER.addHandler(errors)
    try:
        yield
    finally:
        _LOGGER.removeHandler(errors)
    if errors.first is not None:
        raise errors.first


class _Errors(logging.Handler):
    """Keeps the first error that the server could only log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and self.first is None:
            self.first = record.exc_info[1]
