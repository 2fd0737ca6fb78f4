"""The projects of a server: each is an emulator with queues, clock and records of its own."""

from __future__ import annotations

import re
import threading
from time import perf_counter
from typing import Final

from pullqueue.address import DEFAULT_PROJECT
from pullqueue.api.errors import ApiError
from pullqueue.api.resources import Project
from pullqueue.clock import Clock, ManualClock
from pullqueue.config.model import QueueConfig
from pullqueue.engine.emulator import Emulator
from pullqueue.push.addresses import PushAddresses
from pullqueue.runtime.state import ServerState
from pullqueue.text import did_you_mean, quoted

_NAME = re.compile(r"[A-Za-z0-9.:-]{1,100}", re.ASCII).fullmatch
_RULE: Final = "use 1 to 100 letters, digits, hyphens, dots and colons"


class Projects:
    """The server's own project, and those that were made. Safe under threads.

    The own one has the queues of queue.yaml. It answers to the name it was started with; without a
    name to each one that no other project has.
    """

    def __init__(self, own: ServerState, *, begins: bool = False) -> None:
        """Begin with the project of the server.

        With `begins`, a call that names another project begins one, without queues.
        """
        self._own = own
        self._begins = begins
        self._others: dict[str, ServerState] = {}
        self.is_single = not begins
        """True while all calls are about the server's own project."""
        self._lock = threading.Lock()

    @property
    def own_name(self) -> str:
        """The name of the server's own project."""
        return Project.of(self._own.emulator.project or DEFAULT_PROJECT).app_id

    @property
    def states(self) -> dict[str, ServerState]:
        """All projects by name, the server's own first."""
        with self._lock:
            return {self.own_name: self._own, **self._others}

    def called(self, name: str) -> ServerState:
        """Return the project that a call of an API names, with the prefix of a partition or not."""
        app_id = Project.of(name).app_id
        found = self._others.get(app_id)
        if found is None and self._begins and app_id != self.own_name and _NAME(app_id):
            with self._lock:
                found = self._others.get(app_id) or self._add(app_id, None, QueueConfig(queues=()))
        return self._own if found is None else found

    def get(self, name: str) -> ServerState:
        """Return a project by its name.

        Raises:
            ApiError: there is none.
        """
        found = self.states.get(Project.of(name).app_id)
        if found is None:
            message = f"there is no project {quoted(name)}: {did_you_mean(name, self.states)}"
            raise ApiError(message, status=404)
        return found

    def create(self, name: str, *, clock: Clock | None, config: QueueConfig) -> ServerState:
        """Make a project with queues and a clock; without one it has the machine's.

        Raises:
            ApiError: the name is not valid, or in use.
        """
        if not _NAME(name):
            raise ApiError.parameter(f"name is {quoted(name)}: {_RULE}", "name")
        with self._lock:
            if name in self._others or name == self.own_name:
                message = f"project {quoted(name)} exists: delete it first, or use another name"
                raise ApiError(message, status=409, rpc_code="ALREADY_EXISTS")
            return self._add(name, clock, config)

    def delete(self, name: str) -> None:
        """End a project with all that it has; attempts under way leave no trace.

        Raises:
            ApiError: there is none, or it is the server's own.
        """
        self.get(name)
        with self._lock:
            state = self._others.pop(Project.of(name).app_id, None)
        if state is None:
            message = f"project {quoted(name)} is the server's own: reset it instead"
            raise ApiError(message, rpc_code="FAILED_PRECONDITION")
        _end(state)

    def replace(self, state: ServerState, clock: Clock | None) -> ServerState:
        """Replace a project by an empty one with its queues of queue.yaml and another clock.

        Raises:
            ApiError: it is the server's own, or was deleted.
        """
        with self._lock:
            found = [name for name, each in self._others.items() if each is state]
            if not found:
                raise ApiError(
                    "the clock of the server's own project is chosen when it starts, by --clock: "
                    "make a project of your own, by POST /_emulator/projects",
                    rpc_code="FAILED_PRECONDITION",
                )
            del self._others[found[0]]
            made = self._add(found[0], clock, state.emulator.config)
        _end(state)
        return made

    def stop(self) -> None:
        """End all projects but the server's own."""
        with self._lock:
            others, self._others = self._others, {}
        for state in others.values():
            _end(state)

    def _add(self, name: str, clock: Clock | None, config: QueueConfig) -> ServerState:
        own = self._own
        emulator = Emulator(
            config,
            clock=clock,
            limits=own.emulator.limits,
            project=name,
            location=own.emulator.location,
        )
        state = ServerState(
            emulator,
            tokens=own.tokens,
            host_names=own.host_names,
            push_to=None if own.delivery is None else PushAddresses(list(own.push_to)),
            acl=own.acl,
        )
        if state.delivery is not None:
            # A test says when: between an add and a run it sets faults, and looks at tasks.
            state.delivery.is_held = isinstance(clock, ManualClock)
        state.url, state.own_ports, state.token = own.url, own.own_ports, own.token
        state.signer.issuer = own.signer.issuer
        self._others[name], self.is_single = state, False
        return state


def _end(state: ServerState) -> None:
    """Stop what a project runs, without waiting, and delete what it has."""
    if state.delivery is not None:
        state.delivery.stop_starting()
        state.delivery.stop(perf_counter())
    state.emulator.close()
