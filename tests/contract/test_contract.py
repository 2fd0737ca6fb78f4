"""What must hold whichever way a queue is used."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from interfaces import PUSH, STORAGE_LIMIT_BYTES, URL, Interface, PushInterface, Shown

from pullqueue import (
    InvalidQueueModeError,
    NameInUseError,
    OverQuotaError,
    TaskError,
    TaskLeaseExpiredError,
    UnknownQueueError,
)
from pullqueue.clock import to_usec

MINUTE = 60


def names(held: list[Shown]) -> list[str]:
    """Return the names of leased tasks."""
    return [task.name for task in held]


class TestAdd:
    def test_what_is_added_is_leased_as_it_was(self, interface: Interface) -> None:
        """A task comes back with its name, payload and tag, leased once."""
        interface.add(b"\x00work\xff", name="one", tag="red")

        (held,) = interface.lease(MINUTE, 10)

        assert (held.name, held.payload, held.tag) == ("one", b"\x00work\xff", "red")
        assert held.retry_count == 1
        assert held.eta_usec == interface.emulator.clock.now_usec() + MINUTE * 1_000_000

    def test_names_are_generated(self, interface: Interface) -> None:
        """Tasks without a name get different ones."""
        generated = {interface.add(b"") for _ in range(5)}

        assert len(generated) == 5
        assert set(names(interface.lease(MINUTE, 10))) == generated

    def test_an_eta_ahead_keeps_a_task_back(self, interface: Interface) -> None:
        """A task is not leased a microsecond before its eta, and is leased at it."""
        interface.add(b"", name="later", eta=interface.emulator.clock.now() + timedelta(seconds=10))

        interface.advance(9.999999)
        early = interface.lease(MINUTE, 10)
        interface.advance(0.000001)

        assert early == []
        assert names(interface.lease(MINUTE, 10)) == ["later"]

    def test_an_eta_too_far_ahead_is_refused(self, interface: Interface) -> None:
        """More than 30 days ahead is too far."""
        too_far = interface.emulator.clock.now() + timedelta(days=30, seconds=1)

        with interface.refuses(ValueError):
            interface.add(b"", eta=too_far)

        assert interface.count() == 0

    def test_a_name_in_use_is_refused(self, interface: Interface) -> None:
        """A second task of the same name is refused and the first one stays as it was."""
        interface.add(b"first", name="same")

        with interface.refuses(NameInUseError):
            interface.add(b"second", name="same")

        assert [task.payload for task in interface.lease(MINUTE, 10)] == [b"first"]

    def test_a_deleted_name_stays_taken_for_seven_days(self, interface: Interface) -> None:
        """A deleted task's name is refused for 7 days and free after that."""
        interface.add(b"", name="once")
        interface.delete("once")

        interface.advance(7 * 86_400 - 1)
        with interface.refuses(NameInUseError):
            interface.add(b"", name="once")
        interface.advance(1)

        assert interface.add(b"", name="once") == "once"

    @pytest.mark.parametrize(
        "fields",
        [
            *({"name": name} for name in ("a b", "x" * 501, "é", "a.b")),
            {"tag": "x" * 501},
            {"payload": b"x" * 2049},
        ],
        ids=["space", "long name", "umlaut", "dot", "long tag", "large payload"],
    )
    def test_what_is_not_valid_is_refused(
        self, interface: Interface, fields: dict[str, Any]
    ) -> None:
        """Names have up to 500 letters, digits, underscores and hyphens; others have limits."""
        with interface.refuses(ValueError):
            interface.add(**{"payload": b"", **fields})

        assert interface.count() == 0

    def test_a_tag_may_be_any_text(self, interface: Interface) -> None:
        """A tag of 500 characters outside ASCII is kept."""
        interface.add(b"", tag="ü" * 500)

        assert [task.tag for task in interface.lease(MINUTE, 1)] == ["ü" * 500]

    def test_the_storage_limit_is_over_all_queues(self, interface: Interface) -> None:
        """An add that would pass total_storage_limit is refused, and deleting makes room."""
        interface.add(b"x" * 2000, name="a")
        interface.add(b"x" * (STORAGE_LIMIT_BYTES - 2001 - 1), name="b", queue="limited")

        with interface.refuses(OverQuotaError):
            interface.add(b"", name="c")
        interface.delete("a")

        assert interface.add(b"", name="c") == "c"


