"""Push tasks in a PostgreSQL database that several servers share."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from push_app import push_app, until
from served import serving
from stores import own_schema

from pullqueue import Emulator, HttpRequest, NewTask
from pullqueue.push.addresses import PushAddresses
from pullqueue.server.lifecycle import Server
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
    hourly, single, default = emulator.queues
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
            assert default.claim_dispatch()
            default.add(request=HttpRequest("/default"))
            until(lambda: "/default" in app.paths())
            assert (app.paths().count("/hourly"), app.running["/slow"]) == (1, 1)
            first.process.kill()
            first.process.wait()
            until(lambda: app.paths().count("/hourly") == 2 and app.running["/slow"] == 2)
            app.released.set()
            until(lambda: app.paths().count("/slow") == 3)

    retries = [r.headers["X-AppEngine-TaskRetryCount"] for r in app.received]
    assert set(retries) == {"0"}
