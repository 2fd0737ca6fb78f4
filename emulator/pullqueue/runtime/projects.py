"""The projects of a server: each is an emulator with queues, clock and records of its own."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from copy import copy
from time import perf_counter
from typing import Final

import msgspec

from pullqueue import config as queue_yaml
from pullqueue.address import DEFAULT_PROJECT
from pullqueue.api.errors import ApiError
from pullqueue.api.resources import Project
from pullqueue.clock import Clock, ManualClock, SystemClock
from pullqueue.config.model import QueueConfig
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.memory.store import MemoryStore
from pullqueue.engine.store import StoredProject
from pullqueue.errors import TransientError
from pullqueue.runtime.config_file import ConfigFile
from pullqueue.runtime.state import STOP_SECONDS, ServerState
from pullqueue.text import did_you_mean, quoted

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,99}", re.ASCII).fullmatch
"""Names are names of folders, too: neither `.` nor `..` is one."""
_RULE: Final = (
    "use 1 to 100 letters, digits, hyphens, dots and colons, of which the first is a letter or "
    "digit"
)
_ENDED_NAMES = 10_000
"""Maximum number of names of ended projects that are kept, the latest."""
_FOLLOW_SECONDS = 1.0
"""Interval of the looks for projects that other servers have made or deleted."""

_log = logging.getLogger("pullqueue.server")


class _Made(msgspec.Struct, frozen=True):
    """What a project was made with; stored, if its tasks are."""

    queue_yaml: str | None = None
    """None: it has no queues, or those of a file."""


class Projects:
    """The server's own project, and others. Safe under threads.

    The own one has the queues of queue.yaml. It answers to the name it was started with; without a
    name to each one that no other project has. Others are stored where its tasks are, except those
    with a manual clock: these are for a test, and in memory. The name of one that has ended is
    refused until it is made again: a call that is late must not work on queues that others share.
    """

    def __init__(self, own: ServerState, *, begins: bool, files: Mapping[str, ConfigFile]) -> None:
        """Begin with the project of the server, those that are stored, and those of `files`.

        With `begins`, a call that names another project begins one, without queues.

        Raises:
            ConfigFileError: a file cannot be read.
            InvalidQueueConfigError: a file is not valid.
            StoreError: what is stored of a project cannot be used.
        """
        self.own = own
        """The server's own project."""
        self._begins = begins
        self._files = files
        self._store = own.emulator.store
        self._others: dict[str, ServerState] = {}
        self._made: dict[str, _Made] = {}
        self._stored: dict[str, StoredProject] = {}
        self._ended: dict[str, None] = {}
        """Names of projects that have ended, the latest last."""
        self._missed: set[str] = set()
        """Names of calls that no project had since the last look for projects of other servers."""
        self.on_end: Callable[..., None] = lambda _state, *, delete: None  # noqa: ARG005
        """Called with the state of a project that ends, before its store is closed; `delete` is
        True if everything of it is deleted."""
        self._lock = threading.RLock()
        self._followed = perf_counter()
        self._load()
        if self.own_name in self._store.read_projects():
            _log.warning(
                "the store has tasks of another project %s, which are not used: the server's own "
                "has the same name, start it with another --project",
                quoted(self.own_name),
            )
        for name in files:
            if name not in self._others:
                self._add(name, _Made(), SystemClock())

    @property
    def is_single(self) -> bool:
        """True while all calls are about the server's own project."""
        return not (self._begins or self._others or self._ended or self._store.is_shared)

    @property
    def own_name(self) -> str:
        """The name of the server's own project."""
        return Project.of(self.own.emulator.project or DEFAULT_PROJECT).app_id

    @property
    def states(self) -> dict[str, ServerState]:
        """All projects by name, the server's own first."""
        self._follow()
        with self._lock:
            return {self.own_name: self.own, **self._others}

    def called(self, name: str, *, begins: bool = True) -> ServerState:
        """Return the project that a call of an API names, with the prefix of a partition or not.

        Where that is permitted it `begins` one.

        Raises:
            ApiError: it has ended.
        """
        app_id = Project.of(name).app_id
        self._follow()
        found = self._others.get(app_id)
        if found is None and self._store.is_shared and app_id not in self._missed:
            self._missed.add(app_id)
            self._follow(at_once=True)  # another server may have made it just now
            found = self._others.get(app_id)
        if found is None and app_id in self._ended:
            with self._lock:  # this one may be making it again
                found = self._others.get(app_id)
            if found is None:
                message = (
                    f"project {quoted(app_id)} has ended: stop what still calls it, or make it "
                    "again by POST /_emulator/projects"
                )
                raise ApiError(message, status=404)
        begins = begins and self._begins and app_id != self.own_name
        if found is None and begins and _NAME(app_id):
            with self._lock:
                found = self._others.get(app_id) or self._add(app_id, _Made(), SystemClock())
        return self.own if found is None else found

    def get(self, name: str) -> ServerState:
        """Return a project by its name; raise an ApiError if there is none."""
        app_id = Project.of(name).app_id
        found = self.states.get(app_id)
        if found is None:
            self._follow(at_once=True)  # another server may have made it just now
            found = self._others.get(app_id)
        if found is None:
            message = f"there is no project {quoted(name)}: {did_you_mean(name, self.states)}"
            raise ApiError(message, status=404)
        return found

    def create(self, name: str, *, clock: Clock, queue_yaml: str | None) -> ServerState:
        """Make a project with the queues of a text, or without any.

        Raises:
            ApiError: the name is not valid, or in use.
            InvalidQueueConfigError: the text is not valid.
        """
        if not _NAME(name):
            raise ApiError.parameter(f"name is {quoted(name)}: {_RULE}", "name")
        self._follow(at_once=True)
        with self._lock:
            if name in self._others or name == self.own_name:
                is_own = name == self.own_name
                what = "is the server's own:" if is_own else "exists: delete it first, or"
                message = f"project {quoted(name)} {what} use another name"
                raise ApiError(message, status=409, rpc_code="ALREADY_EXISTS")
            return self._add(name, _Made(queue_yaml), clock)

    def delete(self, name: str) -> None:
        """End a project with all that it has; attempts under way leave no trace.

        Raises:
            ApiError: there is none, or it is the server's own.
        """
        if self.get(name) is self.own:
            message = f"project {quoted(name)} is the server's own: reset it instead"
            raise ApiError(message, rpc_code="FAILED_PRECONDITION")
        with self._lock:
            self._remove(Project.of(name).app_id)

    def replace(self, state: ServerState, clock: Clock) -> ServerState:
        """Replace a project by an empty one with its queues of queue.yaml and another clock.

        Raises:
            ApiError: it is the server's own, or was deleted.
        """
        with self._lock:
            name = state.project
            if self._others.get(name) is not state:
                raise ApiError(
                    "the clock of the server's own project is chosen when it starts, by --clock: "
                    "make a project of your own, by POST /_emulator/projects",
                    rpc_code="FAILED_PRECONDITION",
                )
            made = self._made[name]
            self._remove(name)
            return self._add(name, made, clock)

    def start(self) -> None:
        """Send the push tasks of all projects from now on: the server listens."""
        for state in self._others.values():
            self._serve(state)

    def stop(self) -> None:
        """Start no more attempts and cron jobs, and wait for those under way, but not for long."""
        end = perf_counter() + STOP_SECONDS
        states = [self.own, *self._others.values()]
        for state in states:
            state.stop_starting()
        for state in states:
            state.stop(end)

    def close(self) -> None:
        """Close all projects but the server's own."""
        with self._lock:
            for state in self._others.values():
                self.on_end(state, delete=False)
                state.emulator.close()
            self._others.clear()
            self._stored.clear()

    def _follow(self, *, at_once: bool = False) -> None:
        """Load what other servers of the store have made and deleted: each second, or `at_once`."""
        now = perf_counter()
        if not self._store.is_shared or (not at_once and now - self._followed < _FOLLOW_SECONDS):
            return
        # One thread loads, the others do not wait for it: the database may hang.
        if self._lock.acquire(blocking=at_once):
            try:
                if not at_once:
                    self._missed.clear()
                self._followed = now
                self._load()
            except TransientError:
                if at_once:
                    raise  # otherwise the call itself reports that the store does not respond
            finally:
                self._lock.release()

    def _load(self) -> None:
        """Open the projects that are stored, and end those that no longer are."""
        stored = self._store.read_projects()
        for name, known in list(self._stored.items()):
            if stored.get(name) != known:
                del self._stored[name]
                self._end(name)
                self._store.drop_project(known.number)  # what calls here have added since
        for name, project in stored.items():
            if _NAME(name) and name not in self._others and name != self.own_name:
                made = msgspec.json.decode(project.record, type=_Made)
                self._add(name, made, SystemClock(), stored=project)

    def _add(
        self, name: str, made: _Made, clock: Clock, *, stored: StoredProject | None = None
    ) -> ServerState:
        """Make a project, and store it if its clock is the machine's and it is not `stored`."""
        own, file, is_new = self.own, self._files.get(name), stored is None
        is_manual = isinstance(clock, ManualClock)
        config = QueueConfig(queues=(), file="")
        if file is not None:
            config = file.read()
        elif made.queue_yaml is not None:
            config = queue_yaml.loads(made.queue_yaml)
        if is_new and not is_manual:
            record = msgspec.json.encode(made).decode()
            stored = self._store.add_project(name, record)
        limits = own.emulator.limits
        if is_manual and not own.limits_manual_clocks:
            limits = limits._replace(leases_per_second=None)
        try:
            emulator = Emulator(
                config,
                clock=clock,
                limits=limits,
                project=name,
                location=own.emulator.location,
                store=MemoryStore if stored is None else self._store.find_store(stored.number),
            )
        except BaseException:
            if is_new and stored is not None:
                self._store.drop_project(stored.number)
            raise
        emulator.service_accounts = own.emulator.service_accounts
        push_to = copy(own.push_to)
        push_to.awaited = frozenset()  # only the server's own are looked at
        state = ServerState(
            emulator,
            tokens=own.tokens,
            config_file=file,
            host_names=own.host_names,
            push_to=None if own.delivery is None else push_to,
            senders=own.senders,
            acl=own.acl,
        )
        if state.delivery is not None:
            state.delivery.is_woken = True
            # A test says when: between an add and a run it sets faults, and looks at tasks.
            state.delivery.is_held = is_manual
        state.token, state.project = own.token, name
        self._others[name], self._made[name] = state, made
        self._ended.pop(name, None)
        if stored is not None:
            self._stored[name] = stored
        self._serve(state)
        return state

    def _serve(self, state: ServerState) -> None:
        own = self.own
        state.url, state.own_ports, state.grpc_address = own.url, own.own_ports, own.grpc_address
        state.signer.issuer = own.signer.issuer
        if state.url and any(q.is_push and q.list_tasks(1) for q in state.emulator.queues):
            state.wake()

    def _remove(self, name: str) -> None:
        self._end(name)
        stored = self._stored.pop(name, None)
        if stored is not None:
            self._store.drop_project(stored.number)

    def _end(self, name: str) -> None:
        """Stop what a project runs, without waiting, and delete what it has."""
        self._ended[name] = None
        if len(self._ended) > _ENDED_NAMES:
            del self._ended[next(iter(self._ended))]
        state = self._others.pop(name)
        if state.delivery is not None:
            state.delivery.discard()
        self.on_end(state, delete=True)
        state.emulator.close()
