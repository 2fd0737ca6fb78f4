"""Runs Python programs in forks of one process, which has imported what takes them longest.

`command` returns a script to use in place of a program. It sends its arguments, folder, environment
and streams to that process, which forks, calls a function, and answers with the exit status. Run
as a program, this module is that process.

Most of pullqueue has been imported when a fork begins, so a command that is run in this way cannot
show that a module lacks an import. Tests that start `python -m pullqueue` can: test_exec,
test_serve, test_samples and, for the linter, test_lint_integrations.

The first process ends when its fork has ended. SIGUSR1 kills the fork, since SIGKILL cannot be
passed on.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import traceback
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name, walk_packages
from selectors import EVENT_READ, DefaultSelector
from tempfile import mkdtemp
from typing import NoReturn

import pullqueue
from pullqueue import address as defaults

PROGRAMS = {
    "pullqueue": "pullqueue.cli:main",
    "gtaskqueue": "pullqueue.gtaskqueue.command:gtaskqueue",
    "gtaskqueue_puller": "pullqueue.gtaskqueue.puller:gtaskqueue_puller",
    "pytest": "pytest:main",
    "python-program": "forking:run_python",
    "python-blocks": "documents:run_blocks",
}
"""The programs that are forked, and their functions."""
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
signal.signal(signal.SIGUSR1, lambda *_: os.kill(fork, signal.SIGKILL))
sys.exit(int(answers.readline()))
"""


def command(function: str, *, port: str) -> str:
    """Return a script that calls a function in a fork, in which another port is the default."""
    return _COMMAND.format(
        python=sys.executable, address=_address(), function=function, port=int(port)
    )


@cache
def forked(name: str) -> str:
    """Return the path of a script that runs one of `PROGRAMS` in a fork."""
    path = Path(_address()).with_name(name)
    path.write_text(command(PROGRAMS[name], port=str(defaults.DEFAULT_PORT)))
    path.chmod(0o755)
    return str(path)


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


def run_python() -> None:
    """Run the program that follows `-c`, as python does without warnings; the SDK is imported."""
    program = sys.argv[2]
    del sys.argv[1:3]
    warnings.simplefilter("ignore")
    exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102


def _serve(address: str) -> None:
    """Import what programs need, then run one for each connection until the input ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _IMPORTED:
            import_module(name)
        for module in walk_packages(pullqueue.__path__, "pullqueue."):
            if module.name.split(".")[1] not in _NOT_IMPORTED:
                import_module(module.name)
    gc.freeze()  # or each fork would copy what it collects
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
                selector.close()
                listener.close()
                _run_program(connection)
            connection.close()
            with contextlib.suppress(ChildProcessError):  # so that their time counts as the tests'
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _run_program(connection: socket.socket) -> NoReturn:
    """Read a request, run its program in a fork, answer with its process id and exit status."""
    data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while not data.endswith(b"\n"):
        data += connection.recv(1 << 20)
    fork = os.fork()
    if fork == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        status = _status(*json.loads(data))
        sys.stdout.flush()
        sys.stderr.flush()
        # Python would take longer to take down all the modules than most programs to run.
        os._exit(status)
    for stream in streams:
        os.close(stream)
    with contextlib.suppress(OSError):
        connection.sendall(f"{fork}\n".encode())
        status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
        connection.sendall(f"{status if status >= 0 else 128 - status}\n".encode())
    os._exit(0)


def _status(
    function: str, port: int, arguments: list[str], folder: str, environment: dict[str, str]
) -> int:
    """Call a function as the main program of this process, and return the exit status."""
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
    try:
        return int(str(resolve_name(function)() or 0))
    except SystemExit as ended:
        return int(ended.code or 0)
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parent))
    _serve(sys.argv[1])
