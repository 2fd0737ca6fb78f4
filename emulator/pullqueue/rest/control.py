"""The emulator's own routes, under `/_emulator/`: the clock."""

from __future__ import annotations

from datetime import datetime

from flask import Flask, Response, request

from pullqueue.clock import ManualClock
from pullqueue.engine.emulator import Emulator
from pullqueue.errors import ClockError
from pullqueue.rest import answers, bodies
from pullqueue.rest.answers import Json
from pullqueue.rest.errors import ApiError

PREFIX = "/_emulator"


def install(app: Flask, emulator: Emulator) -> None:
    """Add the routes to an app."""

    def show_clock() -> Response:
        return _clock_response(emulator)

    def move_clock() -> Response:
        clock = emulator.clock
        if not isinstance(clock, ManualClock):
            raise ApiError(
                "the clock is the system's and cannot be moved: start the emulator with "
                "--clock manual"
            )
        _move(clock, bodies.as_json(request, bodies.read(request)))
        return _clock_response(emulator)

    app.add_url_rule(f"{PREFIX}/clock", view_func=show_clock, methods=["GET"])
    app.add_url_rule(f"{PREFIX}/clock", view_func=move_clock, methods=["POST"])


def _move(clock: ManualClock, order: Json) -> None:
    match order:
        case {"advance": int() | float() as seconds}:
            clock.advance(seconds)
        case {"move_to": str() as text}:
            clock.move_to(_moment(text))
        case _:
            raise ApiError(
                'the body says neither how far nor where to: send {"advance": SECONDS} or '
                '{"move_to": "2026-01-01T00:00:00Z"}'
            )


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ClockError(
            f"move_to is {text!r:.100}: give a moment such as 2026-01-01T00:00:00Z"
        ) from None


def _clock_response(emulator: Emulator) -> Response:
    answer: Json = {
        "now": emulator.clock.now().isoformat(),
        "manual": isinstance(emulator.clock, ManualClock),
    }
    return Response(answers.pretty(answer), content_type=answers.JSON_TYPE)
