"""The only way from the console to the server: the operations of the control routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from pullqueue.api.encoding import Json
from pullqueue.clock import ManualClock, from_usec
from pullqueue.control.operations import call
from pullqueue.control.state import ServerState
from pullqueue.limits import Limits


class Control:
    """Calls operations in process, as their routes do."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self.token = state.token
        """The token that the forms contain."""

    @property
    def limits(self) -> Limits:
        """The limits of the emulator."""
        return self._state.emulator.limits

    def surroundings(self) -> dict[str, Json]:
        """Return what a page shows of configuration and clock if the store does not respond."""
        emulator, file = self._state.emulator, self._state.config_file
        return {
            "config": {
                "file": emulator.config.file,
                "problem": None if file is None else file.problem,
            },
            "clock": {
                "now": from_usec(emulator.clock.now_usec()).isoformat(),
                "manual": isinstance(emulator.clock, ManualClock),
            },
        }

    def ask(
        self,
        operation_id: str,
        /,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        **path: str,
    ) -> Json:
        """Carry out an operation and return its result.

        Raises:
            PullQueueError: it is refused.
        """
        result = call(self._state, operation_id, path=path, query=query, body=body or {})
        return cast("Json", msgspec.to_builtins(result))  # no page asks for text
