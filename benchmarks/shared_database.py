"""A PostgreSQL database: how deep its queues may be, and how many servers may share it."""

# ruff: noqa: S603 - the processes are ourselves

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psycopg

from benchmarks.bare_sql import BATCH, LEASE_SECONDS, PAYLOAD
from benchmarks.measuring import Figure, Options, medians
from pullqueue import Emulator, NewTask, Queue
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.stores.postgres_server import connect, parsed

SUITE = "stores"
SERVER = "PULLQUEUE_TEST_POSTGRES"
"""The environment variable that names a server."""
LARGEST_GROWTH = 1.5
DEEPEST = 1_000_000
"""To which depth `LARGEST_GROWTH` holds: rows of deeper queues have to be fetched from elsewhere
than the database's own memory, unless it has much."""
LEAST_GAIN = 1.5
"""Of the rate of one server, what two reach together."""
IDLE = 0.1
"""Of the machine's processors, what is free while they are not the limit."""

SHALLOW, DEEP = "shallow", "deep"
CONFIG = QueueConfig(
    queues=tuple(QueueSettings(name=name, mode=QueueMode.PULL) for name in ("q", SHALLOW, DEEP))
)
_HELD = 20
_TAGS = 10


def clock_of(application: str) -> Callable[[], float]:
    """Give a clock of the processor's time, which a busy machine does not stretch.

    To that of this process it adds that of the database's processes that serve an application,
    where they run on this machine; where they do not, it is a clock on the wall.
    """
    if not application:
        return time.process_time
    files = _schedules(application)
    if files is None:
        return time.perf_counter
    return lambda: time.process_time() + _seconds_of(files)


def _schedules(application: str) -> list[Path] | None:
    """Give where the system tells of the database's processes; None: they are elsewhere."""
    with psycopg.connect(os.environ[SERVER]) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s", (application,)
        ).fetchall()
    files = [Path(f"/proc/{pid}/schedstat") for (pid,) in rows]
    return files if all(file.exists() for file in files) else None


def _seconds_of(files: Sequence[Path]) -> float:
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def dropped(url: str) -> str:
    """Forget the schema of a URL, which may be of another version, and give the URL."""
    address = parsed(url)
    with connect(address) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {address.schema} CASCADE".encode())
    return url


# -- depths --------------------------------------------------------------------------------------


def depths(url: str, options: Options) -> Iterator[Figure]:
    """Use a shallow and a deep queue, which stay as deep as they are."""
    given = {SHALLOW: min(options.depths), DEEP: max(options.depths)}
    _fill(url, given)
    emulator = Emulator(CONFIG, store=f"{url}&application_name=benchmark_depths")
    queues = {name: emulator.queue(name) for name in given}
    queues[SHALLOW].fetch_statistics()
    clock = clock_of("benchmark_depths")
    for what, work in _DEPTH_WORKS.items():
        costs = medians(
            {name: partial(work, queue, clock) for name, queue in queues.items()},
            rounds=max(options.rounds, 30),
        )
        yield Figure(
            suite=SUITE,
            what=f"psycopg: {what}",
            depth=given[DEEP],
            value=costs[DEEP] * 1e6,
            unit="us",
            peer=f"the same at {given[SHALLOW]}",
            peer_value=costs[SHALLOW] * 1e6,
            limit=LARGEST_GROWTH if given[DEEP] <= DEEPEST else None,
        )
    emulator.close()
    _empty(url)


def _lease(queue: Queue, clock: Callable[[], float]) -> float:
    # A lease of no time gives each task back, behind all others.
    return _taken(clock, lambda: queue.lease_tasks(0, BATCH))


