"""pullqueue.stores.postgres: what servers that share a database can rely on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest
from store_rules import ONLY_POSTGRES, Start, WrongClock, config_of, together
from stores import held_up

from pullqueue import (
    AttemptRecord,
    DeleteResult,
    Emulator,
    Limits,
    ManualClock,
    NewTask,
    OverQuotaError,
    Queue,
    SystemClock,
    Task,
    TaskLeaseExpiredError,
    TombstonedTaskError,
    TransientError,
)
from pullqueue.engine import verbs
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.engine.store import Claim
from pullqueue.stores import postgres
from pullqueue.stores.postgres_pool import connect, parsed
from pullqueue.stores.session import DeadlockError

STORAGE_BYTES = 2_000
PATIENT = "&options=-c lock_timeout%3D60s -c statement_timeout%3D60s"
"""On a busy machine."""


pytestmark = ONLY_POSTGRES


@pytest.fixture
def deadlocks(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return what is called when the database ends an operation because of a deadlock."""
    error = Mock(wraps=DeadlockError)
    monkeypatch.setattr(postgres, "DeadlockError", error)
    return error


def test_no_attempt_is_started_twice(start: Start) -> None:
    """Threads of two servers send the same push tasks; each attempt is started and ended by one."""
    queues = [start(limits=Limits()).queue("default") for _ in range(2)]
    queues[0].add_many([NewTask(name=f"t{number}") for number in range(40)])
    ended: list[Task] = []

    def send(queue: Queue) -> None:
        for task in queue.list_tasks():
            try:
                started = start_attempt(queue, task, lease_seconds=60, attempts=AttemptRecord())
                odd = int(task.name[1:]) % 2
                attempts = AttemptRecord(finished=1, status=200 if odd else 500)
                ended.append(
                    finish_attempt(queue, started, attempts=attempts, backoff_seconds=None)
                )
            except (TaskLeaseExpiredError, TombstonedTaskError):
                continue

    together(lambda: send(queues[0]), lambda: send(queues[1]))

    assert sorted(task.name for task in ended) == sorted(f"t{number}" for number in range(40))
    assert [len(queue.exhausted) for queue in queues] == [20, 20]
    numbers = queues[1].fetch_statistics()
    assert (numbers.tasks, numbers.bytes_stored, numbers.leased_last_minute) == (0, 0, 40)


