"""Load a server for half an hour, and report whether its memory stays the same.

`python -m benchmarks.soak` starts `pullqueue serve`, sends it requests of many kinds at a steady
rate, and prints the memory of its process each minute. Exit status 1: it grew after the first third
of the time by more than `GROWTH_MIB`.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from benchmarks.servers import cpu_seconds_of, running
from pullqueue.address import DEFAULT_HOST as HOST

GROWTH_MIB = 5.0
"""What the process may grow after the first third: what is recorded by the minute, and the heap."""
QUEUE_YAML = """\
queue:
- name: pull
  mode: pull
  retry_parameters:
    task_retry_limit: 3
- name: push
  rate: 500/s
  bucket_size: 500
  retry_parameters:
    task_retry_limit: 2
    min_backoff_seconds: 1
"""
REST = "/taskqueue/v1beta2/projects/s~app/taskqueues"
CLOUD_TASKS = "/v2/projects/app/locations/us-central1/queues"
PAYLOAD = base64.b64encode(b"x" * 300).decode()
CLIENTS = 4
_SEND, _END = True, False
_pause = threading.Event()
_numbers = count()


class _App(BaseHTTPRequestHandler):
    """Handles push tasks: one of ten fails."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer with a status."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(500 if next(_numbers) % 10 == 0 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Client:
    """One client with a kept connection."""

    def __init__(self, port: int) -> None:
        self.statuses: Counter[int] = Counter()
        self._connection = HTTPConnection(HOST, port, timeout=60)
        self._leased: list[str] = []

    def requests(self) -> Iterator[Callable[[], object]]:
        """Yield what to do, without end: a request each."""
        for number in count():
            yield self.insert
            yield self.insert
            yield self.create
            yield self.lease
            while self._leased:
                yield self.delete
            yield self.get(f"{REST}/pull?getStats=true")
            if number % 10 == 0:
                yield self.get(f"{REST}/unknown-{number}-{'x' * 5000}")
                yield self.get(f"/nowhere/{number}")
            if number % 50 == 0:
                yield self.get("/_emulator/queues")
                yield self.get("/console/")
                yield self.get("/console/queues/pull")

    def get(self, path: str) -> Callable[[], object]:
        """Return what sends a request that reads."""
        return partial(self.send, "GET", path)

    def insert(self) -> None:
        """Insert a task into the pull queue."""
        self.send("POST", f"{REST}/pull/tasks", {"queueName": "pull", "payloadBase64": PAYLOAD})

    def create(self) -> None:
        """Create a push task."""
        request = {"relativeUri": f"/work/{next(_numbers)}", "body": PAYLOAD}
        self.send("POST", f"{CLOUD_TASKS}/push/tasks", {"task": {"appEngineHttpRequest": request}})

    def lease(self) -> None:
        """Lease tasks, as many as were inserted."""
        found = self.send("POST", f"{REST}/pull/tasks/lease?numTasks=3&leaseSecs=60")
        self._leased += [item["id"] for item in found.get("items", [])]

    def delete(self) -> None:
        """Delete a task that was leased."""
        self.send("DELETE", f"{REST}/pull/tasks/{self._leased.pop()}")

    def send(self, verb: str, path: str, body: object = None) -> dict[str, Any]:
        """Send a request, and return the response if it is a JSON object."""
        text = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json", "User-Agent": "soak"}
        self._connection.request(verb, path, text, headers)
        response = self._connection.getresponse()
        data = response.read()
        self.statuses[response.status] += 1
        return dict(json.loads(data)) if data[:1] == b"{" else {}


@contextmanager
def app() -> Iterator[str]:
    """Serve an app, and yield its address."""
    with ThreadingHTTPServer((HOST, 0), _App) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{HOST}:{server.server_port}"
        server.shutdown()


def work(client: Client, places: SimpleQueue[bool]) -> None:
    """Send a request for each place in the schedule, until the end."""
    requests = client.requests()
    while places.get() is _SEND:
        next(requests)()


def soak(port: int, pid: int, *, minutes: float, rate: float) -> Iterator[tuple[float, float]]:
    """Load a server, and yield the time in minutes and its memory in MiB, each minute."""
    places: SimpleQueue[bool] = SimpleQueue()
    clients = [Client(port) for _ in range(CLIENTS)]
    threads = [threading.Thread(target=work, args=(each, places)) for each in clients]
    for thread in threads:
        thread.start()
    start, sent, shown, done, seconds = monotonic(), 0, 1, 0, cpu_seconds_of(pid)
    while (elapsed := monotonic() - start) < minutes * 60:
        due = int(elapsed * rate)
        # What cannot be sent in time is left out, instead of being sent at once later.
        for _ in range(min(due - sent, 20 - places.qsize())):
            places.put(_SEND)
        sent = due
        if elapsed >= shown * 60:
            total, used = sum(each.statuses.total() for each in clients), cpu_seconds_of(pid)
            memory = memory_mib(pid)
            print(
                f"{shown:3} min  {(total - done) / 60:6.1f} requests/s  {memory:7.1f} MiB  "
                f"{(used - seconds) / 60:5.2f} CPUs",
                flush=True,
            )
            yield elapsed / 60, memory
            shown, done, seconds = shown + 1, total, used
        _pause.wait(0.01)
    for _ in threads:
        places.put(_END)
    for thread in threads:
        thread.join()
    statuses = sum((each.statuses for each in clients), Counter[int]())
    print("statuses:", ", ".join(f"{status}: {n:,}" for status, n in sorted(statuses.items())))


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    [line] = [
        line
        for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
        if line.startswith("VmRSS:")
    ]
    return int(line.split()[1]) / 1024


def main(arguments: Sequence[str]) -> int:
    """Run a soak; return 1 if the memory grew."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="duration (default: 30)")
    parser.add_argument("--rate", type=float, default=200, help="requests a second (default: 200)")
    parser.add_argument("--store", default="memory", help="as of serve (default: memory)")
    given = parser.parse_args(arguments)
    with TemporaryDirectory() as folder, app() as address:
        file = Path(folder, "queue.yaml")
        file.write_text(QUEUE_YAML, "utf-8")
        ports = Path(folder, "port")
        command = ["-m", "pullqueue", "serve", str(file), "--port", "0", "--push-to", address]
        command += ["--store", given.store, "--no-lease-rate-limit", "--log-level", "error"]
        with running([*command, "--port-file", str(ports)], stdout=-3) as process:
            while not (ports.exists() and ports.read_text("utf-8").endswith("\n")):
                if process.poll() is not None:
                    raise SystemExit("the server does not start")
                _pause.wait(0.1)
            port = int(ports.read_text("utf-8"))
            measured = list(soak(port, process.pid, minutes=given.minutes, rate=given.rate))
    before = [memory for minute, memory in measured if minute <= given.minutes / 3]
    growth = measured[-1][1] - max(before) if before else 0
    print(f"growth after the first third: {growth:+.1f} MiB, at most {GROWTH_MIB}")
    return int(growth > GROWTH_MIB)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
