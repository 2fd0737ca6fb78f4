"""Enough threads for those who wait, whatever some clients do to others."""

from __future__ import annotations

import threading
from typing import Any

FREE = 10
"""Workers that no slow client holds."""
MOST = 256
"""All workers together."""

_LOOK_SECONDS = 0.05
_CALM_LOOKS = 20
"""How often in a row there was nothing to do before workers are sent away."""


class Workers:
    """Adds a worker for each that is held up by a client that sends or reads slowly, or not at all.

    A worker is held up when it is still at the request it was at a while ago. Cheroot ends such a
    request after ten seconds without a byte.
    """

    def __init__(self, pool: Any) -> None:  # noqa: ANN401 - its stubs lack the half of cheroot's pool
        self._pool = pool
        self._seen: dict[int, tuple[int, int]] = {}
        self._calm = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pullqueue-workers", daemon=True)

    def start(self) -> None:
        """Begin to look after the workers."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the workers alone."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        """Count those that are held up since the last look, and make good for them.

        Where all are, the requests that wait may be of the same kind: there is one more for each.
        """
        self._pool._clear_dead_threads()  # noqa: SLF001 - else done only when some are sent away
        workers = self._pool._threads  # noqa: SLF001 - it has no other way to see them
        work = {
            id(worker): (id(connection), connection.requests_begun)
            for worker in list(workers)
            if (connection := worker.conn) is not None
        }
        held = sum(1 for worker, what in work.items() if self._seen.get(worker) == what)
        self._seen = work
        waiting = self._pool.qsize if held >= len(workers) else 0
        for _ in range(min(FREE + held + waiting, MOST) - len(workers)):
            # Not by `grow`: it waits in steps of a tenth of a second.
            workers.append(self._pool._spawn_worker())  # noqa: SLF001
        self._calm = 0 if work or waiting else self._calm + 1
        if self._calm >= _CALM_LOOKS and len(workers) > FREE:
            # Only now: a worker that is told to go while requests wait would be missed by them.
            self._pool.shrink(len(workers) - FREE)