def test_the_first_server_keeps_its_claim_on_a_push_queue(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it closes its store or does not ask again in time. A claim is new after each change of
    its holder, whatever the holder knows of it.
    """
    new, kept, refused = Claim.NEW, Claim.KEPT, Claim.REFUSED
    first, second, third = (start(limits=Limits()) for _ in range(3))
    stores = [emulator.queue("default").store for emulator in (first, second, third)]

    assert [store.claim_dispatch("default") for store in stores] == [new, refused, refused]
    assert stores[0].claim_dispatch("default") is kept
    first.close()
    assert [store.claim_dispatch("default") for store in stores[1:]] == [new, refused]
    monkeypatch.setattr(postgres, "_CLAIM_TRUSTED_SECONDS", 0)
    monkeypatch.setattr(postgres, "_CLAIM_USEC", 0)
    claims = [store.claim_dispatch("other") for store in (*stores[1:], *stores[1:], stores[2])]
    assert claims == [new, new, new, new, kept]
    assert stores[2].claim_dispatch("default") is refused


def test_concurrent_adds_reach_the_storage_limit_and_do_not_pass_it(start: Start) -> None:
    config = replace(config_of(1), total_storage_limit_bytes=STORAGE_BYTES)
    emulators = [start(config, clock=SystemClock()) for _ in range(2)]

    def fill(emulator: Emulator) -> None:
        with suppress(OverQuotaError):
            while True:
                emulator.queue("pull").add(b"x" * 84)

    together(lambda: fill(emulators[0]), lambda: fill(emulators[1]))

    # Generated names have 16 characters.
    assert [emulator.bytes_stored for emulator in emulators] == [STORAGE_BYTES] * 2
    assert emulators[0].queue("pull").fetch_statistics().tasks == STORAGE_BYTES // 100


def test_a_batch_is_deleted_once(servers: tuple[Queue, Queue], deadlocks: Mock) -> None:
    """Of those who delete the same tasks, in whatever order, one learns that they were there."""
    names = [task.name for task in servers[0].add_many([NewTask() for _ in range(100)])]
    results: Counter[DeleteResult] = Counter()

    def delete(queue: Queue, order: list[str]) -> None:
        results.update(queue.delete_tasks(order))

    together(lambda: delete(servers[0], names), lambda: delete(servers[1], names[::-1]))

    assert results[DeleteResult.DELETED] == 100
    assert results[DeleteResult.UNKNOWN] == 0
    assert not deadlocks.called
    assert servers[0].fetch_statistics().bytes_stored == 0


def test_a_task_is_exhausted_once(start: Start, clock: ManualClock) -> None:
    """The first server that reads it makes it available; all servers see the same."""
    emulators = [start(config_of(1), limits=Limits()) for _ in range(2)]
    queues = [emulator.queue("limited") for emulator in emulators]
    queues[0].add_many([NewTask(name=f"n{number}") for number in range(50)])
    queues[0].lease_tasks(300, 50)
    clock.advance(300)

    together(*(queue.fetch_statistics for queue in queues))

    assert [len(queue.exhausted) for queue in queues] == [50, 50]
    assert [queue.fetch_statistics().tasks for queue in queues] == [0, 0]
    assert emulators[1].bytes_stored == 0


def test_the_rate_counts_when_a_call_is_permitted(start: Start, url: str) -> None:
    """A call that waited for others counts at the time its wait ended, not when it began."""
    limits = Limits(leases_per_second=1)
    emulator = start(query="&application_name=rate", clock=SystemClock(), limits=limits)
    queue = emulator.queue("pull")
    queue.add_many([NewTask(), NewTask()])
    (first,) = queue.lease_tasks(60, 1)
    first_usec = first.eta_usec - 60_000_000
    lease = "SELECT 1 FROM lease_calls FOR UPDATE"
    with held_up(url, lease, lambda: verbs.lease(queue, 60, 1), "rate") as (_, leasing):
        while emulator.now_usec() <= first_usec + 1_000_000:
            pass  # the second after the first lease passes while the other call waits
        released_usec = emulator.now_usec()

    ((task,), rate_limited) = leasing.result()
    assert not rate_limited
    assert task.eta_usec - 60_000_000 >= released_usec


def test_the_rate_holds_over_threads_and_servers(start: Start) -> None:
    """In no second, wherever it begins, are there more leases than permitted."""
    limits = Limits(leases_per_second=5)
    queues = [start(clock=SystemClock(), limits=limits).queue("pull") for _ in range(2)]
    queues[0].add_many([NewTask() for _ in range(100)])
    times: list[int] = []

    def lease(queue: Queue) -> None:
        for _ in range(30):
            times.extend(task.eta_usec for task in queue.lease_tasks(60, 1))

    together(*(partial(lease, queue) for queue in queues))

    times.sort()
    assert len(times) >= 5
    assert all(later - sooner >= 1_000_000 for sooner, later in zip(times, times[5:], strict=False))


def test_a_reset_among_adds_fails_none(servers: tuple[Queue, Queue], start: Start) -> None:
    emulator = start(limits=Limits())
    contents = emulator.export()

    def add(queue: Queue) -> None:
        for number in range(8):
            queue.add(b"work")
            queue.add_many([NewTask(name=f"{threading.get_ident()}-{number}-{n}") for n in "ab"])

    def reset() -> None:
        for _ in range(3):
            emulator.reset()
            emulator.restore(contents)

    together(partial(add, servers[0]), partial(add, servers[1]), reset)

    tasks = servers[0].list_tasks(limit=1000)
    numbers = servers[1].fetch_statistics()
    assert numbers.tasks == len(tasks)
    assert numbers.bytes_stored == sum(task.stored_bytes for task in tasks)
    servers[0].purge()
    assert servers[0].fetch_statistics()[:4] == (0, 0, 0, 0)
    assert emulator.bytes_stored == 0


@pytest.mark.parametrize("action", ["restore", "delete"])
def test_restore_and_delete_replace_a_record_made_meanwhile(
    start: Start, url: str, action: str
) -> None:
    emulator = start(query=f"&application_name=replacing{PATIENT}", clock=SystemClock())
    emulator.queue("pull").pause()
    contents = emulator.export()
    emulator.reset()
    calls = {
        "restore": partial(emulator.restore, contents),
        "delete": partial(emulator.delete_queue, "pull"),
    }
    insert = "INSERT INTO queues (queue, paused) VALUES ('pull', false)"
    with held_up(url, insert, calls[action], "replacing") as (rival, replacing):
        rival.commit()
        replacing.result(timeout=60)

        record = rival.execute("SELECT paused, deleted_usec IS NULL FROM queues").fetchone()
    assert record == ((True, True) if action == "restore" else (False, False))


def test_a_name_in_several_batches_is_stored_once(
    servers: tuple[Queue, Queue], deadlocks: Mock
) -> None:
    """Whatever their order, each name is stored once, and never again when it is deleted."""
    names = [f"n{number}" for number in range(60)]
    added: Counter[str] = Counter()

    def add(queue: Queue, order: list[str]) -> None:
        for round_number in range(4):
            batch = [NewTask(name=f"{name}-{round_number}") for name in order]
            for tasks in (batch, [NewTask(name=f"one-{round_number}")]):
                added.update(task.name for task in verbs.insert(queue, tasks).added)
                queue.delete_tasks([task.name for task in tasks[::2] if task.name])

    together(partial(add, servers[0], names), partial(add, servers[1], names[::-1]))

    assert len(added) == 4 * 61
    assert set(added.values()) == {1}
    assert not deadlocks.called


@contextmanager
def ending_updates(url: str, number: int) -> Iterator[None]:
    """Make the first updates of tasks fail as if the database had ended them."""
    with connect(parsed(url)) as database:
        database.execute("CREATE SEQUENCE updates")
        database.execute(f"""
            CREATE FUNCTION end_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF nextval('updates') <= {number} THEN
                    RAISE 'deadlock detected' USING ERRCODE = 'deadlock_detected';
                END IF;
                RETURN NEW;
            END $$
        """)
        database.execute("""
            CREATE TRIGGER end_first BEFORE UPDATE ON tasks
            FOR EACH ROW EXECUTE FUNCTION end_first()
        """)
        try:
            yield
        finally:
            database.execute("DROP FUNCTION end_first CASCADE")
            database.execute("DROP SEQUENCE updates")


def test_four_deadlocks_in_a_row_are_overcome(start: Start, url: str) -> None:
    queue = start().queue("pull")
    queue.add_many([NewTask(name="a"), NewTask(name="b")])

    with ending_updates(url, 4):
        assert queue.delete_tasks(["a"]) == [DeleteResult.DELETED]
    text = "deadlock detected; try again"
    with ending_updates(url, 5), pytest.raises(TransientError, match=text):
        queue.delete_tasks(["b"])

    assert [task.name for task in queue.list_tasks()] == ["b"]
    assert queue.fetch_statistics().tasks == 1


def test_time_is_the_database_s(start: Start) -> None:
    """Leases do not depend on the date of a server's machine."""
    right, late = start(clock=SystemClock()), start(clock=WrongClock(-86_400))
    before_usec = SystemClock().now_usec()

    late.queue("pull").add(name="one")
    (held,) = late.queue("pull").lease_tasks(60, 1)

    assert right.queue("pull").lease_tasks(60, 1) == []
    assert before_usec <= held.eta_usec - 60_000_000 <= SystemClock().now_usec()
    assert right.queue("pull").modify_task_lease(held, 0).eta_usec >= before_usec
    assert len(late.queue("pull").lease_tasks(60, 1)) == 1
