"""What actors change beside their calls and memory: files, variables, and what other programs do.

Python's audit events say so. Who could read a file is not known, since there is no event where code
only asks whether there is one; so whoever goes on could, as with memory. There is no event either
for what is written to a file that is already open, and for what C libraries do by themselves.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path
from traceback import walk_stack
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from pullqueue.testing.patching import Patches
from pullqueue.testing.place import calling_place, is_frame_of_app, is_test_module
from pullqueue.testing.points.actors import Actor, current_actor, is_carried_out
from pullqueue.testing.points.databases import DATABASES
from pullqueue.testing.points.databases.calls import note_unseen
from pullqueue.testing.points.footprint import CHANGED

_See: TypeAlias = Callable[[Actor, tuple[Any, ...]], None]

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_OF_PYTHON = re.compile(r"/dev/(?!shm/)|.*[/\\]__pycache__[/\\]")
"""Files that are not the app's: devices, and compiled modules."""
_temporary: set[Path] = set()
"""The paths that `tempfile` has made for actors, which have names of their own."""


def _see_open(actor: Actor, arguments: tuple[Any, ...]) -> None:
    path, _, flags = arguments
    # Only a temporary file without a name is written by opening its folder.
    if flags & _WRITES and not isinstance(path, int) and not Path(os.fsdecode(path)).is_dir():
        _see_file(actor, (path,))


def _see_file(actor: Actor, arguments: tuple[Any, ...]) -> None:
    """Note the change of a file or folder; prevent that of an actor that has ended."""
    descriptor = arguments[-1]  # of the folder to which names are relative, or -1
    is_relative = isinstance(descriptor, int) and descriptor >= 0
    folder = os.path.realpath(f"/proc/self/fd/{descriptor}") if is_relative else ""
    named = [each for each in arguments[:2] if isinstance(each, str | bytes | os.PathLike)]
    if not named or not all(_is_private(Path(folder, os.fsdecode(each))) for each in named):
        actor.check_alive()
        actor.note(CHANGED)


def _is_private(path: Path) -> bool:
    path = Path(os.path.normpath(path))
    return bool(_OF_PYTHON.match(str(path))) or not _temporary.isdisjoint((path, *path.parents))


def _see_temporary(_: Actor, arguments: tuple[Any, ...]) -> None:
    _temporary.add(Path(os.fsdecode(arguments[0])))


def _see_variable(actor: Actor, arguments: tuple[Any, ...]) -> None:
    """Note the change of an environment variable, but for those in which the SDK has a request."""
    name, *value = map(os.fsdecode, arguments)
    is_of_request = name in _OF_REQUESTS or name.startswith("HTTP_")
    if not is_of_request and os.environ.get(name) != next(iter(value), None):
        actor.note(CHANGED)


_OF_REQUESTS = frozenset(
    {"CONTENT_LENGTH", "CONTENT_TYPE", "PATH_INFO", "QUERY_STRING", "RAW_URI", "REQUEST_ID_HASH"}
    | {"REQUEST_LOG_ID", "REQUEST_METHOD", "REQUEST_URI"}
    | {"__CALLBACK__", "__CONTEXT__", "__EVENT_LOOP__"}
)


def _see_program(actor: Actor, _: tuple[Any, ...]) -> None:
    actor.check_alive()
    actor.note(CHANGED)
    note_unseen(f"a subprocess{_at_place()}")


def _see_connection(actor: Actor, arguments: tuple[Any, ...]) -> None:
    """Note a connection to what may have no points; those of databases are judged with these.

    The dead can make one: a client that is interrupted there leaves its socket open.
    """
    actor.noted += 1
    address = arguments[1]
    host, port = address[:2] if isinstance(address, tuple) else (os.fsdecode(address), 0)
    if not _is_of_database():
        name = f"{host}:{port}" if port else host
        note_unseen(f"a connection to {name}{_at_place()}", port)


def _requesting(send: Callable[..., Any]) -> Callable[..., Any]:
    """Prevent a request of the dead, and note one that a mock answers in this process."""

    @wraps(send)
    def send_noted(client: object, request: object, *args: object, **options: object) -> object:
        actor = current_actor()
        if actor is None or is_carried_out() or not _is_made_by_app():
            return send(client, request, *args, **options)
        actor.check_alive()
        noted = actor.noted
        try:
            return send(client, request, *args, **options)
        finally:
            if actor.noted == noted:
                url = urlsplit(str(getattr(request, "url", "")))
                note_unseen(f"a request to {url.netloc}{_at_place()}", url.port or 0)

    return send_noted


def _is_made_by_app() -> bool:
    """Return whether the innermost code that is not of a library is the app's, not the test's."""
    for frame, _ in walk_stack(sys._getframe(1)):  # noqa: SLF001 - documented, of CPython
        if is_frame_of_app(frame):
            return not is_test_module(frame.f_globals.get("__name__", ""))
    return False


def _starting(start: Callable[[Any], None]) -> Callable[[Any], None]:
    """Note a process of `multiprocessing`: of "spawn" and "forkserver" there is no event."""

    @wraps(start)
    def start_process(process: object) -> None:
        if (actor := current_actor()) is not None:
            _see_program(actor, ())
        start(process)

    return start_process


_CLIENTS = (("requests", "Session"), ("httpx", "Client"), ("httpx", "AsyncClient"))
"""Classes whose `send` all requests pass, whichever part of the package a mock replaces."""


def _at_place() -> str:
    place = calling_place()
    return f" ({place})" if place else ""


def _is_of_database() -> bool:
    frames = walk_stack(sys._getframe(1))  # noqa: SLF001 - documented, of CPython
    modules = [frame.f_globals.get("__name__", "") for frame, _ in frames]
    return any(each.has(name) for each in DATABASES if each.is_followed for name in modules)


_OF_FILES = (
    *("chmod", "chown", "link", "mkdir", "remove", "rename", "rmdir", "symlink", "truncate"),
    "utime",
)
_OF_PROGRAMS = ("exec", "fork", "forkpty", "posix_spawn", "spawn", "system")
_EVENTS: dict[str, _See] = {
    "open": _see_open,
    **{f"os.{name}": _see_file for name in _OF_FILES},
    **{f"os.{name}": _see_program for name in _OF_PROGRAMS},
    "os.putenv": _see_variable,
    "os.unsetenv": _see_variable,
    "socket.connect": _see_connection,
    "subprocess.Popen": _see_program,
    "tempfile.mkdtemp": _see_temporary,
    "tempfile.mkstemp": _see_temporary,
}


def _audit(
    event: str,
    arguments: tuple[Any, ...],
    # Not globals, which are gone when the process ends.
    events: Mapping[str, _See] = _EVENTS,
    actor_of_thread: Callable[[], Actor | None] = current_actor,
) -> None:
    if event in events and (actor := actor_of_thread()) is not None and not is_carried_out():
        events[event](actor, arguments)


@cache
def _install() -> None:
    """Install the hook, which cannot be removed: it does nothing where no actor is."""
    sys.addaudithook(_audit)


@Patches
def following_changes(patches: Patches) -> None:
    """Notes, in a block, what actors change, and prevents it where they have ended."""
    _install()
    patches.at_end(_temporary.clear)
    if processes := sys.modules.get("multiprocessing.process"):
        patches.decorate(processes.BaseProcess, "start", _starting)
    for module, name in _CLIENTS:
        if module in sys.modules:
            patches.decorate(getattr(sys.modules[module], name), "send", _requesting)
