"""The fixture `pullqueue_server`: one server for the session, another emulator for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pullqueue.config.model import QueueConfig
from pullqueue.engine.emulator import Emulator
from pullqueue.sdk.environment import variables_for
from pullqueue.server.lifecycle import Server
from pytest_pullqueue.web import Identities, ServiceAccountKey, errors_raised


class LiveServer:
    """The server as a test sees it: where it is, and who may call it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        root_url = f"{server.url}/"
        project = server.emulator.project
        self._identities = Identities(server.tokens, project=project, root_url=root_url)

    def __repr__(self) -> str:
        return f"<pullqueue server at {self.url}>"

    @property
    def url(self) -> str:
        """The root of every address, without a slash at the end."""
        return self._server.url

    @property
    def discovery_url(self) -> str:
        """Where Google's API client finds the description: `discoveryServiceUrl`."""
        return f"{self.url}/discovery/v1/apis/{{api}}/{{apiVersion}}/rest"

    @property
    def env(self) -> dict[str, str]:
        """Variables for the environment of an app that is run as a process of its own.

        They are those that `pullqueue exec` sets, to be put over the test's own:
        `os.environ | pullqueue_server.env`.
        """
        return variables_for(f"{self._server.host}:{self._server.port}")

    def token(self, email: str) -> str:
        """Give an access token for an e-mail address, good for an hour of the test's time."""
        return self._identities.token(email)

    def credentials(self, email: str) -> ServiceAccountKey:
        """Give the key of a service account, for google-auth's `from_service_account_info`."""
        return self._identities.credentials(email)


@contextmanager
def session_server() -> Iterator[Server]:
    """Serve on a free port of this machine until the session ends."""
    nothing = Emulator(QueueConfig(file="before the first test"))
    with Server(nothing) as server:
        yield server


@contextmanager
def server_of_test(server: Server, emulator: Emulator, *, acl: bool) -> Iterator[LiveServer]:
    """Let the session's server answer from the emulator of one test, until the next test's."""
    server.switch_to(emulator, acl=acl)
    with errors_raised():
        yield LiveServer(server)
