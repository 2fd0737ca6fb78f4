"""What must hold whichever way a queue is used."""

from __future__ import annotations

from datetime import timedelta

import pytest
from doors import STORAGE_LIMIT_BYTES, Door, Held, Refusal, Refused

MINUTE = 60


def refusal_of(excinfo: pytest.ExceptionInfo[Refused]) -> Refusal:
    """Give why a call was refused."""
    return excinfo.value.refusal


def names(held: list[Held]) -> list[str]:
    """Give the names of leased tasks."""
    return [task.name for task in held]


class TestAdd:
    def test_what_is_added_is_leased_as_it_was(self, door: Door) -> None:
        """A task comes back with its name, payload and tag, leased once."""
        door.add(b"\x00work\xff", name="one", tag="red")

        (held,) = door.lease(MINUTE, 10)

        assert (held.name, held.payload, held.tag) == ("one", b"\x00work\xff", "red")
        assert held.retry_count == 1
        assert held.eta_usec == door.emulator.clock.now_usec() + MINUTE * 1_000_000

    def test_names_are_made_up(self, door: Door) -> None:
        """Tasks without a name get different ones."""
        made_up = {door.add(b"") for _ in range(5)}

        assert len(made_up) == 5
        assert set(names(door.lease(MINUTE, 10))) == made_up

    def test_an_eta_ahead_keeps_a_task_back(self, door: Door) -> None:
        """A task is not leased a microsecond before its eta, and is leased at it."""
        door.add(b"", name="later", eta=door.emulator.clock.now() + timedelta(seconds=10))

        door.advance(9.999999)
        early = door.lease(MINUTE, 10)
        door.advance(0.000001)

        assert early == []
        assert names(door.lease(MINUTE, 10)) == ["later"]

    def test_an_eta_too_far_ahead_is_refused(self, door: Door) -> None:
        """More than 30 days ahead is too far."""
        too_far = door.emulator.clock.now() + timedelta(days=30, seconds=1)

        with pytest.raises(Refused) as refused:
            door.add(b"", eta=too_far)

        assert refusal_of(refused) is Refusal.INVALID
        assert door.count() == 0

    def test_a_name_in_use_is_refused(self, door: Door) -> None:
        """A second task of the same name is refused and the first one stays as it was."""
        door.add(b"first", name="same")

        with pytest.raises(Refused) as refused:
            door.add(b"second", name="same")

        assert refusal_of(refused) is Refusal.NAME_TAKEN
        assert [task.payload for task in door.lease(MINUTE, 10)] == [b"first"]

    def test_a_deleted_name_stays_taken_for_seven_days(self, door: Door) -> None:
        """A deleted task's name is refused for 7 days and free after that."""
        door.add(b"", name="once")
        door.delete("once")

        door.advance(7 * 86_400 - 1)
        with pytest.raises(Refused) as refused:
            door.add(b"", name="once")
        door.advance(1)

        assert refusal_of(refused) is Refusal.NAME_TAKEN
        assert door.add(b"", name="once") == "once"

    @pytest.mark.parametrize("name", ["a b", "x" * 501, "é", "a.b"])
    def test_a_bad_name_is_refused(self, door: Door, name: str) -> None:
        """Names have up to 500 letters, digits, underscores and hyphens."""
        with pytest.raises(Refused) as refused:
            door.add(b"", name=name)

        assert refusal_of(refused) is Refusal.INVALID
        assert door.count() == 0

    def test_a_tag_may_be_any_text(self, door: Door) -> None:
        """A tag of 500 characters outside ASCII is kept."""
        door.add(b"", tag="ü" * 500)

        assert [task.tag for task in door.lease(MINUTE, 1)] == ["ü" * 500]

    def test_a_long_tag_is_refused(self, door: Door) -> None:
        """A tag of 501 characters is refused."""
        with pytest.raises(Refused) as refused:
            door.add(b"", tag="x" * 501)

        assert refusal_of(refused) is Refusal.INVALID

    def test_a_large_payload_is_refused(self, door: Door) -> None:
        """A payload over the limit is refused and nothing is stored."""
        with pytest.raises(Refused) as refused:
            door.add(b"x" * 2049)

        assert refusal_of(refused) is Refusal.INVALID
        assert door.count() == 0

    def test_the_storage_limit_is_over_all_queues(self, door: Door) -> None:
        """An add that would pass total_storage_limit is refused, and deleting makes room."""
        door.add(b"x" * 2000, name="a")
        door.add(b"x" * (STORAGE_LIMIT_BYTES - 2001 - 1), name="b", queue="limited")

        with pytest.raises(Refused) as refused:
            door.add(b"", name="c")
        door.delete("a")

        assert refusal_of(refused) is Refusal.OVER_QUOTA
        assert door.add(b"", name="c") == "c"


