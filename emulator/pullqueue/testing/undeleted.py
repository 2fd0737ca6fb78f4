"""Tasks that workers lease and never delete, so that production would lose their work."""

from __future__ import annotations

import warnings
from collections import Counter

from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.tasks import count_tasks
from pullqueue.testing.arguments import SelectQueues, Severity
from pullqueue.testing.describing import describe
from pullqueue.text import quoted

_RESULTS = {
    "exhausted": "leased as often as is permitted, never deleted, and exhausted",
    "leased": "leased, and not deleted when all actors had ended",
}
"""What happened to a task, by its state."""


class Undeleted:
    """The pull tasks that workers lease, and do not delete, from when this is made."""

    def __init__(self, emulator: Emulator, queues: SelectQueues) -> None:
        self._emulator = emulator
        self._queues = queues
        self._before = self._count()
        self._found: list[str] | None = None
        self._state = ""

    def look(self) -> None:
        """Find those that there are now; without this call, `report` does it."""
        found = self._count() - self._before
        self._found = [
            f"{count_tasks(count)} of queue {quoted(name)} {'was' if count == 1 else 'were'} {what}"
            for state, what in _RESULTS.items()
            for (name, each), count in found.items()
            if each == state
        ]
        self._state = describe(self._emulator) if found else ""

    def report(self, who: str, option: str, severity: Severity) -> None:
        """Warn of what was found, at the line that called `who`, or raise an AssertionError.

        `option` is the argument for a test that expects it.
        """
        if self._found is None:
            self.look()
        if not self._found or severity == "ignore":
            return
        message = f"{who}: {' and '.join(self._found)}; pass {option} if the test expects that"
        if severity == "error":
            raise AssertionError(f"{message}\n{self._state}")
        warnings.warn(message, stacklevel=3)

    @bypass_interceptors()
    def _count(self) -> Counter[tuple[str, str]]:
        return Counter(
            {
                (queue.name, state): getattr(queue.fetch_statistics(), state)
                for queue in self._queues()
                for state in _RESULTS
                if not queue.is_push
            }
        )
