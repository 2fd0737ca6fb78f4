"""Push queues beside pull queues, and what suites ask of the stub."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sdk_calls import pull
from shared_store import WrongClock
from stores import own_schema

from pullqueue import Emulator, ManualClock
from pullqueue.config.model import (
    AclEntry,
    QueueConfig,
    QueueMode,
    QueueSettings,
    Rate,
    RetryParameters,
)
from pullqueue.sdk import install
from pullqueue.sdk.imports import messages, taskqueue
from pullqueue.stores import open_store


class TestPush:
    def test_deferred(self, stub: Any, sdk: Any) -> None:
        """`deferred.defer` works while pull queues are the emulator's."""
        sdk.deferred.defer(sorted, [2, 1])
        taskqueue.Queue("pull").add(pull())

        (task,) = stub.get_filtered_tasks(queue_names="default")
        assert sdk.deferred.run(task.payload) == [1, 2]

    def test_a_reconfigured_push_queue(self, stub: Any, emulator: Emulator) -> None:
        """Push queues follow the emulator's configuration, as pull queues do."""
        with pytest.raises(taskqueue.UnknownQueueError):
            taskqueue.Queue("new").add(taskqueue.Task(url="/a"))
        emulator.reconfigure(
            QueueConfig(
                queues=(
                    QueueSettings(
                        name="new",
                        rate=Rate(count=5, unit="m"),
                        retry_parameters=RetryParameters(task_age_limit_seconds=60),
                    ),
                )
            )
        )

        taskqueue.Queue("new").add(taskqueue.Task(url="/a"))

        shown = next(queue for queue in stub.GetQueues() if queue["name"] == "new")
        assert shown["max_rate"] == "5/m"
        assert shown["retry_parameters"] == {"age_limit_sec": 60}

    def test_any_queue_may_be_valid(self, emulator: Emulator, bed: Any) -> None:
        """With `_all_queues_valid` unknown queues are push queues, made when used."""
        queue = taskqueue.Queue("unknown")
        with install(emulator):
            bed.init_taskqueue_stub(_all_queues_valid=True)
            queue.add(taskqueue.Task(url="/a"))

            assert queue.fetch_statistics().tasks == 1
            calls: tuple[Callable[[], object], ...] = (
                lambda: queue.add(pull()),
                lambda: queue.lease_tasks(60, 1),
                lambda: queue.modify_task_lease(pull(name="a"), 60),
            )
            for call in calls:
                with pytest.raises(taskqueue.InvalidQueueModeError):
                    call()


@pytest.mark.parametrize("year", [2001, 2045])
@pytest.mark.parametrize("by", ["install", "testbed"])
def test_push_queues_go_by_the_same_clock(bed: Any, year: int, by: str) -> None:
    """A push task is due when the emulator's clock says so, whatever the machine's says."""
    clock = ManualClock(datetime(year, 1, 1, tzinfo=UTC))
    with install(Emulator(QueueConfig(), clock=clock)):
        if by == "testbed":
            bed.init_taskqueue_stub()
        taskqueue.add(url="/soon", countdown=29 * 86_400)

        with pytest.raises(taskqueue.InvalidEtaError):
            taskqueue.add(url="/too-late", countdown=31 * 86_400)


