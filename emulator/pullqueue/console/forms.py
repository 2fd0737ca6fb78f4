"""Forms: what was filled in, what is wrong with it, and the result, shown once on the next page."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

from flask import redirect, request
from werkzeug.wrappers import Response

from pullqueue.errors import PullQueueError

_KEPT = 100
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, kw_only=True)
class Notice:
    """The result of a form."""

    text: str
    is_error: bool = False
    link: str = ""
    """Address of what the text is about."""
    form: str = ""
    """Name of the form that was refused."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What was filled in."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """What is wrong, by field."""


class Notices:
    """Notices that wait for the next page of the browser that caused them."""

    def __init__(self) -> None:
        self._waiting: dict[str, Notice] = {}
        self._lock = threading.Lock()

    def put(self, notice: Notice) -> str:
        """Store a notice and return the key by which the next page takes it."""
        key = secrets.token_urlsafe(9)
        with self._lock:
            self._waiting[key] = notice
            while len(self._waiting) > _KEPT:
                del self._waiting[next(iter(self._waiting))]
        return key

    def take(self, key: str | None) -> Notice | None:
        """Return a notice, once."""
        with self._lock:
            return self._waiting.pop(key or "", None)


class FormError(Exception):
    """A form cannot be carried out."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        """Take what is wrong, by field; "" is the form as a whole."""
        self.errors = errors
        super().__init__(*errors.values())


class Form:
    """The form of the current request; collects what is wrong with its fields."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values = request.form.to_dict()
        self.errors: dict[str, str] = {}

    def text(self, name: str) -> str:
        """Return a field."""
        return self.values.get(name, "").strip()

    def number(
        self, name: str, kind: Callable[[str], _Number], *, least: float, most: float
    ) -> _Number | None:
        """Return a number; None if the field is empty or not valid."""
        text = self.text(name)
        if not text:
            return None
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            self.errors[name] = f"{text:.40} is not valid: use a number from {least:g} to {most:g}"
            return None
        return number

    def attempt(self, name: str, check: Callable[[], object]) -> None:
        """Record the error of a field that a check raises."""
        try:
            check()
        except PullQueueError as error:
            self.errors.setdefault(name, str(error))

    def check(self) -> None:
        """Raise FormError if any field is wrong."""
        if self.errors:
            raise FormError(self.errors)


def back_to(default: str, notice_key: str) -> Response:
    """Redirect to the page the form was on, if it names a page of the console, with a notice."""
    parts = urlsplit(request.form.get("back", ""))
    here = parts.path.startswith("/console/") and not (parts.scheme or parts.netloc)
    address = f"{parts.path}?{parts.query}" if here and parts.query else parts.path
    address = address if here else default
    return redirect(f"{address}{'&' if '?' in address else '?'}notice={notice_key}", 303)
