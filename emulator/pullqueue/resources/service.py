"""Operations on the server: health, version, configuration, reset, clock, faults, tokens."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from typing import Annotated, Any

from flask import request
from msgspec import UNSET

import pullqueue
from pullqueue.address import DEFAULT_PROJECT, is_loopback
from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.api.requests import served
from pullqueue.api.tokens import DEFAULT_SCOPES
from pullqueue.clock import ManualClock
from pullqueue.engine.queue import Queue
from pullqueue.errors import PullQueueError
from pullqueue.resources.operations import operation
from pullqueue.resources.projects import ClockKind, ManualStart, make_clock
from pullqueue.resources.queue_resource import QueueResource, build_resource
from pullqueue.runtime.config_file import Changes
from pullqueue.runtime.fault_registry import FaultResource, NewFault
from pullqueue.runtime.projects import Projects
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Maybe, Model, Time, about, iso
from pullqueue.tasks import count_tasks
from pullqueue.text import is_email, quoted


class Ready(Model):
    """Whether tasks can be stored, or why not."""

    ready: bool
    reason: str | None


class Version(Model):
    """Versions of the running programs."""

    version: str
    python: str


class Config(Model):
    """The configuration that is applied, and the state of its file."""

    file: str
    reloadable: bool
    loaded: Time | None
    problem: str | None
    project: str | None
    total_storage_limit: Count | None
    bytes_stored: Count
    limits: dict[str, Any]
    queues: list[QueueResource]


class ResetRequest(Model):
    """What a reset keeps, and what else it deletes."""

    keep_queues: Annotated[
        bool, about("Keep queues that were created at run time, such as by CreateQueue.")
    ] = False
    services: Annotated[
        bool, about("Delete the data of App Engine's other services, such as entities.")
    ] = False
    clock: Annotated[
        Maybe[ClockKind],
        about(
            "Clock that the project gets, which may be at an earlier time. Of the "
            "server's own project only a manual clock can be set to another start."
        ),
    ] = UNSET
    now: ManualStart = UNSET


class TokenQuery(Model):
    """Whose token to return, and for what."""

    email: str
    scope: Annotated[
        Maybe[str], about("Scopes separated by blanks; default: those of both APIs.")
    ] = UNSET


class CredentialsRequest(Model):
    """The service account to make a key for."""

    email: str


@operation("GET", "/health", key="status")
def get_health(_state: ServerState) -> str:
    """Return whether the process responds."""
    return "ok"


@operation("GET", "/ready")
def get_ready(state: ServerState) -> Ready:
    """Return whether tasks can be stored: 200, or 503 with the reason."""
    try:
        state.emulator.check()
    except PullQueueError as error:
        return Ready(ready=False, reason=str(error))
    return Ready(ready=True, reason=None)


@operation("GET", "/version")
def get_version(_state: ServerState) -> Version:
    """Return the versions of pullqueue and Python."""
    return Version(version=pullqueue.__version__, python=platform.python_version())


@operation("GET", "/config")
def get_config(state: ServerState) -> Config:
    """Return the configuration in use, and the problems of a file that could not be applied."""
    return build_config(state, state.emulator.queues)


def build_config(state: ServerState, queues: Iterable[Queue]) -> Config:
    """Return the configuration in use with some of its queues."""
    file, emulator = state.config_file, state.emulator
    return Config(
        file=emulator.config.file,
        reloadable=file is not None,
        loaded=None if file is None else iso(file.loaded),
        problem=None if file is None else file.problem,
        project=emulator.project,
        total_storage_limit=emulator.config.total_storage_limit_bytes,
        bytes_stored=emulator.bytes_stored,
        limits=emulator.limits._asdict(),
        queues=[build_resource(state, queue) for queue in queues],
    )


@operation("POST", "/reload")
def reload_config(state: ServerState) -> Changes:
    """Reload queue.yaml; a file with errors changes nothing."""
    file = state.config_file
    if file is None:
        why, how = "this server was not started from a queue.yaml", "FILE"
        if state.project:
            why = f"project {state.project} has the queues that it was made with"
            how = f"--queue-yaml-for {state.project}=FILE"
        raise ApiError(
            f"{why}, so there is no file to reload: start the server with `pullqueue serve {how}`",
            rpc_code="FAILED_PRECONDITION",
        )
    changes = file.reload(state.emulator)
    state.activity.record(f"reloaded {state.emulator.config.file}: {changes}")
    return changes


@operation(
    "POST",
    "/reset",
    key="deleted",
    examples={
        "tasks and queues that were created": {},
        "all but the queues that were created": {"keep_queues": True},
        "at another time": {"clock": "manual", "now": "2026-01-01T00:00:00Z"},
        "with the entities of the app": {"services": True},
    },
)
def reset(state: ServerState, body: ResetRequest) -> Count:
    """Delete tasks, names, history, requests, faults, queues created; keep queue.yaml and clock.

    Return how many tasks there were, exhausted ones included.
    """
    numbers = [queue.fetch_statistics() for queue in state.emulator.queues]
    deleted = sum(each.tasks + each.exhausted for each in numbers)
    if body.clock is not UNSET or body.now is not UNSET:
        state = _with_clock(state, body)
    state.reset(keep_queues=body.keep_queues, services=body.services)
    kept = ", but for the queues created at run time" if body.keep_queues else ""
    also = ", and the data of the other services" if body.services else ""
    state.activity.record(f"reset the server{kept}: {count_tasks(deleted)} deleted{also}")
    return deleted


def _with_clock(state: ServerState, body: ResetRequest) -> ServerState:
    """Set the clock of a project that is about to be emptied, and return its state."""
    clock = make_clock("manual" if body.clock is UNSET else body.clock, body.now)
    own = state.emulator.clock
    if isinstance(own, ManualClock) and isinstance(clock, ManualClock):
        state.reset(keep_queues=body.keep_queues)  # nothing is left that could see it go back
        own.return_to_usec(clock.now_usec())
        return state
    return served(Projects).replace(state, clock)


@operation("GET", "/faults", key="faults")
def list_faults(state: ServerState) -> list[FaultResource]:
    """List the faults that are set, and how often each has triggered."""
    return state.faults.list()


@operation("POST", "/faults", key="fault")
def set_fault(state: ServerState, body: NewFault) -> FaultResource:
    """Set a fault: calls of the app fail, lose their response, take time or lease nothing."""
    fault = state.faults.set(body)
    state.activity.record(f"set fault {fault.number}: {fault}")
    return fault


@operation("DELETE", "/faults", key="deleted")
def clear_faults(state: ServerState) -> Count:
    """Remove all faults."""
    removed = state.faults.clear()
    state.activity.record(f"removed all faults: {removed}")
    return removed


@operation("DELETE", "/faults/{number}", key="deleted")
def remove_fault(state: ServerState, number: str) -> Count:
    """Remove one fault."""
    faults = {str(fault.number): fault for fault in state.faults.list()}
    if number not in faults:
        advice = f"use one of {', '.join(faults)}" if faults else "none is set"
        raise ApiError(f"there is no fault {quoted(number)}: {advice}", status=404)
    state.faults.remove(int(number))
    state.activity.record(f"removed fault {number}: {faults[number]}")
    return 1


@operation("GET", "/token")
def get_token(state: ServerState, query: TokenQuery) -> Json:
    """Return an access token for an e-mail address, where the acl is enforced."""
    scopes = DEFAULT_SCOPES if query.scope is UNSET else query.scope.split()
    issued = state.tokens.issue(_check_email(query.email), frozenset(scopes))
    return state.tokens.response(issued)


@operation("POST", "/credentials")
def make_credentials(state: ServerState, body: CredentialsRequest) -> Json:
    """Make the key file of a service account, for this machine only."""
    address = request.remote_addr
    if address and not is_loopback(address):
        raise ApiError(
            f"keys are made for this machine alone, and {address} is another: run `pullqueue "
            "credentials` where the server runs",
            status=403,
        )
    project = state.emulator.project or DEFAULT_PROJECT
    return state.tokens.make_key(
        _check_email(body.email), project=project, root_url=request.host_url
    )


def _check_email(text: str) -> str:
    if not is_email(text):
        message = f"email is {quoted(text)}: use an address such as worker@example.com"
        raise ApiError.parameter(message, "email")
    return text
