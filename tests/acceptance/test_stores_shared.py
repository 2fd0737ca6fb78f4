"""Several servers on one PostgreSQL database, and what may happen to them and to it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from store_load import Ledger, QueueClient, Refused, RestClient, Served, check, finish, load
from stores import LONG, own_schema, postgres_url

from pullqueue import Emulator, TransientError
from pullqueue.stores import open_store

QUEUES = "queue:\n- name: pull\n  mode: pull\n"
POSTGRES = Path(__file__).parents[2] / ".ci" / "postgres"
KILLS = 300 if LONG else 4
SECONDS = 20.0 if LONG else 0.8
"""How long workers load the servers between two events."""


@pytest.fixture
def queue_yaml(tmp_path: Path) -> Path:
    """Return the servers' configuration."""
    path = tmp_path / "queue.yaml"
    path.write_text(QUEUES)
    return path


@pytest.mark.long
def test_two_servers_of_which_one_is_killed(queue_yaml: Path) -> None:
    """Workers of both see one queue; when one is killed, the other goes on with all of it."""
    store = own_schema("shared")
    emulator = Emulator.from_text(QUEUES, store=open_store(store))
    emulator.reset()
    servers = [Served(queue_yaml, store) for _ in range(2)]
    ledger = Ledger()
    stop = threading.Event()

    clients = [(RestClient(server.address), RestClient(server.address)) for server in servers]
    threads = load(ledger, clients, stop)
    ledger.wait(SECONDS)
    servers[0].kill()
    before = ledger.answers
    ledger.wait(SECONDS)
    stop.set()
    finish(threads)

    assert ledger.answers > before > 0
    check(emulator, ledger)
    # What was leased through the server that is gone can be deleted through the other.
    client = RestClient(servers[1].address)
    client.delete(next(iter(ledger.leased.keys() - ledger.perhaps_deleted)))
    client.close()
    servers[1].stop()
    emulator.close()


@pytest.mark.long
def test_two_servers_that_are_killed_again_and_again(queue_yaml: Path) -> None:
    """Whichever is killed, what both acknowledged was done, once, and the other goes on."""
    store = own_schema("killed")
    emulator = Emulator.from_text(QUEUES, store=open_store(store))
    emulator.reset()
    ledger = Ledger()
    stop = threading.Event()
    chance = random.Random(2)  # noqa: S311 - the time of a kill is not secret

    def start() -> tuple[Served, list[threading.Thread]]:
        server = Served(queue_yaml, store)
        clients = [(RestClient(server.address), RestClient(server.address))]
        return server, load(ledger, clients, stop)

    running = [start(), start()]
    for _ in range(KILLS):
        ledger.wait(chance.uniform(0.02, 0.4))
        server, threads = running.pop(chance.randrange(2))
        server.kill()
        finish(threads)
        running.append(start())
    stop.set()
    for server, threads in running:
        finish(threads)
        server.stop()

    check(emulator, ledger)
    emulator.close()


@pytest.fixture
def own_database() -> Iterator[dict[str, str]]:
    """Yield the environment of a database server that the test may treat as it likes."""
    postgres_url()
    # Not in pytest's folder, which only the user who runs the tests may enter.
    with tempfile.TemporaryDirectory(prefix="pullqueue-postgres-") as folder:
        environment = {
            "PATH": os.environ["PATH"],
            "PULLQUEUE_POSTGRES_FOLDER": folder,
            "PULLQUEUE_POSTGRES_PORT": str(20_000 + os.getpid() % 10_000),
        }
        yield environment
        postgres("crash", environment)


def postgres(verb: str, environment: dict[str, str]) -> str:
    """Start or stop the database and return what is printed."""
    run = subprocess.run(
        [POSTGRES, verb], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return run.stdout.strip()


def send(signal_number: int, environment: dict[str, str]) -> None:
    """Send a signal to all processes of a database server."""
    folder = Path(environment["PULLQUEUE_POSTGRES_FOLDER"])
    first = (folder / "data" / "postmaster.pid").read_text().split()[0]
    run = subprocess.run(["pgrep", "-P", first], stdout=subprocess.PIPE, text=True, check=True)
    for process_id in (first, *run.stdout.split()):
        with suppress(ProcessLookupError):
            os.kill(int(process_id), signal_number)


@pytest.fixture
def hanging(own_database: dict[str, str]) -> Iterator[Callable[[], None]]:
    """Yield what makes the database hang until the end of the test."""
    yield lambda: send(signal.SIGSTOP, own_database)
    send(signal.SIGCONT, own_database)


def test_a_database_that_hangs(
    own_database: dict[str, str], queue_yaml: Path, hanging: Callable[[], None]
) -> None:
    """Calls fail within 15 seconds, and a server ends within 10; twice that if all is slow."""
    served = Served(queue_yaml, postgres("start", own_database))
    clients = [RestClient(served.address, timeout=30) for _ in range(12)]
    for number, client in enumerate(clients):
        client.add(f"before-{number}")
    hanging()

    def refused(client: RestClient) -> int:
        with pytest.raises(Refused) as excinfo:
            client.lease(1)
        return excinfo.value.status

    with ThreadPoolExecutor(len(clients)) as threads:
        statuses = list(threads.map(refused, clients))
        assert statuses == [503] * len(clients)
        late = [threads.submit(client.lease, 1) for client in clients]
        served.process.terminate()
        assert served.process.wait(timeout=30) == 0
        served.process.communicate()
        for lease in late:
            assert lease.exception(timeout=30) is not None
    for client in clients:
        client.close()


@pytest.mark.long
@pytest.mark.parametrize("verb", ["stop", "crash"])
def test_a_restart_of_the_database(own_database: dict[str, str], verb: str) -> None:
    """While it is away calls fail and say so; what was answered before is there afterwards."""
    url = postgres("start", own_database)
    emulators = [Emulator.from_text(QUEUES, store=open_store(url)) for _ in range(2)]
    queues = [emulator.queue("pull") for emulator in emulators]
    ledger = Ledger()
    stop = threading.Event()

    threads = load(ledger, [(QueueClient(queue), QueueClient(queue)) for queue in queues], stop)
    ledger.wait(SECONDS)
    postgres(verb, own_database)
    with pytest.raises(TransientError, match=r"^the store's database: .*; try again$"):
        queues[0].add()
    before = ledger.answers
    postgres("start", own_database)
    ledger.wait(SECONDS)
    stop.set()
    finish(threads)

    assert ledger.answers > before > 0
    check(emulators[0], ledger)
    for emulator in emulators:
        emulator.close()
