"""Google's stub of the datastore with several clients."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from resource import RLIMIT_FSIZE
from typing import Any

import pytest
from rlimits import limited
from services_client import Client, RefusedError, datastore_pb, messages

from pullqueue import Emulator
from pullqueue.errors import StoreError
from pullqueue.server.lifecycle import Server
from pullqueue.services import datastore
from pullqueue.services.hosting import Services
from pullqueue.services.journal import Journal
from pullqueue.stores import open_store
from pullqueue.tasks import NewTask

Serve = Callable[..., Server]
BAD_REQUEST = datastore_pb.Error.BAD_REQUEST
CONCURRENT = datastore_pb.Error.CONCURRENT_TRANSACTION
READ_WRITE = datastore_pb.BeginTransactionRequest.READ_WRITE


class TestTransactions:
    def test_handles_are_never_used_again(self, client: Client) -> None:
        """A commit that is repeated commits no transaction that another client has started."""
        handles = set()
        for _ in range(50):
            transaction = client.begin()
            handles.add(transaction.handle)
            client.commit(transaction)
        other = client.begin()
        client.put("other", 1, other)

        with pytest.raises(RefusedError, match="not found") as refused:
            client.commit(transaction)

        assert refused.value.code == BAD_REQUEST
        assert len(handles) == 50
        assert client.get("other") is None

    def test_the_previous_transaction_is_the_clients_own(self, client: Client) -> None:
        first, other = client.begin(mode=READ_WRITE), client.begin(mode=READ_WRITE)
        client.put("first", 1, first)
        client.put("other", 1, other)
        again = client.begin(mode=READ_WRITE, previous_transaction=first)
        for _ in range(3):  # it has ended
            client.begin(mode=READ_WRITE, previous_transaction=first)

        client.commit(other)
        client.commit(again)
        with pytest.raises(RefusedError, match="not found"):
            client.commit(first)

        assert (client.get("first"), client.get("other")) == (None, 1)

    @pytest.mark.slow
    def test_no_update_is_lost(self, serve: Serve) -> None:
        server = serve()
        Client(server.url).put("sum", 0)

        def add_one(client: Client) -> None:
            options: dict[str, Any] = {}
            while True:
                previous = client.begin(mode=READ_WRITE, **options)
                options["previous_transaction"] = previous
                try:
                    client.put("sum", (client.get("sum", previous) or 0) + 1, previous)
                    client.commit(previous)
                except RefusedError as error:
                    assert error.code == CONCURRENT, error
                else:
                    return

        with ThreadPoolExecutor(8) as pool:
            clients = [Client(server.url) for _ in range(8)]
            list(pool.map(add_one, clients * 2))

        assert clients[0].get("sum") == 16

    def test_the_oldest_of_those_left_open_is_rolled_back(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(datastore, "_MAX_TRANSACTIONS", 20)
        first, second = client.begin(), client.begin()
        for _ in range(19):
            client.begin()

        with pytest.raises(RefusedError, match="not found"):
            client.put("a", 1, first)
        client.put("a", 1, second)

    def test_a_transaction_does_not_survive_the_server(self, serve: Serve, tmp_path: Path) -> None:
        with ExitStack() as first:
            old = Client(serve(first, data=tmp_path).url).begin()
        client = Client(serve(data=tmp_path).url)
        client.begin()

        with pytest.raises(RefusedError, match="not found"):
            client.put("a", 1, old)


class TestTasks:
    def test_a_commit_adds_them_and_a_rollback_drops_them(
        self, client: Client, emulator: Emulator
    ) -> None:
        rolled_back = client.begin()
        client.add(rolled_back)
        client.datastore("Rollback", rolled_back)
        with pytest.raises(RefusedError):
            client.commit(rolled_back)
        transaction = client.begin()
        client.put("a", 1, transaction)
        names = client.add(transaction)
        assert emulator.queue("pull").list_tasks() == []

        client.commit(transaction)

        assert [task.name for task in emulator.queue("pull").list_tasks()] == names

    def test_a_conflict_drops_them(self, client: Client, emulator: Emulator) -> None:
        client.put("a", 0)
        transaction = client.begin()
        client.get("a", transaction)
        client.put("a", 1, transaction)
        client.add(transaction)
        client.put("a", 2)

        with pytest.raises(RefusedError) as refused:
            client.commit(transaction)

        assert refused.value.code == CONCURRENT
        assert (emulator.queue("pull").list_tasks(), client.get("a")) == ([], 2)


class TestApps:
    def test_each_sees_its_own_entities(self, serve: Serve) -> None:
        url = serve().url
        one, two = Client(url, "s~one"), Client(url, "dev~two")
        one.put("a", 1)

        assert (one.get("a"), two.get("a")) == (1, None)
        with pytest.raises(RefusedError, match="cannot access app"):
            one.get_key(one.key("a"), two.begin())

    @pytest.mark.parametrize("project", ["mine", "s~mine"])
    def test_only_that_of_the_project_is_answered(self, serve: Serve, project: str) -> None:
        url = serve(project=project).url
        Client(url, "s~mine").put("a", 1)
        Client(url, "dev~mine").put("a", 1)

        with pytest.raises(RefusedError, match='application id "dev~other" is not that of') as no:
            Client(url, "dev~other").put("a", 1)
        assert no.value.code == BAD_REQUEST

    def test_a_request_without_a_key_names_no_app(self, serve: Serve) -> None:
        """`db.delete` sends it for a query without results."""
        client = Client(serve(project="mine").url, "s~mine")

        client.datastore("Delete", datastore_pb.DeleteRequest(), datastore_pb.DeleteResponse())


class TestConsistency:
    def test_queries_see_every_write(self, client: Client) -> None:
        for number in range(20):
            client.put(f"{number}", number)
            assert client.count() == number + 1

    def test_eventual_queries_may_miss_the_latest(self, serve: Serve) -> None:
        client = Client(serve(eventual=True).url)
        counts = []
        for number in range(20):
            client.put(f"{number}", number)
            counts.append(client.count())

        assert counts != list(range(1, 21))
        assert [client.get(f"{number}") for number in range(20)] == list(range(20))
        assert client.count() == 20


class TestJournal:
    def test_data_outlive_the_server(self, serve: Serve, tmp_path: Path) -> None:
        with ExitStack() as first:
            client = Client(serve(first, data=tmp_path / "new" / "data").url)
            client.put("kept", 1)
            client.put("gone", 1)
            client.delete("gone")
            transaction = client.begin()
            client.put("committed", 2, transaction)
            client.add(transaction)
            client.commit(transaction)
            generated = client.put("", 3)
            lost = client.begin()
            client.put("lost", 4, lost)
        with closing(Journal(tmp_path / "new" / "data" / "datastore.db")) as journal:
            assert journal.tasks() == [], "that of the commit is in the queue"

        client = Client(serve(data=tmp_path / "new" / "data").url)

        names = ("kept", "gone", "committed", "lost")
        assert [client.get(name) for name in names] == [1, None, 2, None]
        assert client.get_key(generated) == 3
        assert client.put("", 5) != generated
        assert client.count() == 4

    def test_what_is_not_applied_yet_outlives_the_server(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        """Under eventual consistency a commit is acknowledged before queries see it."""
        with ExitStack() as first:
            client = Client(serve(first, data=tmp_path, eventual=True).url)
            for number in range(20):
                client.put(f"{number}", number)

        assert Client(serve(data=tmp_path).url).count() == 20

    def test_tasks_of_a_commit_are_added_after_a_crash(
        self, serve: Serve, tmp_path: Path, emulator: Emulator
    ) -> None:
        """Where the server ended before the queue had them; those that it had are left alone."""
        queue = emulator.queue("pull")
        queue.add(name="there")
        queue.add(name="gone")
        queue.delete_tasks("gone")
        adds = [
            messages.TaskQueueAddRequest(
                queue_name=b"pull", task_name=name, eta_usec=0, mode=1, body=b"work"
            ).SerializeToString()
            for name in (b"missing", b"there", b"gone")
        ]
        with closing(Journal(tmp_path / "datastore.db")) as journal:
            journal.write({}, {}, adds)

        for _ in range(2):
            with ExitStack() as server:
                serve(server, data=tmp_path)
            assert sorted(task.name for task in queue.list_tasks()) == ["missing", "there"]
        with closing(Journal(tmp_path / "datastore.db")) as journal:
            assert journal.tasks() == []

    def test_tasks_that_the_store_of_the_queue_refuses_are_added_later(
        self, tmp_path: Path
    ) -> None:
        """The commit was acknowledged, so its task is added when the server starts again."""

        def emulator() -> Emulator:
            store = open_store(f"sqlite:///{tmp_path / 'tasks.db'}")
            return Emulator.from_text("queue: [{name: pull, mode: pull}]", store=store)

        def server(emulator: Emulator) -> Server:
            services = Services(clock=emulator.clock, data=tmp_path)
            ends.enter_context(closing(services))
            return ends.enter_context(Server(emulator, services=services))

        with ExitStack() as ends:
            first = ends.enter_context(closing(emulator()))
            first.queue("pull").add_many([NewTask(payload=bytes(4096))] * 100)
            client = Client(server(first).url)
            transaction = client.begin()
            client.put("a", 1, transaction)
            (name,) = client.add(transaction)
            with limited(RLIMIT_FSIZE, (tmp_path / "tasks.db-wal").stat().st_size):
                client.commit(transaction)
            assert name not in [task.name for task in first.queue("pull").list_tasks()]

        with ExitStack() as ends:
            second = ends.enter_context(closing(emulator()))
            server(second)
            assert second.queue("pull").get_task(name).name == name

    def test_nothing_is_answered_after_it_cannot_be_written(
        self, serve: Serve, tmp_path: Path, emulator: Emulator
    ) -> None:
        with ExitStack() as server:
            client = Client(serve(server, data=tmp_path).url)
            client.put("before", 1)
            with limited(RLIMIT_FSIZE, (tmp_path / "datastore.db-wal").stat().st_size):
                transaction = client.begin()
                client.put("after", 1, transaction)
                client.add(transaction)
                for _ in range(2):
                    with pytest.raises(RefusedError, match="cannot write to the folder of --data"):
                        client.commit(transaction)
            with pytest.raises(RefusedError, match="make room, and start the server again"):
                client.get("before")
            assert emulator.queue("pull").list_tasks() == []

        client = Client(serve(data=tmp_path).url)
        assert (client.get("before"), client.get("after")) == (1, None)

    @pytest.mark.parametrize(
        ("statement", "problem"),
        [
            ("CREATE TABLE notes (a)", "is the database of another program"),
            ("PRAGMA user_version = 9", r"was written by a newer pullqueue \(schema 9, known here"),
            ("", r"cannot be read \(file is not a database\): use"),
        ],
    )
    def test_other_files_are_refused_and_not_changed(
        self, tmp_path: Path, statement: str, problem: str
    ) -> None:
        path = tmp_path / "datastore.db"
        if statement:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(statement)
        else:
            path.write_bytes(b"not a database" * 100)
        before = path.read_bytes()

        with pytest.raises(StoreError, match=problem):
            Journal(path)
        assert path.read_bytes() == before

    def test_its_folder_is_made_for_one_server_and_its_owner(
        self, serve: Serve, tmp_path: Path
    ) -> None:
        serve(data=tmp_path / "data")
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "data" / "datastore.db").stat().st_mode & 0o777 == 0o600

        with pytest.raises(StoreError, match=r'datastore\.db" is in use by another server: '):
            serve(data=tmp_path / "data")
        (tmp_path / "file").write_text("")
        with pytest.raises(
            StoreError,
            match=r'folder ".*/file/data" cannot be made \(not a directory\): correct that',
        ):
            serve(data=tmp_path / "file" / "data")
        (tmp_path / "folder" / "datastore.db").mkdir(parents=True)
        with pytest.raises(StoreError, match=r'datastore\.db" cannot be opened: check the folder'):
            serve(data=tmp_path / "folder")
