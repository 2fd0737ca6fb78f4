"""pullqueue.api.handlers and pullqueue.api.resources: tasks that are inserted, and leased."""

from __future__ import annotations

from typing import Any

import pytest
from rest_app import NOW_USEC, Call, answer, refusal
from tables import each_row

from pullqueue import Emulator

USE_A_NUMBER = "use a 64-bit number in a JSON string"
USE_USEC = "use microseconds since 1970, in the years 1 to 9999"
NOT_NEGATIVE = "must be microseconds since 1970, or 0 for now"
WITHIN = "Values must be within the range:"


class TestInsert:
    def test_the_stored_task_comes_back(self, call: Call) -> None:
        """Every field has its documented type; leaseTimestamp is the eta, in microseconds."""
        eta = str(NOW_USEC + 90_000_000)
        body = {"payloadBase64": "aGVsbG8=", "id": "one", "tag": "red", "leaseTimestamp": eta}
        body["queueName"] = "projects/s~app/taskqueues/pull"

        assert answer(call("POST", "pull/tasks", json=body)) == {
            "kind": "taskqueues#task",
            "id": "one",
            "queueName": "pull",
            "enqueueTimestamp": str(NOW_USEC),
            "leaseTimestamp": eta,
            "retry_count": 0,
            "payloadBase64": "aGVsbG8=",
            "tag": "red",
        }

    @pytest.mark.parametrize("given", [{}, {"id": ""}, {"id": None}])
    def test_an_insert_without_an_id_generates_16_hexadecimal_digits(
        self, call: Call, given: dict[str, Any]
    ) -> None:
        generated = answer(call("POST", "pull/tasks", json={"payloadBase64": "", **given}))["id"]

        assert len(generated) == 16
        assert int(generated, 16) >= 0

    def test_what_a_client_may_not_set_is_ignored(self, call: Call) -> None:
        """Times and counts of the client's own, unknown fields and null do not matter."""
        ignored = {"kind": "x", "enqueueTimestamp": 5, "retry_count": 7, "groupByTag": True}
        body = {"payloadBase64": "", "leaseTimestamp": 0, "tag": None, **ignored}

        task = answer(call("POST", "pull/tasks", json=body))

        assert (task["kind"], task["enqueueTimestamp"]) == ("taskqueues#task", str(NOW_USEC))
        assert (task["leaseTimestamp"], task["retry_count"], "tag" in task) == ("0", 0, False)

    @pytest.mark.parametrize(
        ("sent", "stored"),
        [("asdf123", "asdf120="), ("_-8=", "_-8="), ("_-8", "_-8="), ("YQ==", "YQ=="), ("", "")],
    )
    def test_base64_without_padding_is_accepted(self, call: Call, sent: str, stored: str) -> None:
        task = answer(call("POST", "pull/tasks", json={"payloadBase64": sent}))

        assert task["payloadBase64"] == stored

    @each_row("sent", ["a+b=", "a/b=", "a#b", "a", "äääa", "a b", "YWI===", "YQ==YQ=="])
    def test_base64_of_another_alphabet_is_refused(
        self, call: Call, sent: str, emulator: Emulator
    ) -> None:
        response = call("POST", "pull/tasks", json={"payloadBase64": sent})

        assert refusal(response) == (400, "invalid", "Invalid payloadBase64 value.")
        assert emulator.queue("pull").list_tasks() == []

    @each_row(
        ("field", "value", "message"),
        [
            ("payloadBase64", None, "payloadBase64 must be specified."),
            ("payloadBase64", 5, "payloadBase64 is 5: use a JSON string"),
            ("tag", 5, "tag is 5: use a JSON string"),
            ("leaseTimestamp", "soon", f'leaseTimestamp is "soon": {USE_A_NUMBER}'),
            ("leaseTimestamp", 2**63, f"leaseTimestamp is {2**63}: {USE_A_NUMBER}"),
            ("leaseTimestamp", True, f"leaseTimestamp is true: {USE_A_NUMBER}"),
            ("leaseTimestamp", 2**63 - 1, f"leaseTimestamp: eta is {2**63 - 1}: {USE_USEC}"),
            ("leaseTimestamp", -1, f"leaseTimestamp is -1: {NOT_NEGATIVE}"),
            ("leaseTimestamp", str(-(2**63)), f"leaseTimestamp is -{2**63}: {NOT_NEGATIVE}"),
            ("leaseTimestamp", "9999999999999999", "leaseTimestamp: eta is 2286-11-20T17:46:39.9"),
            ("queueName", "other", "queueName is invalid."),
        ],
    )
    def test_a_bad_field_is_refused(
        self, call: Call, field: str, value: object, message: str, emulator: Emulator
    ) -> None:
        """Fields of another type, or out of range, store nothing."""
        body = {"payloadBase64": "", field: value}

        status, _, text = refusal(call("POST", "pull/tasks", json=body))

        assert (status, text[: len(message)]) == (400, message)
        assert emulator.queue("pull").list_tasks() == []

    def test_the_first_microsecond_of_1970_is_an_eta(self, call: Call) -> None:
        """0 is none; what is before 1970 is refused (above)."""
        task = answer(call("POST", "pull/tasks", json={"payloadBase64": "", "leaseTimestamp": "1"}))

        assert task["leaseTimestamp"] == "1"

    def test_a_name_is_refused_while_its_task_exists_and_after(self, call: Call) -> None:
        body = {"payloadBase64": "", "id": "one"}
        answer(call("POST", "pull/tasks", json=body))

        existing = refusal(call("POST", "pull/tasks", json=body))
        call("DELETE", "pull/tasks/one")
        deleted = refusal(call("POST", "pull/tasks", json=body))

        assert existing == deleted == (400, "invalid", "Task name already taken: one")

    def test_an_insert_over_the_storage_limit_is_a_quota_error(self, call: Call) -> None:
        response = [
            call("POST", "pull/tasks", json={"payloadBase64": "QUFB" * 300_000}) for _ in range(6)
        ][-1]

        assert refusal(response)[:2] == (403, "quotaExceeded")


