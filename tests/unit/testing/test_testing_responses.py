"""When the response to the request of a push task was sent, and with which status."""

from __future__ import annotations

import asyncio
from typing import Any

from tables import each_row

from pullqueue.push.request import PushResponse
from pullqueue.testing.interrupt import HandlerKilled
from pullqueue.testing.points.actors import Actor
from pullqueue.testing.points.responses import _noting_end_of_asgi, noting_end

EARLIER = PushResponse(201)
"""Of the request before, as an app that sends one itself has them."""


@each_row(
    ("lines", "status"),
    [(["202 Accepted"], 202), (["200 OK", "500 Internal Server Error"], 500), ([], None)],
)
def test_the_last_status_of_a_wsgi_app_is_that_of_the_response(
    lines: list[str], status: int | None
) -> None:
    """An app can change it as long as nothing was sent; one without any is at fault."""
    actor, started = Actor("handler", HandlerKilled), list[Any]()
    actor.response = EARLIER
    seen: list[object] = []

    def app(_: object, start_response: Any) -> list[bytes]:
        seen.append(actor.response)
        for line in lines:
            start_response(line, [], None)
        return [b"a"]

    with actor.acting():
        parts = noting_end(app)({}, lambda *arguments: started.append(arguments))  # type: ignore[arg-type] # as it is called
        seen += [actor.response for _ in parts]

    assert started == [(line, [], None) for line in lines]
    assert seen == [None, None]
    assert getattr(actor.response, "status", None) == status


START, PART, END = "http.response.start", {"more_body": True}, {"more_body": False}


@each_row(
    ("kind", "status", "bodies", "inner", "seen"),
    [
        ("http", 202, [END], None, [None, None, 202]),
        ("http", 202, [{}], None, [None, None, 202]),
        ("http", 500, [PART, END], None, [None, None, None, 500]),
        ("http", 202, [END], 404, [None, None, 202]),
        ("websocket", 202, [END], None, [201, 201, 201]),
    ],
)
def test_the_last_part_of_the_outermost_asgi_app_is_the_end_of_the_response(
    kind: str, status: int, bodies: list[dict[str, Any]], inner: int | None, seen: list[int | None]
) -> None:
    """An app in it, such as one that is mounted or asked for something, ends none."""
    actor = Actor("handler", HandlerKilled)
    statuses: list[int | None] = []
    sent: list[dict[str, Any]] = []

    def note() -> None:
        statuses.append(actor.response and actor.response.status)

    async def discard(message: dict[str, Any]) -> None:
        """Send nothing."""

    async def app(_: object, scope: dict[str, Any], __: object, send: Any) -> None:
        status = scope["status"]
        if inner and status != inner:
            await noting(None, {"type": kind, "status": inner}, None, discard)
            assert actor.response is None
        messages = [{"type": START, "status": status}]
        for message in [*messages, *({"type": "http.response.body", **body} for body in bodies)]:
            if send is not discard:
                note()
            await send(message)

    noting = _noting_end_of_asgi(app)

    async def keep(message: Any) -> None:
        sent.append(message)

    async def handle_two() -> None:
        for _ in range(2):  # the second as the first, in the same context
            actor.response = EARLIER
            statuses.clear()
            sent.clear()
            await noting(None, {"type": kind, "status": status}, None, keep)
            note()

    with actor.acting():
        asyncio.run(handle_two())

    assert statuses == seen
    assert len(sent) == 1 + len(bodies)
