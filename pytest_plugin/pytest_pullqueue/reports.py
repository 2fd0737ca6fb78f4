"""What the reports of failed tests show: the queues of the test, and hints."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pullqueue import Emulator
    from pullqueue.testing import Emulation, Faults

EMULATOR: pytest.StashKey[Emulator] = pytest.StashKey()
"""The emulator of a test, while its fixture is there."""
CHECKS_OFF: pytest.StashKey[str] = pytest.StashKey()
"""Which checks of production are off in a test; empty: none is."""
WHY_NO_QUEUES: pytest.StashKey[str | None] = pytest.StashKey()
"""Why a test has the queue `default` only, without having asked for that."""
FROZEN = pytest.StashKey[bool]()
"""Whether `pullqueue_clock` has frozen time, and not the test."""
_PASSED = pytest.StashKey[bool]()
_TITLE = "pullqueue"
_HINTS = {
    rf"ScopeMismatch\b.* {_TITLE}_": (
        "the fixtures of pullqueue are made again for each test: in a fixture of a wider scope use "
        "`with pullqueue.testing.emulation(queues=[...]) as emulated: yield emulated`"
    ),
    "app must not be empty": (
        "App Engine has no application id in this test: use the fixture pullqueue_sdk"
    ),
    "time-machine cannot start when freezegun is active": (
        "pullqueue_clock has frozen time with freezegun before the decorator starts time-machine: "
        "use the fixture `time_machine` or @pytest.mark.time_machine(...) instead"
    ),
}
"""What to do about errors of others, by patterns of their messages."""

_FAKE_DATE = re.compile(r"(?s)(?!.*JSON serializable).*\bFakeDate(time)?\b")
_FAKE_DATE_HINT = "FakeDatetime is freezegun's datetime, which ndb and some databases refuse: "

_NO_STUB = re.compile(
    r"Attempted RPC call without active security ticket|No api proxy found for service \"(\w+)\""
)
_TASKQUEUE = re.compile("google.appengine.api.taskqueue")

_LOGGED = re.compile(r"^Traceback .*\n(?: .*\n)+(?:\w+\.)*(\w+)(?:: (.*))?", re.MULTILINE)
"""A traceback in a log: the class and the message of the exception."""

_NO_QUEUES_HINT = (
    "the only queue is `default`, since {}: name another file with the ini option "
    "pullqueue_config, @pytest.mark.pullqueue(config=...) or (queues=[...])"
)


def complete(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Add to the report of a failed test what helps to understand it."""
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    if report.failed:
        error = None if call.excinfo is None else call.excinfo.value
        message = "" if error is None else str(error)
        kind = "AssertionError" if isinstance(error, AssertionError) else type(error).__name__
        found = [(kind, message, "".join(traceback.format_exception(error)))]
        # Where a framework has logged it, a test client got no more than status 500.
        found += [(each[1], each[2] or "", each[0]) for each in _LOGGED.finditer(report.caplog)]
        hints = dict.fromkeys(hint for each in found for hint in _hints(item, *each))
        report.sections += [(_TITLE, hint) for hint in hints]
        states = [(name, state) for name, state in _states(item, message) if state]
        several = len(states) > 1
        report.sections += [(f"{_TITLE}: {name}" if several else _TITLE, s) for name, s in states]
    latest = _emulations()
    latest[:] = [emulation for emulation in latest if not emulation.has_ended]


def _hints(item: pytest.Item, kind: str, message: str, shown: str) -> Iterator[str]:
    """Yield what to do about an error, from its class, message and traceback."""
    foreign = "" if kind == "AssertionError" else message
    yield from (hint for pattern, hint in _HINTS.items() if re.match(pattern, foreign))
    if _FAKE_DATE.match(foreign):
        yield _FAKE_DATE_HINT + _other_freezer(item)
    if no_stub := _NO_STUB.match(message):
        yield _stub_hint(item, no_stub[1], shown)
    if kind == "UnknownQueueError" and (why := item.stash.get(WHY_NO_QUEUES, None)) is not None:
        yield _NO_QUEUES_HINT.format(why)


def _stub_hint(item: pytest.Item, service: str | None, shown: str) -> str:
    """Return what to do about an error of a service that has no stub; None: it names none."""
    if service == "taskqueue" or (service is None and _TASKQUEUE.search(shown)):
        return "taskqueue has no stub in this test: use the fixture pullqueue_sdk"
    listed = str(item.config.getini("pullqueue_services") or "")
    advice = f"add it to the ini option, pullqueue_services = {service or 'datastore_v3 memcache'}"
    if "pullqueue_sdk" not in getattr(item, "fixturenames", ()):
        is_listed = listed and (service or "") in listed
        advice = "use the fixture pullqueue_sdk" + ("" if is_listed else f", and {advice}")
    return (
        "the app called a service of App Engine that has no stub in this test: "
        f"{advice}, or set up a testbed"
    )


def _other_freezer(item: pytest.Item) -> str:
    """Return how a test that is frozen by freezegun is frozen by time-machine."""
    if item.stash.get(FROZEN, False):
        return (
            "set `pullqueue_freezer = time-machine` in the ini file, and pip install time-machine"
        )
    return (
        "the test freezes time itself, so do that with time-machine (pip install time-machine), or "
        "use the fixture pullqueue_clock and `pullqueue_freezer = time-machine`"
    )


def _states(item: pytest.Item, message: str) -> Iterator[tuple[str, str]]:
    """Yield name and state of each emulator of a test, without what the message shows."""
    emulator, off = item.stash.get(EMULATOR, None), item.stash.get(CHECKS_OFF, "")
    if emulator is not None:
        from pullqueue.testing.describing import describe_rest  # noqa: PLC0415 - is loaded
        from pullqueue.testing.freezing import frozen_as_last_seen  # noqa: PLC0415 - is loaded

        with frozen_as_last_seen(emulator.clock):
            state = describe_rest(emulator, message)
        yield "pullqueue_emulator", "\n".join(filter(None, (state, state and off)))
    for number, emulation in enumerate(_emulations(), 1):
        yield f"emulation {number}", emulation.describe(message)


def _emulations() -> list[Emulation]:
    module = sys.modules.get("pullqueue.testing.emulating")
    return [] if module is None else module.latest


def check_left(item: pytest.Item, emulator: Emulator, ignored: tuple[str, ...]) -> None:
    """Fail a test that has passed although it leaves due tasks in queues that are not ignored."""
    from pullqueue.testing.describing import describe_due  # noqa: PLC0415 - is loaded

    if item.stash.get(_PASSED, False) and (left := describe_due(emulator, ignored)):
        pytest.fail(f"left_tasks: the test leaves due tasks:\n{left}", pytrace=False)


def check_triggered(item: pytest.Item, faults: Faults) -> None:
    """Fail a test that has passed although a fault that is still set never triggered."""
    never = [f"  {fault}" for fault in faults.active if not fault.hits]
    passed = item.stash.get(_PASSED, False)
    if passed and never:
        pytest.fail("\n".join(["strict_faults: never triggered:", *never]), pytrace=False)
