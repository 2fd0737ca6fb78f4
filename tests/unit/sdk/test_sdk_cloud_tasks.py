"""The SDK's switch to Cloud Tasks: its own code for that, on the emulator."""

from __future__ import annotations

from typing import Any

import pytest
from sdk_calls import datastore, datastore_rpc, ndb

from pullqueue import Emulator
from pullqueue.sdk import install
from pullqueue.sdk.imports import apiproxy_stub_map, cloudtask, taskqueue
from pullqueue.testing import run_tasks

SWITCH = "APPENGINE_USE_CLOUDTASK_PUSH_QUEUE"


@pytest.fixture(autouse=True)
def _switched_on(monkeypatch: pytest.MonkeyPatch, stub: Any) -> None:
    monkeypatch.setenv(SWITCH, "true")


def push(url: str = "/work", **options: Any) -> Any:
    return taskqueue.Task(url=url, **options)


@pytest.mark.parametrize("count", [1, 100])
def test_one_task_is_created_and_several_in_a_batch(emulator: Emulator, count: int) -> None:
    options = taskqueue.TaskRetryOptions(task_retry_limit=0)
    tasks = [push(f"/{n}", name=f"n{n}", retry_options=options) for n in range(count)]
    taskqueue.Queue("push").add(tasks)

    attempts = run_tasks(emulator, send=lambda _: 500)
    assert [attempt.request.url for attempt in attempts] == [task.url for task in tasks]
    assert {attempt.outcome for attempt in attempts} == {"exhausted"}


def test_a_name_in_use_is_refused_and_the_rest_of_its_batch_is_added() -> None:
    queue = taskqueue.Queue("push")
    queue.add(push(name="one"))
    tasks = [push(name="one"), push(name="two")]

    with pytest.raises(taskqueue.TaskAlreadyExistsError):
        queue.add(tasks)
    with pytest.raises(taskqueue.TaskAlreadyExistsError):
        queue.add(tasks[0])
    assert [task.was_enqueued for task in tasks] == [False, True]


@pytest.mark.parametrize("name", ["push", "pull"])
def test_a_queue_has_the_statistics_of_v2beta3(name: str) -> None:
    queue = taskqueue.Queue(name)
    method = {"method": "PULL"} if name == "pull" else {}
    queue.add([taskqueue.Task(payload=b"work", name=n, **method) for n in ("a", "b", "c")])

    assert [task.was_deleted for task in queue.delete_tasks_by_name(["a", "x"])] == [True, False]
    statistics = queue.fetch_statistics()
    assert (statistics.tasks, statistics.in_flight) == (2, 0)
    assert name == "pull" or statistics.enforced_rate == 5
    queue.purge()
    assert queue.fetch_statistics().tasks == 0


def test_a_missing_queue_is_an_error_for_each_method() -> None:
    queue = taskqueue.Queue("missing")
    for call in (lambda: queue.add(push()), queue.fetch_statistics, queue.purge):
        with pytest.raises(taskqueue.UnknownQueueError, match=r"is not in queue\.yaml"):
            call()


@pytest.mark.parametrize("library", ["ndb", "datastore"])
def test_tasks_of_a_transaction_are_added_when_it_commits(
    emulator: Emulator, bed: Any, stub: Any, library: str
) -> None:
    bed.init_datastore_v3_stub()
    bed.init_memcache_stub()
    apiproxy_stub_map.apiproxy.ReplaceStub("taskqueue", stub)
    queue = taskqueue.Queue("push")

    def work() -> int:
        queue.add([push("/a"), push("/b")], transactional=True)
        return int(queue.fetch_statistics().tasks)

    if library == "ndb":
        before = ndb.transaction(work, xg=True)
    else:
        options = datastore_rpc.TransactionOptions(xg=True)
        before = datastore.RunInTransactionOptions(options, work)

    assert before == 0
    attempts = run_tasks(emulator, send=lambda _: 200)
    assert sorted(attempt.request.url for attempt in attempts) == ["/a", "/b"]


def test_each_installation_has_its_own_clients(emulator: Emulator) -> None:
    """Those of before are back at the end."""
    taskqueue.add(url="/work")
    with install(emulator):
        taskqueue.add(url="/work")
    taskqueue.add(url="/work")

    assert emulator.queue("default").fetch_statistics().tasks == 3
    assert cloudtask is None or {version for version, _ in cloudtask._CLIENTS} == {"v2"}


class TestLocation:
    @pytest.fixture
    def emulator(self) -> Emulator:
        return Emulator.from_text("queue: [{name: push, rate: 5/s}]", location="europe-west1")

    def test_the_sdk_names_the_location_of_the_emulator(self, emulator: Emulator) -> None:
        taskqueue.add(queue_name="push", url="/work")

        assert len(emulator.queue("push").list_tasks()) == 1
