"""What must hold whichever way a queue is used."""

from __future__ import annotations

from datetime import timedelta

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
        interface.add(b"\x00work\xff", name="one", tag="ü" * 500)

        (held,) = interface.lease(MINUTE, 10)

        assert (held.name, held.payload, held.tag) == ("one", b"\x00work\xff", "ü" * 500)
        assert held.retry_count == 1
        assert held.eta_usec == interface.emulator.clock.now_usec() + MINUTE * 1_000_000

    def test_tasks_without_a_name_get_different_ones(self, interface: Interface) -> None:
        generated = {interface.add(b"") for _ in range(5)}

        assert len(generated) == 5
        assert set(names(interface.lease(MINUTE, 10))) == generated

    def test_an_eta_ahead_keeps_a_task_back(self, interface: Interface) -> None:
        interface.add(b"", name="later", eta=interface.emulator.clock.now() + timedelta(seconds=10))

        interface.advance(9.999999)
        early = interface.lease(MINUTE, 10)
        interface.advance(0.000001)

        assert early == []
        assert names(interface.lease(MINUTE, 10)) == ["later"]

    def test_a_name_in_use_is_refused_and_its_task_stays(self, interface: Interface) -> None:
        interface.add(b"first", name="same")

        with interface.refuses(NameInUseError):
            interface.add(b"second", name="same")

        assert [task.payload for task in interface.lease(MINUTE, 10)] == [b"first"]

    def test_a_deleted_name_stays_taken_for_seven_days(self, interface: Interface) -> None:
        interface.add(b"", name="once")
        interface.delete("once")

        interface.advance(7 * 86_400 - 1)
        with interface.refuses(NameInUseError):
            interface.add(b"", name="once")
        interface.advance(1)

        assert interface.add(b"", name="once") == "once"

    def test_a_name_with_other_characters_is_refused(self, interface: Interface) -> None:
        for name in ("a b", "é", "a.b"):
            with interface.refuses(ValueError):
                interface.add(b"", name=name)

        assert interface.count() == 0

    def test_the_storage_limit_is_over_all_queues(self, interface: Interface) -> None:
        """An add that would pass total_storage_limit is refused, and deleting makes room."""
        interface.add(b"x" * 2000, name="a")
        interface.add(b"x" * (STORAGE_LIMIT_BYTES - 2001 - 1), name="b", queue="limited")

        with interface.refuses(OverQuotaError):
            interface.add(b"", name="c")
        interface.delete("a")

        assert interface.add(b"", name="c") == "c"


class TestLease:
    def test_tasks_are_leased_by_eta_then_arrival(self, interface: Interface) -> None:
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

    def test_a_lease_returns_as_many_tasks_as_asked_for(self, interface: Interface) -> None:
        for _ in range(5):
            interface.add(b"")

        assert [len(interface.lease(MINUTE, 2)) for _ in range(4)] == [2, 2, 1, 0]

    def test_a_lease_stops_at_the_first_payload_that_does_not_fit(
        self, interface: Interface
    ) -> None:
        """A lease stops at the first task that does not fit; one always does."""
        for name, size in (("a", 1500), ("b", 1500), ("c", 10)):
            interface.add(b"x" * size, name=name)

        assert names(interface.lease(MINUTE, 10)) == ["a"]
        assert names(interface.lease(MINUTE, 10)) == ["b", "c"]

    def test_a_lease_of_0_tasks_is_refused(self, interface: Interface) -> None:
        """A lease of 0 tasks is refused, but where 0 is what is sent for no number at all."""
        interface.add(b"", name="one")
        interface.add(b"", name="two")

        if interface.zero_tasks_means_one:
            assert names(interface.lease(MINUTE, 0)) == ["one"]
        else:
            with interface.refuses(ValueError):
                interface.lease(MINUTE, 0)

    def test_a_lease_of_0_seconds_counts_and_leaves_the_task_available(
        self, interface: Interface
    ) -> None:
        interface.add(b"")
        leases = interface.lease(0, 1) + interface.lease(0, 1)

        assert [task.retry_count for task in leases] == [1, 2]


