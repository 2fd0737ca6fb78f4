"""Writes to a database that fail in `crash_test`: a handler that hides the error is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pullqueue import Emulator, Queue
from pullqueue.push.request import PushRequest
from pullqueue.testing import Crash, CrashTestError, crash_test


def assert_hidden_errors_are_found(
    emulator: Emulator,
    pushed: Queue,
    error: type[Exception],
    *,
    reset: Callable[[], object],
    write: Callable[[], object],
    value: Callable[[], int],
) -> None:
    """Check that a handler whose `write` of 1 fails gets an error, and may not ignore it."""
    raised: set[type[Exception]] = set()

    def setup() -> None:
        reset()
        pushed.add(name="one")

    def careful(_: PushRequest) -> int:
        write()
        return 200

    def careless(_: PushRequest) -> int:
        try:
            write()
        except Exception as failure:  # noqa: BLE001 - as in bad code
            raised.add(type(failure))
        return 200

    def check() -> None:
        assert value() == 1

    crash_test(emulator, setup=setup, check=check, send=careful, errors=True)
    with pytest.raises(CrashTestError) as caught:
        crash_test(emulator, setup=setup, check=check, send=careless, errors=True)
    assert {failure.crash for failure in caught.value.failures} == {Crash.ERROR}
    assert any(issubclass(each, error) for each in raised), raised
