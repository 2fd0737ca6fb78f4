"""The service: what both transports call with a message, and get a message from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pullqueue.api.resources import Project
from pullqueue.cloudtasks import queues, tasks
from pullqueue.cloudtasks.context import Call
from pullqueue.cloudtasks.errors import StatusError, status_error_of
from pullqueue.cloudtasks.messages import Message
from pullqueue.cloudtasks.methods import METHODS, Method
from pullqueue.cloudtasks.names import ResourceName
from pullqueue.errors import PullQueueError

if TYPE_CHECKING:
    from pullqueue.control.state import ServerState

_FUNCTIONS: Final[Mapping[str, Callable[[Call], Message]]] = MappingProxyType(
    {
        method.name: vars(queues).get(method.function) or vars(tasks)[method.function]
        for method in METHODS
    }
)

_log = logging.getLogger("pullqueue.cloudtasks")


class Service:
    """Carries out calls on one emulator. Safe under threads."""

    def __init__(self, state: ServerState) -> None:
        """Serve the emulator of a server."""
        self._state = state
        self.request_bytes = state.emulator.limits.rest_body_bytes
        """The largest request."""

    def call(self, method: Method, request: Message, *, caller: str | None) -> Message:
        """Carry out one call.

        Raises:
            StatusError: it is refused, or failed.
        """
        try:
            name = self._resource(method, request)
            return _FUNCTIONS[method.name](
                Call(request=request, name=name, state=self._state, caller=caller)
            )
        except PullQueueError as error:
            raise status_error_of(error) from error
        except Exception as error:
            _log.error("%s failed through a fault of the emulator", method.name, exc_info=error)
            raise StatusError("INTERNAL", "the emulator failed: see its log") from error

    def _resource(self, method: Method, request: Message) -> ResourceName:
        text = reduce(getattr, method.field.split("."), request)
        name = ResourceName.parse(text, field=method.field, depth=method.depth)
        served = self._state.emulator.project
        if served is not None and Project.of(name.project).app_id != Project.of(served).app_id:
            raise StatusError(
                "NOT_FOUND", f"project {name.project!r} is not served here, only {served!r}"
            )
        return name
