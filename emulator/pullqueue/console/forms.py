"""Forms: what was filled in, what is wrong with it, and the result, shown once on the next page."""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from flask import redirect, request
from werkzeug.wrappers import Response

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.control.state import TOKEN_FIELD
from pullqueue.errors import PullQueueError
from pullqueue.limits import Limits

_KEPT = 100


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


class FormError(ApiError):
    """fields of a form are not valid"""

    def __init__(self, errors: Mapping[str, str]) -> None:
        """Take what is wrong, by field; "" is the form as a whole."""
        self.errors = errors
        super().__init__(next(iter(errors.values())))


_NUMBERS: Mapping[str, tuple[type[int | float], float, float]] = {
    "count": (int, 1, 10_000),
    "countdown": (float, 0, Limits().eta_seconds_ahead),
    "lease_seconds": (float, 0, Limits().lease_seconds),
    "max_tasks": (int, 1, Limits().tasks_per_lease),
    "by": (float, 0, 1e9),
    "seconds": (float, 0, 1e9),
    "times": (int, 1, 1e9),
    "after": (int, 0, 1e9),
    "every": (int, 1, 1e9),
    "seed": (int, 0, 1e9),
    "probability": (float, 0, 1),
}
"""The fields that are numbers: type, least and greatest value."""


class Form:
    """The form of the current request; collects what is wrong with its fields."""

    def __init__(self) -> None:
        self.values = request.form.to_dict()
        self.errors: dict[str, str] = {}

    def text(self, name: str) -> str:
        """Return a field."""
        return self.values.get(name, "").strip()

    def given(self, *names: str) -> Json:
        """Return the fields that are not empty, numbers as such.

        Raises:
            FormError: one is not valid, or `errors` has something already.
        """
        found: Json = {name: text for name in names if (text := self.text(name))}
        for name in found.keys() & _NUMBERS.keys():
            kind, least, most = _NUMBERS[name]
            try:
                found[name] = kind(text := found[name])
            except ValueError:
                found[name] = math.nan
            if not least <= found[name] <= most:
                allowed = f"a {'whole ' * (kind is int)}number from {least} to {most:.15g}"
                self.errors[name] = f"{text:.40} is not valid: use {allowed}"
        if self.errors:
            raise FormError(self.errors)
        return found


def carry_out(notices: Notices, action: Callable[..., Notice | str], **values: str) -> Response:
    """Carry out a form and redirect to the page it was on, with the result or what is wrong."""
    form = Form()
    try:
        result = action(form, **values)
        notice = Notice(text=result) if isinstance(result, str) else result
    except PullQueueError as error:
        field = str(error).partition(" ")[0]  # of messages such as "eta is ..."
        errors = {field: str(error)} if field in form.values else {}
        errors = dict(error.errors) if isinstance(error, FormError) else errors
        text = str(error) if len(errors) < 2 else f"{len(errors)} fields are wrong."
        kept = {name: value for name, value in form.values.items() if name != TOKEN_FIELD}
        notice = Notice(text=text, is_error=True, form=action.__name__, values=kept, errors=errors)
    back = urlsplit(request.form.get("back", ""))
    path = back.path if back.path.startswith("/console/") else "/console/"
    query = f"{back.query}&" if back.query else ""
    return redirect(f"{path}?{query}notice={notices.put(notice)}", 303)
