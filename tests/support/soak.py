"""Soak and chaos: many workers, every interface, and a hostile world.

Workers in threads (Python, the SDK) and in processes (REST, the SDK over the bridge) add, lease,
extend, release, delete and abandon tasks, while processes are killed, the clock moves, leases run
out, calls fail or lose their answers, and queue.yaml is replaced. In the end the journals are
replayed: every task was delivered at least once or is still there, no two workers held one at the
same time, none came back after it was deleted, every push task came to its app, no limit was
passed, and memory is flat. What happens follows from the seed, but for the order in which the
machine runs the workers.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from forking import forked
from interfaces import Interface, PythonInterface
from push_app import PushApp, Received, push_app
from sdk_interface import SdkInterface
from soak_checker import Verdict, check_journals
from soak_workers import DEEPEST, QUEUES, Worker

from pullqueue import (
    Emulator,
    HttpRequest,
    Limits,
    ManualClock,
    PullQueueError,
    SystemClock,
    TransientError,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, Rate, RetryParameters
from pullqueue.push.addresses import PushAddresses
from pullqueue.sdk import install
from pullqueue.server.lifecycle import Server
from pullqueue.testing import Faults

TICK_SECONDS = 0.05
RETRY_LIMITS = (3, 5)
STORAGE_LIMIT_BYTES = 20_000
EVENTS_KEPT = 5_000
GROWTH_BYTES = 32 << 20
"""What the process may grow after its first third."""
PROCESSES = ("rest", "rest", "bridge")
WEB = QueueSettings(
    name="web",
    mode=QueueMode.PUSH,
    rate=Rate(count=500),
    bucket_size=100,
    retry_parameters=RetryParameters(task_retry_limit=3),
)
URLS = ("/ok", "/fails/2/{name}", "/status/404", "/status/503", "/nonsense", "/headers", "/line")
ADDS = 5
"""How many tasks are added at once."""
MOST_PUSH_TASKS = 50
PATIENCE_SECONDS = 600
_pause = threading.Event()


def config(retry_limit: int) -> QueueConfig:
    """Return the queues of the run, with one of the retry limits."""
    limited = RetryParameters(task_retry_limit=retry_limit)
    return QueueConfig(
        queues=(
            QueueSettings(name="open", mode=QueueMode.PULL),
            QueueSettings(name="limited", mode=QueueMode.PULL, retry_parameters=limited),
            WEB,
        ),
        total_storage_limit_bytes=STORAGE_LIMIT_BYTES,
    )


class Soak:
    def __init__(self, folder: Path, seed: int) -> None:
        # The SDK's client in another process stamps its tasks by the machine's clock.
        self.clock = ManualClock(SystemClock().now())
        limits = Limits(tombstone_seconds=3600, events_kept=EVENTS_KEPT, exhausted_kept=1_000_000)
        self.emulator = Emulator(config(RETRY_LIMITS[0]), clock=self.clock, limits=limits)
        self.faults: list[str] = []
        self._folder = folder
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._trouble = Faults(self.emulator)
        self._memory: list[int] = []
        self._journals = 0

    def run(self, seconds: float) -> Verdict:
        """Run the workers for that long, finish what is left, and check the journals."""
        with ExitStack() as stack:
            app = stack.enter_context(push_app())
            push_to = PushAddresses([app.url])
            server = stack.enter_context(Server(self.emulator, push_to=push_to))
            stack.enter_context(install(self.emulator))
            push = PushSoak(app, self.emulator, seed=self._random.randrange(1000))
            processes = [self._process(kind, server) for kind in PROCESSES]
            try:
                self._await_workers()
                stack.enter_context(self._thread("python", PythonInterface(self.emulator)))
                stack.enter_context(self._thread("sdk", SdkInterface(self.emulator)))
                ends = time.monotonic() + seconds
                while time.monotonic() < ends:
                    self._make_trouble(processes, server)
                    push.add()
                    self._look()
                    self._stopping.wait(TICK_SECONDS)
            finally:
                for process in processes:
                    end(process)
                self._stopping.set()
            self._trouble.clear()
            self.faults += push.finish(self.clock)
        self._finish()
        return self._judge()

    def _await_workers(self) -> None:
        patience = time.monotonic() + 60
        while sum(path.stat().st_size > 0 for path in self._folder.iterdir()) < self._journals:
            if time.monotonic() > patience:
                raise TimeoutError("a worker does not start")
            self._stopping.wait(TICK_SECONDS)

    def _make_trouble(self, processes: list[subprocess.Popen[bytes]], server: Server) -> None:
        chance = self._random.random()
        self.clock.advance(self._random.choice((0.5, 5, 40)))
        if chance < 0.05:
            number = self._random.randrange(len(processes))
            end(processes[number])
            processes[number] = self._process(PROCESSES[number], server)
        elif chance < 0.15:
            self.emulator.reconfigure(config(self._random.choice(RETRY_LIMITS)))
        elif chance < 0.25:
            self._trouble.clear()
            verb = self._random.choice(("add", "lease_tasks", "delete_tasks", "modify_task_lease"))
            lose = self._random.choice((self._trouble.fail, self._trouble.lose_response))
            lose(verb, TransientError, probability=0.2, seed=self._random.randrange(1000))

    def _look(self) -> None:
        stored = self.emulator.bytes_stored
        if stored > STORAGE_LIMIT_BYTES:
            self.faults.append(f"{stored} bytes are stored: the limit is {STORAGE_LIMIT_BYTES}")
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        self._memory.append(pages * 4096)

    @contextmanager
    def _thread(self, kind: str, interface: Interface) -> Iterator[None]:
        worker = self._worker(kind, interface)

        def work() -> None:
            try:
                while not self._stopping.is_set():
                    depth = self.emulator.queue("open").fetch_statistics().tasks
                    worker.work(adds=depth < DEEPEST)
                    self._stopping.wait(0.001)
            except BaseException as error:
                self.faults.append(f"{kind}: {error!r}")
                raise

        thread = threading.Thread(target=work)
        thread.start()
        yield
        self._stopping.set()
        thread.join()
        worker.close()

    def _worker(self, name: str, interface: Interface) -> Worker:
        return Worker(name, interface, self._journal(name), seed=self._random.randrange(1 << 30))

    def _process(self, kind: str, server: Server) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("soak_workers.py")
        seed = self._random.randrange(1 << 30)
        return subprocess.Popen(
            [forked("python"), script, kind, server.url, self._journal(kind), str(seed)],
            env=os.environ | {"HTTP_HOST": "localhost"},  # or the SDK's client warns at each task
            stderr=subprocess.DEVNULL,
        )

    def _journal(self, kind: str) -> Path:
        self._journals += 1
        return self._folder / f"{kind}-{self._journals}.jsonl"

    def _finish(self) -> None:
        """Let one quiet worker do what is left."""
        worker = self._worker("last", PythonInterface(self.emulator))
        while any(self.emulator.queue(name).fetch_statistics().tasks for name in QUEUES):
            self.clock.advance(3600)
            for _ in range(100):
                worker.work(adds=False)
        worker.close()

    def _judge(self) -> Verdict:
        queues = [self.emulator.queue(name) for name in QUEUES]
        verdict = check_journals(
            sorted(self._folder.glob("*.jsonl")),
            gone={task.name for queue in queues for task in queue.exhausted},
            there={task.name for queue in queues for task in queue.list_tasks(1 << 30)},
            most_leases=max(RETRY_LIMITS),
        )
        growth = max(self._memory[len(self._memory) // 3 :]) - self._memory[len(self._memory) // 3]
        if growth > GROWTH_BYTES:
            self.faults.append(f"the process grew by {growth >> 20} MiB")
        return verdict._replace(faults=[*self.faults, *verdict.faults])


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a worker wherever it is."""
    process.send_signal(signal.SIGUSR1)  # which ends its fork first
    process.wait()


