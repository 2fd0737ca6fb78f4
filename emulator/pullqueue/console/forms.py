"""Forms: their values, the errors in them, and the result, which the next page shows once."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from flask import redirect, request, url_for
from werkzeug.wrappers import Response

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.errors import PullQueueError
from pullqueue.resources.models import FIELD_OF_ERROR
from pullqueue.runtime.state import TOKEN_FIELD

_MAX_WAITING = 100


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """A move of the clock that goes on."""

    target: str
    """The time that it has to reach."""
    passed: float
    span: float
    """How many seconds have passed, and of how many."""


@dataclass(frozen=True, kw_only=True)
class Notice:
    """The result of a form."""

    text: str
    is_error: bool = False
    link: str = ""
    """Address of the page that the text links to."""
    details: Sequence[str] = ()
    """Lines after the text."""
    move: Unfinished | None = None
    form: str = ""
    """Name of the form that was refused."""
    values: Mapping[str, str] = field(default_factory=dict)
    """The text of each field."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """The error of each field that is not valid."""


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
            while len(self._waiting) > _MAX_WAITING:
                del self._waiting[next(iter(self._waiting))]
        return key

    def take(self, key: str | None) -> Notice | None:
        """Return a notice and remove it."""
        with self._lock:
            return self._waiting.pop(key or "", None)


class FormError(ApiError):
    """fields of a form are not valid"""

    def __init__(self, errors: Mapping[str, str]) -> None:
        """Keep the error of each field; "" means the whole form."""
        self.errors = errors
        super().__init__(next(iter(errors.values())))


class Form:
    """The form of the current request."""

    def __init__(self) -> None:
        # Several choices of one field are joined: they are names of queues, without blanks.
        self.values = {name: " ".join(texts) for name, texts in request.form.lists()}

    def text(self, name: str) -> str:
        """Return the text of a field."""
        return self.values.get(name, "").strip()

    def given(self, *names: str) -> Json:
        """Return the fields that are not empty, as texts; operations convert numbers."""
        return {name: text for name in names if (text := self.text(name))}


def carry_out(notices: Notices, action: Callable[..., Notice | str], **values: str) -> Response:
    """Carry out a form and redirect to its page, which shows the result or the errors."""
    form = Form()
    try:
        result = action(form, **values)
        notice = Notice(text=result) if isinstance(result, str) else result
    except PullQueueError as error:
        location = (
            error.location if isinstance(error, ApiError) else FIELD_OF_ERROR.get(type(error))
        )
        errors = {location: str(error)} if location in form.values else {}
        errors = dict(error.errors) if isinstance(error, FormError) else errors
        text = str(error) if len(errors) < 2 else f"{len(errors)} fields are wrong."
        kept = {name: value for name, value in form.values.items() if name != TOKEN_FIELD}
        notice = Notice(text=text, is_error=True, form=action.__name__, values=kept, errors=errors)
    back = urlsplit(request.form.get("back", ""))
    home = url_for("console.queues")
    path = back.path if back.path.startswith(home) else home
    query = f"{back.query}&" if back.query else ""
    return redirect(f"{path}?{query}notice={notices.put(notice)}", 303)
