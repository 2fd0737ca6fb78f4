"""What a server knows beside its emulator: file, requests, depths, names it answers to, token."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from pullqueue.control.config_file import ConfigFile
from pullqueue.control.depths import DepthHistory
from pullqueue.control.fault_registry import FaultBoard
from pullqueue.control.request_log import RequestLog
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import bypass_interceptors

TOKEN_HEADER = "X-Pullqueue-Token"  # noqa: S105 - the name of the header
TOKEN_FIELD = "pullqueue_token"  # noqa: S105 - the name of the form's field


class ServerState:
    """One served emulator and the records of its server."""

    def __init__(
        self,
        emulator: Emulator,
        *,
        config_file: ConfigFile | None = None,
        host_names: Iterable[str] | None = None,
    ) -> None:
        """Serve an emulator.

        `config_file` is the file its configuration came from, where it can be read anew.
        `host_names` are the names in Host headers that are answered, beside addresses and
        localhost; None answers to any.
        """
        self.emulator = emulator
        self.config_file = config_file
        self.host_names = None if host_names is None else frozenset(host_names)
        self.requests = RequestLog(emulator)
        self.depths = DepthHistory(emulator)
        self.faults = FaultBoard(emulator)
        self.on_reset: list[Callable[[], None]] = []
        """What lets others forget what they keep beside the emulator."""
        self.token = secrets.token_urlsafe(24)
        """What a browser must send with each change: only pages of this server can know it."""

    def tick(self) -> None:
        """Do what is to be done now and then: note how deep the queues are."""
        with bypass_interceptors():
            self.depths.sample()

    def reset(self) -> None:
        """Forget tasks, names, records, requests and faults; keep configuration and clock."""
        self.faults.clear()
        self.emulator.reset()
        for forget in self.on_reset:
            forget()
        self.requests.clear()
        self.depths.clear()
