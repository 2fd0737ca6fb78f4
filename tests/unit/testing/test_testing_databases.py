"""Calls to databases are points of `race_test` and `crash_test` by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from cloudtasks_interface import grpc_client
from functions import Work, adding, handling, in_turn
from places import without_places
from visits import Open, Visits

from pullqueue import Emulator, Queue
from pullqueue.push.request import PushRequest
from pullqueue.server.lifecycle import Server
from pullqueue.testing import (
    Crash,
    CrashResult,
    CrashTestError,
    ProcessClock,
    RaceResult,
    RaceTestError,
    crash_test,
    freeze,
    race_test,
)

pytestmark = pytest.mark.slow

Crashes = Callable[..., CrashResult]


@pytest.fixture(scope="module")
def open_kind() -> Iterator[Callable[[str], Open]]:
    """A function that imports a module `visits_*`, which is slow, and starts its server, if any."""
    with ExitStack() as stack:
        yield cache(lambda kind: stack.enter_context(import_module(f"visits_{kind}").serving()))


@pytest.fixture
def visits(
    request: pytest.FixtureRequest, open_kind: Callable[[str], Open], tmp_path: Path
) -> Iterator[Visits]:
    """A counter in a database: kind and variant."""
    kind, _, variant = request.param.partition(" ")
    with open_kind(kind)(variant, tmp_path) as visits:
        yield visits


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """An emulator in frozen time, as that of the fixtures: ndb compares times to wait."""
    with freeze(datetime(2026, 1, 1, tzinfo=UTC)):
        yield Emulator.from_text("queue: [{name: pushed, rate: 5/s}]", clock=ProcessClock())


DATABASES = [
    *("sqlite", "sqlalchemy", "sqlalchemy pool", "sqlalchemy postgresql"),
    *("django", "django connected", "django postgresql"),
    *("redis", "google ndb", "google datastore", "google firestore"),
]
SQLALCHEMY, DJANGO, GOOGLE = DATABASES[1:4], DATABASES[4:7], DATABASES[8:]
PATHS = ["sqlite", "sqlalchemy pool", "sqlalchemy postgresql", *DJANGO[1:]]
"""Without two whose calls are those of new connections to SQLite, as in the first."""


def each_way(*ways: tuple[list[str], str]) -> pytest.MarkDecorator:
    """Run a test with each of some methods of each of some databases."""
    pairs = [(name, way) for names, some in ways for name in names for way in some.split()]
    return pytest.mark.parametrize(("visits", "way"), pairs, indirect=["visits"])


def race(emulator: Emulator, visits: Visits, way: str, *, preemptions: int = 1) -> RaceResult:
    """Run two that count against each other."""

    def check() -> None:
        assert visits.value() == 2

    options: Any = {"copies": 2, "setup": visits.reset, "check": check, "clock": False}
    return race_test(emulator, getattr(visits, way), **options, preemptions=preemptions)


@pytest.fixture
def crash(emulator: Emulator, pushed: Queue, visits: Visits) -> Crashes:
    """Crashes of a handler, which has to count once."""
    setup = in_turn(visits.reset, adding(pushed, "one"))

    def check() -> None:
        assert visits.value() == 1

    return partial(crash_test, emulator, setup=setup, check=check)


@each_way(
    (["sqlite"], "by_connection by_block by_cursor by_many by_script by_autocommit by_name"),
    (["sqlite"], "by_factory by_position"),
    (SQLALCHEMY, "by_session"),
    (["sqlalchemy pool"], "by_connection"),
    (DJANGO[:2], "by_save"),
    (["django connected"], "by_cursor"),
    (["django postgresql"], "by_transaction"),
    (["redis"], "by_set by_pipeline"),
    (GOOGLE, "count"),
    (GOOGLE[1:], "by_query"),
)
@pytest.mark.filterwarnings("ignore:Passing more than 1 positional argument")  # since 3.13
def test_a_lost_update_is_found(emulator: Emulator, visits: Visits, way: str) -> None:
    """Each call is shown with the line of the app, also where SQLAlchemy generates code."""
    with pytest.raises(RaceTestError, match="assert 1 == 2") as caught:
        race(emulator, visits, way)

    steps = [step for step in caught.value.schedule if f": {visits.name}: " in step]
    file = import_module(type(visits).__module__).__file__
    assert len(steps) >= 4
    assert all(f"{Path(str(file)).name}:" in step for step in steps), steps
    if visits.name == "SQLAlchemy":
        assert all(f" in {way})" in step for step in steps), steps


@each_way((["sqlite", *DJANGO[:2]], "by_transaction"))
def test_a_transaction_that_has_read_may_not_write_after_another(
    emulator: Emulator, visits: Visits, way: str
) -> None:
    """SQLite refuses at once what could be a deadlock, whatever the timeout is."""
    with pytest.raises(RaceTestError, match="database is locked") as caught:
        race(emulator, visits, way)

    assert not any("waits" in step or "time:" in step for step in caught.value.schedule)


@each_way(
    (["sqlite"], "with_a_lock by_isolation_level by_expression"),
    (SQLALCHEMY + DJANGO, "with_a_lock"),
    (["sqlalchemy pool", "django connected"], "by_expression"),
    (["redis"], "by_incr by_watch by_transaction by_lock"),
    (GOOGLE, "by_transaction"),
)
def test_a_correct_update_is_correct(emulator: Emulator, visits: Visits, way: str) -> None:
    """Who waits for the lock of another lets that one go on; who is aborted tries it again."""
    result = race(emulator, visits, way)

    assert result.is_complete
    assert result > 1
    seen = ", ".join(result.seen)
    by_itself = "sqlite3, " if visits.name == "Django" else ""  # sets its connection up
    assert seen.removeprefix(by_itself) == visits.name
    assert str(result).startswith(f"all {int(result)} orders that can differ of calls to {seen}")


@each_way((["sqlalchemy postgresql"], "with_two_transactions"))
def test_who_waited_for_a_lock_goes_on_once_it_is_released(
    emulator: Emulator, visits: Visits, way: str
) -> None:
    """And not sometime while the other makes its next calls, so that no run could be repeated."""
    assert race(emulator, visits, way, preemptions=2).is_complete


@each_way(
    (PATHS, "with_a_lock"),
    (["sqlalchemy", "sqlalchemy postgresql"], "by_autocommit"),
    (["redis", *GOOGLE], "by_transaction"),
)
def test_what_a_killed_handler_has_not_committed_has_no_effect(
    crash: Crashes, visits: Visits, way: str
) -> None:
    """One that counts, and is retried after its commit or its lost response, counts twice."""
    with pytest.raises(CrashTestError) as caught:
        crash(send=handling(getattr(visits, way)))

    # A connection of psycopg in autocommit is rolled back when it is released.
    killed, lost = [f for f in caught.value.failures if ": ROLLBACK (" not in f.title]
    assert (killed.crash, lost.title) == (Crash.AFTER, "response lost")
    assert (": COMMIT (" in killed.title) == (way == "with_a_lock")


@pytest.mark.parametrize("visits", PATHS, indirect=True)
def test_a_handler_that_commits_before_it_adds_a_task_loses_it(
    crash: Crashes, pushed: Queue, visits: Visits
) -> None:
    """The order is paid, and the retry finds that; Django's `on_commit` is after the commit."""

    def send(request: PushRequest) -> int:
        if request.task_name != "mail":
            visits.pay(lambda: pushed.add(name="mail"))
        return 200

    def check() -> bool:
        return "mail" in {event.task_name for event in pushed.events()}

    with pytest.raises(CrashTestError) as caught:
        crash(send=send, check=check)

    failures = caught.value.failures
    commit, add = without_places(failures[1].calls[-2:])
    assert failures[1].title.startswith("killed before call ")
    assert (commit, add) == (f"{visits.name}: COMMIT", 'add(["mail"]) on queue "pushed"')
    assert [f.crash for f in failures if ": COMMIT (" in f.title] == [Crash.AFTER]


