"""The connections of a PostgreSQL store: a bounded number, opened when they are first needed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from pullqueue.stores.postgres_session import PostgresSession


class Pool:
    """Lends each session to one operation at a time, the one that was used last before others.

    SQLAlchemy's pool does the same, for any driver and with more to say on the way; that took a
    tenth of what a lease costs here.
    """

    def __init__(
        self, make: Callable[[], PostgresSession], *, size: int, wait_seconds: float
    ) -> None:
        """Take what opens a session, how many there may be, and how long to wait for one."""
        self._make = make
        self._size = size
        self._wait_seconds = wait_seconds
        self._idle: deque[PostgresSession] = deque()
        self._free = threading.Semaphore(size)
        self._is_closed = False

    def take(self) -> PostgresSession:
        """Give a session that is connected; one that the server has left is passed over.

        Raises:
            TimeoutError: all are in use, and remain so.
        """
        if not self._free.acquire(timeout=self._wait_seconds):
            raise TimeoutError(
                f"all {self._size} connections were in use for {self._wait_seconds} seconds "
                "(?connections=NUMBER permits more)"
            )
        try:
            while (session := self._popped()) is not None:
                if session.is_connected():
                    return session
                session.close()
            return self._make()
        except BaseException:
            self._free.release()
            raise

    def give_back(self, session: PostgresSession) -> None:
        """Take a session back, or let it go if it was interrupted in the middle of something."""
        if session.is_idle:
            self._idle.append(session)
        else:
            session.close()
        self._free.release()
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Close all sessions that nobody uses, and the others when they are given back."""
        self._is_closed = True
        while (session := self._popped()) is not None:
            session.close()

    def _popped(self) -> PostgresSession | None:
        # Not looked for first: another thread could take the last one in between.
        try:
            return self._idle.pop()
        except IndexError:
            return None
