"""Operations on the server as a whole: health, version, configuration, reset, clock."""

from __future__ import annotations

import platform
from dataclasses import asdict

import pullqueue
from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.clock import ManualClock
from pullqueue.control.operations import Answer, Call
from pullqueue.control.serializers import moment, moment_of, queue_json
from pullqueue.errors import ClockError, PullQueueError


def health(_call: Call) -> Answer:
    """Whether the process answers at all."""
    return Answer(body={"status": "ok"})


def ready(call: Call) -> Answer:
    """Whether every queue can be used: 200, or 503 and why not."""
    try:
        for queue in call.emulator.queues:
            queue.fetch_statistics()
    except PullQueueError as error:
        return Answer(body={"ready": False, "reason": str(error)}, status=503)
    return Answer(body={"ready": True, "reason": None})


def version(_call: Call) -> Answer:
    """What runs here."""
    return Answer(body={"version": pullqueue.__version__, "python": platform.python_version()})


def get_config(call: Call) -> Answer:
    """The configuration in force, and whether the file can be used as it is now."""
    file = call.state.config_file
    emulator = call.emulator
    now_usec = emulator.clock.now_usec()
    return Answer(
        body={
            "file": emulator.config.file,
            "reloadable": file is not None,
            "loaded": None if file is None else moment(file.loaded),
            "problem": None if file is None else file.problem,
            "project": emulator.project,
            "total_storage_limit": emulator.config.total_storage_limit_bytes,
            "bytes_stored": emulator.bytes_stored,
            "limits": emulator.limits._asdict(),
            "queues": [queue_json(queue, now_usec=now_usec) for queue in emulator.queues],
        }
    )


def reload(call: Call) -> Answer:
    """Read queue.yaml anew."""
    file = call.state.config_file
    if file is None:
        raise ApiError(
            "this server was not started from a queue.yaml, so there is none to read anew: start "
            "it with `pullqueue serve FILE`"
        )
    return Answer(body=asdict(file.reload(call.emulator)))


def reset(call: Call) -> Answer:
    """Forget everything but configuration and clock."""
    call.state.reset()
    return Answer(body={"reset": True})


def get_clock(call: Call) -> Answer:
    """What time it is, whether that can be changed, and when something changes by itself."""
    clock = call.emulator.clock
    return Answer(
        body={
            "now": moment(clock.now()),
            "manual": isinstance(clock, ManualClock),
            "next_change": moment(call.emulator.next_change()),
        }
    )


def move_clock(call: Call) -> Answer:
    """Move a manual clock."""
    clock = call.emulator.clock
    if not isinstance(clock, ManualClock):
        raise ApiError(
            "the clock is the system's and cannot be moved: start the emulator with --clock manual"
        )
    _move(clock, call.body)
    call.state.depths.sample()
    return get_clock(call)


def _move(clock: ManualClock, order: Json) -> None:
    match order:
        case {"advance": int() | float() as seconds}:
            clock.advance(seconds)
        case {"move_to": str() as text}:
            clock.move_to(moment_of(text, "move_to", ClockError))
        case _:
            raise ApiError(
                'the body says neither how far nor where to: send {"advance": SECONDS} or '
                '{"move_to": "2026-01-01T00:00:00Z"}'
            )
