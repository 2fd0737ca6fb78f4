"""One call of a method, and the resource it names: `projects/P/locations/L/queues/Q/tasks/T`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pullqueue.cloudtasks.errors import invalid
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue

if TYPE_CHECKING:
    from pullqueue.control.state import ServerState

DEFAULT_LOCATION: Final = "us-central1"
"""The one location that is listed; callers may use any."""

_PARTS: Final = (
    ("projects", re.compile(r"[A-Za-z0-9.:~-]{1,100}")),
    ("locations", re.compile(r"[A-Za-z0-9-]{1,100}")),
    ("queues", re.compile(r"[A-Za-z0-9-]{1,100}")),
    ("tasks", re.compile(r"[A-Za-z0-9_-]{1,500}")),
)
_PATTERN: Final = "projects/PROJECT/locations/LOCATION/queues/QUEUE/tasks/TASK"


class ResourceName(NamedTuple):
    """A name, split; what a name does not reach down to is empty."""

    project: str
    location: str = ""
    queue: str = ""
    task: str = ""

    def __str__(self) -> str:
        return "/".join(
            f"{kind}/{part}" for (kind, _), part in zip(_PARTS, self, strict=True) if part
        )

    @property
    def parent(self) -> ResourceName:
        """The name of what holds this resource."""
        depth = sum(map(bool, self)) - 1
        return ResourceName(*self[:depth])

    @classmethod
    def parse(cls, text: str, *, field: str, depth: int) -> ResourceName:
        """Split a name of `depth` parts: 1 is a project, 2 a location, 3 a queue, 4 a task.

        Raises:
            StatusError: INVALID_ARGUMENT: it is not such a name.
        """
        given = text.split("/")
        kinds, values = given[::2], given[1::2]
        expected = [kind for kind, _ in _PARTS[:depth]]
        if (
            kinds != expected
            or len(values) != depth
            or not all(valid.fullmatch(value) for (_, valid), value in zip(_PARTS, values))  # noqa: B905 - shorter by design
        ):
            pattern = "/".join(_PATTERN.split("/")[: 2 * depth])
            raise invalid(
                f'{field} is "{text:.200}": use {pattern} with letters, digits and hyphens',
                field=field,
            )
        return cls(*values)


class Call(NamedTuple):
    """One call, whose caller may make it."""

    request: Any
    """The message of the request."""
    name: ResourceName
    """The resource that the request names."""
    state: ServerState
    caller: str | None
    """The e-mail address of who calls; None where access is not restricted."""

    @property
    def emulator(self) -> Emulator:
        """The emulator that is served."""
        return self.state.emulator

    @property
    def queue(self) -> Queue:
        """The queue that the request names.

        Raises:
            UnknownQueueError: there is none.
        """
        return self.emulator.queue(self.name.queue)