class TestInspection:
    def test_filtered_tasks(self, stub: Any) -> None:
        """Tasks of both kinds are found by queue, name and URL."""
        taskqueue.Queue("pull").add([pull(b"a", name="a", tag="t"), pull(b"b", name="b")])
        taskqueue.Queue("push").add(taskqueue.Task(url="/a", name="a"))

        everything = stub.get_filtered_tasks()
        (tagged,) = stub.get_filtered_tasks(name="a", queue_names=["pull"])

        assert sorted((t.name, t.method) for t in everything) == [
            ("a", "POST"),
            ("a", "PULL"),
            ("b", "PULL"),
        ]
        assert (tagged.payload, tagged.tag, tagged.method) == (b"a", "t", "PULL")
        assert [task.url for task in stub.get_filtered_tasks(url="/a")] == ["/a"]
        assert stub.get_filtered_tasks(queue_names="nowhere") == []

    def test_tasks_as_dicts(self, stub: Any, clock: ManualClock) -> None:
        """A pull task's dict has what Google's has, the right method, and its tag."""
        taskqueue.Queue("pull").add([pull(b"a", name="a", tag="t"), pull(countdown=90)])
        taskqueue.Queue("pull").lease_tasks(30, 1)
        clock.advance(40)

        first, second = stub.GetTasks("pull")

        assert (first["name"], first["queue_name"], first["method"]) == ("a", "pull", "PULL")
        assert (first["tag"], base64.b64decode(first["body"])) == ("t", b"a")
        assert (first["eta"], first["eta_delta"]) == ("2026/01/01 00:00:30", "0:00:10 ago")
        assert dict(first["headers"])["X-AppEngine-TaskRetryCount"] == "1"
        assert second["eta_delta"] == "0:00:50 from now"

    def test_tasks_of_an_unknown_queue(self, stub: Any) -> None:
        """Asking for an unknown queue is Google's stub's KeyError."""
        with pytest.raises(KeyError):
            stub.GetTasks("nowhere")

    def test_queues_as_dicts(self, clock: ManualClock) -> None:
        """Queues of both kinds are listed by name, with their settings and numbers."""
        config = QueueConfig(
            queues=(
                QueueSettings(
                    name="pull",
                    mode=QueueMode.PULL,
                    retry_parameters=RetryParameters(task_retry_limit=3),
                    acl=(AclEntry(user_email="u@example.com"), AclEntry(writer_email="w@e.com")),
                ),
                QueueSettings(name="push", rate=Rate(count=1)),
            )
        )
        with install(Emulator(config, clock=clock)) as stub:
            taskqueue.Queue("pull").add(pull())
            clock.advance(5)
            default, shown, push = stub.GetQueues()

        assert (default["name"], default["mode"], push["mode"]) == ("default", "push", "push")
        assert (shown["mode"], shown["tasks_in_queue"]) == ("pull", 1)
        assert shown["retry_parameters"] == {"retry_limit": 3}
        assert (shown["oldest_task"], shown["eta_delta"]) == ("2026/01/01 00:00:00", "0:00:05 ago")
        assert shown["acl"] == messages.TaskQueueAcl(
            user_email=[b"u@example.com"], writer_email=[b"w@e.com"]
        )

    def test_deleting_a_task_frees_its_name(self, stub: Any) -> None:
        """`DeleteTask` leaves no tombstone, for both kinds of queues."""
        for queue, task in (("pull", pull), ("push", lambda name: taskqueue.Task(name=name))):
            taskqueue.Queue(queue).add(task(name="a"))
            stub.DeleteTask(queue, "a")

            assert taskqueue.Queue(queue).add(task(name="a")).was_enqueued

    def test_flushing_a_queue_frees_its_names(self, stub: Any) -> None:
        """`FlushQueue` deletes a queue's tasks and its tombstones."""
        queue = taskqueue.Queue("pull")
        queue.add([pull(name="a"), pull(name="b")])
        queue.delete_tasks_by_name("a")
        taskqueue.Queue("push").add(taskqueue.Task(name="a"))

        stub.FlushQueue("pull")
        stub.FlushQueue("push")

        assert queue.fetch_statistics().tasks == 0
        assert all(task.was_enqueued for task in queue.add([pull(name="a"), pull(name="b")]))
        assert taskqueue.Queue("push").add(taskqueue.Task(name="a")).was_enqueued


def test_time_is_that_of_the_store() -> None:
    """Where servers share a database, etas are compared with its time, not with the machine's."""
    settings = QueueSettings(name="pull", mode=QueueMode.PULL)
    config = QueueConfig(queues=(settings,))
    emulator = Emulator(config, clock=WrongClock(-86_400), store=open_store(own_schema("sdk_time")))
    emulator.reset()
    emulator.queue("pull").add(name="one")
    emulator.queue("pull").lease_tasks(3600, 1)

    with install(emulator) as stub:
        (task,) = stub.GetTasks("pull")
        (queue,) = [shown for shown in stub.GetQueues() if shown["name"] == "pull"]

    assert task["eta_delta"].startswith(("0:59:", "1:00:00"))
    assert queue["eta_delta"].endswith(" from now")
    emulator.close()
