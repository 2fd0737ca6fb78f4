"""When the response to a push task has been sent: what its handler does then is not retried.

Of a WSGI app that is the end of its iterable, before `close`; of an app of Starlette or FastAPI its
last `http.response.body`, before its background tasks. Of others it is the end of the request.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextvars import ContextVar
from functools import wraps
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from pullqueue.push.request import PushResponse
from pullqueue.testing.patching import Patches
from pullqueue.testing.points.actors import current_actor

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_Message: TypeAlias = MutableMapping[str, Any]
_Asgi: TypeAlias = Callable[..., Awaitable[None]]

_is_handling: ContextVar[bool] = ContextVar("is_handling", default=False)


def is_handling() -> bool:
    """Return whether an app of Starlette calls this while it handles a request."""
    return _is_handling.get()


def note_response(response: PushResponse | None) -> None:
    """Note what the current actor has sent; None: it begins to handle a request."""
    actor = current_actor()
    if actor is not None and not actor.has_ended:
        actor.response = response


def note_end() -> None:
    """Note that a request of a client has ended."""
    actor = current_actor()
    if actor is not None and actor.response is None:
        actor.hides_response = True


def noting_end(app: WSGIApplication) -> WSGIApplication:
    """Return a WSGI app that notes when its response has been sent."""
    from werkzeug.wsgi import ClosingIterator  # noqa: PLC0415 - only in tests

    def handle(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        lines: list[str] = []

        def start(line: str, /, *args: Any) -> Callable[[bytes], object]:  # noqa: ANN401 - passed on
            lines.append(line)
            return start_response(line, *args)

        def end() -> Iterator[bytes]:
            note_response(PushResponse(int(lines[-1].partition(" ")[0])) if lines else None)
            yield from ()

        note_response(None)
        parts = app(environ, start)
        close = getattr(parts, "close", None)
        return ClosingIterator(chain(parts, end()), close and [close])

    return handle


def _noting_end_of_asgi(call: _Asgi) -> _Asgi:
    @wraps(call)
    async def handle(app: object, scope: _Message, receive: object, send: _Asgi) -> None:
        if scope["type"] != "http" or is_handling():  # or it is mounted in another app
            await call(app, scope, receive, send)
            return
        statuses: list[int] = []

        async def send_noted(message: _Message) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
            elif message["type"] == "http.response.body" and not message.get("more_body"):
                note_response(PushResponse(statuses[-1]))

        note_response(None)
        token = _is_handling.set(True)
        try:
            await call(app, scope, receive, send_noted)
        finally:
            _is_handling.reset(token)

    return handle


@Patches
def following_responses(patches: Patches) -> None:
    """Notes, in a block, when apps have sent their responses."""
    if "starlette.applications" in sys.modules:
        from starlette.applications import Starlette  # noqa: PLC0415 - is loaded

        patches.decorate(Starlette, "__call__", _noting_end_of_asgi)
