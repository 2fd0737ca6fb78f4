"""Queues made at run time, pauses, and acknowledging leased tasks, in each store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from store_rules import LIMITS, ONLY_POSTGRES, Start, config_of, together
from stores import held_up

from pullqueue import (
    Emulator,
    InvalidQueueNameError,
    ManualClock,
    NewTask,
    Queue,
    QueueNameInUseError,
    QueuePausedError,
    QueueState,
    SystemClock,
    TaskAlreadyExistsError,
    TaskLeaseExpiredError,
    TombstonedTaskError,
    UnknownQueueError,
    UnknownTaskError,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, Rate, RetryParameters
from pullqueue.engine import verbs
from pullqueue.engine.retention import Retention
from pullqueue.engine.store import Insertion, Target
from pullqueue.stores import open_store
from pullqueue.text import quoted

MADE = QueueSettings(name="made", mode=QueueMode.PULL)
DAY = timedelta(days=1)


@pytest.fixture
def made(emulator: Emulator) -> Queue:
    return emulator.create_queue(MADE)


def names(emulator: Emulator) -> list[str]:
    return [queue.name for queue in emulator.queues]


class TestAcknowledge:
    def test_acknowledge_deletes_a_leased_task(self, queue: Queue) -> None:
        queue.add(b"work", name="one")
        (task,) = queue.lease_tasks(60, 1)

        verbs.acknowledge(queue, "one", expected_eta_usec=task.eta_usec)

        assert queue.fetch_statistics().tasks == 0
        kinds = [event.kind.value for event in queue.history("one")]
        assert kinds == ["added", "leased", "deleted"]
        with pytest.raises(TombstonedTaskError):
            queue.add(name="one")

    def test_a_task_that_is_not_leased_by_the_caller_is_refused(
        self, queue: Queue, clock: ManualClock
    ) -> None:
        """Never leased, another's, or lapsed: refused, and nothing is changed."""
        never = queue.add(name="one", eta=clock.now() + DAY)
        with pytest.raises(TaskLeaseExpiredError):
            verbs.acknowledge(queue, "one", expected_eta_usec=never.eta_usec)
        clock.advance(DAY)
        (task,) = queue.lease_tasks(60, 1)
        for expected in (task.eta_usec - 1, task.eta_usec + 1):
            with pytest.raises(TaskLeaseExpiredError):
                verbs.acknowledge(queue, "one", expected_eta_usec=expected)
        clock.advance(60)
        with pytest.raises(TaskLeaseExpiredError, match="its lease has expired"):
            verbs.acknowledge(queue, "one", expected_eta_usec=task.eta_usec)

        assert [task.retry_count for task in queue.lease_tasks(60, 1)] == [2]

    def test_unknown_and_deleted_tasks_are_distinguished(self, queue: Queue) -> None:
        queue.add(name="deleted")
        queue.delete_tasks("deleted")

        with pytest.raises(UnknownTaskError):
            verbs.acknowledge(queue, "unknown", expected_eta_usec=1)
        with pytest.raises(UnknownTaskError):
            verbs.acknowledge(queue, "\0", expected_eta_usec=1)
        with pytest.raises(TombstonedTaskError):
            verbs.acknowledge(queue, "deleted", expected_eta_usec=1)


