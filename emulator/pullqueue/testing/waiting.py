"""Ending a worker whose first thread waits for threads that were ended, as nothing else does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from types import FrameType
from typing import NoReturn

from pullqueue.testing.place import Place, calling_place

PATIENCE_SECONDS = 10.0
"""How long a worker may do nothing at least, after a thread of it was ended, until it is ended."""
_AGAIN_SECONDS = 0.01
"""The same where it has caught that."""
_SIGNAL: int = getattr(signal, "SIGURG", 0)
"""It interrupts a wait of any kind, and is ignored where nobody handles it. 0: there is none, as on
Windows."""


class WaitingWorker:
    """Ends a worker whose first thread does nothing any more once another thread was ended.

    Where the worker does not run in Python's first thread, which gets all signals, it is not ended.
    """

    def __init__(self, stop: Callable[[], NoReturn]) -> None:
        """`stop` raises in this thread what ends a worker."""
        self._stop = stop
        self.was_ended = False
        self._place: Place | None = None
        """Where it was then, if that is known."""
        self._calls = 0
        self._over = threading.Event()
        """Set while the worker is not watched."""
        self._over.set()
        self._watcher: threading.Thread | None = None
        self._mutex = threading.Lock()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Run the worker in the block."""
        if not _SIGNAL or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._over.clear()
        before = signal.signal(_SIGNAL, self._end)
        try:
            try:
                yield
            finally:
                self._over.set()
        finally:
            self._over.set()  # again, as it can be interrupted just before that
            with self._mutex:
                watcher, self._watcher = self._watcher, None
            if watcher is not None:
                watcher.join()
            signal.signal(_SIGNAL, before or signal.SIG_DFL)  # None: it was not set in Python

    def describe(self) -> str:
        """Return why it was ended."""
        place = f" ({self._place})" if self._place else ""
        return (
            f"the worker called no queue for {PATIENCE_SECONDS:g} seconds{place} after a thread of "
            "it was ended, since nothing was left to do: if it waits for its threads, pass the "
            "function of one"
        )

    def note_call(self) -> None:
        """Note that the worker does something."""
        self._calls += 1

    def note_end(self) -> None:
        """Note that this thread ends; if it is not the first, watch what that does."""
        if threading.current_thread() is threading.main_thread():
            return
        with self._mutex:
            if self._watcher is None and not self._over.is_set():
                self._watcher = threading.Thread(target=self._watch, daemon=True)
                Context().run(self._watcher.start)  # nobody's: an empty context has no actor

    def _watch(self) -> None:
        calls, patience = self._calls, PATIENCE_SECONDS
        while not self._over.wait(patience):
            if calls == self._calls:
                signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)
                patience = _AGAIN_SECONDS
            calls = self._calls

    def _end(self, _: int, frame: FrameType | None) -> None:
        if not self._over.is_set():
            if not self.was_ended:
                self.was_ended, self._place = True, calling_place(frame)
            self._stop()
