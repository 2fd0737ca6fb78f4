"""The mails that apps have sent, which a server keeps instead of sending them."""

from __future__ import annotations

import threading
from collections import deque
from itertools import count
from typing import Annotated, Final

from msgspec import field, json

from pullqueue.limits import MIB
from pullqueue.structs import Count, Model, Time, about

KEPT: Final = 1_000
_KEPT_BYTES = 16 * MIB
"""Size of all mails together; beyond it the oldest mails are dropped."""


class Attachment(Model):
    """A file of a mail, whose contents are not kept."""

    name: str
    bytes: Count


class ListedMail(Model, kw_only=True):
    """A mail without its bodies."""

    number: Count = 0
    time: Time = ""
    sender: str
    to: Annotated[list[str], about("Empty: the administrators of the app.")]
    cc: list[str] = field(default_factory=list)
    bcc: list[str] = field(default_factory=list)
    reply_to: str | None = None
    subject: str
    attachments: list[Attachment] = field(default_factory=list)


class Mail(ListedMail, kw_only=True):
    """A mail."""

    text: str | None = None
    html: str | None = None

    @property
    def memory(self) -> int:
        """How many bytes it takes, approximately."""
        return len(json.encode(self))


class MailLog:
    """The latest thousand mails. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mails: deque[Mail] = deque()
        self._numbers = count(1)
        self._bytes = 0

    def add(self, mail: Mail, time: str) -> None:
        """Keep a mail, to which its number and time are added."""
        with self._lock:
            mail.number, mail.time = next(self._numbers), time
            self._mails.append(mail)
            self._bytes += mail.memory
            while len(self._mails) > KEPT or self._bytes > _KEPT_BYTES:
                self._bytes -= self._mails.popleft().memory

    def latest(self) -> list[Mail]:
        """Return the mails, the latest first."""
        with self._lock:
            return list(reversed(self._mails))

    def clear(self) -> None:
        """Delete the mails; their numbers are not used again."""
        with self._lock:
            self._mails.clear()
            self._bytes = 0
