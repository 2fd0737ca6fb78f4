"""pullqueue.stores.postgres: what servers that share a database can rely on."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, text
from stores import own_schema, postgres_url

from pullqueue import (
    DeleteResult,
    Emulator,
    InternalError,
    Limits,
    ManualClock,
    NameTakenError,
    NewTask,
    OverQuotaError,
    Queue,
    StoreError,
    SystemClock,
    Task,
    TaskLeaseExpiredError,
    TransientError,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.stores import store_from_url
from pullqueue.stores.postgres import PostgresStore
from pullqueue.stores.postgres_server import connect, parsed, prepare
from pullqueue.stores.postgres_session import PostgresSession
from pullqueue.stores.schema import STEPS

STORAGE_BYTES = 2_000
CONFIG = QueueConfig(
    queues=(
        QueueSettings(name="pull", mode=QueueMode.PULL),
        QueueSettings(
            name="once",
            mode=QueueMode.PULL,
            retry_parameters=RetryParameters(task_retry_limit=1),
        ),
    )
)
THREADS = 4
FILES = 1100
"""More than `select` can watch."""


@pytest.fixture
def url() -> str:
    """Give the URL of an empty store."""
    url = own_schema("postgres")
    emulator = Emulator(CONFIG, store=url)
    emulator.reset()
    emulator.close()
    return url


@pytest.fixture
def clock() -> ManualClock:
    """Give the clock that all servers of a test share."""
    return ManualClock()


@pytest.fixture
def servers(url: str, clock: ManualClock) -> Iterator[tuple[Queue, Queue]]:
    """Give one queue as two servers have it."""
    emulators = [Emulator(CONFIG, clock=clock, store=url) for _ in range(2)]
    yield emulators[0].queue("pull"), emulators[1].queue("pull")
    for emulator in emulators:
        emulator.close()


def together(*work: Callable[[], object]) -> None:
    """Do things at the same time, each in several threads."""
    start = threading.Barrier(THREADS * len(work))

    def begin(do: Callable[[], object]) -> object:
        start.wait()
        return do()

    with ThreadPoolExecutor(THREADS * len(work)) as threads:
        for done in [threads.submit(begin, do) for do in work for _ in range(THREADS)]:
            done.result(timeout=60)


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
            except NameTakenError:
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
    with pytest.raises(TaskLeaseExpiredError, match="another lease of it is current"):
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


def test_connections_are_bounded(url: str) -> None:
    """Any number of threads share as many connections as the URL says."""
    emulator = Emulator(CONFIG, store=f"{url}&connections=2&application_name=bounded")
    queue = emulator.queue("pull")
    most = 0

    def use() -> None:
        for _ in range(10):
            queue.add()

    together(use, use)
    with psycopg.connect(postgres_url()) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bounded'"
        ).fetchone()
        most = row[0] if row else 0

    assert 1 <= most <= 2
    assert queue.fetch_statistics().tasks == 80
    emulator.close()


def test_all_connections_in_use(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits too long for one is told so, and can try again; nothing is taken from the pool."""
    monkeypatch.setattr("pullqueue.stores.postgres.WAIT_SECONDS", 0.01)
    emulator = Emulator(CONFIG, store=f"{url}&connections=1")
    store = emulator._store
    assert isinstance(store, PostgresStore)

    with (
        store._session(),
        pytest.raises(
            TransientError,
            match=r"^the store's database: all 1 connections were in use for 0.01 seconds",
        ),
    ):
        emulator.queue("pull").add()

    assert emulator.queue("pull").add(name="later").name == "later"
    emulator.close()


