"""One call of a method, and the resource it names: `projects/P/locations/L/queues/Q/tasks/T`."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pullqueue.cloudtasks.errors import invalid
from pullqueue.cloudtasks.messages import Message, message_class
from pullqueue.cloudtasks.methods import Method
from pullqueue.cloudtasks.versions import VERSIONS, Version
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue

if TYPE_CHECKING:
    from pullqueue.control.state import ServerState

_PARTS: Final = {
    "project": "[A-Za-z0-9.:~-]{1,100}",
    "location": "[A-Za-z0-9-]{1,100}",
    "queue": "[A-Za-z0-9-]{1,100}",
    "task": "[A-Za-z0-9_-]{1,500}",
}


class ResourceName(NamedTuple):
    """A name, split; what a name does not reach down to is empty."""

    project: str
    location: str = ""
    queue: str = ""
    task: str = ""

    def __str__(self) -> str:
        return "/".join(f"{kind}s/{part}" for kind, part in self._asdict().items() if part)

    @classmethod
    def parse(
        cls, text: str, pattern: str, *, field: str, parent: ResourceName | None = None
    ) -> ResourceName:
        """Split a name of a pattern such as `projects/<project>/locations/<location>`.

        Raises:
            ApiError: INVALID_ARGUMENT: it is not such a name, or not below `parent`.
        """
        match = _regex(pattern).fullmatch(text)
        if match is None:
            form = re.sub("<(.*?)>", lambda part: part[1].upper(), pattern)
            allowed = "letters, digits and hyphens"
            if form.endswith("TASK"):
                allowed += " (TASK: underscores as well, 500 characters at most)"
            raise invalid(f'{field} is "{text:.200}": use {form} with {allowed}', field=field)
        if parent is not None and not text.startswith(f"{parent}/"):
            raise invalid(
                f'{field} is "{text:.200}": it must begin with "{parent}", the parent', field=field
            )
        return cls(**match.groupdict())


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub("<(.*?)>", lambda part: f"(?P<{part[1]}>{_PARTS[part[1]]})", pattern))


class Call(NamedTuple):
    """One call, whose caller may make it."""

    request: Any
    """The message of the request."""
    name: ResourceName
    """The resource that the request names."""
    state: ServerState
    caller: str | None
    """The e-mail address of who calls; None where access is not restricted."""
    method: Method
    """The method that is called."""

    @property
    def version(self) -> Version:
        """The version of the API that is called."""
        return VERSIONS[self.method.version]

    def message(self, name: str, /, **fields: object) -> Message:
        """Return a new message of the version that is called."""
        return message_class(self.method.version, name)(**fields)

    @property
    def emulator(self) -> Emulator:
        """The emulator that is served."""
        return self.state.emulator

    @property
    def queue(self) -> Queue:
        """The queue that the request names.

        Raises:
            UnknownQueueError: there is none.
            InvalidQueueModeError: it is a pull queue, and the version has none.
        """
        queue = self.emulator.queue(self.name.queue)
        if not self.shows(queue) and not self.method.any_mode:
            raise queue.wrong_mode(f"{self.version.name} does not have these, use v2beta2")
        return queue

    def shows(self, queue: Queue) -> bool:
        """Return whether a queue is in the version that is called."""
        return self.version.has_pull_queues or queue.is_push
