"""A worker that leases tasks over REST: a module of its own, which imports little."""

from __future__ import annotations

import json
import sys
from http.client import HTTPConnection
from itertools import count

from pullqueue.address import DEFAULT_HOST as HOST


def work(port: int) -> None:
    """Add, lease and delete tasks over REST until the process is ended."""
    connection = HTTPConnection(HOST, port)
    tasks = "/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks"

    def call(verb: str, path: str, body: str | None = None) -> bytes:
        connection.request(verb, path, body, {"Content-Type": "application/json"})
        return connection.getresponse().read()

    for number in count():
        call("POST", tasks, '{"payloadBase64": "eA=="}')
        leased = json.loads(call("POST", f"{tasks}/lease?numTasks=1&leaseSecs=60"))
        for task in leased.get("items", ()):
            call("DELETE", f"{tasks}/{task['id']}")
        if number == 0:
            print("busy", flush=True)


if __name__ == "__main__":
    work(int(sys.argv[1]))