class TestPause:
    def test_a_paused_queue_refuses_leases_and_nothing_else(self, queue: Queue) -> None:
        queue.add_many([NewTask(name=name) for name in ("a", "b", "c")])
        a, b = queue.lease_tasks(60, 2)
        queue.pause()
        paused = queue.state

        for lease in (queue.lease_tasks, queue.lease_tasks_by_tag):
            with pytest.raises(QueuePausedError, match='queue "pull" is paused: resume it'):
                lease(60, 1)
        queue.add(name="d")
        queue.modify_task_lease(a, 0)
        verbs.acknowledge(queue, b.name, expected_eta_usec=b.eta_usec)
        queue.delete_tasks("c")
        queue.resume()

        assert (paused, queue.state) == (QueueState.PAUSED, QueueState.RUNNING)
        assert [task.name for task in queue.lease_tasks(60, 9)] == ["a", "d"]

    def test_a_deployment_resumes_queues_unless_queue_yaml_says_otherwise(
        self, emulator: Emulator, queue: Queue
    ) -> None:
        queue.pause()
        emulator.reconfigure(replace(config_of(2), resume_paused_queues=False))
        still = queue.state
        emulator.reconfigure(config_of(2))

        assert (still, queue.state) == (QueueState.PAUSED, QueueState.RUNNING)

    def test_a_disabled_queue_can_be_resumed_until_the_next_deployment(
        self, emulator: Emulator, queue: Queue
    ) -> None:
        emulator.reconfigure(QueueConfig())
        disabled = queue.state
        queue.resume()
        queue.add()
        resumed = queue.state
        emulator.reconfigure(QueueConfig())

        states = [disabled, resumed, queue.state]
        assert [state.value for state in states] == ["disabled", "running", "disabled"]


