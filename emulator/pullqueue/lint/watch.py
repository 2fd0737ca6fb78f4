"""Waiting for files to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

POLL_SECONDS = 0.5

State = dict[Path, tuple[int, int]]


def state_of(paths: Iterable[Path]) -> State:
    """Give what tells a changed file: time of change and size; files that are gone are left out."""
    state: State = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        state[path] = (status.st_mtime_ns, status.st_size)
    return state


def changes(
    paths: Callable[[], Iterable[Path]], wait: Callable[[float], object]
) -> Iterator[State]:
    """Give the state of the files now, and again whenever it changes."""
    state = state_of(paths())
    yield state
    while True:
        wait(POLL_SECONDS)
        now = state_of(paths())
        if now != state:
            state = now
            yield state