@each_way(
    (["sqlite"], "write write_in_a_block write_with_a_statement"),
    (["redis"], "write write_by_pipeline"),
    ([*PATHS[1:], *GOOGLE], "write"),
)
def test_a_write_that_fails_is_an_error_of_the_database(
    crash: Crashes, visits: Visits, way: str
) -> None:
    """A handler that hides the error is found."""
    raised: set[type[Exception]] = set()
    write = getattr(visits, way)

    def careless() -> None:
        try:
            write()
        except Exception as failure:  # noqa: BLE001 - as in bad code
            raised.add(type(failure))

    crash(send=handling(write), errors=True)
    with pytest.raises(CrashTestError) as caught:
        crash(send=handling(careless), errors=True)
    assert {failure.crash for failure in caught.value.failures} == {Crash.ERROR}
    assert any(issubclass(each, visits.error) for each in raised), raised


@pytest.mark.parametrize("visits", ["sqlalchemy memory"], indirect=True)
def test_actors_that_share_a_connection_are_a_warning(emulator: Emulator, visits: Visits) -> None:
    """A database in memory has one connection, which would be one transaction of both."""
    with (
        pytest.warns(UserWarning, match="share one connection of a StaticPool"),
        suppress(RaceTestError),
    ):
        race(emulator, visits, "by_expression")


@pytest.mark.parametrize("visits", ["sqlalchemy memory"], indirect=True)
def test_a_kill_that_deletes_a_database_in_memory_is_a_warning(crash: Crashes, visits: Any) -> None:
    with (
        pytest.warns(UserWarning, match="closes the one connection of a StaticPool"),
        suppress(CrashTestError, visits.error),  # of setup, too
    ):
        crash(send=handling(visits.by_expression))