class TestCreatedQueue:
    def test_a_runtime_queue_is_listed_and_survives_a_reload(
        self, emulator: Emulator, made: Queue
    ) -> None:
        made.add(b"work", tag="red")
        made.pause()
        emulator.reconfigure(config_of(3))
        state = made.state
        made.resume()

        assert names(emulator) == ["pull", "limited", "default", "made"]
        assert emulator.queue("made") is made
        assert [queue.is_runtime for queue in emulator.queues] == [False, False, False, True]
        assert state is QueueState.PAUSED
        assert [task.payload for task in made.lease_tasks_by_tag(60, 1)] == [b"work"]

    def test_a_queue_name_in_use_or_not_valid_is_refused(
        self, emulator: Emulator, made: Queue
    ) -> None:
        for name in ("made", "pull", "default"):
            with pytest.raises(QueueNameInUseError, match=f'queue "{name}" exists: choose another'):
                emulator.create_queue(replace(MADE, name=name))
        located = ("q@", "@l", "q@a@b", "q@a/b", "q@" + "l" * 101, "q" * 101 + "@l")
        for name in ("", "a_b", "a b", "x" * 101, "é", *located):
            with pytest.raises(InvalidQueueNameError) as raised:
                emulator.create_queue(replace(MADE, name=name))
            assert raised.value.queue_name == name
            assert str(raised.value) == (
                f"invalid queue name {quoted(name)}: use letters, digits and hyphens (1 to 100 "
                "characters)"
            )
        for name in ("q@l", "q" * 100 + "@" + "l" * 100):
            assert emulator.create_queue(replace(MADE, name=name)).name == name

    def test_names_are_free_after_an_hour(self, made: Queue, clock: ManualClock) -> None:
        """Tombstones last an hour, of deleted, acknowledged, purged and exhausted tasks."""
        made.add_many([NewTask(name=name) for name in ("a", "b", "c")])
        made.delete_tasks("a")
        (task,) = made.lease_tasks(60, 1)
        verbs.acknowledge(made, task.name, expected_eta_usec=task.eta_usec)
        made.purge()
        clock.advance(timedelta(minutes=59, seconds=59))
        for name in ("a", "b", "c"):
            with pytest.raises(TombstonedTaskError):
                made.add(name=name)
        clock.advance(1)

        assert [made.add(name=name).name for name in ("a", "b", "c")] == ["a", "b", "c"]

    def test_tasks_live_for_31_days(self, made: Queue, clock: ManualClock) -> None:
        """Then they are exhausted, leased or not, however long their lease is."""
        made.add_many([NewTask(name=name) for name in ("leased", "extended", "waiting")])
        clock.advance(30 * DAY)
        made.add(name="younger")
        leased, extended = made.lease_tasks(7 * 86_400, 2)
        made.modify_task_lease(extended, 7 * 86_400)
        clock.advance(DAY - timedelta(microseconds=1))
        before = made.fetch_statistics().tasks
        change = made.next_change_usec()
        clock.advance(timedelta(microseconds=1))

        assert (before, change) == (4, clock.now_usec())
        assert [task.name for task in made.list_tasks()] == ["younger"]
        assert {task.name for task in made.exhausted} == {"leased", "extended", "waiting"}
        with pytest.raises(TombstonedTaskError):
            verbs.modify_lease(made, leased.name, 1)
        clock.advance(3600)
        assert made.add(name="leased").name == "leased"

    def test_a_retry_limit_ends_tasks_sooner(self, emulator: Emulator, clock: ManualClock) -> None:
        retry = RetryParameters(task_retry_limit=1)
        made = emulator.create_queue(replace(MADE, retry_parameters=retry))
        made.add(name="short")
        made.lease_tasks(60, 1)
        clock.advance(60)
        made.add(name="long")
        clock.advance(30 * DAY)
        made.lease_tasks(7 * 86_400, 1)
        clock.advance(DAY)

        assert [task.name for task in made.exhausted] == ["short", "long"]

    def test_lifetime_and_tombstone_can_be_given_and_changed(
        self, emulator: Emulator, clock: ManualClock
    ) -> None:
        settings = replace(MADE, task_lifetime_seconds=100, tombstone_seconds=0)
        made = emulator.create_queue(settings)
        made.add(name="a")
        made.delete_tasks("a")
        made.add(name="a")
        emulator.update_queue(replace(settings, task_lifetime_seconds=50))
        clock.advance(50)

        assert [task.name for task in made.exhausted] == ["a"]
        assert made.settings.tombstone_seconds == 0
        assert emulator.update_queue(MADE).settings.task_lifetime_seconds == 31 * 86_400

    def test_a_queue_that_queue_yaml_lists_later_keeps_its_tasks(
        self, emulator: Emulator, made: Queue
    ) -> None:
        made.add(name="one")
        emulator.reconfigure(QueueConfig(queues=(MADE,)))
        queue = emulator.queue("made")
        emulator.reconfigure(QueueConfig())

        assert not queue.is_runtime
        assert queue.state is QueueState.DISABLED
        assert [task.name for task in queue.list_tasks()] == ["one"]

    def test_a_reset_deletes_a_runtime_queue_and_frees_its_name(
        self, emulator: Emulator, made: Queue
    ) -> None:
        made.add()
        emulator.reset()

        assert "made" not in names(emulator)
        with pytest.raises(UnknownQueueError):
            made.add()
        assert emulator.create_queue(MADE).list_tasks() == []

    def test_a_snapshot_has_runtime_queues(self, emulator: Emulator, made: Queue) -> None:
        made.add(name="one")
        made.pause()
        exported = emulator.export()
        emulator.reset()
        emulator.restore(exported)

        assert [task.name for task in emulator.queue("made").list_tasks()] == ["one"]
        assert emulator.queue("made").state is QueueState.PAUSED
        assert emulator.queue("made").retention == made.retention

    def test_a_restored_queue_that_is_listed_now_has_the_settings_of_queue_yaml(
        self, emulator: Emulator, made: Queue, clock: ManualClock
    ) -> None:
        """Also where they concern the tasks restored."""
        made.add(name="one")
        exported = emulator.export()
        listed = replace(MADE, retry_parameters=RetryParameters(task_retry_limit=1))
        emulator.reconfigure(QueueConfig(queues=(*config_of(2).queues, listed)))
        emulator.restore(exported)
        clock.advance(32 * DAY)
        queue = emulator.queue("made")

        assert [task.name for task in queue.lease_tasks(60, 1)] == ["one"]
        clock.advance(60)
        assert [task.name for task in queue.exhausted] == ["one"]


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_runtime_queues_pauses_and_purges_survive_a_restart(
    emulator: Emulator, made: Queue, clock: ManualClock, start: Start
) -> None:
    retry = RetryParameters(task_retry_limit=3, min_backoff_seconds=0.5)
    emulator.update_queue(replace(MADE, retry_parameters=retry))
    emulator.create_queue(QueueSettings(name="push", rate=Rate(count=5), target="v1.worker"))
    made.add(name="one")
    emulator.queue("pull").purge()
    emulator.queue("pull").pause()
    purged, settings = emulator.queue("pull").purged_at, made.settings
    assert purged == clock.now()
    emulator.close()
    clock.advance(1)
    other = start()
    queue, pull = other.queue("made"), other.queue("pull")

    assert (queue.is_runtime, queue.settings) == (True, settings)
    assert [task.name for task in queue.list_tasks()] == ["one"]
    assert other.queue("push").settings.rate == Rate(count=5)
    assert (pull.state, pull.purged_at) == (QueueState.PAUSED, purged)
    assert other.queue("limited").purged_at is None
    clock.advance(31 * DAY)
    assert queue.list_tasks() == []
    other.reset()
    assert (pull.state, pull.purged_at) == (QueueState.RUNNING, None)


