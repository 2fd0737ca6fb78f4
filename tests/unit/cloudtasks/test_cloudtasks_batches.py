"""Cloud Tasks: BatchCreateTasks and BatchDeleteTasks, of v2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cloudtasks_api import LOCATION, PUSH, Call, app_engine, http

from pullqueue import Emulator
from pullqueue.cloudtasks.versions import V2

ONE = f"{PUSH}/tasks/one"
NOW = "2026-01-01T00:00:00Z"
VERSION = V2


def failures(operation: dict[str, Any]) -> dict[str, int]:
    """Return the codes of the requests of a batch that failed, by their places."""
    failed = operation["metadata"]["failedRequests"]
    return {place: status["code"] for place, status in failed.items()}


class TestBatches:
    def test_a_batch_creates_the_tasks_that_are_valid(self, call: Call, emulator: Emulator) -> None:
        """The others are created, and the operation is done at once."""
        requests = [
            {"parent": PUSH, "task": {"name": ONE, **http()}, "responseView": "FULL"},
            {"task": {"name": ONE, **http()}},
            {"task": {}},
            {"parent": f"{LOCATION}/queues/default", "task": http()},
            {"task": app_engine("//host")},
            {"task": app_engine()},
        ]

        operation = call("BatchCreateTasks", parent=PUSH, requests=requests)

        assert operation["done"] is True
        assert operation["name"].startswith(f"{LOCATION}/operations/")
        assert [task["view"] for task in operation["response"]["tasks"]] == ["FULL", "BASIC"]
        metadata = operation["metadata"]
        assert metadata["state"] == "PARTIALLY_SUCCEEDED"
        assert failures(operation) == {"1": 6, "2": 3, "3": 3, "4": 3}
        parent = (
            f'requests.parent is "{LOCATION}/queues/default": it must be the parent of the batch'
        )
        assert metadata["failedRequests"]["3"]["message"] == f'{parent}, "{PUSH}"'
        exists = metadata["failedRequests"]["1"]
        assert exists["message"] == "Requested entity already exists"
        assert exists["details"][0]["message"].startswith('task "one" of queue "push" exists:')
        assert len(emulator.queue("push").list_tasks()) == 2

    def test_a_hundred_tasks_are_created_and_deleted_at_once(
        self, call: Call, emulator: Emulator
    ) -> None:
        requests = [{"task": http()}] * 100

        created = call("BatchCreateTasks", parent=PUSH, requests=requests)
        names = [task["name"] for task in created["response"]["tasks"]]
        deleted = call("BatchDeleteTasks", parent=PUSH, names=names)

        assert len(set(names)) == 100
        for operation, method in ((created, "BatchCreateTasks"), (deleted, "BatchDeleteTasks")):
            assert operation["metadata"] == {
                "@type": f"type.googleapis.com/google.cloud.tasks.v2.{method}Metadata",
                "state": "SUCCEEDED",
                "startTime": NOW,
                "endTime": NOW,
            }
        assert "error" not in deleted
        assert emulator.queue("push").list_tasks() == []

    def test_a_batch_without_success_is_an_error_with_one_for_each_task(self, call: Call) -> None:
        names = [ONE, f"{LOCATION}/queues/default/tasks/one"]

        operation = call("BatchDeleteTasks", parent=PUSH, names=names)

        text = (
            "None of the requests succeeded, refer to {}Metadata.failed_requests for individual "
            "error details"
        )
        assert operation["error"] == {"code": 10, "message": text.format("BatchDeleteTasks")}
        created = call("BatchCreateTasks", parent=PUSH, requests=[{"task": {}}])
        assert created["error"] == {"code": 10, "message": text.format("BatchCreateTasks")}
        assert failures(operation) == {"0": 5, "1": 3}
        failed = operation["metadata"]["failedRequests"]
        advice = [failed[place]["details"][-1]["message"] for place in "01"]
        assert advice == [
            'queue "push" has no task "one"',
            f'names is "{names[1]}": it must begin with "{PUSH}", the parent',
        ]

    def test_a_batch_creates_as_many_tasks_as_fit_the_storage(
        self, call: Call, emulator: Emulator
    ) -> None:
        emulator.reconfigure(replace(emulator.config, total_storage_limit_bytes=100))

        operation = call("BatchCreateTasks", parent=PUSH, requests=[{"task": http()}] * 3)

        assert failures(operation) == {"2": 8}
        assert len(emulator.queue("push").list_tasks()) == 2
