"""Push tasks in a PostgreSQL database that several servers share."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import psycopg
from forking import forked
from push_app import Received, push_app, until
from served import serving
from stores import expire_claims, own_schema, postgres_url

from pullqueue import Emulator, HttpRequest, NewTask
from pullqueue.engine.store import Claim
from pullqueue.push.addresses import PushAddresses
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store
from pullqueue.stores.postgres_pool import connect, parsed

QUEUE_YAML = """\
queue:
- name: hourly
  rate: 1/h
  bucket_size: 1
- name: single
  rate: 500/s
  max_concurrent_requests: 1
- name: many
  rate: 500/s
  bucket_size: 500
"""


SERVE = """
import os, sys
from pathlib import Path
from pullqueue.cli import main
from pullqueue.runtime import delivery
from pullqueue.stores import postgres
postgres._CLAIM_USEC = 4_000_000
delivery._LEASE_SECONDS = 5.0
Path("pid").write_text(str(os.getpid()))
sys.exit(main(["serve", *sys.argv[1:]]))
"""
"""A server whose claims and attempts others wait for a third of the time."""


def test_one_server_sends_the_tasks_of_a_queue(tmp_path: Path) -> None:
    """The limits of a queue hold over all servers, and when one is killed another goes on."""
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    store = own_schema("push")
    emulator = Emulator.from_text(QUEUE_YAML, store=open_store(store))
    emulator.reset()
    hourly, single, _, default = emulator.queues
    hourly.add_many([NewTask(request=HttpRequest("/hourly"))] * 3)
    single.add_many([NewTask(request=HttpRequest("/slow"))] * 3)
    with (
        closing(emulator),
        push_app() as app,
        serving("--store", store, "--push-to", app.url, folder=tmp_path) as first,
    ):
        until(lambda: app.running["/slow"] and "/hourly" in app.paths())
        with Server(emulator, push_to=PushAddresses([app.url])):
            # Only this server sends these tasks, and it has looked at the other queues before.
            assert default.store.claim_dispatch("default") is Claim.NEW
            default.add(request=HttpRequest("/default"))
            until(lambda: "/default" in app.paths())
            assert (app.paths().count("/hourly"), app.running["/slow"]) == (1, 1)
            first.kill()
            expire_claims(store)
            until(lambda: app.running["/slow"] == 2)
            app.released.set()
            until(lambda: app.paths().count("/slow") == 3)
            assert app.paths().count("/hourly") == 1  # the other one took the token

    retries = [r.headers["X-AppEngine-TaskRetryCount"] for r in app.received]
    assert set(retries) == {"0"}


def test_a_frozen_server_is_replaced_and_does_not_go_on(tmp_path: Path) -> None:
    """Its claim expires within seconds; an attempt that it had started only is another server's.

    It can have been frozen between its look at the lease and the first byte, which comes last then.
    """
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    store = own_schema("frozen")
    emulator = Emulator.from_text(QUEUE_YAML, store=open_store(store))
    emulator.reset()
    many, start = emulator.queue("many"), (forked("python-program"), "-c", SERVE)
    with (
        closing(emulator),
        push_app() as app,
        serving("--store", store, "--push-to", app.url, folder=tmp_path, start=start),
    ):
        pid = int((tmp_path / "pid").read_text())

        def freeze(_: Received) -> None:
            if len(app.received) == 20:
                os.kill(pid, signal.SIGSTOP)

        app.on_request = freeze
        many.add_many([NewTask(request=HttpRequest("/many"))] * 100)
        until(lambda: len(app.received) >= 20)
        try:
            with Server(emulator, push_to=PushAddresses([app.url])):
                until(lambda: not many.list_tasks())
                os.kill(pid, signal.SIGCONT)
                many.add_many([NewTask(request=HttpRequest("/after"))] * 100)
                until(lambda: not many.list_tasks())
        finally:
            os.kill(pid, signal.SIGCONT)

    retries: dict[str, list[int]] = {}
    for received in app.received:
        name = received.headers["X-AppEngine-TaskName"]
        retries.setdefault(name, []).append(int(received.headers["X-AppEngine-TaskRetryCount"]))
    assert len(retries) == 200
    assert {tuple(counts) for counts in retries.values()} <= {(0,), (1,), (0, 1), (1, 0)}


def test_a_server_keeps_its_claim_when_its_connections_are_cut(tmp_path: Path) -> None:
    """Two servers never send the tasks of one queue at the same time."""
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    store = own_schema("cut")
    emulator = Emulator.from_text(QUEUE_YAML, store=open_store(store))
    emulator.reset()
    with (
        closing(emulator),
        push_app() as app,
        serving(
            *("--store", f"{store}&application_name=cut"), "--push-to", app.url, folder=tmp_path
        ) as first,
    ):
        emulator.queue("single").add_many([NewTask(request=HttpRequest("/slow"))] * 2)
        until(lambda: app.running["/slow"])
        with (
            Server(emulator, push_to=PushAddresses([app.url])),
            psycopg.connect(postgres_url(), autocommit=True) as connection,
        ):
            for _ in range(8):
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'cut'"
                )
                emulator.queue("default").add(request=HttpRequest("/default"))
                until(lambda: not emulator.queue("default").list_tasks())
                assert app.running["/slow"] == 1
            app.released.set()
            until(lambda: app.paths().count("/slow") == 2)
        assert first.process.poll() is None


def test_a_task_that_cannot_be_started_holds_up_no_other() -> None:
    """Not even those of its own queue, while it waits for a lock of the database."""
    emulator = Emulator.from_text(QUEUE_YAML, store=open_store(own_schema("locked")))
    emulator.reset()
    many = emulator.queue("many")
    many.add(name="locked", request=HttpRequest("/locked"))
    with closing(emulator), push_app() as app, connect(parsed(own_schema("locked"))) as connection:
        connection.autocommit = False
        connection.execute("SELECT FROM tasks WHERE name = 'locked' FOR UPDATE")
        with Server(emulator, push_to=PushAddresses([app.url])):
            for queue in (many, emulator.queue("default")):
                queue.add(request=HttpRequest(f"/{queue.name}"))
            until(lambda: {"/many", "/default"} <= {*app.paths()})
            assert "/locked" not in app.paths()
            connection.rollback()
            until(lambda: "/locked" in app.paths())
