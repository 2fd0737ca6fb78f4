"""The calls of an operator, which the public client does not send."""

from __future__ import annotations

from typing import Any

import pytest
from sdk_calls import call

from pullqueue import Emulator, ManualClock
from pullqueue.config.model import AclEntry, QueueMode, RetryParameters
from pullqueue.sdk.imports import apiproxy_errors, messages, taskqueue

pytestmark = pytest.mark.usefixtures("stub")

APP = b"s~app"


def add(name: str, *, queue: str = "pull", **options: Any) -> None:
    """Add a task."""
    task = taskqueue.Task(payload=name, name=name, method="PULL", **options)
    taskqueue.Queue(queue).add(task)


def query(**fields: Any) -> list[str]:
    """Return the names of the tasks that are found."""
    found = call("QueryTasks", queue_name=b"pull", **fields).task
    return [task.task_name.decode() for task in found]


def queues() -> dict[bytes, Any]:
    """Return the queues that are listed, by name."""
    return {queue.queue_name: queue for queue in call("FetchQueues", max_rows=100).queue}


class TestTasks:
    def test_by_name(self) -> None:
        """Without an eta tasks come by name, from a name on, one unless more are asked for."""
        for name in ("c", "a", "b"):
            add(name)

        assert query() == ["a"]
        assert query(max_rows=10) == ["a", "b", "c"]
        assert query(max_rows=10, start_task_name=b"b") == ["b", "c"]

    def test_by_eta(self, clock: ManualClock) -> None:
        """With an eta tasks come by eta and name, from that place on."""
        add("late", countdown=20)
        add("b")
        add("a")
        now = clock.now_usec()

        assert query(max_rows=10, start_eta_usec=0) == ["a", "b", "late"]
        assert query(max_rows=10, start_eta_usec=now, start_task_name=b"b") == ["b", "late"]
        assert query(max_rows=10, start_eta_usec=now + 1) == ["late"]

    def test_by_tag(self) -> None:
        """With a tag only its tasks come."""
        add("a", tag="red")
        add("b", tag="blue")

        assert query(max_rows=10, start_tag=b"blue") == ["b"]

    def test_a_task(self, clock: ManualClock) -> None:
        """A task shows all there is to know of it, leased or not."""
        add("a", tag="red")
        created = clock.now_usec()
        clock.advance(5)
        taskqueue.Queue("pull").lease_tasks(60, 1)

        (task,) = call("FetchTask", queue_name=b"pull", task_name=b"a").task.task

        assert (task.task_name, task.body, task.body_size, task.tag) == (b"a", b"a", 1, b"red")
        assert (task.retry_count, task.execution_count) == (1, 1)
        assert task.creation_time_usec == created
        assert task.eta_usec == clock.now_usec() + 60_000_000


class TestQueues:
    def test_list(self) -> None:
        """All queues are listed by name, with their settings, as many as asked for."""
        by_name = queues()

        assert list(by_name) == sorted(by_name)
        assert len(call("FetchQueues", max_rows=2).queue) == 2
        assert by_name[b"twice"].mode == messages.TaskQueueMode.PULL
        assert by_name[b"twice"].retry_parameters.retry_limit == 2
        assert by_name[b"default"].mode == messages.TaskQueueMode.PUSH

    def test_update(self, emulator: Emulator) -> None:
        """A queue is added or changed by its settings, and used at once."""
        call(
            "UpdateQueue",
            app_id=APP,
            queue_name=b"fresh",
            bucket_refill_per_second=0,
            bucket_capacity=0,
            mode=messages.TaskQueueMode.PULL,
            retry_parameters={"retry_limit": 7},
            acl={"user_email": [b"u@example.com"], "writer_email": [b"w@example.com"]},
        )
        add("a", queue="fresh")

        queue = emulator.queue("fresh")
        assert queue.mode is QueueMode.PULL
        assert queue.settings.retry_parameters == RetryParameters(task_retry_limit=7)
        assert queue.settings.acl == (
            AclEntry(user_email="u@example.com"),
            AclEntry(writer_email="w@example.com"),
        )
        assert queues()[b"fresh"].acl.user_email == [b"u@example.com"]

    def test_a_push_queue(self) -> None:
        """A push queue is made with its rate."""
        call(
            "UpdateQueue",
            app_id=APP,
            queue_name=b"quick",
            bucket_refill_per_second=2.5,
            bucket_capacity=4,
            max_concurrent_requests=3,
        )
        taskqueue.Queue("quick").add(taskqueue.Task(url="/a"))

        quick = queues()[b"quick"]
        assert (quick.bucket_refill_per_second, quick.bucket_capacity) == (2.5, 4)
        assert (quick.user_specified_rate, quick.max_concurrent_requests) == ("2.5/s", 3)

    def test_pause(self) -> None:
        """Tasks are added to a paused queue, and leased again once it is resumed."""
        queue = taskqueue.Queue("pull")
        add("a")
        (task,) = queue.lease_tasks(60, 1)
        call("PauseQueue", app_id=APP, queue_name=b"pull", pause=True)
        add("b")

        with pytest.raises(taskqueue.QueuePausedError, match="is paused"):
            queue.lease_tasks(60, 1)
        queue.modify_task_lease(task, 60)
        call("UpdateStorageLimit", app_id=APP, limit=1000)
        assert queues()[b"pull"].paused
        call("PauseQueue", app_id=APP, queue_name=b"pull", pause=False)
        assert [task.name for task in queue.lease_tasks(60, 1)] == ["b"]

    def test_delete(self) -> None:
        """A deleted queue is not listed and refuses every call."""
        call("DeleteQueue", app_id=APP, queue_name=b"pull")

        assert b"pull" not in queues()
        with pytest.raises(taskqueue.QueuePausedError, match="it is no longer in"):
            add("a")
        with pytest.raises(apiproxy_errors.ApplicationError):
            call("DeleteQueue", app_id=APP, queue_name=b"nowhere")

    def test_delete_all(self) -> None:
        """Deleting the group leaves the default queue."""
        call("DeleteGroup", app_id=APP)

        assert list(queues()) == [b"default"]

    def test_the_storage_limit(self) -> None:
        """The storage limit is taken over and answered."""
        answer = call("UpdateStorageLimit", app_id=APP, limit=3)

        assert answer.new_limit == 3
        with pytest.raises(apiproxy_errors.OverQuotaError):
            add("long-name")

    @pytest.mark.parametrize("limit", [-1, 1001 * 2**40])
    def test_a_bad_storage_limit(self, limit: int) -> None:
        """A limit below 0 or over 1000 TiB is refused."""
        with pytest.raises(apiproxy_errors.ApplicationError, match="storage limit") as refused:
            call("UpdateStorageLimit", app_id=APP, limit=limit)

        assert refused.value.application_error == 13
