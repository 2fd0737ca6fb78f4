"""The engine through the Python interface, beside the bare structures underneath it.

Times are those of the processor, which a busy machine does not stretch.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median

from benchmarks.bare import BareIndexes, HeapAndDict
from benchmarks.engine_sides import (
    BATCH,
    LEASE_SECONDS,
    PAYLOAD,
    TAGS,
    BareSide,
    EngineSide,
    Side,
    fill,
)
from benchmarks.measuring import Figure, Options

SUITE = "engine"
FEW = 10
MOST_REPEATS = 50
SINGLES = 500

OF_THE_INDEXES = 2.0
"""Of the time of the bare indexes."""
OF_UNTAGGED = 1.5
LARGEST_GROWTH = 3.0
LONGEST_LIST_MS = 2.0
MOST_BYTES = 700.0


def measure(options: Options) -> Iterator[Figure]:
    """Measure the engine at every depth."""
    shallow: dict[str, float] = {}
    for depth in options.depths:
        for figure in _at(depth, options):
            yield figure
            for grown in _growing(figure):
                before = shallow.setdefault(grown.what, grown.value)
                if depth == max(options.depths) > min(options.depths):
                    peer = f"the same at {min(options.depths)}"
                    yield replace(grown, peer=peer, peer_value=before)
    yield from _memory(min(100_000, max(options.depths)))


def _growing(figure: Figure) -> Iterator[Figure]:
    """Give the times that grow with the depth: the engine's, which is limited, and its peers'."""
    if figure.unit != "us/task":
        return
    if figure.peer != "heap and dict":
        yield replace(figure, limit=LARGEST_GROWTH)
    if figure.peer_value is not None and figure.peer != "untagged":
        # A million tasks leave the processor's cache, whatever holds them.
        what = f"{figure.what}, {figure.peer}"
        yield replace(figure, what=what, value=figure.peer_value, limit=None)


def _at(depth: int, options: Options) -> Iterator[Figure]:
    engine = EngineSide()
    sides: dict[str, Side] = {
        "engine": engine,
        "bare indexes": BareSide(BareIndexes()),
        "heap and dict": BareSide(HeapAndDict()),
    }
    for side in sides.values():
        fill(side, depth)
    yield from _batches(sides, depth, options)
    yield from _by_tag(engine, depth, options)
    yield from _single(engine, depth, options)
    yield from _listing(engine, depth, options)


def _batches(sides: dict[str, Side], depth: int, options: Options) -> Iterator[Figure]:
    repeats = min(depth // 200, MOST_REPEATS)
    spent: dict[str, dict[str, list[float]]] = {
        verb: {name: [] for name in sides} for verb in ("add", "lease", "delete")
    }
    # Where few batches make a round, there are more rounds.
    for number in range(options.rounds * MOST_REPEATS // repeats):
        start = depth + number * repeats * BATCH
        for name, side in sides.items():
            adds = side.prepared(start, start + repeats * BATCH)
            spent["add"][name].append(_cpu_seconds(lambda calls=adds: [call() for call in calls]))  # type: ignore[misc]
        for name, side in sides.items():
            leases = [side.lease] * repeats
            spent["lease"][name].append(
                _cpu_seconds(lambda calls=leases: [call(BATCH) for call in calls])  # type: ignore[misc]
            )
        for name, side in sides.items():
            deletes = [side.delete] * repeats
            spent["delete"][name].append(
                _cpu_seconds(lambda calls=deletes: [call() for call in calls])  # type: ignore[misc]
            )
    for verb, seconds in spent.items():
        usec = {name: median(all_) / repeats / BATCH * 1e6 for name, all_ in seconds.items()}
        for peer, limit in (("bare indexes", OF_THE_INDEXES), ("heap and dict", None)):
            yield Figure(
                suite=SUITE,
                what=f"{verb}, batches of {BATCH}",
                depth=depth,
                value=usec["engine"],
                unit="us/task",
                peer=peer,
                peer_value=usec[peer],
                limit=limit,
            )


def _by_tag(engine: EngineSide, depth: int, options: Options) -> Iterator[Figure]:
    queue = engine.queue
    repeats = len(TAGS)
    by_tag: list[float] = []
    untagged: list[float] = []
    for _ in range(options.rounds):
        # Leases of no time: the tasks stay due, behind the others.
        engine.clock.usec += 1000
        by_tag.append(_cpu_seconds(lambda: [queue.lease_tasks_by_tag(0, FEW, tag) for tag in TAGS]))
        engine.clock.usec += 1000
        untagged.append(_cpu_seconds(lambda: [queue.lease_tasks(0, FEW) for _ in TAGS]))
    yield Figure(
        suite=SUITE,
        what=f"lease {FEW} by tag",
        depth=depth,
        value=median(by_tag) / repeats / FEW * 1e6,
        unit="us/task",
        peer="untagged",
        peer_value=median(untagged) / repeats / FEW * 1e6,
        limit=OF_UNTAGGED,
    )


def _single(engine: EngineSide, depth: int, options: Options) -> Iterator[Figure]:
    queue = engine.queue

    def live() -> object:
        queue.add(PAYLOAD)
        return queue.delete_tasks(queue.lease_tasks(LEASE_SECONDS, 1))

    rounds = [_cpu_seconds(lambda: [live() for _ in range(SINGLES)]) for _ in range(options.rounds)]
    value = median(rounds) / SINGLES * 1e6
    yield Figure(suite=SUITE, what="a task's life, alone", depth=depth, value=value, unit="us/task")


def _listing(engine: EngineSide, depth: int, options: Options) -> Iterator[Figure]:
    rounds = [_cpu_seconds(lambda: engine.queue.list_tasks(100)) for _ in range(options.rounds * 5)]
    yield Figure(
        suite=SUITE,
        what="list the first 100",
        depth=depth,
        value=median(rounds) * 1e3,
        unit="ms",
        limit=LONGEST_LIST_MS,
    )


def _memory(depth: int) -> Iterator[Figure]:
    """Fill a queue in a process of its own, and see what it grew by."""
    for what, lease in (("memory, added", False), ("memory, leased", True)):
        grown = {side: _grown_bytes(side, depth, lease=lease) for side in ("engine", "heap")}
        bytes_of = {side: grown[side] / depth - len(PAYLOAD) for side in grown}
        figure = Figure(
            suite=SUITE,
            what=what,
            depth=depth,
            value=bytes_of["engine"],
            unit="bytes/task",
            limit=MOST_BYTES,
        )
        yield figure
        yield replace(figure, peer="heap and dict", peer_value=bytes_of["heap"], limit=None)


def _grown_bytes(side: str, depth: int, *, lease: bool) -> int:
    command = [sys.executable, "-c", _GROW, side, str(depth), str(int(lease))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ourselves
    return int(done.stdout)


_GROW = """
import gc, os, sys
from benchmarks import engine_sides as sides
from benchmarks.bare import HeapAndDict

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

name, depth, lease = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sides.given = lambda start, end: [
    (f"n{n:08d}", b"%0100d" % n, sides.TAGS[n % 100]) for n in range(start, end)
]
side = sides.EngineSide() if name == "engine" else sides.BareSide(HeapAndDict())
before = resident()
for start in range(0, depth, 10_000):
    for add in side.prepared(start, min(start + 10_000, depth)):
        add()
if lease:
    while side.lease(1000):
        side._held.clear()
print(resident() - before)
"""


def _cpu_seconds(work: Callable[[], object]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started
