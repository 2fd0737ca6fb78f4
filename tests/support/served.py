"""`pullqueue serve` as a program of its own, and in this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import randbelow
from threading import Event
from typing import IO, Any
from unittest.mock import patch

from click.testing import Result
from forking import forked
from linting import run_pullqueue
from programs import running
from push_app import Control

FIRST_WORDS = "pullqueue listening on "
GRPC_WORDS = "gRPC listening on "


def free_port() -> int:
    """Return a port that nothing listens on, and that the system chooses for no program."""
    while True:
        port = randbelow(20_000) + 10_000  # Linux chooses from 32,768 on
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@dataclass(frozen=True, kw_only=True)
class Served:
    """A running server."""

    process: subprocess.Popen[str]
    url: str
    grpc_address: str = ""
    """Where Cloud Tasks is served over gRPC, if it is."""

    @property
    def control(self) -> Control:
        """Its control routes."""
        return Control(self.url)

    def kill(self) -> None:
        """Kill it; when this returns, it has ended."""
        self.process.send_signal(signal.SIGUSR1)  # which ends what is not a fork, too
        self.process.wait(60)

    def log_line(self, text: str) -> str:
        """Return the next line of the log that has a text."""
        assert self.process.stderr is not None
        return next(line for line in self.process.stderr if text in line)


@contextmanager
def serving(
    *arguments: str,
    folder: Path,
    log: int | IO[str] = subprocess.PIPE,
    start: Sequence[str] = (),
    **environment: str,
) -> Iterator[Served]:
    """Run `pullqueue serve` in a folder until the block ends, on a free port by default.

    `log` is a file for its log, if `log_line` is not used. `start` is the program: a fork, which
    starts faster than a new Python and gets those signals alone that ask it to stop.
    """
    command = (*(start or (forked("pullqueue"), "serve")), "--port", "0", *arguments)
    with running(*command, cwd=folder, stderr=log, **environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith(FIRST_WORDS), f"{line}{process.communicate(timeout=60)[1]}"
        grpc_address = ""
        if "--grpc-port" in arguments:
            grpc_address = process.stdout.readline().strip().removeprefix(GRPC_WORDS)
        url = line.removeprefix(FIRST_WORDS)
        yield Served(process=process, url=url, grpc_address=grpc_address)


def serve_here(*arguments: str, use: Callable[[str], Any] = lambda _: None) -> tuple[Result, Any]:
    """Run `pullqueue serve` in this process and in the working folder, on a free port by default.

    Once it has started, call a function with its address, and stop it as SIGTERM does. Return what
    the command printed, and what the function returned; None, if the server has not started.
    """
    port, ended = Path(".port"), Event()

    def use_and_stop() -> Any:
        while not ended.wait(0.01):
            if port.exists() and (number := port.read_text()).endswith("\n"):
                try:
                    return use(f"http://127.0.0.1:{number.strip()}")
                finally:
                    os.kill(os.getpid(), signal.SIGTERM)
        return None

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    with ThreadPoolExecutor(1) as executor, patch.dict(os.environ):
        used = executor.submit(use_and_stop)
        try:
            done = run_pullqueue("serve", "--port", "0", "--port-file", str(port), *arguments)
        finally:
            ended.set()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return done, used.result()
