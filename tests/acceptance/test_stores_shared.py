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
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from interfaces import Interface, PythonInterface
from requests import HTTPError
from served import Served, serving
from soak_workers import rest
from store_load import OPTIONS, QUEUE_YAML, Load, finish
from stores import LONG, own_schema, postgres_url

from pullqueue import Emulator, TransientError
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store, postgres_pool

POSTGRES = Path(__file__).parents[2] / ".ci" / "postgres"
KILLS = 300 if LONG else 2
SECONDS = 20.0 if LONG else 0.3
"""How long workers load the servers between two events."""


@pytest.mark.long
def test_two_servers_that_are_killed_again_and_again(tmp_path: Path) -> None:
    """Whichever is killed, what both acknowledged was done, once, and the other goes on with it."""
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    store = own_schema("killed")
    emulator = Emulator.from_text(QUEUE_YAML, store=open_store(store))
    emulator.reset()
    load = Load(tmp_path)
    chance = random.Random(2)  # noqa: S311 - the time of a kill is not secret

    with ExitStack() as stack:

        def start() -> tuple[Served, list[threading.Thread]]:
            arguments = (*OPTIONS, "--store", store)
            served = stack.enter_context(serving(*arguments, folder=tmp_path))
            return served, load.start(partial(rest, served.url))

        running = [start(), start()]
        for _ in range(KILLS):
            load.wait(chance.uniform(0.02, 0.4))
            served, threads = running.pop(chance.randrange(2))
            served.kill()
            served.process.communicate()
            finish(threads)
            load.wait(0)
            running.append(start())
        load.stop([thread for _, threads in running for thread in threads])
    load.check(emulator)
    emulator.close()


@pytest.fixture(scope="module")
def own_database() -> Iterator[dict[str, str]]:
    """Yield the environment of a database server that a test may treat as it likes."""
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
    own_database: dict[str, str], hanging: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls fail after some seconds, and a server ends though calls still wait."""
    monkeypatch.setattr(postgres_pool, "WAIT_SECONDS", 1)
    monkeypatch.setattr(postgres_pool, "_RESPONSE_SECONDS", 1)
    store = f"{postgres('start', own_database)}?schema=hangs"
    emulator = Emulator.from_text(QUEUE_YAML, store=open_store(store))
    with Server(emulator) as server, ThreadPoolExecutor(12) as threads, ExitStack() as stack:
        clients = [stack.enter_context(rest(server.url)) for _ in range(12)]
        for client in clients:
            client.add(b"", queue="open")
        hanging()

        def refused(client: Interface) -> int:
            with pytest.raises(HTTPError) as excinfo:
                client.lease(60, 1, queue="open")
            return excinfo.value.response.status_code

        assert list(threads.map(refused, clients)) == [503] * 12
        late = [threads.submit(refused, client) for client in clients]
        emulator.close()
        assert [lease.result(timeout=60) for lease in late] == [503] * 12


@contextmanager
def python(emulator: Emulator) -> Iterator[Interface]:
    yield PythonInterface(emulator)


@pytest.mark.long
def test_a_crash_of_the_database(own_database: dict[str, str], tmp_path: Path) -> None:
    """While it is away calls fail and say so; what was answered before is there afterwards."""
    store = f"{postgres('start', own_database)}?schema=crashed"
    emulators = [Emulator.from_text(QUEUE_YAML, store=open_store(store)) for _ in range(2)]
    load = Load(tmp_path)

    threads: list[threading.Thread] = []
    for emulator in emulators:
        threads += load.start(partial(python, emulator))
    load.wait(SECONDS)
    postgres("crash", own_database)
    with pytest.raises(TransientError, match=r"^the store's database: .*; try again$"):
        emulators[0].queue("open").add()
    postgres("start", own_database)
    load.wait(SECONDS)
    load.stop(threads)

    load.check(emulators[0])
    for emulator in emulators:
        emulator.close()