class PushSoak:
    """Adds push tasks, and notes which of them are still to come to the app."""

    def __init__(self, app: PushApp, emulator: Emulator, *, seed: int) -> None:
        self._app = app
        self._queue = emulator.queue(WEB.name)
        self._random = random.Random(seed)
        self._awaited: set[str] = set()
        app.on_request = self._note

    def _note(self, received: Received) -> None:
        self._awaited.discard(received.headers["X-AppEngine-TaskName"])
        self._app.received.clear()

    def add(self) -> None:
        """Add some tasks, unless there are many; storage limit and faults may refuse them."""
        if self._queue.fetch_statistics().tasks > MOST_PUSH_TASKS:
            return
        for _ in range(ADDS):
            name = f"{self._random.getrandbits(64):016x}"
            url = self._random.choice(URLS).format(name=name)
            self._awaited.add(name)
            try:
                self._queue.add(name=name, request=HttpRequest(url))
            except PullQueueError:
                self._awaited.discard(name)
        self._queue.remove_exhausted([task.name for task in self._queue.exhausted])

    def finish(self, clock: ManualClock) -> list[str]:
        """Wait until no task is left, and return what went wrong."""
        patience = time.monotonic() + PATIENCE_SECONDS
        while self._queue.fetch_statistics().tasks:
            if time.monotonic() > patience:
                return ["push tasks are left"]
            clock.advance(3600)
            _pause.wait(0.05)
        return [f"{name} was added and never came to the app" for name in self._awaited]
