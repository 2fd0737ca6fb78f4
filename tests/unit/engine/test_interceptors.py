"""pullqueue.engine.interceptors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from pullqueue import Emulator, ManualClock, NewTask
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.engine import verbs
from pullqueue.engine.events import Interface, Origin
from pullqueue.engine.interceptors import (
    VERBS,
    Caller,
    Interceptors,
    QueueCall,
    Touched,
    amend_origin,
    bypass_interceptors,
    call_deadline,
    called_by,
    current_origin,
)

CONFIG = QueueConfig(queues=(QueueSettings(name="q", mode=QueueMode.PULL),))


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    """Return an emulator of one pull queue."""
    return Emulator(CONFIG, clock=clock)


@pytest.fixture
def calls(emulator: Emulator) -> list[QueueCall]:
    """Return the calls of that emulator, as an interceptor sees them."""
    seen: list[QueueCall] = []

    def note(call: QueueCall, proceed: Callable[[], object]) -> object:
        seen.append(call)
        return proceed()

    emulator.interceptors.add(note)
    return seen


class Watcher:
    """Notes the calls it lets through, and what they answered."""

    def __init__(self, seen: list[str], name: str = "") -> None:
        self.seen = seen
        self.name = name

    def __call__(self, call: QueueCall, proceed: Callable[[], object]) -> object:
        self.seen.append(f"{self.name}>{call.queue.name}.{call.method}")
        answer = proceed()
        self.seen.append(f"<{self.name}")
        return answer


def test_an_interceptor_sees_calls_with_arguments_and_the_caller_the_answer(
    emulator: Emulator, calls: list[QueueCall]
) -> None:
    queue = emulator.queue("q")
    queue.add(name="one")
    leased = verbs.lease(queue, 60, 5, group_by_tag=True)

    assert [task.name for task in leased.tasks] == ["one"]
    assert [call.method for call in calls] == ["insert", "lease"]
    assert (calls[1].arguments, calls[1].options) == ((60, 5), {"group_by_tag": True})


def test_an_interceptor_sees_verb_and_deadline(emulator: Emulator) -> None:
    queue = emulator.queue("q")
    queue.add()
    (task,) = queue.lease_tasks(60, 1)
    seen: list[tuple[str, int | None]] = []

    def note(call: QueueCall, proceed: Callable[[], object]) -> object:
        seen.append((call.verb, call.deadline_usec))
        return proceed()

    emulator.interceptors.add(note)
    verbs.acknowledge(queue, task.name, expected_eta_usec=task.eta_usec)
    with call_deadline(5):
        queue.add()
    queue.add()

    assert seen == [("delete_tasks", None), ("add", 5), ("add", None)]


def test_the_calls_that_can_be_intercepted(emulator: Emulator, calls: list[QueueCall]) -> None:
    """Each of `VERBS` is what a call of a queue is known by; an attempt is made by `push/`."""
    queue = emulator.queue("q")
    queue.add(name="one")
    queue.lease_tasks(60, 1)
    queue.lease_tasks_by_tag(60, 1)
    verbs.modify_lease(queue, "one", 60)
    queue.delete_tasks("none")
    queue.fetch_statistics()
    queue.get_task("one")
    queue.list_tasks()
    queue.purge()

    assert sorted([*(call.verb for call in calls), "attempt"]) == sorted(VERBS)


def test_the_last_that_was_added_is_passed_first(emulator: Emulator) -> None:
    """Each is passed before those that were there, and sees their answer."""
    seen: list[str] = []
    for name in "ab":
        emulator.interceptors.add(Watcher(seen, name))

    emulator.queue("q").purge()

    assert seen == ["b>q.purge", "a>q.purge", "<a", "<b"]


def test_only_some_interceptors_see_calls_that_bypass(emulator: Emulator) -> None:
    seen: list[str] = []
    emulator.interceptors.add(Watcher(seen, "fault"))
    emulator.interceptors.add(Watcher(seen, "record"), bypassed=False)

    with bypass_interceptors():
        emulator.queue("q").purge()

    assert seen == ["record>q.purge", "<record"]


def test_one_that_was_removed_or_installed_for_a_block_is_gone() -> None:
    interceptors = Interceptors()
    first, second = Watcher([]), Watcher([])
    interceptors.add(first)

    with suppress(ValueError), interceptors.installed(second):
        assert [*interceptors] == [second, first]
        interceptors.remove(first)
        interceptors.remove(first)
        assert [*interceptors] == [second]
        raise ValueError

    assert not interceptors


def test_what_this_process_does_itself_has_no_client() -> None:
    own = current_origin()
    amend_origin(client="somebody")

    assert current_origin() == own


def test_a_request_records_which_tasks_its_calls_are_about(emulator: Emulator) -> None:
    """The first names in the queue of the first call, and how many there are in all queues."""
    emulator.create_queue(QueueSettings(name="other", mode=QueueMode.PULL))
    q, other, touched = emulator.queue("q"), emulator.queue("other"), Touched()
    caller = Caller(Origin(Interface.REST), touched=touched)
    with called_by(caller):
        amend_origin(client="me")
        added = q.add_many([NewTask(name=f"n{number}") for number in range(15)])
        other.add()
        q.lease_tasks(60, 10)
        origin = current_origin()

    names = [task.name for task in added]
    assert (touched.queue_name, touched.count) == ("q", 26)
    assert touched.names == [*names, *names[:5]]
    assert (origin.who, str(caller)) == ("REST, me", "REST")
    assert (str(Caller(origin)), current_origin().who) == ("me", "Python")
