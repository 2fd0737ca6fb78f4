"""Push tasks in a PostgreSQL database that several servers share."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from push_app import Control, push_app, until
from served import serving
from stores import own_schema

from pullqueue import Emulator
from pullqueue.stores import open_store

QUEUE_YAML = """\
queue:
- name: hourly
  rate: 1/h
  bucket_size: 1
- name: single
  rate: 500/s
  max_concurrent_requests: 1
"""


def test_one_server_sends_the_tasks_of_a_queue(tmp_path: Path) -> None:
    """The limits of a queue hold over all servers, and when one is killed another goes on."""
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    store = own_schema("push")
    emulator = Emulator.from_text(QUEUE_YAML, store=open_store(store))
    emulator.reset()
    emulator.close()
    with push_app() as app, ExitStack() as stack:
        options = ("--store", store, "--push-to", app.url)
        servers = [stack.enter_context(serving(*options, folder=tmp_path)) for _ in range(2)]
        controls = [Control(server.url) for server in servers]
        for control in controls:
            control.add("hourly", "/hourly", count=5)
            control.add("single", "/slow", count=5)
        until(lambda: app.running["/slow"] and "/hourly" in app.paths())
        # Both servers look for tasks again, and one starts a task that was added later.
        controls[0].add("default", "/default")
        until(lambda: "/default" in app.paths())
        assert (app.paths().count("/hourly"), app.running["/slow"]) == (1, 1)
        senders = [
            {request["queue"] for request in control.call("GET", "/requests")["requests"]}
            for control in controls
        ]
        holder = next(i for i, queues in enumerate(senders) if "hourly" in queues)
        servers[holder].process.kill()
        servers[holder].process.wait()
        until(lambda: app.paths().count("/hourly") == 2)
        app.released.set()
        other = controls[1 - holder]
        until(lambda: not other.queue("single")["tasks"], seconds=30)

    retries = [r.headers["X-AppEngine-TaskRetryCount"] for r in app.received if r.path == "/slow"]
    assert sorted(retries) in (["0"] * 10, ["0"] * 10 + ["1"])
