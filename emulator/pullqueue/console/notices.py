"""What the console says once, on the page that follows a form."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_KEPT = 100


class Notice(NamedTuple):
    """The result of a form."""

    text: str
    is_error: bool = False
    form: Mapping[str, str] = MappingProxyType({})
    """What was filled in, of a form that was refused."""


class Notices:
    """Notices that wait for the next page of the browser that caused them."""

    def __init__(self) -> None:
        self._waiting: dict[str, Notice] = {}
        self._lock = threading.Lock()

    def put(self, notice: Notice) -> str:
        """Keep a notice and give the key that the next page asks with."""
        key = secrets.token_urlsafe(9)
        with self._lock:
            self._waiting[key] = notice
            while len(self._waiting) > _KEPT:
                del self._waiting[next(iter(self._waiting))]
        return key

    def take(self, key: str | None) -> Notice | None:
        """Give a notice, once."""
        with self._lock:
            return self._waiting.pop(key or "", None)
