"""The server: an emulator served over HTTP, in threads of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from flask import Flask

from pullqueue.address import DEFAULT_HOST
from pullqueue.api.tokens import Tokens
from pullqueue.control.config_file import ConfigFile
from pullqueue.control.state import Site
from pullqueue.engine.emulator import Emulator
from pullqueue.server.app import create_app
from pullqueue.server.http import HttpServer

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised, not bound


class Server:
    """Serves an emulator over HTTP, in threads of its own.

        with Server(emulator) as server:
            requests.get(f"{server.url}/taskqueue/v1beta2/projects/p/taskqueues/q")

    A port of 0 takes a free one.
    """

    def __init__(
        self,
        emulator: Emulator,
        *,
        host: str = DEFAULT_HOST,
        port: int = 0,
        acl: bool = False,
        secret: str | None = None,
        config_file: ConfigFile | None = None,
        host_names: Iterable[str] = (),
        api_upstream: str | None = None,
    ) -> None:
        """Make a server that does not listen yet.

        With `acl`, the acl of queue.yaml is enforced; `tokens` gives what callers then need. They
        are good at every server with the same `secret`, and else at this one alone.
        `config_file` can be reloaded while the server runs. Requests are answered whose Host
        header has an address, localhost, this machine's name or one of `host_names`.
        See `create_app` for `api_upstream`.
        """
        self._host_names = [host, socket.gethostname(), *host_names]
        self._api_upstream = api_upstream
        self._secret = secret
        self._app = self._take(emulator, acl=acl, config_file=config_file)
        self._host = host
        self._port = port
        self._http: HttpServer | None = None

    def start(self) -> Self:
        """Begin to listen; connections are accepted when this returns.

        Raises:
            ServerAddressError: the address is taken, or not one of this machine.
        """
        if self._http is None:
            self._http = HttpServer(self._app, host=self._host, port=self._port)
            self._http.start()
        return self

    def switch_to(self, emulator: Emulator, *, acl: bool = False) -> None:
        """Answer from another emulator from the next request on; connections stay open.

        Records, faults and, without a `secret`, tokens begin anew with it.
        """
        self._app = self._take(emulator, acl=acl)
        if self._http is not None:
            self._http.app = self._app

    def _take(
        self, emulator: Emulator, *, acl: bool, config_file: ConfigFile | None = None
    ) -> Flask:
        self.emulator = emulator
        self.site = Site(emulator, config_file=config_file, host_names=self._host_names)
        self.tokens = Tokens(emulator.clock, secret=self._secret)
        return create_app(
            emulator,
            tokens=self.tokens,
            acl=acl,
            site=self.site,
            api_upstream=self._api_upstream,
        )

    def stop(self) -> None:
        """Stop listening and close every connection; requests being answered are finished."""
        http, self._http = self._http, None
        if http is not None:
            http.stop()

    @property
    def host(self) -> str:
        """The address a client of this machine connects to."""
        host = self._http.address[0] if self._http else self._host
        return _WILDCARDS.get(host, host)

    @property
    def port(self) -> int:
        """The port; while the server listens, never 0."""
        return self._http.address[1] if self._http else self._port

    @property
    def url(self) -> str:
        """The root of every address, without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