class TestLease:
    def test_order_is_eta_then_arrival(self, door: Door) -> None:
        """Tasks are leased by eta, and those of one eta in the order they came."""
        now = door.emulator.clock.now()
        for name in ("t10", "t9", "t8"):
            door.add(b"", name=name, eta=now + timedelta(seconds=1))
        door.add(b"", name="first", eta=now)
        door.advance(1)

        assert names(door.lease(MINUTE, 10)) == ["first", "t10", "t9", "t8"]

    def test_a_leased_task_is_not_leased_again(self, door: Door) -> None:
        """A task is free again at the end of its lease, and not a microsecond before."""
        door.add(b"", name="one")
        door.lease(MINUTE, 10)

        door.advance(MINUTE - 0.000001)
        early = door.lease(MINUTE, 10)
        door.advance(0.000001)
        again = door.lease(MINUTE, 10)

        assert early == []
        assert [(task.name, task.retry_count) for task in again] == [("one", 2)]

    def test_as_many_as_asked_for(self, door: Door) -> None:
        """A lease gives at most the number asked for and leaves the rest."""
        for _ in range(5):
            door.add(b"")

        assert [len(door.lease(MINUTE, 2)) for _ in range(4)] == [2, 2, 1, 0]

    def test_the_payloads_of_a_lease_are_bounded(self, door: Door) -> None:
        """A lease stops at the first task that does not fit; one always does."""
        for name, size in (("a", 1500), ("b", 1500), ("c", 10)):
            door.add(b"x" * size, name=name)

        assert names(door.lease(MINUTE, 10)) == ["a"]
        assert names(door.lease(MINUTE, 10)) == ["b", "c"]

    @pytest.mark.parametrize(("seconds", "count"), [(-1, 1), (604_801, 1), (1, 1001), (1, -1)])
    def test_a_lease_out_of_bounds_is_refused(self, door: Door, seconds: int, count: int) -> None:
        """A lease lasts 0 to 604 800 seconds and gives 1 to 1000 tasks."""
        door.add(b"", name="one")

        with pytest.raises(Refused) as refused:
            door.lease(seconds, count)

        assert refusal_of(refused) is Refusal.INVALID
        assert names(door.lease(MINUTE, 1)) == ["one"]

    def test_a_lease_of_no_tasks(self, door: Door) -> None:
        """A lease of 0 tasks is refused, but where 0 is what is sent for no number at all."""
        door.add(b"", name="one")
        door.add(b"", name="two")

        if door.zero_tasks_means_one:
            assert names(door.lease(MINUTE, 0)) == ["one"]
        else:
            with pytest.raises(Refused) as refused:
                door.lease(MINUTE, 0)
            assert refusal_of(refused) is Refusal.INVALID

    def test_a_lease_of_no_time(self, door: Door) -> None:
        """A lease of 0 seconds gives the task, counts, and leaves it free."""
        door.add(b"", name="one")

        assert [task.retry_count for task in door.lease(0, 1) + door.lease(0, 1)] == [1, 2]

    def test_a_lease_of_a_week(self, door: Door) -> None:
        """The longest lease lasts a week."""
        door.add(b"")

        assert len(door.lease(604_800, 1)) == 1


