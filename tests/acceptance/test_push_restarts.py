"""What a server knows of the push tasks that another one has sent before it, from a kept store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

import pytest
from push_app import push_app, until
from served import Served, serving
from stores import expire_claims, store_url

from pullqueue import Emulator, HttpRequest, NewTask
from pullqueue.engine import verbs
from pullqueue.push.addresses import PushAddresses
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store

QUEUE_YAML = """\
queue:
- name: hourly
  rate: 1/h
  bucket_size: 3
- name: slowed
  rate: 400/s
  retry_parameters:
    min_backoff_seconds: 1800
- name: limited
  rate: 400/s
  retry_parameters:
    min_backoff_seconds: 1800
- name: deadly
  rate: 400/s
  retry_parameters:
    task_retry_limit: 1
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_killed_server_leaves_its_tokens_and_its_rates_to_the_next(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    with store_url(kind) as store, push_app() as app:
        push_to = ("--push-to", app.url)
        with closing(Emulator.from_text(QUEUE_YAML, store=open_store(store))) as emulator:
            emulator.reset()
            emulator.queue("hourly").add_many([NewTask(request=HttpRequest("/hourly"))] * 2)
            emulator.queue("slowed").add(request=HttpRequest("/status/503"))
            limited = NewTask(request=HttpRequest(f"{app.url}/status/429"))
            verbs.insert(emulator.queue("limited"), [limited], absolute_urls=True)
        with serving("--store", store, *push_to, folder=tmp_path) as first:
            until(lambda: all(first.control.queue(n)["retrying"] for n in ("slowed", "limited")))
            until(lambda: not first.control.queue("hourly")["tasks"])
            first.kill()
        if kind == "postgres":
            expire_claims(store)
        emulator = Emulator.from_text(QUEUE_YAML, store=open_store(store))
        with closing(emulator), Server(emulator, push_to=PushAddresses([app.url])) as server:
            delivery = server.state.delivery
            assert delivery is not None
            assert delivery.dispatcher.enforced_rate(emulator.queue("slowed")) == 200
            assert delivery.dispatcher.enforced_rate(emulator.queue("limited")) == 200
            emulator.queue("hourly").add_many([NewTask(request=HttpRequest("/hourly"))] * 3)
            until(lambda: app.paths().count("/hourly") >= 3)
            assert delivery.settle(60)

    assert app.paths().count("/hourly") == 3


def test_a_handler_that_kills_the_server_is_exhausted_one_attempt_late(tmp_path: Path) -> None:
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    with store_url("sqlite") as store, push_app() as app:
        with closing(Emulator.from_text(QUEUE_YAML, store=open_store(store))) as emulator:
            emulator.queue("deadly").add(name="t", request=HttpRequest("/deadly"))
        servers = SimpleQueue[Served]()
        app.on_request = lambda _: servers.get(timeout=60).kill()
        for _ in range(3):
            with serving("--store", store, "--push-to", app.url, folder=tmp_path) as server:
                servers.put(server)
                server.process.wait(60)
        with serving("--store", store, "--push-to", app.url, folder=tmp_path) as server:
            until(lambda: not server.control.queue("deadly")["tasks"])
            line = server.log_line("is exhausted")

    assert [each.headers["X-AppEngine-TaskRetryCount"] for each in app.received] == ["0", "1", "2"]
    assert "t" in line
    assert line.endswith("the last 3 attempts were interrupted\n")