class TestLease:
    def test_the_list_of_leased_tasks(self, call: Call) -> None:
        """The kind is singular, the queue's name long; where there is no task, items is absent."""
        call("POST", "pull/tasks", json={"payloadBase64": "aGk=", "id": "one"})
        path = "pull/tasks/lease?numTasks=5&leaseSecs=60"

        assert answer(call("POST", path)) == {
            "kind": "taskqueue#tasks",
            "items": [
                {
                    "kind": "taskqueues#task",
                    "id": "one",
                    "queueName": "projects/s~app/taskqueues/pull",
                    "enqueueTimestamp": str(NOW_USEC),
                    "leaseTimestamp": str(NOW_USEC + 60_000_000),
                    "retry_count": 1,
                    "payloadBase64": "aGk=",
                }
            ],
        }
        assert answer(call("POST", path)) == {"kind": "taskqueue#tasks"}

    def test_the_spelling_of_the_guide_leases_nothing(self, call: Call) -> None:
        """The guide of 2012 prints lease_secs; with both spellings nothing is leased."""
        call("POST", "pull/tasks", json={"payloadBase64": ""})
        both = call("POST", "pull/tasks/lease?numTasks=5&lease_secs=5&leaseSecs=60")
        (leased,) = answer(call("POST", "pull/tasks/lease?numTasks=5&lease_secs=60"))["items"]

        text = "leaseSecs and lease_secs are both set, and mean the same: leave out lease_secs"
        assert refusal(both) == (400, "invalidParameter", text)
        assert leased["leaseTimestamp"] == str(NOW_USEC + 60_000_000)

    @pytest.mark.parametrize(
        ("name", "query"),
        [("leaseSecs", "leaseSecs=9"), ("numTasks", "numTasks=1"), ("tag", "tag=9&tag=5")],
    )
    def test_a_parameter_with_two_values_leases_nothing(
        self, call: Call, name: str, query: str
    ) -> None:
        call("POST", "pull/tasks", json={"payloadBase64": ""})
        lease = "pull/tasks/lease?numTasks=5&leaseSecs=5&groupByTag=true"
        refused = call("POST", f"{lease}&{query}")
        leased = call("POST", f"{lease}&leaseSecs=5")

        message = f"{name} is set to two values: set it once"
        assert refusal(refused) == (400, "invalidParameter", message)
        assert len(answer(leased)["items"]) == 1

    @pytest.mark.parametrize(
        ("query", "ids"),
        [
            ("", ["a", "b", "c"]),
            ("&groupByTag=false", ["a", "b", "c"]),
            ("&groupByTag=False", ["a", "b", "c"]),
            ("&groupByTag=True&tag=blue", ["b"]),
        ],
    )
    def test_group_by_tag_leases_by_tag(self, call: Call, query: str, ids: list[str]) -> None:
        for name, tag in (("a", "red"), ("b", "blue"), ("c", "red")):
            call("POST", "pull/tasks", json={"payloadBase64": "", "id": name, "tag": tag})

        leased = answer(call("POST", f"pull/tasks/lease?numTasks=9&leaseSecs=9{query}"))

        assert [item["id"] for item in leased["items"]] == ids

    @each_row(
        ("name", "value", "message"),
        [
            ("leaseSecs", None, "Required parameter: leaseSecs"),
            ("numTasks", None, "Required parameter: numTasks"),
            ("leaseSecs", "x", "Invalid integer value: 'x'."),
            ("leaseSecs", "9999999999", "Invalid integer value: '9999999999'."),
            ("leaseSecs", str(-(2**31) - 1), f"Invalid integer value: '-{2**31 + 1}'."),
            ("leaseSecs", str(-(2**31)), f"Invalid value '-{2**31}'. {WITHIN} [0, 604800]"),
            ("numTasks", "1001", f"Invalid value '1001'. {WITHIN} [1, 1000]"),
            ("leaseSecs", "604801", f"Invalid value '604801'. {WITHIN} [0, 604800]"),
            ("groupByTag", "maybe", "Invalid boolean value: 'maybe'."),
            ("tag", "red", 'tag "red" is given without groupByTag: add groupByTag=true'),
        ],
    )
    def test_a_bad_parameter_is_named(
        self, call: Call, name: str, value: str | None, message: str
    ) -> None:
        query = {"numTasks": "1", "leaseSecs": "1", name: value}
        response = call("POST", "pull/tasks/lease", query_string=query)

        reason = "invalidParameter" if value else "required"
        assert refusal(response) == (400, reason, message)
        detail = response.get_json()["error"]["errors"][0]
        assert (detail["locationType"], detail["location"]) == ("parameter", name)