class TestLease:
    def test_order_is_eta_then_arrival(self, interface: Interface) -> None:
        """Tasks are leased by eta, and those of one eta in the order they came."""
        now = interface.emulator.clock.now()
        for name in ("t10", "t9", "t8"):
            interface.add(b"", name=name, eta=now + timedelta(seconds=1))
        interface.add(b"", name="first", eta=now)
        interface.advance(1)

        assert names(interface.lease(MINUTE, 10)) == ["first", "t10", "t9", "t8"]

    def test_a_leased_task_is_not_leased_again(self, interface: Interface) -> None:
        """A task is free again at the end of its lease, and not a microsecond before."""
        interface.add(b"", name="one")
        interface.lease(MINUTE, 10)

        interface.advance(MINUTE - 0.000001)
        early = interface.lease(MINUTE, 10)
        interface.advance(0.000001)
        again = interface.lease(MINUTE, 10)

        assert early == []
        assert [(task.name, task.retry_count) for task in again] == [("one", 2)]

    def test_as_many_as_asked_for(self, interface: Interface) -> None:
        """A lease returns at most the requested number of tasks."""
        for _ in range(5):
            interface.add(b"")

        assert [len(interface.lease(MINUTE, 2)) for _ in range(4)] == [2, 2, 1, 0]

    def test_the_payloads_of_a_lease_are_bounded(self, interface: Interface) -> None:
        """A lease stops at the first task that does not fit; one always does."""
        for name, size in (("a", 1500), ("b", 1500), ("c", 10)):
            interface.add(b"x" * size, name=name)

        assert names(interface.lease(MINUTE, 10)) == ["a"]
        assert names(interface.lease(MINUTE, 10)) == ["b", "c"]

    @pytest.mark.parametrize(("seconds", "count"), [(-1, 1), (604_801, 1), (1, 1001), (1, -1)])
    def test_a_lease_out_of_bounds_is_refused(
        self, interface: Interface, seconds: int, count: int
    ) -> None:
        """A lease has 0 to 604,800 seconds and 1 to 1,000 tasks."""
        interface.add(b"", name="one")

        with interface.refuses(ValueError):
            interface.lease(seconds, count)

        assert names(interface.lease(604_800, 1000)) == ["one"]

    def test_a_lease_of_no_tasks(self, interface: Interface) -> None:
        """A lease of 0 tasks is refused, but where 0 is what is sent for no number at all."""
        interface.add(b"", name="one")
        interface.add(b"", name="two")

        if interface.zero_tasks_means_one:
            assert names(interface.lease(MINUTE, 0)) == ["one"]
        else:
            with interface.refuses(ValueError):
                interface.lease(MINUTE, 0)

    def test_a_lease_of_no_time(self, interface: Interface) -> None:
        """A lease of 0 seconds returns the task and counts; the task stays available."""
        interface.add(b"")
        leases = interface.lease(0, 1) + interface.lease(0, 1)

        assert [task.retry_count for task in leases] == [1, 2]