class TestDeletedQueue:
    def test_the_store_takes_no_tasks(self, url: str, clock: ManualClock) -> None:
        """Whether it was made at run time or is one of queue.yaml; a store needs no other check."""
        store = open_store(url)(clock=clock, limits=LIMITS, names=lambda: "generated")
        store.clear()
        new = NewTask()

        def insert(*, is_runtime: bool) -> Insertion:
            return store.insert(Target("q", is_runtime, Retention(), None), [new])

        with pytest.raises(UnknownQueueError):
            insert(is_runtime=True)
        store.change_queue_record("q", settings=QueueSettings(name="q"))
        before = len(insert(is_runtime=True).added)
        store.delete_queue("q")
        for is_runtime in (True, False):
            with pytest.raises(UnknownQueueError, match=r'^queue "q" was deleted$'):
                insert(is_runtime=is_runtime)
        stored = store.count_bytes()
        store.drop_queue_record("q")
        after = len(insert(is_runtime=False).added)
        store.clear()
        store.close()

        assert (before, stored, after) == (1, 0, 1)

    def test_the_store_counts_tasks_of_queues_that_are_not_configured(
        self, emulator: Emulator, start: Start
    ) -> None:
        """They are kept, and there again with their queue."""
        emulator.queue("pull").add_many([NewTask(), NewTask()])
        if emulator.store_url == "memory":
            assert emulator.unlisted_tasks == {}
            return
        emulator.close()

        without = start(QueueConfig(queues=(QueueSettings(name="other"),)))
        counts = without.unlisted_tasks
        without.close()

        assert counts == {"pull": 2}
        assert start().unlisted_tasks == {}

    def test_a_deleted_queue_leaves_nothing_but_the_others(
        self, emulator: Emulator, made: Queue, queue: Queue
    ) -> None:
        queue.add(name="one")
        made.add(b"x" * 50, name="one")
        made.lease_tasks(60, 1)
        emulator.delete_queue("made")

        assert "made" not in names(emulator)
        assert emulator.bytes_stored == len("one")
        assert {name: len(each.tasks) for name, each in emulator.export().items()} == {
            "pull": 1, "made": 0,
        }  # fmt: skip
        with pytest.raises(TaskAlreadyExistsError):
            queue.add(name="one")
        for call in (made.add, made.pause, lambda: made.lease_tasks(1, 1)):
            with pytest.raises(UnknownQueueError, match="was deleted"):
                call()
        with pytest.raises(UnknownQueueError):
            emulator.delete_queue("made")
        with pytest.raises(UnknownQueueError):
            emulator.update_queue(MADE)

    def test_its_name_is_reserved_for_7_days(
        self, emulator: Emulator, made: Queue, clock: ManualClock
    ) -> None:
        """Then a new queue begins empty."""
        made.add(name="one")
        emulator.delete_queue("made")
        clock.advance(7 * DAY - timedelta(microseconds=1))
        with pytest.raises(QueueNameInUseError, match=r'^queue "made" was deleted not long ago: '):
            emulator.create_queue(MADE)
        clock.advance(timedelta(microseconds=1))
        new = emulator.create_queue(MADE)

        assert new.add(name="one").name == "one"
        assert [event.kind.value for event in new.events()] == ["added"]

    def test_a_deleted_queue_of_queue_yaml_is_back_after_a_reload_or_by_a_snapshot(
        self, emulator: Emulator, queue: Queue
    ) -> None:
        queue.add(name="one")
        exported = emulator.export()
        emulator.delete_queue("pull")
        emulator.restore(emulator.export())
        gone = names(emulator)
        emulator.reconfigure(emulator.config)

        assert gone == ["limited", "default"]
        assert emulator.queue("pull").list_tasks() == []
        assert emulator.queue("pull").add(name="one").name == "one"
        emulator.delete_queue("pull")
        emulator.restore(exported)
        assert [task.name for task in emulator.queue("pull").list_tasks()] == ["one"]


