"""Checks of what tests pass to the helpers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias, get_args

from pullqueue.config.model import QueueMode
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.text import is_integer, is_number, quoted

_WRONG_MODE = {
    QueueMode.PULL: "no worker can lease its tasks; pass pull queues only",
    QueueMode.PUSH: "its tasks are not sent to an app; pass push queues only",
}

SelectQueues: TypeAlias = Callable[[], list[Queue]]
"""Returns the queues of a run; asked each time, since a program can create more."""
Errors: TypeAlias = Literal["raise", "strict", "retry"]
ERRORS: tuple[str, ...] = get_args(Errors)
"""What an error of a handler does to the test."""
Severity: TypeAlias = Literal["error", "warn", "ignore"]
SEVERITIES: tuple[str, ...] = get_args(Severity)
"""What a finding does to the test."""
SYNC_SEND = (
    "pass a function that returns the response, as with a synchronous test client, or lambda "
    "request: asyncio.run(...); in an asynchronous test `await asyncio.to_thread(run_tasks, "
    "emulator, send=...)`"
)
"""What to pass instead of an asynchronous `send`."""


def check_is_emulator(emulator: object, *, then: str = "worker") -> None:
    """Raise a TypeError if the first argument is something else, such as a queue."""
    if not isinstance(emulator, Emulator):
        raise TypeError(
            f"{quoted(emulator)} is not an Emulator: pass the emulator, then the {then}"
        )


def check_actor(actor: object) -> None:
    """Raise a TypeError unless an actor, such as a worker, can be called without arguments."""
    try:
        inspect.signature(actor).bind()  # type: ignore[arg-type] # what cannot be called, too
    except ValueError:
        return  # a builtin function
    except TypeError:
        raise TypeError(
            f"{quoted(actor)} cannot be called without arguments: pass a function, such as a "
            "worker; pass a WSGI app as app="
        ) from None


def check_queue(queue: object) -> Queue:
    """Return a queue, or raise a TypeError if it is something else."""
    if not isinstance(queue, Queue):
        name = queue if isinstance(queue, str) else getattr(queue, "name", "NAME")
        raise TypeError(f"{quoted(queue)} is not a Queue: pass emulator.queue({quoted(name)})")
    return queue


def check_pull_queue(queue: object) -> Queue:
    """Return a pull queue, or raise an InvalidQueueModeError or a TypeError."""
    checked = check_queue(queue)
    if checked.is_push:
        raise checked.wrong_mode("its tasks are never leased; send them with run_tasks()")
    return checked


def find_queue(emulator: Emulator, queue: Queue | str) -> Queue:
    """Return a queue by its name, or the queue itself."""
    return queue if isinstance(queue, Queue) else emulator.queue(queue)


def select_queues(
    emulator: Emulator, queues: Iterable[Queue | str] | None, *, modes: tuple[QueueMode, ...]
) -> SelectQueues:
    """Return what returns the queues that a test has named; None: all queues of these modes.

    Those are also the queues that `setup`, a worker or a handler creates later.

    Raises what `run_tasks` says of `queues`.
    """
    if queues is None:
        return lambda: [queue for queue in emulator.queues if queue.mode in modes]
    if isinstance(queues, str | Queue):
        raise TypeError(f"queues is {quoted(queues)}: pass a list, queues=[{quoted(queues)}]")
    selected = [find_queue(emulator, queue) for queue in queues]
    if not selected:
        kind = " or ".join(mode.value for mode in modes)
        raise ValueError(f"queues is empty: pass at least one queue, or None for all {kind} queues")
    for queue in selected:
        if queue.mode not in modes:
            raise queue.wrong_mode(_WRONG_MODE[modes[0]])
    return lambda: selected


def check_numbers(least: int, /, **arguments: object) -> None:
    """Raise a ValueError unless arguments are whole numbers that are not too small."""
    for name, value in arguments.items():
        if not is_integer(value) or value < least:
            raise ValueError(f"{name} is {quoted(value)}: use a whole number, {least} or more")


def check_seconds(**arguments: object) -> None:
    """Raise a ValueError unless arguments are times in seconds that are longer than none."""
    for name, value in arguments.items():
        if not is_number(value) or not value > 0:
            raise ValueError(f"{name} is {quoted(value)}: use a number above 0")


def check_choices(allowed: tuple[str, ...], /, **arguments: object) -> None:
    """Raise a ValueError unless arguments have one of the allowed values."""
    for name, value in arguments.items():
        if value not in allowed:
            *others, last = map(quoted, allowed)
            raise ValueError(f"{name} is {quoted(value)}: use {', '.join(others)} or {last}")


def check_flags(**arguments: object) -> None:
    """Raise a TypeError if the value of an argument is neither True nor False."""
    for name, value in arguments.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} is {quoted(value)}: use True or False")


def refuse_lazy(result: object, name: str) -> None:
    """Raise a TypeError if a function of the test returned its work instead of doing it.

    That is a coroutine or another awaitable, or a generator.
    """
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()  # or Python would warn that it was never awaited
    if inspect.isawaitable(result):
        if name == "send":
            raise TypeError(f"send returned {quoted(result)}, which was not awaited: {SYNC_SEND}")
        raise TypeError(
            f"the {name} returned {quoted(result)}, which was not awaited: "
            f"{'use `await drain_async(...)`, or ' if name == 'worker' else ''}"
            f"pass lambda: asyncio.run({name}())"
        )
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(
            f"the {name} returned {quoted(result)}, which was not iterated: iterate it, as with "
            f"lambda: list({name}())"
        )
