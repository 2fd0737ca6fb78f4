"""Runs Python programs in forks of one process, which has imported what takes them longest.

Run as a program, this module is that process. It forks for each request of a `command`, a script
that passes its own arguments, folder, environment and streams on, and has the fork's exit status.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name, walk_packages
from selectors import EVENT_READ, DefaultSelector
from tempfile import mkdtemp

import pullqueue
from pullqueue import address as defaults

_IMPORTED = (
    "click",
    "freezegun",
    "google.appengine.api.taskqueue",
    "google.appengine.ext.deferred",
    "google.cloud.tasks_v2",
    "google.cloud.tasks_v2beta2",
    "grpc",
    "hypothesis",
    "pytest",
    "requests",
    "responses",
)
_NOT_IMPORTED = ("__main__", "cli", "gtaskqueue", "sdk", "testing")
"""Modules that read the default port when they are imported, and those of pytest's plugin."""
_COMMAND = """\
#!{python} -IS
import json, os, signal, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = [{function!r}, {port}, sys.argv, os.getcwd(), dict(os.environ)]
socket.send_fds(server, [json.dumps(request).encode() + b"\\n"], [0, 1, 2])
answers = server.makefile()
fork = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(fork, number))
sys.exit(int(answers.readline()))
"""


def command(function: str, *, port: str) -> str:
    """Return a script that calls a function in a fork, in which another port is the default."""
    return _COMMAND.format(
        python=sys.executable, address=_address(), function=function, port=int(port)
    )


@cache
def _address() -> str:
    """Start the process that forks, once, and return the address of its socket."""
    folder = mkdtemp(prefix="forking-")
    address = f"{folder}/socket"
    process = subprocess.Popen(
        [sys.executable, __file__, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def stop() -> None:
        process.kill()
        process.wait()
        shutil.rmtree(folder)

    # If this process is killed, the other one ends with its standard input.
    atexit.register(stop)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return address


def run_blocks() -> None:
    """Run blocks of Python, one JSON string on each line; print whether it failed, and output."""
    warnings.simplefilter("error")
    names = {"__name__": "__main__"}
    for line in sys.stdin:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                exec(compile(json.loads(line), "<block>", "exec"), names)  # noqa: S102
                failed = False
            except BaseException:  # noqa: BLE001 - it is reported
                failed = True
                traceback.print_exc()
        sys.stdout.write(json.dumps([failed, printed.getvalue()]) + "\n")
        sys.stdout.flush()


def _serve(address: str) -> Callable[[], object]:
    """Fork for each request until the input ends; return, in a fork, what it is to call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _IMPORTED:
            import_module(name)
        for module in walk_packages(pullqueue.__path__, "pullqueue."):
            if module.name.split(".")[1] not in _NOT_IMPORTED:
                import_module(module.name)
    gc.freeze()  # or each fork would copy what it collects
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener, DefaultSelector() as selector:
        listener.bind(address)
        listener.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        selector.register(listener, EVENT_READ)
        selector.register(sys.stdin, EVENT_READ)
        while [key.fileobj for key, _ in selector.select()] == [listener]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                return _started(connection)
            connection.close()
    return lambda: None


def _started(connection: socket.socket) -> Callable[[], object]:
    """Read a request and fork again; report the fork and its status, or return in the fork."""
    data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while not data.endswith(b"\n"):
        data += connection.recv(1 << 20)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    fork = os.fork()
    if fork == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return _prepared(*json.loads(data))
    for stream in streams:
        os.close(stream)
    with contextlib.suppress(OSError):
        connection.sendall(f"{fork}\n".encode())
        status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
        connection.sendall(f"{status if status >= 0 else 128 - status}\n".encode())
    os._exit(0)


def _prepared(
    function: str, port: int, arguments: list[str], folder: str, environment: dict[str, str]
) -> Callable[[], object]:
    """Make the process one of its own, and return the function."""
    defaults.DEFAULT_PORT = port
    defaults.DEFAULT_ADDRESS = f"{defaults.DEFAULT_HOST}:{port}"
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv[:] = arguments
    sys.path[0] = folder
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - it stays open
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    found: Callable[[], object] = resolve_name(function)
    return found


def _status(function: Callable[[], object]) -> int:
    """Call a function and return the exit status of a program that does."""
    try:
        return int(str(function() or 0))
    except SystemExit as ended:
        return int(ended.code or 0)
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parent))
    status = _status(_serve(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Python would take longer to take down all the modules than most programs to run.
    os._exit(status)