class TestLeaseByTag:
    def test_one_tag(self, interface: Interface) -> None:
        """Only tasks of the tag asked for are leased."""
        for name, tag in (("a", "red"), ("b", "blue"), ("c", "red"), ("d", None)):
            interface.add(b"", name=name, tag=tag)

        assert names(interface.lease_by_tag(MINUTE, 10, "red")) == ["a", "c"]
        assert names(interface.lease_by_tag(MINUTE, 10, "red")) == []

    def test_the_oldest_tag(self, interface: Interface) -> None:
        """Without a tag, the tag of the first available task is leased, all of it."""
        for name, tag in (("a", "red"), ("b", "blue"), ("c", "red")):
            interface.add(b"", name=name, tag=tag)

        assert names(interface.lease_by_tag(MINUTE, 10)) == ["a", "c"]
        assert names(interface.lease_by_tag(MINUTE, 10)) == ["b"]

    def test_untagged_tasks_form_a_group(self, interface: Interface) -> None:
        """Where the first available task has no tag, the untagged tasks are leased."""
        for name, tag in (("a", None), ("b", "blue"), ("c", None)):
            interface.add(b"", name=name, tag=tag)

        assert names(interface.lease_by_tag(MINUTE, 10)) == ["a", "c"]

    def test_a_leased_task_does_not_choose_the_tag(self, interface: Interface) -> None:
        """The tag is that of the first task that is free, not of one that is leased."""
        interface.add(b"", name="a", tag="red")
        interface.add(b"", name="b", tag="blue")
        interface.lease(MINUTE, 1)

        assert names(interface.lease_by_tag(MINUTE, 10)) == ["b"]


class TestModify:
    def test_extend(self, interface: Interface) -> None:
        """A lease is counted again from now, and the retry count stays."""
        interface.add(b"", name="one")
        (held,) = interface.lease(MINUTE, 1)
        interface.advance(50)

        extended = interface.modify(held, 30)
        interface.advance(29)
        still_held = interface.lease(MINUTE, 1)
        interface.advance(1)

        assert extended.eta_usec == held.eta_usec + 20 * 1_000_000
        assert extended.retry_count == 1
        assert still_held == []
        assert names(interface.lease(MINUTE, 1)) == ["one"]

    def test_extend_again_and_again(self, interface: Interface) -> None:
        """Each new end is what the next change must name."""
        interface.add(b"")
        (held,) = interface.lease(MINUTE, 1)

        again = interface.modify(interface.modify(held, 10), 20)
        with interface.refuses(TaskLeaseExpiredError):
            interface.modify(held, 30)

        assert again.eta_usec == interface.emulator.clock.now_usec() + 20 * 1_000_000

    def test_release(self, interface: Interface) -> None:
        """A lease that is changed to 0 seconds ends at once."""
        interface.add(b"", name="one")
        (held,) = interface.lease(MINUTE, 1)

        interface.modify(held, 0)
        (again,) = interface.lease(MINUTE, 1)

        assert (again.name, again.retry_count) == ("one", 2)

    def test_a_lapsed_lease(self, interface: Interface) -> None:
        """A lease that has ended cannot be changed, at its very end too."""
        interface.add(b"")
        (held,) = interface.lease(MINUTE, 1)
        interface.advance(MINUTE)

        with interface.refuses(TaskLeaseExpiredError):
            interface.modify(held, 10)

    def test_a_lease_someone_else_holds(self, interface: Interface) -> None:
        """Who lost a lease cannot change the next holder's."""
        interface.add(b"")
        (held,) = interface.lease(MINUTE, 1)
        interface.advance(MINUTE)
        (theirs,) = interface.lease(MINUTE, 1)

        with interface.refuses(TaskLeaseExpiredError):
            interface.modify(held, 10)

        assert interface.modify(theirs, 10).retry_count == 2

    def test_too_long(self, interface: Interface) -> None:
        """A lease cannot be extended beyond a week from now."""
        interface.add(b"")
        (held,) = interface.lease(MINUTE, 1)

        with interface.refuses(ValueError):
            interface.modify(held, 604_801)


class TestDelete:
    def test_a_held_task(self, interface: Interface) -> None:
        """A deleted task never comes back."""
        interface.add(b"", name="one")
        interface.lease(MINUTE, 1)

        deleted = interface.delete("one")
        interface.advance(MINUTE)

        assert deleted
        assert interface.lease(MINUTE, 1) == []
        assert interface.count() == 0

    def test_no_lease_is_needed(self, interface: Interface) -> None:
        """A task can be deleted before it was leased, and after its lease has ended."""
        interface.add(b"", name="never-leased")
        interface.add(b"", name="lapsed")
        interface.lease(1, 2)
        interface.advance(1)

        assert interface.delete("never-leased")
        assert interface.delete("lapsed")

    def test_what_is_not_there(self, interface: Interface) -> None:
        """Deleting what never was, or was deleted before, changes nothing."""
        interface.add(b"", name="one")
        interface.delete("one")

        assert not interface.delete("one")
        assert not interface.delete("unknown")