def test_two_servers_create_a_queue_at_once(start: Start, url: str) -> None:
    """One of them does, with its settings; to the other the name is in use."""
    first = start()
    second = start() if "postgres" in url else first
    created: list[QueueSettings] = []

    def create(server: Emulator, settings: QueueSettings) -> None:
        with suppress(QueueNameInUseError):
            created.append(server.create_queue(settings).settings)

    for number in range(5):
        made = replace(MADE, name=f"made{number}")
        other = replace(made, retry_parameters=RetryParameters(task_retry_limit=3))
        together(partial(create, first, made), partial(create, second, other))
        for server in (first, second):
            assert [server.queue(made.name).settings] == created
        created.clear()


@ONLY_POSTGRES
@pytest.mark.parametrize("limit", [None, 1000])
def test_adding_to_a_queue_that_another_server_deletes_is_refused_at_once(
    start: Start, limit: int | None
) -> None:
    config = replace(config_of(2), total_storage_limit_bytes=limit)
    first, second = start(config), start(config)
    first.create_queue(MADE)
    first.create_queue(replace(MADE, name="reset"))
    held = [second.queue(name) for name in ("made", "reset", "pull")]
    for queue in held:
        queue.add(name="one")

    first.delete_queue("made")
    first.delete_queue("pull")
    for queue in (held[0], held[2]):
        for new in ([NewTask()], [NewTask(name="one")], [NewTask(name="a"), NewTask(name="b")]):
            with pytest.raises(UnknownQueueError, match=f'^queue "{queue.name}" was deleted$'):
                queue.add_many(new)
    first.reset()
    with pytest.raises(UnknownQueueError):
        held[1].add()

    assert first.export() == {}
    assert first.queue("pull").add(name="one").name == "one"


@ONLY_POSTGRES
def test_a_deleted_queue_that_another_server_reloads_is_back_at_all(
    start: Start, clock: ManualClock
) -> None:
    first, second = start(), start()
    first.delete_queue("pull")
    clock.advance(1)
    gone = names(second)
    second.reconfigure(config_of(2))
    second.queue("pull").add(name="one")
    clock.advance(1)

    assert gone == ["limited", "default"]
    assert [task.name for task in first.queue("pull").list_tasks()] == ["one"]


@ONLY_POSTGRES
def test_no_task_is_stored_in_a_queue_deleted_among_adds(start: Start) -> None:
    """None of them is stored, and the size of all tasks is exact."""
    first, second = (start(clock=SystemClock()) for _ in range(2))

    def add() -> None:
        with suppress(UnknownQueueError):  # also if it was deleted before the first
            queue = second.queue("made")
            while True:
                queue.add(b"work")
                second.queue("made")

    for _ in range(3):
        first.reset()
        first.create_queue(MADE)
        second.reconfigure(config_of(2))
        with ThreadPoolExecutor(3) as threads:
            adding = [threads.submit(add) for _ in range(3)]
            first.delete_queue("made")
            for future in adding:
                future.result()
        assert [task for contents in first.export().values() for task in contents.tasks] == []
        assert first.bytes_stored == 0


@ONLY_POSTGRES
def test_a_database_that_hangs_while_queues_are_loaded_holds_up_one_call(
    start: Start, url: str, clock: ManualClock
) -> None:
    emulator = start(query="&application_name=loading")
    emulator.queue("pull")
    clock.advance(1)
    load = partial(emulator.queue, "pull")
    with held_up(url, "LOCK TABLE queues", load, "loading") as (_, loading):
        clock.advance(1)
        others = emulator.queues
        assert not loading.done()

    loading.result()
    assert [queue.name for queue in others] == ["pull", "limited", "default"]
