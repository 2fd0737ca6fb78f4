"""Cloud Tasks v2beta2: the methods on pull tasks."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from cloudtasks_api import PULL, Call, ids, refused

from pullqueue import (
    DeadlineExceededError,
    Emulator,
    Limits,
    ManualClock,
    NewTask,
    TransientError,
)
from pullqueue.engine import verbs
from pullqueue.faults.declaration import Faults

NOW = "2026-01-01T00:00:00Z"
PAYLOAD = b64encode(b"work").decode()
ONE = f"{PULL}/tasks/one"


def create(call: Call, name: str, **fields: Any) -> dict[str, Any]:
    return call("CreateTask", parent=PULL, task={"name": f"{PULL}/tasks/{name}", **fields})


def lease(call: Call, **fields: Any) -> list[str]:
    """Lease tasks for a minute and return their ids."""
    request = {"parent": PULL, "maxTasks": 10, "leaseDuration": "60s", **fields}
    return ids(call("LeaseTasks", **request))


class TestCreateTask:
    def test_the_response_is_the_task_without_its_payload(
        self, call: Call, emulator: Emulator
    ) -> None:
        """BASIC is the view unless FULL is asked for; the engine has the same task."""
        message = {"payload": PAYLOAD, "tag": "red"}
        task = create(call, "one", pullMessage=message)

        assert task == {
            "name": ONE,
            "pullMessage": {"tag": "red"},
            "scheduleTime": NOW,
            "createTime": NOW,
            "view": "BASIC",
        }
        (stored,) = emulator.queue("pull").list_tasks()
        assert (stored.name, stored.payload, stored.tag) == ("one", b"work", "red")
        assert call("GetTask", name=ONE, responseView="FULL")["pullMessage"] == message
        assert "payload" not in call("GetTask", name=ONE)["pullMessage"]

    def test_a_task_without_a_message_has_an_empty_payload(
        self, call: Call, emulator: Emulator
    ) -> None:
        call("CreateTask", parent=PULL, task={})
        assert emulator.queue("pull").list_tasks()[0].payload == b""

    @pytest.mark.parametrize(
        ("given", "shown"),
        [
            ("2026-01-01T00:01:00.123456789Z", "2026-01-01T00:01:00.123456Z"),
            ("2025-12-31T23:59:59Z", NOW),
            ("1969-12-31T23:59:59Z", NOW),
        ],
    )
    def test_a_schedule_time_is_kept_to_the_microsecond(
        self, call: Call, given: str, shown: str
    ) -> None:
        assert create(call, "one", scheduleTime=given)["scheduleTime"] == shown


class TestLeaseTasks:
    def test_the_schedule_time_is_the_end_of_the_lease(self, call: Call) -> None:
        """The duration is cut to whole seconds, and the lease is counted."""
        message = {"payload": PAYLOAD, "tag": "red"}
        create(call, "one", pullMessage=message)

        page = call("LeaseTasks", parent=PULL, leaseDuration="60.9s", responseView="FULL")

        task = {
            "name": ONE,
            "pullMessage": message,
            "scheduleTime": "2026-01-01T00:01:00Z",
            "createTime": NOW,
            "status": {"attemptDispatchCount": 1},
            "view": "FULL",
        }
        assert page == {"tasks": [task]}

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("tag=red", ["b", "d"]),
            (' tag = "red" ', ["b", "d"]),
            ("tag=a=b", ["e"]),
            (r'tag="say \"hi\" \\"', ["f"]),
            ('tag=say "hi" \\', ["f"]),
            ('tag="say "hi" \\\\"', ["f"]),
            ('tag="two\\\nlines"', ["h"]),
            ("tag=none", []),
            ("tag=", ["g"]),
            ('tag=""', ["g"]),
            ("tag_function = oldest_tag()", ["a", "c"]),
            (" ", ["a", "b", "c", "d", "e", "f", "g", "h"]),
        ],
    )
    def test_filters_lease_tasks_of_one_tag(
        self, call: Call, emulator: Emulator, text: str, names: list[str]
    ) -> None:
        """Of one tag, quoted or not, or of the oldest task's; untagged tasks form a group.

        Only older interfaces can set an empty tag.
        """
        for name, tag in {"a": "", "b": "red", "c": "", "d": "red", "e": "a=b"}.items():
            create(call, name, pullMessage={"tag": tag})
        emulator.queue("pull").add(name="f", tag='say "hi" \\')
        emulator.queue("pull").add(name="g", tag="")
        emulator.queue("pull").add(name="h", tag="two\nlines")

        assert lease(call, filter=text) == names

    def test_a_tag_that_looks_like_a_function_needs_quotes(self, call: Call) -> None:
        create(call, "one", pullMessage={"tag": "oldest_tag()"})

        problem = (
            r'filter is "tag=oldest_tag\(\)", which looks like a function: use '
            r'tag_function=oldest_tag\(\), or tag="oldest_tag\(\)" for a tag of that name$'
        )
        with refused(f"INVALID_ARGUMENT: {problem}"):
            lease(call, filter="tag=oldest_tag()")
        assert lease(call, filter='tag="oldest_tag()"') == ["one"]

    @pytest.mark.parametrize("limits", [Limits(leases_per_second=10)])
    def test_the_eleventh_lease_in_a_second_is_refused(
        self, call: Call, emulator: Emulator, clock: ManualClock
    ) -> None:
        """Through whatever interface the others were made."""
        for _ in range(5):
            verbs.lease(emulator.queue("pull"), 60, 1)
            lease(call)
        problem = (
            'more than 10 LeaseTasks calls in a second on queue "pull": lease more tasks at a '
            "time, or wait$"
        )
        with refused(f"RESOURCE_EXHAUSTED: {problem}"):
            lease(call)
        clock.advance(1)

        assert lease(call) == []

    @pytest.mark.parametrize(
        ("error", "code"),
        [(TransientError, "UNAVAILABLE"), (DeadlineExceededError, "DEADLINE_EXCEEDED")],
    )
    def test_a_fault_refuses_one_call_with_its_status(
        self, call: Call, emulator: Emulator, error: type[Exception], code: str
    ) -> None:
        Faults(emulator).fail("lease_tasks", error, times=1)

        with refused(code):
            lease(call)
        assert lease(call) == []

    @pytest.mark.parametrize("limits", [Limits(lease_payload_bytes=2000)])
    def test_payloads_that_do_not_fit_a_response_stay(self, call: Call, emulator: Emulator) -> None:
        for name in ("a", "b", "c"):
            emulator.queue("pull").add(b"x" * 1000, name=name)

        assert lease(call, responseView="FULL", leaseDuration="0s") == ["a", "b"]
        assert sorted(lease(call)) == ["a", "b", "c"]


class TestHeldLeases:
    """Acknowledge, renew and cancel."""

    def test_acknowledging_deletes_the_task(self, call: Call, emulator: Emulator) -> None:
        create(call, "one")
        [task] = call("LeaseTasks", parent=PULL, leaseDuration="60s")["tasks"]

        assert call("AcknowledgeTask", name=ONE, scheduleTime=task["scheduleTime"]) == {}

        kinds = [event.kind.value for event in emulator.queue("pull").history("one")]
        assert kinds == ["added", "leased", "deleted"]

    def test_renewing_and_cancelling_return_the_new_schedule_time(
        self, call: Call, clock: ManualClock
    ) -> None:
        create(call, "one")
        [task] = call("LeaseTasks", parent=PULL, leaseDuration="60s")["tasks"]
        clock.advance(59)
        held = {"name": ONE, "scheduleTime": task["scheduleTime"]}

        renewed = call("RenewLease", **held, leaseDuration="30.7s")
        held["scheduleTime"] = renewed["scheduleTime"]
        cancelled = call("CancelLease", **held)

        assert renewed["scheduleTime"] == "2026-01-01T00:01:29Z"
        assert renewed["status"] == {"attemptDispatchCount": 1}
        assert cancelled["scheduleTime"] == "2026-01-01T00:00:59Z"


class TestListTasks:
    def test_a_page_has_a_thousand_tasks_at_most(self, call: Call, emulator: Emulator) -> None:
        for _ in range(11):
            emulator.queue("pull").add_many([NewTask() for _ in range(91)])

        page = call("ListTasks", parent=PULL, pageSize=1001)
        rest = call("ListTasks", parent=PULL, pageToken=page["nextPageToken"])

        assert [len(page["tasks"]), len(rest["tasks"])] == [1000, 1]

    def test_pages_lead_through_all_tasks_leased_ones_included(self, call: Call) -> None:
        for name in "abcde":
            create(call, name)
        lease(call, maxTasks=1)
        names, token = [], ""
        for size in (1, 3, 2**31 - 1):
            page = call("ListTasks", parent=PULL, pageSize=size, pageToken=token)
            names += ids(page)
            token = page.get("nextPageToken", "")

        assert names == ["b", "c", "d", "e", "a"]
        assert token == ""

    @pytest.mark.parametrize("limits", [Limits(lease_payload_bytes=2000)])
    def test_a_page_ends_where_payloads_exceed_a_response(
        self, call: Call, emulator: Emulator
    ) -> None:
        for name in ("a", "b", "c"):
            emulator.queue("pull").add(b"x" * 1000, name=name)

        page = call("ListTasks", parent=PULL, responseView="FULL")
        rest = call("ListTasks", parent=PULL, responseView="FULL", pageToken=page["nextPageToken"])

        assert [ids(page), ids(rest)] == [["a", "b"], ["c"]]
        assert "nextPageToken" not in rest