class TestRetryLimit:
    def test_gone_when_the_last_lease_ends(self, interface: Interface) -> None:
        """With a limit of 2, a task is gone at the microsecond its second lease ends."""
        interface.add(b"", name="one", queue="limited")
        interface.lease(MINUTE, 1, queue="limited")
        interface.advance(MINUTE)
        (held,) = interface.lease(MINUTE, 1, queue="limited")

        interface.advance(MINUTE - 0.000001)
        before = interface.count(queue="limited")
        interface.advance(0.000001)

        assert held.retry_count == 2
        assert before == 1
        assert interface.count(queue="limited") == 0
        assert interface.lease(MINUTE, 1, queue="limited") == []
        assert [task.name for task in interface.emulator.queue("limited").exhausted] == ["one"]

    def test_the_last_lease_can_be_extended(self, interface: Interface) -> None:
        """Extending the last lease puts the end off."""
        interface.add(b"", queue="limited")
        interface.lease(1, 1, queue="limited")
        interface.advance(1)
        (held,) = interface.lease(MINUTE, 1, queue="limited")

        interface.modify(held, 2 * MINUTE, queue="limited")
        interface.advance(2 * MINUTE - 1)
        before = interface.count(queue="limited")
        interface.advance(1)

        assert (before, interface.count(queue="limited")) == (1, 0)

    def test_released_for_the_last_time(self, interface: Interface) -> None:
        """A task released in its last permitted lease is gone at once."""
        interface.add(b"", queue="limited")
        interface.lease(1, 1, queue="limited")
        interface.advance(1)
        (held,) = interface.lease(MINUTE, 1, queue="limited")

        interface.modify(held, 0, queue="limited")

        assert interface.count(queue="limited") == 0

    def test_an_exhausted_name_stays_taken(self, interface: Interface) -> None:
        """The name of an exhausted task is taken like that of a deleted one."""
        interface.add(b"", name="one", queue="limited")
        for _ in range(2):
            interface.lease(1, 1, queue="limited")
            interface.advance(1)

        with interface.refuses(NameInUseError):
            interface.add(b"", name="one", queue="limited")

    def test_a_limit_of_zero(self, interface: Interface) -> None:
        """With a limit of 0 a task is deleted at the first attempt to lease it."""
        interface.add(b"", queue="never")

        assert interface.count(queue="never") == 1
        assert interface.lease(MINUTE, 1, queue="never") == []
        assert interface.count(queue="never") == 0

    def test_an_exhausted_task_takes_no_place(self, interface: Interface) -> None:
        """A lease returns all available tasks, however many were exhausted before it."""
        for name in ("a", "b", "c"):
            interface.add(b"", name=name, queue="limited")
        for _ in range(2):
            interface.lease(1, 1, queue="limited")
            interface.advance(1)

        assert len(interface.lease(MINUTE, 2, queue="limited")) == 2


class TestQueues:
    def test_an_unknown_queue(self, interface: Interface) -> None:
        """A queue that queue.yaml does not have is refused."""
        with interface.refuses(UnknownQueueError):
            interface.add(b"", queue="nowhere")

    def test_a_push_queue(self, interface: Interface) -> None:
        """Tasks cannot be leased from a push queue."""
        with interface.refuses(InvalidQueueModeError):
            interface.lease(MINUTE, 1, queue="push")

    def test_queues_are_apart(self, interface: Interface) -> None:
        """One name may be in two queues, and each has its own tasks."""
        interface.add(b"1", name="same")
        interface.add(b"2", name="same", queue="limited")
        interface.delete("same")

        assert [task.payload for task in interface.lease(MINUTE, 9, queue="limited")] == [b"2"]


