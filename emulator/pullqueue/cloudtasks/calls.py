"""One call of a method, and the resource it names: `projects/P/locations/L/queues/Q/tasks/T`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

from pullqueue.address import DEFAULT_LOCATION
from pullqueue.cloudtasks import texts
from pullqueue.cloudtasks.errors import CloudTasksError, invalid, invalid_field, permission_denied
from pullqueue.cloudtasks.messages import Message, message_class
from pullqueue.cloudtasks.methods import LOCATION, QUEUE, TASK, Method
from pullqueue.cloudtasks.versions import VERSIONS, Version
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.limits import LOCATION_NAME, QUEUE_NAME
from pullqueue.runtime.state import ServerState

_SHOWN_CHARACTERS: Final = 200
"""How much of a name that is not valid is repeated in a message."""
_PARTS: Final = {
    "project": "[A-Za-z0-9.:~-]{1,100}",
    "location": LOCATION_NAME,
    "queue": QUEUE_NAME,
    "task": "[A-Za-z0-9_-]{1,500}",
}


class ResourceName(NamedTuple):
    """A name, split; what a name does not reach down to is empty."""

    project: str
    location: str = ""
    queue: str = ""
    task: str = ""

    @property
    def of_queue(self) -> ResourceName:
        """The name of the queue."""
        return ResourceName(*self[:3])

    def __str__(self) -> str:
        return "/".join(f"{kind}s/{part}" for kind, part in self._asdict().items() if part)

    @classmethod
    def parse(
        cls, text: str, pattern: str, *, field: str, parent: ResourceName | None = None
    ) -> ResourceName:
        """Split a name of a pattern such as `projects/<project>/locations/<location>`.

        Raises:
            CloudTasksError: INVALID_ARGUMENT: it is not such a name, or not below `parent`; or
            PERMISSION_DENIED: it does not even name a project.
        """
        match = _regex(pattern).fullmatch(text)
        if match is None:
            if parent is None and not text.startswith("projects/"):
                project = text.partition("/")[0][:_SHOWN_CHARACTERS]
                advice = f"{field} {_problem(text, pattern)}"
                raise permission_denied(project, advice=advice)
            raise _malformed(text, pattern, field)
        name = cls(**match.groupdict())
        if parent is not None and not text.startswith(f"{parent}/"):
            advice = f'{field} is "{text:.200}": it must begin with "{parent}", the parent'
            if not name.task:
                other = texts.OTHER_PARENT.format(name=name, parent=parent)
                raise invalid(other, advice=advice)
            other = texts.TASK_OF_OTHER_QUEUE.format(parent=parent, queue=name.of_queue)
            raise invalid(other, advice=advice)
        return name


def _problem(text: str, pattern: str) -> str:
    form = re.sub("<(.*?)>", lambda part: part[1].upper(), pattern)
    allowed = "letters, digits and hyphens"
    if pattern == TASK:
        allowed += " (TASK: underscores as well, 500 characters at most)"
    return f'is "{text:.200}": use {form} with {allowed}'


def _malformed(text: str, pattern: str, field: str) -> CloudTasksError:
    problem = _problem(text, pattern)
    advice = f"{field} {problem}"
    queue, is_task, task_id = text.partition("/tasks/")
    location, is_queue, queue_id = text.partition("/queues/")
    if pattern == TASK and is_task and _regex(QUEUE).fullmatch(queue):
        message = texts.TASK_ID.format(id=task_id[:_SHOWN_CHARACTERS])
        return invalid(message, advice=advice, help_link=texts.TASK_ID_HELP)
    if pattern == TASK:
        return invalid(texts.TASK_NAME, advice=advice)
    if pattern == QUEUE and is_queue and _regex(LOCATION).fullmatch(location):
        message = texts.QUEUE_ID.format(id=queue_id[:_SHOWN_CHARACTERS])
        return invalid(message, advice=advice)
    if pattern == QUEUE:
        help_link = texts.QUEUE_NAME_HELP
        return invalid(texts.QUEUE_NAME, advice=advice, help_link=help_link)
    return invalid_field(field, problem)


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub("<(.*?)>", lambda part: f"(?P<{part[1]}>{_PARTS[part[1]]})", pattern))


@dataclass(frozen=True)
class Call:
    """One call, whose caller may make it."""

    request: Any
    name: ResourceName
    """The resource that the request names."""
    state: ServerState
    caller: str | None
    """The e-mail address of who calls; None where access is not restricted."""
    method: Method

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
    def own_location(self) -> str:
        """The location of the queues whose names have none."""
        return self.emulator.location or DEFAULT_LOCATION

    @cached_property
    def queue(self) -> Queue:
        """The queue that the request names, searched once.

        Raises:
            UnknownQueueError: there is none.
            InvalidQueueModeError: it is a pull queue, and the version has none.
        """
        queue = self.emulator.queue(self.emulator.name_at(self.name.location, self.name.queue))
        if not self.shows(queue) and not self.method.any_mode:
            raise queue.wrong_mode(f"{self.version.name} does not have these, use v2beta2")
        return queue

    def shows(self, queue: Queue) -> bool:
        """Return whether a queue is in the version that is called."""
        return self.version.has_pull_queues or queue.is_push
