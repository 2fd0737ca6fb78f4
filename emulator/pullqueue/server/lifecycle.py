"""The server: an emulator served over HTTP, in threads of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from pullqueue.address import DEFAULT_HOST
from pullqueue.api.tokens import Tokens
from pullqueue.cron.file import CronJob
from pullqueue.engine.emulator import Emulator
from pullqueue.errors import PullQueueError
from pullqueue.push.addresses import PushAddresses
from pullqueue.runtime.config_file import ConfigFile
from pullqueue.runtime.projects import Projects
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import Application
from pullqueue.server.http import THREADS, HttpServer
from pullqueue.services.hosting import Services

if TYPE_CHECKING:
    from pullqueue.cloudtasks.grpc_server import GrpcServer

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
        grpc_port: int | None = None,
        acl: bool = False,
        config_file: ConfigFile | None = None,
        host_names: Iterable[str] = (),
        services: Services | None = None,
        api_upstream: str | None = None,
        push_to: PushAddresses | None = None,
        cron: Sequence[CronJob] = (),
        threads: int = THREADS,
        begins_projects: bool = False,
        project_files: Mapping[str, ConfigFile] = MappingProxyType({}),
    ) -> None:
        """Make a server that does not listen yet.

        With `acl`, the acl of queue.yaml is enforced; `tokens` issues what callers then need. They
        are valid at this server only.
        `config_file` can be reloaded while the server runs. Requests are answered whose Host
        header has an address, localhost, this machine's name or one of `host_names`.
        See `create_app` for `services` and `api_upstream`. With a `grpc_port` (0: a free one)
        Cloud Tasks is served over gRPC as well. Push tasks are delivered to `push_to`, while the
        server listens; None: they are not delivered. The jobs in `cron` are requested there when
        they are due. `threads` requests are answered at the same time. With `begins_projects`, a
        call that names another project begins one; those in `project_files` are there from the
        start, with the queues of their files.
        """
        self.emulator = emulator
        self.tokens = Tokens(emulator.clock)
        self.state = ServerState(
            emulator,
            tokens=self.tokens,
            config_file=config_file,
            host_names=[host, socket.gethostname(), *host_names],
            push_to=push_to,
            cron=cron,
            acl=acl,
        )
        self.services = services
        projects = Projects(self.state, begins=begins_projects, files=project_files)
        self._app = Application(projects, services=services, api_upstream=api_upstream)
        self._threads = threads
        self._host = host
        self._port = port
        self._http: HttpServer | None = None
        self._grpc_port = grpc_port
        self._grpc: GrpcServer | None = None

    def start(self) -> Self:
        """Begin to listen; connections are accepted when this returns.

        Raises:
            ServerAddressError: the address is in use, or not one of this machine.
        """
        if self._http is None:
            self._http = HttpServer(
                self._app, host=self._host, port=self._port, threads=self._threads
            )
            if self._grpc_port is not None:
                try:
                    self.start_grpc(self._grpc_port)
                except PullQueueError:
                    self.stop()
                    raise
            self.state.url = self.state.signer.issuer = self.url
            self.state.own_ports = [self.port, *([self._grpc.port] if self._grpc else [])]
            self.state.wake()
            self._app.projects.start()
            self.state.cron.start(own_ports=self.state.own_ports)
            self._http.start()  # last: whoever gets a response finds the rest ready
        return self

    def start_grpc(self, port: int = 0) -> str:
        """Serve Cloud Tasks over gRPC as well, unless that is done, and return the address."""
        if self._grpc is None:
            self._app.service("")  # reports what to install if something is missing
            from pullqueue.cloudtasks.grpc_server import GrpcServer  # noqa: PLC0415 - slow to import

            self._grpc = GrpcServer(self._app.service, host=self._host, port=port)
            self.state.grpc_address = self.grpc_address
        return self.grpc_address

    def push_to(self, *addresses: str) -> None:
        """Deliver push tasks to these addresses from now on, `[TARGET=]URL`; none: keep them.

        Raises:
            ValueError: one is not valid, or two are for the same tasks; nothing is changed.
        """
        self.state.deliver_to(addresses)

    @property
    def states(self) -> list[ServerState]:
        """The states of all projects, its own first."""
        return list(self._app.projects.states.values())

    def check_files(self, *, changes: bool, now: bool) -> None:
        """Reload each queue.yaml `now`, or if it has changed and `changes` is true."""
        for state in self.states:
            if state.config_file is not None:
                state.config_file.check(state.emulator, changes=changes, now=now)

    @property
    def grpc_address(self) -> str:
        """`host:port` of the gRPC server, once it was started."""
        return "" if self._grpc is None else f"{self._bracketed_host}:{self._grpc.port}"

    def stop_sending(self) -> None:
        """Start no more attempts and cron jobs, and wait for those under way, but not for long."""
        self._app.projects.stop()

    def stop(self) -> None:
        """Stop listening and close every connection; requests being answered are finished.

        Attempts to send push tasks and cron jobs have some seconds to end before that.
        """
        self.stop_sending()
        if self._grpc is not None:
            self._grpc.stop()
            self._grpc = None
        http, self._http = self._http, None
        if http is not None:
            http.stop()
        self._app.projects.close()

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
        return f"http://{self._bracketed_host}:{self.port}"

    @property
    def _bracketed_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