class TestLeaseByTag:
    def test_a_lease_by_tag_takes_only_tasks_of_the_tag(self, interface: Interface) -> None:
        for name, tag in (("a", "red"), ("b", "blue"), ("c", "red"), ("d", None)):
            interface.add(b"", name=name, tag=tag)

        assert names(interface.lease_by_tag(MINUTE, 10, "red")) == ["a", "c"]
        assert names(interface.lease_by_tag(MINUTE, 10, "red")) == []

    def test_a_lease_by_tag_without_one_takes_that_of_the_first_task(
        self, interface: Interface
    ) -> None:
        for name, tag in (("a", "red"), ("b", "blue"), ("c", "red")):
            interface.add(b"", name=name, tag=tag)

        assert names(interface.lease_by_tag(MINUTE, 10)) == ["a", "c"]
        assert names(interface.lease_by_tag(MINUTE, 10)) == ["b"]

    def test_untagged_tasks_form_a_group(self, interface: Interface) -> None:
        for name, tag in (("a", None), ("b", "blue"), ("c", None)):
            interface.add(b"", name=name, tag=tag)

        assert names(interface.lease_by_tag(MINUTE, 10)) == ["a", "c"]

    def test_a_leased_task_does_not_choose_the_tag(self, interface: Interface) -> None:
        interface.add(b"", name="a", tag="red")
        interface.add(b"", name="b", tag="blue")
        interface.lease(MINUTE, 1)

        assert names(interface.lease_by_tag(MINUTE, 10)) == ["b"]


class TestModify:
    def test_an_extended_lease_counts_from_now_and_keeps_the_retry_count(
        self, interface: Interface
    ) -> None:
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

    def test_each_extension_must_name_the_end_before(self, interface: Interface) -> None:
        interface.add(b"")
        (held,) = interface.lease(MINUTE, 1)

        again = interface.modify(interface.modify(held, 10), 20)
        with interface.refuses(TaskLeaseExpiredError):
            interface.modify(held, 30)

        assert again.eta_usec == interface.emulator.clock.now_usec() + 20 * 1_000_000

    def test_a_lease_changed_to_0_seconds_ends_at_once(self, interface: Interface) -> None:
        interface.add(b"", name="one")
        (held,) = interface.lease(MINUTE, 1)

        interface.modify(held, 0)
        (again,) = interface.lease(MINUTE, 1)

        assert (again.name, again.retry_count) == ("one", 2)

    def test_a_lease_cannot_be_changed_from_its_very_end_on(self, interface: Interface) -> None:
        interface.add(b"")
        (held,) = interface.lease(MINUTE, 1)
        interface.advance(MINUTE)

        with interface.refuses(TaskLeaseExpiredError):
            interface.modify(held, 10)

    def test_who_lost_a_lease_cannot_change_the_next_holder_s(self, interface: Interface) -> None:
        interface.add(b"")
        (held,) = interface.lease(MINUTE, 1)
        interface.advance(MINUTE)
        (theirs,) = interface.lease(MINUTE, 1)

        with interface.refuses(TaskLeaseExpiredError):
            interface.modify(held, 10)

        assert interface.modify(theirs, 10).retry_count == 2


class TestDelete:
    def test_a_leased_task_that_is_deleted_never_comes_back(self, interface: Interface) -> None:
        interface.add(b"", name="one")
        interface.lease(MINUTE, 1)

        deleted = interface.delete("one")
        interface.advance(MINUTE)

        assert deleted
        assert interface.lease(MINUTE, 1) == []
        assert interface.count() == 0

    def test_a_task_can_be_deleted_before_and_after_its_lease(self, interface: Interface) -> None:
        interface.add(b"", name="never-leased")
        interface.add(b"", name="lapsed")
        interface.lease(1, 2)
        interface.advance(1)

        assert interface.delete("never-leased")
        assert interface.delete("lapsed")

    def test_deleting_what_is_not_there_changes_nothing(self, interface: Interface) -> None:
        interface.add(b"", name="one")
        interface.delete("one")

        assert not interface.delete("one")
        assert not interface.delete("unknown")


