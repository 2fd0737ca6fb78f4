"""Tasks added in transactions of the SDK's datastore stub."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sdk_calls import call, datastore, ndb, pull

from pullqueue import Emulator
from pullqueue.engine.store import Insertion
from pullqueue.sdk.imports import (
    api_base_pb2,
    apiproxy_errors,
    apiproxy_stub_map,
    messages,
    taskqueue,
)
from pullqueue.testing import Faults
from pullqueue.testing.describing import describe_call

pytestmark = pytest.mark.usefixtures("stub")

SINGLE = {"queue_name": b"pull", "eta_usec": 0, "mode": 1, "body": b""}


@pytest.fixture(params=["datastore", "ndb"])
def transaction(request: pytest.FixtureRequest, bed: Any, stub: Any) -> Any:
    bed.init_datastore_v3_stub()
    bed.init_memcache_stub()
    apiproxy_stub_map.apiproxy.ReplaceStub("taskqueue", stub)

    class Note(ndb.Model):  # type: ignore[misc]
        pass

    def run(work: Any) -> Any:
        def with_note() -> Any:
            if request.param == "ndb":
                Note().put()
            else:
                datastore.Put(datastore.Entity("Note"))
            return work()

        if request.param == "ndb":
            return ndb.transaction(with_note, retries=0)
        return datastore.RunInTransactionCustomRetries(0, with_note)

    vars(run)["notes"] = lambda: datastore.Query("Note").Count()
    return run


def stored() -> int:
    return int(taskqueue.Queue("pull").fetch_statistics().tasks)


def add(count: int) -> list[Any]:
    tasks = [pull() for _ in range(count)]
    added: list[Any] = taskqueue.Queue("pull").add(tasks, transactional=True)
    return added


def test_tasks_are_named_at_once_and_leased_after_the_commit(transaction: Any) -> None:
    def work() -> list[str]:
        names = [task.name for task in add(2)]
        assert taskqueue.Queue("pull").lease_tasks(60, 10) == []
        return names

    names = transaction(work)

    assert [task.name for task in taskqueue.Queue("pull").lease_tasks(60, 10)] == names


def test_an_error_in_the_transaction_leaves_no_task_of_it(transaction: Any) -> None:
    """One that is not transactional is stored at once, and stays."""

    def work() -> None:
        add(2)
        taskqueue.Queue("pull").add(pull(name="now"))
        assert stored() == 1
        raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError, match="changed my mind"):
        transaction(work)

    assert stored() == 1


def test_the_sixth_is_refused(transaction: Any) -> None:
    with pytest.raises(taskqueue.DatastoreError, match="Too many messages, maximum allowed 5"):
        transaction(lambda: [add(5), add(1)])

    assert stored() == 0


@pytest.mark.parametrize(
    ("queue", "error"),
    [("nowhere", taskqueue.UnknownQueueError), ("push", taskqueue.InvalidQueueModeError)],
)
def test_what_is_wrong_shows_in_the_transaction(
    transaction: Any, queue: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        transaction(lambda: taskqueue.Queue(queue).add(pull(), transactional=True))


@pytest.mark.parametrize("fault", ["fail", "lose_response"])
def test_a_fault_of_an_add_is_raised_in_the_transaction(
    transaction: Any, emulator: Emulator, fault: str
) -> None:
    with Faults(emulator) as faults:
        set_fault = getattr(faults, fault)("add", times=1)
        with pytest.raises((taskqueue.TransientError, apiproxy_errors.DeadlineExceededError)):
            transaction(lambda: add(1))

        assert stored() == 0
        assert transaction.notes() == 0
        assert set_fault.hits == 1
        transaction(lambda: add(1))
        assert (stored(), transaction.notes()) == (1, 1)


def test_only_the_calls_of_the_app_are_intercepted(transaction: Any, emulator: Emulator) -> None:
    """Looking up a free name and storing the task at the commit are none of them."""
    seen = []

    def intercept(call: Any, call_next: Any) -> Any:
        result = call_next()
        seen.append((call.verb, describe_call(call).partition(") ")[2], result))
        return result

    with emulator.interceptors.installed(intercept), Faults(emulator) as faults:
        fault = faults.fail("add", after=1)
        transaction(lambda: add(1))

    assert seen == [("add", 'on queue "pull" in a transaction', Insertion([], {}))]
    assert (fault.calls, stored()) == (1, 1)


def test_names_keep_clear_of_taken_ones(transaction: Any, emulator: Emulator) -> None:
    emulator.names = iter(["here", "gone", "free"]).__next__
    queue = taskqueue.Queue("pull")
    queue.add([pull(name="here"), pull(name="gone")])
    queue.delete_tasks_by_name("gone")

    (task,) = transaction(lambda: add(1))

    assert task.name == "free"
    assert stored() == 2


def test_push_tasks_of_a_transaction_are_stored_as_by_the_stub_of_google(
    transaction: Any, stub: Any
) -> None:
    transaction(lambda: taskqueue.add(url="/work", transactional=True))

    assert [task["url"] for task in stub.GetTasks("default")] == ["/work"]


def test_the_single_add_that_a_datastore_sends_returns_the_name_or_raises(
    emulator: Emulator,
) -> None:
    """Only errors that the datastore lets pass; what is not an error elsewhere is one here."""
    assert call("Add", **SINGLE, task_name=b"a").chosen_task_name == b""
    response = call("Add", **SINGLE, task_name=b"")
    leased = taskqueue.Queue("pull").lease_tasks(60, 2)
    assert [task.name for task in leased] == ["a", response.chosen_task_name.decode()]

    with pytest.raises(apiproxy_errors.ApplicationError) as refused:
        call("Add", **SINGLE, task_name=b"a")
    assert refused.value.application_error == 10
    emulator.reconfigure(replace(emulator.config, total_storage_limit_bytes=0))
    request = messages.TaskQueueAddRequest(**SINGLE, task_name=b"b")
    with pytest.raises(apiproxy_errors.ApplicationError, match="total_storage_limit of 0"):
        apiproxy_stub_map.MakeSyncCall("taskqueue", "Add", request, api_base_pb2.VoidProto())
