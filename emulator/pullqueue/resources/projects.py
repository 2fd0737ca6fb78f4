"""Operations on projects: make one for a test, and end it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET

from pullqueue.api.errors import ApiError
from pullqueue.api.requests import served
from pullqueue.clock import Clock, ManualClock, SystemClock, from_usec, parse_time
from pullqueue.config.findings import InvalidQueueConfigError
from pullqueue.resources.operations import operation
from pullqueue.resources.queues import list_shown_queues
from pullqueue.runtime.projects import Projects
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Maybe, Model, Time, about

ClockKind = Literal["machine", "manual"]
ManualStart = Annotated[
    Maybe[Time], about("Start of a manual clock. Default: 2026-01-01T00:00:00Z.")
]


class ProjectResource(Model):
    """A project of the server."""

    name: str
    own: Annotated[bool, about("True of the server's own, which has queue.yaml.")]
    manual: Annotated[bool, about("Whether its clock is moved, by POST /clock.")]
    now: Time
    queues: Count


class NewProject(Model):
    """A project to make: its queues, and its clock."""

    name: str
    clock: Annotated[
        ClockKind,
        about(
            "machine: that of the machine. manual: it is moved, push tasks are sent "
            "by POST /run, and POST /clock with deliver, only, and the project is in memory, "
            "whatever the store of the server is."
        ),
    ] = "machine"
    now: ManualStart = UNSET
    queue_yaml: Annotated[
        Maybe[str], about("Text of its queue.yaml. Default: no queues but `default`.")
    ] = UNSET


def make_clock(kind: ClockKind, now: Maybe[Time]) -> Clock:
    """Return a clock of a kind.

    Raises:
        ApiError: the start is not a time, or the machine's clock is to have one.
    """
    if kind == "machine":
        if now is not UNSET:
            raise ApiError.parameter('now is set: send "clock": "manual" with it', "now")
        return SystemClock()
    return ManualClock() if now is UNSET else ManualClock(parse_time(now, "now", ApiError))


@operation("GET", "/projects", key="projects")
def list_projects(_state: ServerState) -> list[ProjectResource]:
    """List the projects of the server, its own first."""
    projects = served(Projects)
    return [_resource(name, state, projects) for name, state in projects.states.items()]


@operation(
    "POST",
    "/projects",
    key="project",
    examples={
        "for a test": {
            "name": "test-7",
            "clock": "manual",
            "now": "2026-01-01T00:00:00Z",
            "queue_yaml": "queue:\n- name: mails\n  rate: 5/s\n",
        },
        "with the clock of the machine": {"name": "billing"},
    },
)
def create_project(_state: ServerState, body: NewProject) -> ProjectResource:
    """Make a project, such as one for a test; calls that name it use it from then on."""
    projects, text = served(Projects), None if body.queue_yaml is UNSET else body.queue_yaml
    if text is not None and not text.strip():
        raise ApiError.parameter(
            "queue_yaml is empty: leave it out, or pass the text of a queue.yaml", "queue_yaml"
        )
    try:
        made = projects.create(body.name, clock=make_clock(body.clock, body.now), queue_yaml=text)
    except InvalidQueueConfigError as error:
        raise ApiError.parameter(f"queue_yaml: {error}", "queue_yaml") from None
    return _resource(body.name, made, projects)


@operation("DELETE", "/projects/{name}", key="deleted")
def delete_project(_state: ServerState, name: str) -> str:
    """End a project with its tasks, faults and records; calls that name it are then refused.

    Attempts under way leave no trace.
    """
    served(Projects).delete(name)
    return name


def _resource(name: str, state: ServerState, projects: Projects) -> ProjectResource:
    emulator = state.emulator
    return ProjectResource(
        name=name,
        own=name == projects.own_name,
        manual=isinstance(emulator.clock, ManualClock),
        now=from_usec(emulator.now_usec()).isoformat(),
        queues=len(list_shown_queues(state)),
    )
