"""One call of a method: what its function needs to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pullqueue.cloudtasks.names import ResourceName
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue

if TYPE_CHECKING:
    from pullqueue.control.state import ServerState


class Call(NamedTuple):
    """One call, its resource resolved and its caller permitted to make it."""

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