def test_a_connection_that_cannot_be_opened(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves its place in the pool to the next one."""
    emulator = Emulator(CONFIG, store=f"{url}&connections=1")
    store = emulator._store
    store.close()  # it has one that is idle

    def fail() -> None:
        raise psycopg.OperationalError("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(store._pool, "_make", fail)  # type: ignore[attr-defined]
        with pytest.raises(TransientError, match="connection refused"):
            emulator.queue("pull").add()

    assert emulator.queue("pull").add(name="later").name == "later"
    emulator.close()


def test_what_is_given_back_to_a_closed_store(url: str) -> None:
    """A connection that was in use when the store was closed is closed, too."""
    emulator = Emulator(CONFIG, store=url)
    store = emulator._store
    assert isinstance(store, PostgresStore)

    with store._session() as session:
        assert isinstance(session, PostgresSession)
        emulator.close()
        assert session.is_connected()

    assert not session.is_connected()


def test_a_schema_that_is_gone(url: str) -> None:
    """That cannot be tried again, and is said so."""
    emulator = Emulator(CONFIG, store=url)
    with connect(parsed(url)) as connection:
        connection.execute("ALTER TABLE tasks RENAME TO elsewhere")
        try:
            with pytest.raises(
                InternalError, match=r'^the store\'s database: relation "tasks" does not exist$'
            ):
                emulator.queue("pull").add()
        finally:
            connection.execute("ALTER TABLE elsewhere RENAME TO tasks")
    emulator.close()


def test_each_call_is_one_round_trip(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding without names, leasing, extending and deleting ask the database once."""
    emulator = Emulator(CONFIG, store=url)
    queue = emulator.queue("pull")
    names = [task.name for task in queue.add_many([NewTask(tag="red")] * 9)]
    trips = 0
    wait = psycopg.Connection.wait

    def counted(connection: psycopg.Connection[object], *given: object, **more: object) -> object:
        nonlocal trips
        trips += 1
        return wait(connection, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(psycopg.Connection, "wait", counted)
    calls: dict[str, Callable[[], object]] = {
        "add": queue.add,
        "add one of a name": lambda: queue.add(name="one"),
        "add many": lambda: queue.add_many([NewTask()] * 100),
        "lease one": lambda: queue.lease_tasks(60, 1),
        "lease some": lambda: queue.lease_tasks(60, 2),
        "lease many": lambda: queue.lease_tasks(60, 40),
        "lease by tag": lambda: queue.lease_tasks_by_tag(60, 1, "red"),
        "extend": lambda: queue.modify_lease(names[0], 90),
        "give back": lambda: queue.modify_lease(names[0], 0),
        "delete": lambda: queue.delete_tasks(names[0]),
        "delete some": lambda: queue.delete_tasks(names[1:]),
    }
    taken: dict[str, int] = {}
    for call, make in calls.items():
        trips = 0
        make()
        taken[call] = trips
    monkeypatch.undo()
    emulator.close()

    assert taken == dict.fromkeys(calls, 1)


def test_more_open_files_than_select_takes(url: str) -> None:
    """A server with thousands of open files can use its database."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES + 100:
        pytest.skip("no more files may be opened here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES + 100), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(FILES):
            stack.enter_context(Path(os.devnull).open())
        emulator = Emulator(CONFIG, store=url)
        stack.callback(emulator.close)

        emulator.queue("pull").add(name="one")

        assert emulator.queue("pull").get_task("one").name == "one"


def end_all(application: str) -> None:
    """Close all connections of an application from the server's side."""
    with psycopg.connect(postgres_url()) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name = %s",
            (application,),
        )


def test_idle_connections_that_were_closed_are_replaced(url: str) -> None:
    """A restart of the database between two calls is not noticed."""
    emulator = Emulator(CONFIG, store=f"{url}&application_name=idle")
    queue = emulator.queue("pull")
    queue.add(name="one")

    end_all("idle")

    assert queue.get_task("one").name == "one"
    emulator.close()


def test_a_connection_that_is_lost_in_a_call(url: str) -> None:
    """The caller is told that it may try again, and can."""
    emulator = Emulator(CONFIG, store=f"{url}&application_name=lost")
    queue = emulator.queue("pull")
    queue.add(name="one")
    address = parsed(url)
    blocker = connect(address)
    blocker.autocommit = False
    blocker.execute("LOCK TABLE tasks")
    failures: list[Exception] = []

    def lease() -> None:
        try:
            queue.lease_tasks(60, 1)
        except TransientError as error:
            failures.append(error)

    thread = threading.Thread(target=lease)
    thread.start()
    with psycopg.connect(postgres_url(), autocommit=True) as watcher:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'lost' AND "
        while not watcher.execute(waiting + "wait_event_type = 'Lock'").fetchone():
            pass
    end_all("lost")
    thread.join(timeout=30)
    blocker.close()

    (failure,) = failures
    # psycopg before 3.2.7 tells at what it happened, too.
    assert str(failure).replace("consuming input failed: ", "") == (
        "the store's database: terminating connection due to administrator command; try again"
    )
    assert [task.retry_count for task in queue.lease_tasks(60, 1)] == [1]
    emulator.close()


def test_a_database_that_may_no_longer_be_written_to(url: str) -> None:
    """Old records are thrown away later, here too."""
    emulator = Emulator(CONFIG, store=f"{url}&connections=1")
    store = emulator._store
    assert isinstance(store, PostgresStore)
    store._touched["pull"] = 1_000_000

    with store._session() as session:
        session.change("SET default_transaction_read_only = on", {})
        store._touch(session, "pull", 1)

    assert store._touched["pull"] == 0
    with pytest.raises(TransientError, match="in a read-only transaction; try again"):
        emulator.queue("pull").add()
    emulator.close()


def test_records_that_cannot_be_swept(url: str, clock: ManualClock) -> None:
    """Old records are thrown away later; what was leased is leased."""
    emulator = Emulator(CONFIG, clock=clock, store=f"{url}&options=-c lock_timeout%3D50ms")
    queue = emulator.queue("pull")
    queue.add(name="one")
    store = emulator._store
    assert isinstance(store, PostgresStore)
    store._touched["pull"] = 1_000_000
    blocker = connect(parsed(url))
    blocker.autocommit = False
    blocker.execute(
        "SELECT pg_advisory_lock(hashtextextended(current_schema() || ': sweeping', 0))"
    )

    held = queue.lease_tasks(60, 1)
    blocker.close()

    assert [task.name for task in held] == ["one"]
    assert queue.fetch_statistics().leased == 1
    emulator.close()


class TestOpening:
    @pytest.fixture
    def schema(self) -> Iterator[str]:
        """Give the name of a schema that is not there, and remove it in the end."""
        name = str(parsed(own_schema("opening")).schema)
        with psycopg.connect(postgres_url(), autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())
            yield name
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())

    def refused(self, schema: str) -> str:
        """Give the message with which a schema is refused."""
        with pytest.raises(StoreError) as excinfo:
            Emulator(CONFIG, store=f"{postgres_url()}?schema={schema}")
        return str(excinfo.value)

    def test_many_servers_start_at_once(self, schema: str) -> None:
        """One makes the tables, and all can use them."""

        def start() -> None:
            emulator = Emulator(CONFIG, store=f"{postgres_url()}?schema={schema}")
            emulator.queue("pull").add()
            emulator.close()

        together(start, start)

        emulator = Emulator(CONFIG, store=f"{postgres_url()}?schema={schema}")
        assert emulator.queue("pull").fetch_statistics().tasks == 2 * THREADS
        emulator.close()

    def test_another_program_s_schema(self, schema: str) -> None:
        """It is refused and left as it is."""
        with psycopg.connect(postgres_url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
            connection.execute(f"CREATE TABLE {schema}.bookmarks (url text)".encode())

            message = self.refused(schema)

            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)
            ).fetchall()
        assert message == (
            f"schema {schema!r} of {postgres_url()} is another program's: name another, as in "
            "?schema=NAME"
        )
        assert tables == [("bookmarks",)]

    def test_a_newer_version(self, schema: str) -> None:
        """It is refused."""
        address = parsed(f"{postgres_url()}?schema={schema}")
        prepare(address)
        connection = connect(address)
        connection.execute("UPDATE schema_version SET number = 99")
        connection.close()

        assert "was written by a newer pullqueue (version 99, known here: 1)" in self.refused(
            schema
        )

    def test_the_schema_is_led_forward(self, schema: str) -> None:
        """The steps it has not seen are taken, once, and it keeps its tasks."""
        url = f"{postgres_url()}?schema={schema}"
        emulator = Emulator(CONFIG, store=url)
        emulator.queue("pull").add(name="kept")
        emulator.close()

        def extend(connection: Connection) -> None:
            connection.execute(text("ALTER TABLE events ADD COLUMN note text"))

        for _ in range(2):
            prepare(parsed(url), steps=(*STEPS, extend))

        connection = connect(parsed(url))
        version = connection.execute("SELECT number FROM schema_version").fetchone()
        tasks = connection.execute("SELECT name FROM tasks").fetchall()
        connection.close()
        assert (version, tasks) == ((len(STEPS) + 1,), [("kept",)])

    def test_no_server(self) -> None:
        """The message has the address, without the password, and the reason."""
        with pytest.raises(StoreError) as excinfo:
            Emulator(CONFIG, store="postgresql://me:secret@127.0.0.1:1/db")

        message = str(excinfo.value)
        assert message.startswith("store postgresql://me:***@127.0.0.1:1/db cannot be opened: ")
        assert "Connection refused" in message

    @pytest.mark.parametrize(
        "query", ["schema=no-dash", "schema=1st", "connections=0", "connections=many"]
    )
    def test_a_bad_option(self, query: str) -> None:
        """Options are checked before anything is connected to."""
        with pytest.raises(StoreError, match=query.partition("=")[0]):
            store_from_url(f"postgresql://127.0.0.1/db?{query}")