@pytest.mark.parametrize("visits", ["google datastore"], indirect=True)
def test_the_report_names_the_error_of_a_call(emulator: Emulator, visits: Any) -> None:
    with pytest.raises(RaceTestError) as caught:
        race_test(
            emulator,
            visits.by_transaction,
            copies=2,
            setup=visits.reset,
            check=lambda: False,
            replay="1x3 2x4 1x6",
        )

    assert any("Datastore: Commit" in step for step in caught.value.schedule)
    assert any(step.endswith(" raises Aborted") for step in caught.value.schedule)


def test_calls_to_different_entities_need_no_order(
    emulator: Emulator, open_kind: Callable[[str], Open], tmp_path: Path
) -> None:
    """Nothing here refers to what the server has in memory, which each call changes."""
    with ExitStack() as stack:
        opened = open_kind("google")
        names = ("ndb", "datastore", "firestore")
        counters: Any = {name: stack.enter_context(opened(name, tmp_path)) for name in names}

    def setup() -> None:
        for counter in counters.values():
            counter.reset()

    def actor(name: str) -> Work:
        def count() -> None:
            counters[name].count()

        count.__name__ = name
        return count

    def check() -> None:
        assert [counter.value() for counter in counters.values()] == [1, 1, 1]

    result = race_test(emulator, *map(actor, names), setup=setup, check=check, clock=False)

    assert result == 1
    assert result.is_complete


@pytest.mark.parametrize("visits", ["google datastore"], indirect=True)
def test_calls_over_grpc_to_other_services_are_not_points(emulator: Emulator, visits: Any) -> None:
    with Server(emulator, grpc_port=0) as server, grpc_client(server.grpc_address) as client:

        def actor() -> None:
            visits.count()
            client.list_queues(parent="projects/p/locations/us-central1")

        options: Any = {"setup": visits.reset, "check": lambda: False, "clock": False}
        with pytest.raises(RaceTestError) as caught:
            race_test(emulator, actor, copies=2, **options)

    calls = [step.partition(": ")[2].partition(" (")[0] for step in caught.value.schedule]
    assert calls == ["Datastore: Lookup Visits", "Datastore: Commit Visits"] * 2


@pytest.mark.parametrize("visits", ["redis"], indirect=True)
def test_calls_to_different_keys_of_redis_need_no_order(emulator: Emulator, visits: Any) -> None:
    client = visits.client

    def one() -> None:
        client.set("one", visits.value())

    def other() -> None:
        client.set("other", visits.value())
        client.delete("third", "fourth")

    result = race_test(emulator, one, other, setup=visits.reset, check=lambda: True, clock=False)

    assert result == 1


@pytest.mark.parametrize("visits", ["redis"], indirect=True)
@pytest.mark.parametrize(
    ("how", "seconds", "is_named"),
    [
        *(("set", 20, True), ("pipeline", 20, True), ("expire", 20, True), ("getex", 20, True)),
        *(("set", 0, False), ("without", 20, False), ("at the end", 20, False)),
    ],
)
def test_keys_of_redis_that_do_not_expire_are_named(
    emulator: Emulator, visits: Any, how: str, seconds: int, *, is_named: bool
) -> None:
    """Where the clock has moved, in the same run, since one was set that should."""

    def act() -> None:
        if how == "at the end":
            visits.client.get("lock")
            time.sleep(seconds)  # noqa: TID251 - moves the clock
            visits.client.set("lock", 1, ex=10)
            return
        with visits.client.pipeline() as pipeline:
            client = pipeline if how == "pipeline" else visits.client
            client.set("lock", 1, ex=None if how in ("expire", "getex", "without") else 10)
            if how == "expire":
                client.expire("lock", 10)
            if how == "getex":
                client.getex("lock", ex=10)
            pipeline.execute()
        time.sleep(seconds)  # noqa: TID251 - moves the clock
        visits.client.get("lock")

    options: Any = {"setup": visits.reset, "check": lambda: True, "clock": False, "schedules": 2}
    result = race_test(emulator, act, copies=2, **options)
    expiry = "the expiry of keys of redis (its time is real)"
    assert result.unseen == ((expiry,) if is_named else ())
    with pytest.raises(RaceTestError) as caught:
        race_test(emulator, act, copies=2, **options | {"check": lambda: False})
    assert (f"moving the clock does not change {expiry}" in str(caught.value)) is is_named


@pytest.mark.parametrize("visits", ["redis"], indirect=True)
def test_a_handler_is_killed_between_calls_to_redis_and_not_within_a_pipeline(
    crash: Crashes, visits: Any
) -> None:
    """A handler that is killed before it sets its mark, but after its effect, repeats that."""
    client = visits.client

    def count() -> None:
        if not client.exists("done"):
            visits.by_incr()
            client.set("done", 1)

    def count_at_once() -> None:
        if not client.exists("done"):
            with client.pipeline() as pipeline:
                pipeline.incr("visits")
                pipeline.set("done", 1)
                pipeline.execute()

    with pytest.raises(CrashTestError) as caught:
        crash(send=handling(count))
    after, before = caught.value.failures
    assert after.title.startswith("killed after call 2, redis: ")
    assert before.title.startswith("killed before call 3, redis: SET done (")
    assert crash(send=handling(count_at_once)) == 4