class TestPush:
    def test_what_is_added_is_there_as_it_was(self, push: PushInterface) -> None:
        """A task is shown with its request and its eta, and is counted."""
        eta = push.emulator.clock.now() + timedelta(seconds=10)
        push.add(b"\x00a=1\xff", queue=PUSH, name="one", eta=eta)

        task = Shown("one", b"\x00a=1\xff", to_usec(eta), request=("POST", URL))
        assert push.get("one") == task
        assert push.listed() == [task]
        assert push.count(queue=PUSH) == 1

    def test_order_is_eta(self, push: PushInterface) -> None:
        """Tasks are in order of their etas, and without an eta are due at once."""
        now = push.emulator.clock.now()
        later = push.add(b"", queue=PUSH, eta=now + timedelta(seconds=1))
        generated = push.add(b"", queue=PUSH)

        assert [task.name for task in push.listed()] == [generated, later]
        assert push.get(generated).eta_usec == to_usec(now)

    def test_a_name_in_use_is_refused(self, push: PushInterface) -> None:
        """It is in use while the task is there, and for 7 days after the task was deleted."""
        push.add(b"first", queue=PUSH, name="same")
        with push.refuses(NameInUseError):
            push.add(b"second", queue=PUSH, name="same")
        assert [task.payload for task in push.listed()] == [b"first"]

        push.delete("same", queue=PUSH)
        push.advance(7 * 86_400 - 1)
        with push.refuses(NameInUseError):
            push.add(b"", queue=PUSH, name="same")
        push.advance(1)

        assert push.add(b"", queue=PUSH, name="same") == "same"

    @pytest.mark.parametrize(
        ("payload", "name", "days", "error"),
        [
            (b"", "a b", 0, ValueError),
            (b"", None, 31, ValueError),
            (b"x" * (STORAGE_LIMIT_BYTES + 1), None, 0, OverQuotaError),
        ],
    )
    def test_what_is_not_valid_is_refused(
        self,
        push: PushInterface,
        payload: bytes,
        name: str | None,
        days: int,
        error: type[Exception],
    ) -> None:
        """Names, etas and the storage limit have the rules of pull tasks; nothing is stored."""
        eta = push.emulator.clock.now() + timedelta(days=days)

        with push.refuses(error):
            push.add(payload, queue=PUSH, name=name, eta=eta)

        assert push.count(queue=PUSH) == 0

    def test_delete(self, push: PushInterface) -> None:
        """A deleted task is gone, once; others stay."""
        push.add(b"", queue=PUSH, name="one")
        push.add(b"", queue=PUSH, name="two")

        assert [push.delete("one", queue=PUSH) for _ in range(2)] == [True, False]
        with push.refuses(TaskError):
            push.get("one")

        assert [task.name for task in push.listed()] == ["two"]

    def test_purge(self, push: PushInterface) -> None:
        """It deletes the tasks of this queue, due or not, and the queue can be used."""
        push.add(b"")
        push.add(b"", queue=PUSH)
        push.add(b"", queue=PUSH, eta=push.emulator.clock.now() + timedelta(days=1))

        push.purge()

        assert push.listed() == []
        assert (push.count(queue=PUSH), push.count()) == (0, 1)
        push.add(b"", queue=PUSH)
        assert push.count(queue=PUSH) == 1

    def test_leases_are_refused(self, push: PushInterface) -> None:
        """A push task can neither be leased nor have its eta changed."""
        push.add(b"", queue=PUSH, name="one")
        (before,) = push.listed()

        for lease in (push.lease, push.lease_by_tag):
            with push.refuses(InvalidQueueModeError):
                lease(MINUTE, 1, queue=PUSH)
        with push.refuses(InvalidQueueModeError):
            push.modify(before, MINUTE, queue=PUSH)

        assert push.listed() == [before]
