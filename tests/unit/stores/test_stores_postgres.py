"""pullqueue.stores.postgres: what servers that share a database can rely on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest
from shared_store import CONFIG, emptied, together

from pullqueue import (
    DeleteResult,
    Emulator,
    Limits,
    ManualClock,
    NameInUseError,
    NewTask,
    OverQuotaError,
    Queue,
    SystemClock,
    Task,
    TaskLeaseExpiredError,
)
from pullqueue.config.model import QueueConfig

STORAGE_BYTES = 2_000


@pytest.fixture
def url() -> str:
    """Give the URL of an empty store."""
    return emptied("postgres")


@pytest.fixture
def servers(url: str, clock: ManualClock) -> Iterator[tuple[Queue, Queue]]:
    """Give one queue as two servers have it."""
    emulators = [Emulator(CONFIG, clock=clock, store=url) for _ in range(2)]
    yield emulators[0].queue("pull"), emulators[1].queue("pull")
    for emulator in emulators:
        emulator.close()


@pytest.mark.parametrize("tag", [False, True], ids=["first", "oldest tag"])
def test_no_task_is_leased_twice(servers: tuple[Queue, Queue], tag: bool) -> None:  # noqa: FBT001
    """Threads of two servers empty a queue together; each task goes to exactly one."""
    tasks = 600
    leased: list[Task] = []
    for start in range(0, tasks, 100):
        batch = [NewTask(name=f"t{start + n}", tag=str(n % 7)) for n in range(100)]
        servers[0].add_many(batch)

    def empty(queue: Queue) -> None:
        lease = queue.lease_tasks_by_tag if tag else queue.lease_tasks
        while found := lease(60, 9):
            leased.extend(found)

    together(lambda: empty(servers[0]), lambda: empty(servers[1]))

    assert len(leased) == tasks == len({task.name for task in leased})
    assert {task.retry_count for task in leased} == {1}
    assert servers[0].fetch_statistics().leased_last_minute == tasks


def test_a_name_is_given_once(servers: tuple[Queue, Queue]) -> None:
    """Whoever adds the same names at the same moment, each is stored once; and never again when
    it is deleted meanwhile.
    """
    added: Counter[str] = Counter()

    def add(queue: Queue) -> None:
        for number in range(40):
            try:
                added[queue.add(name=f"n{number}").name] += 1
                assert queue.delete_tasks(f"n{number}") == [DeleteResult.DELETED]
            except NameInUseError:
                pass

    together(lambda: add(servers[0]), lambda: add(servers[1]))

    assert added == Counter({f"n{number}": 1 for number in range(40)})
    assert servers[0].list_tasks() == []


def test_the_storage_limit(url: str) -> None:
    """However many add at once, the limit is reached and not passed."""
    config = QueueConfig(queues=CONFIG.queues, total_storage_limit_bytes=STORAGE_BYTES)
    emulators = [Emulator(config, store=url) for _ in range(2)]

    def fill(emulator: Emulator) -> None:
        with suppress(OverQuotaError):
            while True:
                emulator.queue("pull").add(b"x" * 84)

    together(lambda: fill(emulators[0]), lambda: fill(emulators[1]))

    # Names that are made up have 16 characters.
    assert [emulator.bytes_stored for emulator in emulators] == [STORAGE_BYTES] * 2
    assert emulators[0].queue("pull").fetch_statistics().tasks == STORAGE_BYTES // 100
    for emulator in emulators:
        emulator.close()


def test_a_batch_is_deleted_once(servers: tuple[Queue, Queue]) -> None:
    """Of those who delete the same tasks, in whatever order, one is told that they were there."""
    names = [task.name for task in servers[0].add_many([NewTask() for _ in range(100)])]
    results: Counter[DeleteResult] = Counter()

    def delete(queue: Queue, order: list[str]) -> None:
        results.update(queue.delete_tasks(order))

    together(lambda: delete(servers[0], names), lambda: delete(servers[1], names[::-1]))

    assert results[DeleteResult.DELETED] == 100
    assert results[DeleteResult.UNKNOWN] == 0
    assert servers[0].fetch_statistics().bytes_stored == 0


def test_statistics_are_of_one_moment(servers: tuple[Queue, Queue]) -> None:
    """The numbers fit together, whatever happens while they are taken."""
    servers[0].add_many([NewTask() for _ in range(40)])

    def work() -> None:
        for _ in range(15):
            tasks = servers[0].lease_tasks(60, 5)
            servers[0].delete_tasks(tasks[:1])
            servers[0].add()

    def look() -> None:
        for _ in range(15):
            numbers = servers[1].fetch_statistics()
            assert numbers.available >= 0
            assert numbers.tasks == numbers.available + numbers.leased + numbers.scheduled

    together(work, look)


def test_one_holder_extends(servers: tuple[Queue, Queue]) -> None:
    """A lease that one server gave can be changed through another, by its holder alone."""
    servers[0].add(name="one")
    (held,) = servers[0].lease_tasks(60, 1)

    extended = servers[1].modify_task_lease(held, 90)

    assert servers[0].get_task("one") == extended
    with pytest.raises(TaskLeaseExpiredError, match="its lease ends at another time"):
        servers[0].modify_task_lease(held, 90)


def test_the_leases_of_a_server_that_is_gone(url: str, clock: ManualClock) -> None:
    """They run out as any other, and nobody has to do anything for that."""
    gone, other = (Emulator(CONFIG, clock=clock, store=url) for _ in range(2))
    gone.queue("pull").add(name="one")
    gone.queue("pull").lease_tasks(60, 1)
    gone.close()

    clock.advance(59.999999)
    early = other.queue("pull").lease_tasks(60, 1)
    clock.advance(0.000001)

    assert early == []
    assert [task.retry_count for task in other.queue("pull").lease_tasks(60, 1)] == [2]
    other.close()


def test_a_task_is_exhausted_once(url: str, clock: ManualClock) -> None:
    """Whoever looks first lets it go; all see the same."""
    emulators = [Emulator(CONFIG, clock=clock, store=url) for _ in range(2)]
    queues = [emulator.queue("once") for emulator in emulators]
    queues[0].add_many([NewTask(name=f"n{number}") for number in range(50)])
    queues[0].lease_tasks(60, 50)
    clock.advance(60)

    together(*(queue.fetch_statistics for queue in queues))

    assert [len(queue.exhausted) for queue in queues] == [50, 50]
    assert [queue.fetch_statistics().tasks for queue in queues] == [0, 0]
    assert emulators[1].bytes_stored == 0
    for emulator in emulators:
        emulator.close()


def test_the_lease_rate_is_that_of_all_servers(url: str, clock: ManualClock) -> None:
    """Calls to one server count for the others."""
    limits = Limits(leases_per_second=3)
    emulators = [Emulator(CONFIG, clock=clock, store=url, limits=limits) for _ in range(2)]
    queues = [emulator.queue("pull") for emulator in emulators]

    limited = [queue.lease(60, 1).rate_limited for queue in [*queues, *queues]]
    clock.advance(1)

    assert limited == [False, False, False, True]
    assert not queues[0].lease(60, 1).rate_limited
    for emulator in emulators:
        emulator.close()


class LateClock(SystemClock):
    """The clock of a machine that is a day behind."""

    def now_usec(self) -> int:
        """Give a wrong time."""
        return super().now_usec() - 86_400_000_000


def test_time_is_the_database_s(url: str) -> None:
    """A server whose machine has another date gives the same leases as any."""
    right = Emulator(CONFIG, store=url)
    late = Emulator(CONFIG, store=url, clock=LateClock())
    before_usec = SystemClock().now_usec()

    late.queue("pull").add(name="one")
    (held,) = late.queue("pull").lease_tasks(60, 1)

    assert right.queue("pull").lease_tasks(60, 1) == []
    assert before_usec <= held.eta_usec - 60_000_000 <= SystemClock().now_usec()
    assert right.queue("pull").modify_task_lease(held, 0).eta_usec >= before_usec
    assert len(late.queue("pull").lease_tasks(60, 1)) == 1
    right.close()
    late.close()