class TestRetryLimit:
    def test_a_task_is_gone_when_its_last_lease_ends(self, interface: Interface) -> None:
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
        assert [task.name for task in interface.exhausted("limited")] == ["one"]

    def test_the_last_lease_can_be_extended(self, interface: Interface) -> None:
        interface.add(b"", queue="limited")
        interface.lease(1, 1, queue="limited")
        interface.advance(1)
        (held,) = interface.lease(MINUTE, 1, queue="limited")

        interface.modify(held, 2 * MINUTE, queue="limited")
        interface.advance(2 * MINUTE - 1)
        before = interface.count(queue="limited")
        interface.advance(1)

        assert (before, interface.count(queue="limited")) == (1, 0)

    def test_a_task_released_in_its_last_lease_is_gone_at_once(self, interface: Interface) -> None:
        interface.add(b"", queue="limited")
        interface.lease(1, 1, queue="limited")
        interface.advance(1)
        (held,) = interface.lease(MINUTE, 1, queue="limited")

        interface.modify(held, 0, queue="limited")

        assert interface.count(queue="limited") == 0

    def test_an_exhausted_name_stays_taken(self, interface: Interface) -> None:
        interface.add(b"", name="one", queue="limited")
        for _ in range(2):
            interface.lease(1, 1, queue="limited")
            interface.advance(1)

        with interface.refuses(NameInUseError):
            interface.add(b"", name="one", queue="limited")

    def test_a_limit_of_0_deletes_a_task_at_the_first_lease(self, interface: Interface) -> None:
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
    def test_a_queue_that_is_not_in_queue_yaml_is_refused(self, interface: Interface) -> None:
        with interface.refuses(UnknownQueueError):
            interface.add(b"", queue="nowhere")

    def test_tasks_of_a_push_queue_cannot_be_leased(self, interface: Interface) -> None:
        with interface.refuses(InvalidQueueModeError):
            interface.lease(MINUTE, 1, queue="push")

    def test_two_queues_can_have_tasks_of_one_name(self, interface: Interface) -> None:
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

    def test_push_tasks_are_in_order_of_their_etas(self, push: PushInterface) -> None:
        now = push.emulator.clock.now()
        later = push.add(b"", queue=PUSH, eta=now + timedelta(seconds=1))
        generated = push.add(b"", queue=PUSH)

        assert [task.name for task in push.listed()] == [generated, later]
        assert push.get(generated).eta_usec == to_usec(now)

    def test_a_name_is_refused_while_its_task_is_there_and_for_7_days_after(
        self, push: PushInterface
    ) -> None:
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

    def test_a_push_task_with_another_name_is_refused(self, push: PushInterface) -> None:
        with push.refuses(ValueError):
            push.add(b"", queue=PUSH, name="a b")

        assert push.count(queue=PUSH) == 0

    def test_a_deleted_push_task_is_gone_and_others_stay(self, push: PushInterface) -> None:
        push.add(b"", queue=PUSH, name="one")
        push.add(b"", queue=PUSH, name="two")

        assert [push.delete("one", queue=PUSH) for _ in range(2)] == [True, False]
        with push.refuses(TaskError):
            push.get("one")

        assert [task.name for task in push.listed()] == ["two"]

    def test_a_purge_deletes_push_tasks_due_or_not(self, push: PushInterface) -> None:
        push.add(b"")
        push.add(b"", queue=PUSH)
        push.add(b"", queue=PUSH, eta=push.emulator.clock.now() + timedelta(days=1))

        push.purge()

        assert push.listed() == []
        assert (push.count(queue=PUSH), push.count()) == (0, 1)
        push.add(b"", queue=PUSH)
        assert push.count(queue=PUSH) == 1

    def test_a_push_task_cannot_be_leased_or_extended(self, push: PushInterface) -> None:
        push.add(b"", queue=PUSH, name="one")
        (before,) = push.listed()

        for lease in (push.lease, push.lease_by_tag):
            with push.refuses(InvalidQueueModeError):
                lease(MINUTE, 1, queue=PUSH)
        with push.refuses(InvalidQueueModeError):
            push.modify(before, MINUTE, queue=PUSH)

        assert push.listed() == [before]
