"""Forms: what was filled in, what is wrong with it, and the result, shown once on the next page."""

from __future__ import annotations

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


class Form:
    """The form of the current request."""

    def __init__(self) -> None:
        # The choices of one field are names, without blanks.
        self.values = {name: " ".join(texts) for name, texts in request.form.lists()}

    def text(self, name: str) -> str:
        """Return a field."""
        return self.values.get(name, "").strip()

    def given(self, *names: str) -> Json:
        """Return the fields that are not empty, as texts; operations convert numbers."""
        return {name: text for name in names if (text := self.text(name))}


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