def _lease_by_tag(queue: Queue, clock: Callable[[], float]) -> float:
    return _taken(clock, lambda: queue.lease_tasks_by_tag(0, BATCH // _TAGS, "3"))


def _extend(queue: Queue, clock: Callable[[], float]) -> float:
    held = queue.lease_tasks(LEASE_SECONDS, _HELD)
    taken = _taken(clock, lambda: [queue.modify_lease(task.name, 60) for task in held])
    for task in held:
        queue.modify_lease(task.name, 0)
    return taken / _HELD


def _delete(queue: Queue, clock: Callable[[], float]) -> float:
    held = queue.lease_tasks(LEASE_SECONDS, _HELD)
    taken = _taken(clock, lambda: [queue.delete_tasks(task) for task in held])
    queue.add_many([NewTask(payload=task.payload, tag=task.tag) for task in held])
    return taken / _HELD


_DEPTH_WORKS = {
    f"lease {BATCH}": _lease,
    f"lease {BATCH // _TAGS} of a tag": _lease_by_tag,
    "extend 1": _extend,
    "delete 1": _delete,
}


def _taken(clock: Callable[[], float], work: Callable[[], object]) -> float:
    started = clock()
    work()
    return clock() - started


def _fill(url: str, wanted: dict[str, int]) -> None:
    Emulator(CONFIG, store=url).close()
    _empty(url)
    connection = connect(parsed(url))
    for queue_name, depth in wanted.items():
        connection.execute(
            "INSERT INTO tasks (queue, name, payload, tag, eta_usec, retry_count, enqueued_usec, "
            "stored_bytes) SELECT %s, 'n' || n, %s, convert_to('=' || n %% %s, 'UTF8'), n, 0, n, "
            "110 FROM generate_series(1, %s::bigint) AS n",
            (queue_name, PAYLOAD, _TAGS, depth),
        )
    connection.execute("VACUUM ANALYZE tasks")
    connection.execute("CHECKPOINT")
    connection.close()


def _empty(url: str) -> None:
    with connect(parsed(url)) as connection:
        connection.execute("TRUNCATE tasks, events, leased, balance")


# -- servers -------------------------------------------------------------------------------------


class _Run(NamedTuple):
    """What some servers did together."""

    tasks: float
    """How many went through all of them in a second."""
    server_share: float
    """Of the time of one processor, what the servers took together."""
    database_share: float
    """The same of the database's processes."""
    idle: float
    """Of the time of all processors, what nobody took."""


def servers(url: str, options: Options) -> Iterator[Figure]:
    """Let one process, and two at once, add, lease and delete as fast as they can."""
    runs: dict[int, list[_Run]] = {1: [], 2: []}

    def seconds_per_task(count: int) -> float:
        runs[count].append(_run(url, count, options))
        return 1 / runs[count][-1].tasks

    costs = medians(
        {str(count): partial(seconds_per_task, count) for count in runs}, rounds=options.rounds
    )
    idle = median([run.idle for run in runs[2]])
    yield Figure(
        suite=SUITE,
        what="psycopg: two servers, a task's life",
        value=costs["2"] * 1e6,
        unit="us/task",
        peer="one server",
        peer_value=costs["1"] * 1e6,
        # Where no processor is free, it is the machine that holds them up.
        limit=1 / LEAST_GAIN if idle > IDLE else None,
    )
    work = {
        count: median([(run.server_share + run.database_share) / run.tasks for run in done])
        for count, done in runs.items()
    }
    yield Figure(
        suite=SUITE,
        what="psycopg: two servers, processors' time",
        value=work[2] * 1e6,
        unit="us/task",
        peer="one server",
        peer_value=work[1] * 1e6,
        limit=2 / LEAST_GAIN,
    )
    for what, values in (
        ("servers", [run.server_share for run in runs[2]]),
        ("database", [run.database_share for run in runs[2]]),
        ("idle", [run.idle * (os.cpu_count() or 1) for run in runs[2]]),
    ):
        yield Figure(
            suite=SUITE,
            what=f"psycopg: two servers, {what}",
            value=100 * median(values),
            unit="% of a CPU",
        )


def _run(url: str, count: int, options: Options) -> _Run:
    _empty(url)
    command = [sys.executable, "-c", _WORKER, f"{url}&application_name=benchmark_servers"]
    processes = [
        subprocess.Popen(
            [*command, str(options.seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    answers: list[list[float]] = []
    for process in processes:
        assert process.stdout is not None  # noqa: S101 - asked for
        process.stdout.readline()
    files = _schedules("benchmark_servers") or []
    before, idle_before, started = _seconds_of(files), _idle_seconds(), time.perf_counter()
    for process in processes:
        assert process.stdin is not None  # noqa: S101 - asked for
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        assert process.stdout is not None  # noqa: S101 - asked for
        answers.append([float(word) for word in process.stdout.readline().split()])
    passed = time.perf_counter() - started
    database, idle = _seconds_of(files) - before, _idle_seconds() - idle_before
    for process in processes:
        process.communicate()
    return _Run(
        tasks=sum(rate for rate, _ in answers),
        server_share=sum(share for _, share in answers),
        database_share=database / passed,
        idle=idle / passed / (os.cpu_count() or 1),
    )


def _idle_seconds() -> float:
    """Give how long all processors together had nothing to do; 0 where that is not told."""
    file = Path("/proc/stat")
    if not file.exists():
        return 0.0
    return int(file.read_text().split()[4]) / os.sysconf("SC_CLK_TCK")


_WORKER = f"""
import sys, time
from benchmarks.shared_database import CONFIG, PAYLOAD
from pullqueue import Emulator, NewTask
queue = Emulator(CONFIG, store=sys.argv[1]).queue("q")
def live():
    queue.add_many([NewTask(payload=PAYLOAD)] * 10)
    queue.delete_tasks(queue.lease_tasks({LEASE_SECONDS}, 10))
    return 10
live()
print("ready", flush=True)
sys.stdin.readline()
start, worked = time.perf_counter(), time.process_time()
tasks = 0
while (passed := time.perf_counter() - start) < float(sys.argv[2]):
    tasks += live()
print(tasks / passed, (time.process_time() - worked) / passed, flush=True)
sys.stdin.readline()
"""
