"""What is read from a client and what is written to it, in the place of cheroot's own streams.

Those are built on the part of the standard library that is written in Python, and cost far more.
"""

from __future__ import annotations

import socket
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


_LARGE_BYTES = 1 << 16
"""What is longer leaves in many packets anyway, and is better not copied."""


class _Incoming(RawIOBase):
    """What a client sends, as a file."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.pauses = False
        """Whether nothing is to be read: what was read before is all there is for now."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        return None if self.pauses else self._socket.recv_into(buffer)


class Reader(BufferedReader):
    """Reads requests."""

    def __init__(self, sock: socket.socket) -> None:
        self._incoming = _Incoming(sock)
        super().__init__(self._incoming)

    def has_data(self) -> bool:
        """Tell whether more was read than was asked for so far."""
        self._incoming.pauses = True
        try:
            return bool(self.peek(1))
        finally:
            self._incoming.pauses = False


class Writer:
    """Sends answers; headers wait for the body, so that both leave as one packet."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._holds = False
        self._held = b""

    def hold_next(self) -> None:
        """Keep what is written next until there is more; cheroot itself writes the headers."""
        self._holds = True

    def write(self, data: bytes) -> None:
        """Send bytes, and before them what was kept."""
        if self._holds:
            self._holds, self._held = False, data
            return
        held, self._held = self._held, b""
        if len(data) <= _LARGE_BYTES:
            data = held + data
        elif held:
            self._socket.sendall(held)
        self._socket.sendall(data)

    def flush(self) -> None:
        """Send what was kept."""
        if self._held:
            self.write(b"")


def stream(sock: socket.socket, mode: str, _size: int) -> Reader | Writer:
    """Give what reads from a socket, or what writes to it."""
    return Reader(sock) if "r" in mode else Writer(sock)
