"""Runs Python programs in forks of processes that have imported what takes them longest.

`write_script` writes a script to use in place of a program. It sends its arguments, folder,
environment and streams to such a process, which forks, calls a function, and answers with the exit
status. Run as a program, this module is two such processes.

That of `APP_PROGRAMS` has imported packages which apps and App Engine's SDK import, not the SDK
itself, and a fork runs `sitecustomize` first, as Python does at its start. That of `PROGRAMS` has
imported the SDK and most of pullqueue, so a command that is run in this way cannot show that a
module lacks an import. Tests that start `python -m pullqueue` can: test_exec, test_serve and, for
the linter, test_lint_integrations.

The first process ends when its fork has ended, and the fork when the first process is killed.
SIGUSR1 kills the fork before the first process.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name, walk_packages
from runpy import run_module
from selectors import EVENT_READ, DefaultSelector
from tempfile import mkdtemp
from types import ModuleType
from typing import Any, NoReturn, cast

import pullqueue
from pullqueue import address as defaults

PROGRAMS = {
    "pullqueue": "pullqueue.cli:main",
    "gtaskqueue": "pullqueue.cli.gtaskqueue:gtaskqueue",
    "gtaskqueue_puller": "pullqueue.cli.gtaskqueue:gtaskqueue_puller",
    "pytest": "pytest:main",
    "python-program": "forking:run_python",
    "python-blocks": "documents:run_blocks",
}
"""The programs that are forked, and their functions."""
APP_PROGRAMS = {
    "python": "forking:run_python",
    "flask": "flask.cli:main",
    "uvicorn": "uvicorn:main",
}
"""Those that are forked from a process without the SDK."""
_IMPORTED_BY_APPS = (
    "fastapi",
    "flask",
    "frozendict",
    "google.auth.transport.requests",
    "google.cloud.tasks_v2",
    "google.cloud.tasks_v2beta2",
    "google.cloud.tasks_v2beta3",
    "grpc",
    "requests",
    "ruamel.yaml",
    "sqlalchemy.dialects.sqlite",
    "uvicorn",
    "webob",
)
_IMPORTED = (
    "click",
    "freezegun",
    "google.appengine.api.taskqueue",
    "google.appengine.ext.deferred",
    "google.appengine.ext.ndb",
    "google.appengine.ext.testbed",
    "hypothesis",
    "pytest",
    "responses",
    "time_machine",
)
shared: list[str] = []
"""The folder of the sockets of a process that others use, too."""
_APPS, _OTHERS = "apps", "others"
"""The sockets of the two processes."""
_NOT_IMPORTED = {"__main__", "cli", "databases"}
"""Parts of names of modules that read the default port, or import what few apps use."""
_COMMAND = """\
#!{python} -IS
import os, signal, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = [{function!r}, {port}, sys.argv, os.getcwd(), dict(os.environ)]
socket.send_fds(server, [ascii(request).encode() + b"\\n"], [0, 1, 2])
answers = server.makefile()
fork = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(fork, number))
signal.signal(signal.SIGUSR1, lambda *_: os.kill(fork, signal.SIGKILL))
sys.exit(int(answers.readline()))
"""


@cache
def forked(name: str) -> str:
    """Return the path of a script that runs a program in a fork."""
    return str(write_script(_scripts(), name, port=str(defaults.DEFAULT_PORT)))


@cache
def _scripts() -> Path:
    folder = Path(mkdtemp(prefix="scripts-"))
    atexit.register(shutil.rmtree, folder)
    return folder


def write_script(folder: Path, name: str, *, port: str) -> Path:
    """Write a script that runs a program in a fork, in which another port is the default."""
    functions, kind = (APP_PROGRAMS, _APPS) if name in APP_PROGRAMS else (PROGRAMS, _OTHERS)
    path = folder / name
    path.write_text(
        _COMMAND.format(
            python=sys.executable,
            address=str(start() / kind),
            function=functions[name],
            port=int(port),
        )
    )
    path.chmod(0o755)
    return path


@cache
def start() -> Path:
    """Start the processes that fork, once, and return the folder of their sockets.

    The controller of xdist does so for its workers, which have the folder in `shared`.
    """
    if shared:
        return Path(shared[0])
    folder = Path(mkdtemp(prefix="forking-"))
    process = subprocess.Popen(
        [sys.executable, __file__, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None

    def stop() -> None:
        with process:  # with their standard input they end, also if this process is killed
            pass
        shutil.rmtree(folder)

    atexit.register(stop)
    assert process.stdout.readline() == b"listening\n"  # they answer once all is imported
    return folder


def run_python() -> None:
    """Run a program, `-c` or `-m`, as python does."""
    arguments = sys.argv[1:]
    while arguments[0] in ("-u", "-W"):
        if arguments.pop(0) == "-W":
            warnings.simplefilter(cast("Any", arguments.pop(0)))
    option = arguments.pop(0) if arguments[0] in ("-c", "-m") else ""
    sys.argv[:] = [option, *arguments[1:]] if option else arguments
    if option == "-m":
        sys.path.insert(0, str(Path.cwd()))
        run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = ModuleType("__main__")
    if option:
        sys.path.insert(0, "")
        text, name = arguments[0], "<string>"
    else:
        text, name = Path(arguments[0]).read_text("utf-8"), arguments[0]
        sys.path.insert(0, str(Path(name).resolve().parent))
        main.__file__ = name
    exec(compile(text, name, "exec"), vars(main))  # noqa: S102


def _serve(folder: Path) -> None:
    """Import what programs need, then run those of both kinds until the input ends."""
    with _listening(folder / _APPS) as apps, _listening(folder / _OTHERS) as others:
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        _import(_IMPORTED_BY_APPS)
        process = os.fork()
        if process == 0:
            others.close()
            _answer(apps, _start_app)
            return
        apps.close()
        modules = [module.name for module in walk_packages(pullqueue.__path__, "pullqueue.")]
        _import(_IMPORTED)
        _import(name for name in modules if _NOT_IMPORTED.isdisjoint(name.split(".")))
        import_module("pullqueue.server.app").flask_app()  # it is cached
        # So are these: the files of all modules, and what tests replace in those of libraries.
        inspect.getmodule(_serve.__code__)
        with import_module("pullqueue.testing.patching").replaced_everywhere({}):
            pass
        import_module("pullqueue.testing.place").app_modules()
        settings = import_module("hypothesis").settings
        settings.register_profile("forks", max_examples=10)
        settings.load_profile("forks")
        sys.path.append(str(Path(__file__).parent))
        _answer(others, _start_other)
        os.waitpid(process, 0)


def _import(names: Iterable[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            with suppress(ModuleNotFoundError):  # the oldest SDK needs fewer
                import_module(name)


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        yield listener


def _answer(listener: socket.socket, start: Callable[[], None]) -> None:
    """Run a program for each connection until the input ends."""
    gc.freeze()  # or each fork would copy what it collects
    with DefaultSelector() as selector:
        selector.register(listener, EVENT_READ)
        selector.register(sys.stdin, EVENT_READ)
        while [key.fileobj for key, _ in selector.select()] == [listener]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                selector.close()
                listener.close()
                _run_program(connection, start)
            connection.close()
            with suppress(ChildProcessError):  # so that their time counts as the tests'
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _run_program(connection: socket.socket, start: Callable[[], None]) -> NoReturn:
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
        status = _status(start, data)
        sys.stdout.flush()
        sys.stderr.flush()
        # Python would take longer to take down all the modules than most programs to run.
        os._exit(status)
    for stream in streams:
        os.close(stream)

    def end_with_client() -> None:
        with suppress(ConnectionError):
            connection.recv(1)
        with suppress(ProcessLookupError):
            os.kill(fork, signal.SIGKILL)

    threading.Thread(target=end_with_client, daemon=True).start()
    with suppress(OSError):
        connection.sendall(f"{fork}\n".encode())
        status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
        connection.sendall(f"{status if status >= 0 else 128 - status}\n".encode())
    os._exit(0)


def _status(start: Callable[[], None], request: bytes) -> int:
    """Call a function as the main program of this process, and return the exit status."""
    function, port, arguments, folder, environment = literal_eval(request.decode())
    defaults.DEFAULT_PORT = port
    defaults.DEFAULT_ADDRESS = f"{defaults.DEFAULT_HOST}:{port}"
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv[:] = arguments
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - it stays open
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    try:
        start()
        return int(str(resolve_name(function)() or 0))
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
            return 1
        return int(ended.code or 0)
    except BaseException as error:  # noqa: BLE001 - as Python does
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1


def _start_other() -> None:
    sys.path[0] = str(Path.cwd())


def _start_app() -> None:
    """Do what Python does with its environment at its start."""
    sys.path[:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.modules.pop("sitecustomize", None)
    with suppress(ModuleNotFoundError):
        import_module("sitecustomize")


if __name__ == "__main__":
    sys.modules["forking"] = sys.modules["__main__"]
    _serve(Path(sys.argv[1]))