class TestLeaseByTag:
    def test_one_tag(self, door: Door) -> None:
        """Only tasks of the tag asked for are leased."""
        for name, tag in (("a", "red"), ("b", "blue"), ("c", "red"), ("d", None)):
            door.add(b"", name=name, tag=tag)

        assert names(door.lease_by_tag(MINUTE, 10, "red")) == ["a", "c"]
        assert names(door.lease_by_tag(MINUTE, 10, "red")) == []

    def test_the_oldest_tag(self, door: Door) -> None:
        """Without a tag, the tag of the first available task is leased, all of it."""
        for name, tag in (("a", "red"), ("b", "blue"), ("c", "red")):
            door.add(b"", name=name, tag=tag)

        assert names(door.lease_by_tag(MINUTE, 10)) == ["a", "c"]
        assert names(door.lease_by_tag(MINUTE, 10)) == ["b"]

    def test_untagged_tasks_form_a_group(self, door: Door) -> None:
        """Where the first available task has no tag, the untagged tasks are leased."""
        for name, tag in (("a", None), ("b", "blue"), ("c", None)):
            door.add(b"", name=name, tag=tag)

        assert names(door.lease_by_tag(MINUTE, 10)) == ["a", "c"]

    def test_a_leased_task_does_not_choose_the_tag(self, door: Door) -> None:
        """The tag is that of the first task that is free, not of one that is leased."""
        door.add(b"", name="a", tag="red")
        door.add(b"", name="b", tag="blue")
        door.lease(MINUTE, 1)

        assert names(door.lease_by_tag(MINUTE, 10)) == ["b"]


class TestModify:
    def test_extend(self, door: Door) -> None:
        """A lease is counted anew from now, and the retry count stays."""
        door.add(b"", name="one")
        (held,) = door.lease(MINUTE, 1)
        door.advance(50)

        extended = door.modify(held, 30)
        door.advance(29)
        still_held = door.lease(MINUTE, 1)
        door.advance(1)

        assert extended.eta_usec == held.eta_usec + 20 * 1_000_000
        assert extended.retry_count == 1
        assert still_held == []
        assert names(door.lease(MINUTE, 1)) == ["one"]

    def test_extend_again_and_again(self, door: Door) -> None:
        """Each new end is what the next change must name."""
        door.add(b"")
        (held,) = door.lease(MINUTE, 1)

        again = door.modify(door.modify(held, 10), 20)
        with pytest.raises(Refused) as refused:
            door.modify(held, 30)

        assert again.eta_usec == door.emulator.clock.now_usec() + 20 * 1_000_000
        assert refusal_of(refused) is Refusal.LEASE_EXPIRED

    def test_give_back(self, door: Door) -> None:
        """A lease changed to 0 seconds is over at once."""
        door.add(b"", name="one")
        (held,) = door.lease(MINUTE, 1)

        door.modify(held, 0)

        assert [(task.name, task.retry_count) for task in door.lease(MINUTE, 1)] == [("one", 2)]

    def test_a_lapsed_lease(self, door: Door) -> None:
        """A lease that has ended cannot be changed, at its very end too."""
        door.add(b"")
        (held,) = door.lease(MINUTE, 1)
        door.advance(MINUTE)

        with pytest.raises(Refused) as refused:
            door.modify(held, 10)

        assert refusal_of(refused) is Refusal.LEASE_EXPIRED

    def test_a_lease_someone_else_holds(self, door: Door) -> None:
        """Who lost a lease cannot change the next holder's."""
        door.add(b"")
        (held,) = door.lease(MINUTE, 1)
        door.advance(MINUTE)
        (theirs,) = door.lease(MINUTE, 1)

        with pytest.raises(Refused) as refused:
            door.modify(held, 10)

        assert refusal_of(refused) is Refusal.LEASE_EXPIRED
        assert door.modify(theirs, 10).retry_count == 2

    def test_too_long(self, door: Door) -> None:
        """A lease cannot be extended beyond a week from now."""
        door.add(b"")
        (held,) = door.lease(MINUTE, 1)

        with pytest.raises(Refused) as refused:
            door.modify(held, 604_801)

        assert refusal_of(refused) is Refusal.INVALID


