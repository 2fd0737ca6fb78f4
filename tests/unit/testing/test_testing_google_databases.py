"""Calls to Datastore and Firestore by Google's clients are points by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from failing import assert_hidden_errors_are_found
from google.api_core.exceptions import GatewayTimeout
from google_databases import Records, serving_google_databases

from pullqueue import Emulator, Queue
from pullqueue.push.request import PushRequest
from pullqueue.testing import (
    CrashTestError,
    ProcessClock,
    RaceResult,
    RaceTestError,
    crash_test,
    freeze,
    race_test,
)

pytestmark = pytest.mark.slow

datastore, firestore, ndb = (
    import_module(f"google.cloud.{name}") for name in ("datastore", "firestore", "ndb")
)
"""Modules without types."""


Model: Any = ndb.Model


class RacedVisits(Model):  # type: ignore[misc]  # of Any
    value = ndb.IntegerProperty()


class Client:
    database = "Datastore"

    def read(self) -> int:
        """Return the value of the counter."""
        raise NotImplementedError

    def write(self, value: int) -> None:
        """Set it."""
        raise NotImplementedError

    def atomic(self, function: Callable[[], None]) -> None:
        """Call a function in a transaction."""
        raise NotImplementedError

    def query(self) -> int:
        """Return the sum of all counters."""
        raise NotImplementedError

    def count(self) -> None:
        """Lose an update where two do it."""
        self.write(self.read() + 1)


class Ndb(Client):
    def __init__(self) -> None:
        self._client = ndb.Client(project="p")

    def _context(self) -> Any:
        return self._client.context(cache_policy=False, global_cache=None)

    def read(self) -> int:
        with self._context():
            return int(RacedVisits.get_by_id("all").value)

    def write(self, value: int) -> None:
        with self._context():
            RacedVisits(id="all", value=value).put()

    def query(self) -> int:
        with self._context():
            return sum(each.value for each in RacedVisits.query())

    def count(self) -> None:
        with self._context():
            row = RacedVisits.get_by_id("all")
            row.value += 1
            row.put()

    def atomic(self, function: Callable[[], None]) -> None:
        def transact() -> None:
            row = RacedVisits.get_by_id("all")
            row.value += 1
            row.put()

        with self._context():
            ndb.transaction(transact, retries=3)


class Datastore(Client):
    def __init__(self) -> None:
        self._client = datastore.Client(project="p")
        self._key = self._client.key("Visits", "all")

    def read(self) -> int:
        return int(self._client.get(self._key)["value"])

    def write(self, value: int) -> None:
        entity = datastore.Entity(self._key)
        entity["value"] = value
        self._client.put(entity)

    def query(self) -> int:
        return sum(each["value"] for each in self._client.query(kind="Visits").fetch())

    def atomic(self, function: Callable[[], None]) -> None:
        for _ in range(3):
            try:
                with self._client.transaction():
                    function()
            except Exception as error:
                if type(error).__name__ != "Aborted":
                    raise
            else:
                return


class Firestore(Client):
    database = "Firestore"

    def __init__(self) -> None:
        self._client = firestore.Client(project="p")
        self._document = self._client.collection("visits").document("all")

    def read(self) -> int:
        return int(self._document.get().get("value"))

    def write(self, value: int) -> None:
        self._document.set({"value": value})

    def query(self) -> int:
        return sum(each.get("value") for each in self._client.collection("visits").stream())

    def atomic(self, function: Callable[[], None]) -> None:
        def transact(transaction: Any) -> None:
            value = self._document.get(transaction=transaction).get("value")
            transaction.set(self._document, {"value": value + 1})

        firestore.transactional(transact)(self._client.transaction())


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """An emulator in frozen time, as that of the fixtures: ndb compares times to wait."""
    with freeze(datetime(2026, 1, 1, tzinfo=UTC)):
        yield Emulator.from_text("queue:\n- name: pushed\n  rate: 5/s\n", clock=ProcessClock())


@pytest.fixture(scope="module")
def records() -> Records:
    return Records()


@pytest.fixture(scope="module")
def clients(records: Records) -> Iterator[dict[str, Client]]:
    """The clients, which are made before the tests, as those of apps."""
    with pytest.MonkeyPatch.context() as patch, serving_google_databases(records) as address:
        patch.setenv("DATASTORE_EMULATOR_HOST", address)
        patch.setenv("FIRESTORE_EMULATOR_HOST", address)
        yield {"ndb": Ndb(), "datastore": Datastore(), "firestore": Firestore()}


@pytest.fixture(params=["ndb", "datastore", "firestore"])
def client(request: pytest.FixtureRequest, clients: dict[str, Client]) -> Client:
    return clients[request.param]


def race(
    emulator: Emulator, client: Client, records: Records, count: Callable[[], None]
) -> RaceResult:
    def setup() -> None:
        records.clear()
        client.write(0)

    def check() -> None:
        assert client.read() == 2

    options: Any = {"copies": 2, "setup": setup, "check": check}
    return race_test(emulator, count, **options, clock=False, preemptions=1)


def test_a_lost_update_is_found(emulator: Emulator, client: Client, records: Records) -> None:
    with pytest.raises(RaceTestError, match="assert 1 == 2") as caught:
        race(emulator, client, records, client.count)

    calls = [step.partition(": ")[2].partition(" (")[0] for step in caught.value.schedule]
    assert len(calls) == 4
    assert all(call.startswith(f"{client.database}: ") for call in calls)


def test_a_query_and_a_write_lose_an_update(
    emulator: Emulator, client: Client, records: Records
) -> None:
    with pytest.raises(RaceTestError, match="assert 1 == 2"):
        race(emulator, client, records, lambda: client.write(client.query() + 1))


def test_a_transaction_is_correct(emulator: Emulator, client: Client, records: Records) -> None:
    """One of two that have read the same is aborted, and tried again."""
    result = race(emulator, client, records, lambda: client.atomic(client.count))

    assert result.is_complete
    assert result > 2
    assert result.seen == (client.database,)


def test_the_report_names_the_error_of_a_call(
    emulator: Emulator, clients: dict[str, Client]
) -> None:
    def count() -> None:
        clients["datastore"].atomic(clients["datastore"].count)

    with pytest.raises(RaceTestError) as caught:
        race_test(
            emulator,
            count,
            copies=2,
            setup=lambda: clients["datastore"].write(0),
            check=lambda: False,
            replay="1x3 2x4 1x6",
        )

    assert any("Datastore: Commit" in step for step in caught.value.schedule)
    assert any(step.endswith(" raises Aborted") for step in caught.value.schedule)


def test_calls_to_different_entities_need_no_order(
    emulator: Emulator, clients: dict[str, Client]
) -> None:
    """Nothing here refers to what the server has in memory, which each call changes."""

    def setup() -> None:
        for client in clients.values():
            client.write(0)

    def actor(name: str) -> Callable[[], None]:
        def count() -> None:
            clients[name].count()

        count.__name__ = name
        return count

    def check() -> None:
        assert [client.read() for client in clients.values()] == [1, 1, 1]

    result = race_test(emulator, *map(actor, clients), setup=setup, check=check, clock=False)

    assert result == 1
    assert result.is_complete


def test_what_a_killed_handler_has_not_committed_has_no_effect(
    emulator: Emulator, pushed: Queue, client: Client, records: Records
) -> None:
    """A handler that counts, and is retried where its response is lost, counts twice."""

    def setup() -> None:
        records.clear()
        client.write(0)
        pushed.add(name="one")

    def send(_: PushRequest) -> int:
        client.atomic(client.count)
        return 200

    def check() -> None:
        assert client.read() == 1

    with pytest.raises(CrashTestError) as caught:
        crash_test(emulator, setup=setup, check=check, send=send)

    assert [failure.title for failure in caught.value.failures] == ["response lost"]


def test_a_write_that_fails_is_an_error_of_the_client(
    emulator: Emulator, pushed: Queue, client: Client
) -> None:
    assert_hidden_errors_are_found(
        emulator,
        pushed,
        GatewayTimeout,
        reset=lambda: client.write(0),
        write=lambda: client.write(1),
        value=client.read,
    )
