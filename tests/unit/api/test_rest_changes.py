"""pullqueue.api.handlers: leases that are changed, and tasks that are deleted."""

from __future__ import annotations

from typing import Any

import pytest
from rest_app import NOW_USEC, Call, answer, refusal

from pullqueue import ManualClock


class TestChangeLease:
    @pytest.fixture
    def held(self, call: Call) -> dict[str, Any]:
        """Return a task that is leased for a minute."""
        call("POST", "pull/tasks", json={"payloadBase64": "aGk=", "id": "one"})
        leased = answer(call("POST", "pull/tasks/lease?numTasks=1&leaseSecs=60"))
        return dict(leased["items"][0])

    def test_update_with_the_leased_task(
        self, call: Call, held: dict[str, Any], clock: ManualClock
    ) -> None:
        """The task as it was leased can be sent back, and the new end is counted from now."""
        clock.advance(10)

        task = answer(call("POST", "pull/tasks/one?newLeaseSeconds=120", json=held))

        assert task["leaseTimestamp"] == str(NOW_USEC + 130_000_000)
        assert (task["queueName"], task["retry_count"]) == ("pull", 1)

    def test_the_body_of_an_update_names_the_task(self, call: Call, held: dict[str, Any]) -> None:
        """The id in the body counts, whatever the path says; the queue need not be named."""
        body = {"id": "one", "leaseTimestamp": held["leaseTimestamp"]}

        task = answer(call("POST", "pull/tasks/whatever?newLeaseSeconds=120", json=body))

        assert task["id"] == "one"

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"leaseTimestamp": None}, "leaseTimestamp is required."),
            ({"id": None}, "id is required."),
            ({"id": ""}, "id is required."),
            ({"queueName": "other"}, "queueName is invalid."),
            ({"leaseTimestamp": "5"}, "The task lease has expired."),
        ],
    )
    def test_an_update_must_name_the_current_lease(
        self, call: Call, held: dict[str, Any], change: dict[str, Any], message: str
    ) -> None:
        response = call("POST", "pull/tasks/one?newLeaseSeconds=120", json={**held, **change})

        assert refusal(response)[::2] == (400, message)
        unchanged = answer(call("GET", "pull/tasks/one"))
        assert unchanged["leaseTimestamp"] == held["leaseTimestamp"]

    @pytest.mark.parametrize("body", [b"", b"  "])
    def test_an_update_without_a_task_is_refused(
        self, call: Call, held: dict[str, Any], body: bytes
    ) -> None:
        response = call("POST", f"pull/tasks/{held['id']}?newLeaseSeconds=120", data=body)

        assert refusal(response) == (400, "required", "The request body must contain a task.")

    def test_update_of_what_is_not_there(self, call: Call, held: dict[str, Any]) -> None:
        """An unknown task is not found; a deleted one is distinguished."""
        unknown = refusal(
            call("POST", "pull/tasks/x?newLeaseSeconds=1", json={**held, "id": "unknown"})
        )
        call("DELETE", "pull/tasks/one")
        deleted = refusal(call("POST", "pull/tasks/one?newLeaseSeconds=1", json=held))

        assert unknown[:2] == (404, "notFound")
        text = 'task "one" of queue "pull" was done, deleted or exhausted'
        assert deleted == (400, "invalid", text)

    @pytest.mark.parametrize("name", ["pull", "projects/app/taskqueues/pull"])
    def test_patch_needs_the_queue_name_alone(
        self, call: Call, held: dict[str, Any], name: str
    ) -> None:
        """A patch without a leaseTimestamp changes the current lease."""
        path = f"pull/tasks/{held['id']}?newLeaseSeconds=30"
        task = answer(call("PATCH", path, json={"queueName": name}))

        assert task["leaseTimestamp"] == str(NOW_USEC + 30_000_000)

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({}, "queueName is invalid."),
            ({"queueName": "other"}, "queueName cannot be updated."),
            ({"queueName": "pull", "id": "two"}, "Task ID cannot be updated."),
            ({"queueName": "pull", "leaseTimestamp": "5"}, "The task lease has expired."),
        ],
    )
    def test_a_patch_changes_nothing_but_the_lease_it_names(
        self, call: Call, held: dict[str, Any], body: dict[str, Any], message: str
    ) -> None:
        path = f"pull/tasks/{held['id']}?newLeaseSeconds=30"

        assert refusal(call("PATCH", path, json=body))[::2] == (400, message)

    @pytest.mark.parametrize("verb", ["POST", "PATCH"])
    def test_update_and_patch_need_new_lease_seconds_up_to_a_week(
        self, call: Call, held: dict[str, Any], verb: str
    ) -> None:
        missing = refusal(call(verb, "pull/tasks/one", json=held))
        too_long = refusal(call(verb, "pull/tasks/one?newLeaseSeconds=604801", json=held))

        assert missing == (400, "required", "Required parameter: newLeaseSeconds")
        assert too_long[1] == "invalidParameter"


class TestDelete:
    def test_a_delete_answers_204_and_400_for_a_task_that_is_not_there(self, call: Call) -> None:
        call("POST", "pull/tasks", json={"payloadBase64": "", "id": "one"})

        response = call("DELETE", "pull/tasks/one")
        again, unknown = call("DELETE", "pull/tasks/one"), call("DELETE", "pull/tasks/never")

        assert (response.status_code, response.data) == (204, b"")
        assert response.content_type is None
        assert refusal(again) == refusal(unknown) == (400, "invalid", "The task name is invalid.")