class TestDelete:
    def test_a_held_task(self, door: Door) -> None:
        """A deleted task never comes back."""
        door.add(b"", name="one")
        door.lease(MINUTE, 1)

        deleted = door.delete("one")
        door.advance(MINUTE)

        assert deleted
        assert door.lease(MINUTE, 1) == []
        assert door.count() == 0

    def test_no_lease_is_needed(self, door: Door) -> None:
        """A task can be deleted before it was leased, and after its lease has ended."""
        door.add(b"", name="never-leased")
        door.add(b"", name="lapsed")
        door.lease(1, 2)
        door.advance(1)

        assert door.delete("never-leased")
        assert door.delete("lapsed")

    def test_what_is_not_there(self, door: Door) -> None:
        """Deleting what never was, or was deleted before, changes nothing."""
        door.add(b"", name="one")
        door.delete("one")

        assert not door.delete("one")
        assert not door.delete("unknown")


class TestRetryLimit:
    def test_gone_when_the_last_lease_ends(self, door: Door) -> None:
        """With a limit of 2, a task is gone at the microsecond its second lease ends."""
        door.add(b"", name="one", queue="limited")
        door.lease(MINUTE, 1, queue="limited")
        door.advance(MINUTE)
        (held,) = door.lease(MINUTE, 1, queue="limited")

        door.advance(MINUTE - 0.000001)
        before = door.count(queue="limited")
        door.advance(0.000001)

        assert held.retry_count == 2
        assert before == 1
        assert door.count(queue="limited") == 0
        assert door.lease(MINUTE, 1, queue="limited") == []
        assert [task.name for task in door.emulator.queue("limited").exhausted] == ["one"]

    def test_the_last_lease_can_be_extended(self, door: Door) -> None:
        """Extending the last lease puts the end off."""
        door.add(b"", queue="limited")
        door.lease(1, 1, queue="limited")
        door.advance(1)
        (held,) = door.lease(MINUTE, 1, queue="limited")

        door.modify(held, 2 * MINUTE, queue="limited")
        door.advance(2 * MINUTE - 1)
        before = door.count(queue="limited")
        door.advance(1)

        assert (before, door.count(queue="limited")) == (1, 0)

    def test_given_back_for_the_last_time(self, door: Door) -> None:
        """A task given back in its last permitted lease is gone at once."""
        door.add(b"", queue="limited")
        door.lease(1, 1, queue="limited")
        door.advance(1)
        (held,) = door.lease(MINUTE, 1, queue="limited")

        door.modify(held, 0, queue="limited")

        assert door.count(queue="limited") == 0

    def test_an_exhausted_name_stays_taken(self, door: Door) -> None:
        """The name of an exhausted task is taken like that of a deleted one."""
        door.add(b"", name="one", queue="limited")
        for _ in range(2):
            door.lease(1, 1, queue="limited")
            door.advance(1)

        with pytest.raises(Refused) as refused:
            door.add(b"", name="one", queue="limited")

        assert refusal_of(refused) is Refusal.NAME_TAKEN

    def test_a_limit_of_zero(self, door: Door) -> None:
        """With a limit of 0 a task is deleted at the first attempt to lease it."""
        door.add(b"", queue="never")

        assert door.count(queue="never") == 1
        assert door.lease(MINUTE, 1, queue="never") == []
        assert door.count(queue="never") == 0

    def test_an_exhausted_task_takes_no_place(self, door: Door) -> None:
        """A lease gives as many tasks as there are, however many were exhausted before it."""
        for name in ("a", "b", "c"):
            door.add(b"", name=name, queue="limited")
        for _ in range(2):
            door.lease(1, 1, queue="limited")
            door.advance(1)

        assert len(door.lease(MINUTE, 2, queue="limited")) == 2


class TestQueues:
    def test_an_unknown_queue(self, door: Door) -> None:
        """A queue that queue.yaml does not have is refused."""
        with pytest.raises(Refused) as refused:
            door.add(b"", queue="nowhere")

        assert refusal_of(refused) is Refusal.UNKNOWN_QUEUE

    def test_a_push_queue(self, door: Door) -> None:
        """Tasks cannot be leased from a push queue."""
        with pytest.raises(Refused) as refused:
            door.lease(MINUTE, 1, queue="push")

        assert refusal_of(refused) is Refusal.WRONG_MODE

    def test_queues_are_apart(self, door: Door) -> None:
        """One name may stand in two queues, and each has its own tasks."""
        door.add(b"1", name="same")
        door.add(b"2", name="same", queue="limited")
        door.delete("same")

        assert [task.payload for task in door.lease(MINUTE, 9, queue="limited")] == [b"2"]
