"""pullqueue.rest.methods and pullqueue.rest.wire: what each method of the API answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from rest_app import CONFIG
from werkzeug.test import TestResponse

from pullqueue import Emulator, Limits, ManualClock
from pullqueue.rest.app import create_app

Call = Callable[..., TestResponse]

NOW_USEC = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z, where the clock stands."""


def answer(response: TestResponse) -> dict[str, Any]:
    """Give the JSON of an answer that must be a success."""
    assert response.status_code == 200, response.text
    return dict(response.json or {})


def refusal(response: TestResponse) -> tuple[int, str, str]:
    """Give status, reason and message of an answer that must be the envelope."""
    assert response.json is not None, response.text
    error = response.json["error"]
    (detail,) = error["errors"]
    assert error["code"] == response.status_code
    assert detail["domain"] == "global"
    assert detail["message"] == error["message"]
    return response.status_code, detail["reason"], error["message"]


class TestInsert:
    def test_the_stored_task_comes_back(self, call: Call) -> None:
        """Every field of the Task resource has its documented type."""
        body = {"payloadBase64": "aGVsbG8=", "id": "one", "tag": "red", "queueName": "pull"}

        assert answer(call("POST", "pull/tasks", json=body)) == {
            "kind": "taskqueues#task",
            "id": "one",
            "queueName": "pull",
            "enqueueTimestamp": str(NOW_USEC),
            "leaseTimestamp": "0",
            "retry_count": 0,
            "payloadBase64": "aGVsbG8=",
            "tag": "red",
        }

    @pytest.mark.parametrize("given", [{}, {"id": ""}, {"id": None}])
    def test_a_name_is_made_up(self, call: Call, given: dict[str, Any]) -> None:
        """Without an id, or with an empty one, the name is 16 hexadecimal digits."""
        made_up = answer(call("POST", "pull/tasks", json={"payloadBase64": "", **given}))["id"]

        assert len(made_up) == 16
        assert int(made_up, 16) >= 0

    def test_an_eta(self, call: Call, emulator: Emulator) -> None:
        """leaseTimestamp is the first moment the task may be leased, in microseconds."""
        eta = NOW_USEC + 90_000_000
        task = answer(
            call("POST", "pull/tasks", json={"payloadBase64": "", "leaseTimestamp": str(eta)})
        )

        assert task["leaseTimestamp"] == str(eta)
        assert emulator.queue("pull").list_tasks()[0].eta_usec == eta

    def test_what_a_client_may_not_set_is_ignored(self, call: Call) -> None:
        """Times and counts of the client's own, unknown fields and null do not matter."""
        task = answer(
            call(
                "POST",
                "pull/tasks",
                json={
                    "kind": "x",
                    "payloadBase64": "",
                    "enqueueTimestamp": 5,
                    "leaseTimestamp": 0,
                    "retry_count": 7,
                    "groupByTag": True,
                    "tag": None,
                },
            )
        )

        assert task["enqueueTimestamp"] == str(NOW_USEC)
        assert task["leaseTimestamp"] == "0"
        assert task["retry_count"] == 0
        assert "tag" not in task

    @pytest.mark.parametrize(
        ("sent", "stored"),
        [
            ("asdf123", "asdf120="),
            ("_-8=", "_-8="),
            ("_-8", "_-8="),
            ("", ""),
            ("QQ=", "QQ=="),
        ],
    )
    def test_base64_is_repaired(self, call: Call, sent: str, stored: str) -> None:
        """Missing padding is added and stray bits are dropped."""
        task = answer(call("POST", "pull/tasks", json={"payloadBase64": sent}))

        assert task["payloadBase64"] == stored

    @pytest.mark.parametrize(
        "sent", ["a+b=", "a/b=", "a#b", "a", "äääa", "a b", "a===", "YQ==YQ=="]
    )
    def test_other_base64_is_refused(self, call: Call, sent: str, emulator: Emulator) -> None:
        """Only the URL-safe alphabet is taken."""
        response = call("POST", "pull/tasks", json={"payloadBase64": sent})

        assert refusal(response) == (400, "invalid", "Invalid payloadBase64 value.")
        assert emulator.queue("pull").list_tasks() == []

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({}, "payloadBase64 must be specified."),
            ({"payloadBase64": None}, "payloadBase64 must be specified."),
            ({"payloadBase64": 5}, "payloadBase64 is 5: give a JSON string"),
            ({"payloadBase64": "", "tag": 5}, "tag is 5: give a JSON string"),
            (
                {"payloadBase64": "", "leaseTimestamp": "soon"},
                "leaseTimestamp is 'soon': give a 64-bit number in a JSON string",
            ),
            (
                {"payloadBase64": "", "leaseTimestamp": 2**63},
                f"leaseTimestamp is {2**63}: give a 64-bit number in a JSON string",
            ),
            (
                {"payloadBase64": "", "leaseTimestamp": True},
                "leaseTimestamp is True: give a 64-bit number in a JSON string",
            ),
            (
                {"payloadBase64": "", "leaseTimestamp": 2**63 - 1},
                f"leaseTimestamp is {2**63 - 1} microseconds since 1970, past all calendars",
            ),
            ({"payloadBase64": "", "queueName": "other"}, "queueName is invalid."),
        ],
    )
    def test_a_bad_field_is_refused(
        self, call: Call, body: dict[str, Any], message: str, emulator: Emulator
    ) -> None:
        """Fields of another type, or out of range, store nothing."""
        assert refusal(call("POST", "pull/tasks", json=body))[::2] == (400, message)
        assert emulator.queue("pull").list_tasks() == []

    @pytest.mark.parametrize("name", ["pull", "projects/s~app/taskqueues/pull"])
    def test_short_and_long_queue_names(self, call: Call, name: str) -> None:
        """The queue in the body may be named either way."""
        answer(call("POST", "pull/tasks", json={"payloadBase64": "", "queueName": name}))

    def test_a_taken_name(self, call: Call) -> None:
        """A name is taken while its task is there, and after."""
        body = {"payloadBase64": "", "id": "one"}
        answer(call("POST", "pull/tasks", json=body))

        existing = refusal(call("POST", "pull/tasks", json=body))
        call("DELETE", "pull/tasks/one")
        deleted = refusal(call("POST", "pull/tasks", json=body))

        assert existing == deleted == (400, "invalid", "Task name already taken: one")

    def test_the_storage_limit(self, call: Call) -> None:
        """An insert that passes total_storage_limit is a quota error."""
        payload = "QUFB" * 300_000
        for _ in range(5):
            answer(call("POST", "pull/tasks", json={"payloadBase64": payload}))
        status, reason, message = refusal(
            call("POST", "pull/tasks", json={"payloadBase64": payload})
        )

        assert (status, reason) == (403, "quotaExceeded")
        assert "total_storage_limit" in message


class TestLease:
    def test_the_list_of_leased_tasks(self, call: Call) -> None:
        """The kind is singular, the queue's name long, the lease's end in microseconds."""
        call("POST", "pull/tasks", json={"payloadBase64": "aGk=", "id": "one"})

        assert answer(call("POST", "pull/tasks/lease?numTasks=5&leaseSecs=60")) == {
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

    def test_nothing_to_lease(self, call: Call) -> None:
        """Where there is nothing, items is absent."""
        empty = answer(call("POST", "pull/tasks/lease?numTasks=5&leaseSecs=60"))

        assert empty == {"kind": "taskqueue#tasks"}

    @pytest.mark.parametrize(
        ("query", "ids"),
        [
            ("", ["a", "b", "c"]),
            ("&groupByTag=false", ["a", "b", "c"]),
            ("&groupByTag=False", ["a", "b", "c"]),
            ("&groupByTag=true", ["a", "c"]),
            ("&groupByTag=True&tag=blue", ["b"]),
            ("&groupByTag=true&tag=green", []),
        ],
    )
    def test_tags(self, call: Call, query: str, ids: list[str]) -> None:
        """groupByTag is read as the word it is, and tag narrows it."""
        for name, tag in (("a", "red"), ("b", "blue"), ("c", "red")):
            call("POST", "pull/tasks", json={"payloadBase64": "", "id": name, "tag": tag})

        leased = answer(call("POST", f"pull/tasks/lease?numTasks=9&leaseSecs=9{query}"))

        assert [item["id"] for item in leased.get("items", [])] == ids

    def test_a_tag_without_group_by_tag(self, call: Call) -> None:
        """The reference forbids it."""
        status, _, message = refusal(
            call("POST", "pull/tasks/lease?numTasks=9&leaseSecs=9&tag=red")
        )

        assert status == 400
        assert "without group_by_tag" in message

    @pytest.mark.parametrize(
        ("query", "reason", "location", "message"),
        [
            ("numTasks=1", "required", "leaseSecs", "Required parameter: leaseSecs"),
            ("leaseSecs=1", "required", "numTasks", "Required parameter: numTasks"),
            (
                "numTasks=1&leaseSecs=x",
                "invalidParameter",
                "leaseSecs",
                "Invalid integer value: 'x'.",
            ),
            (
                "numTasks=1&leaseSecs=99999999999",
                "invalidParameter",
                "leaseSecs",
                "Invalid integer value: '99999999999'.",
            ),
            (
                "numTasks=1&leaseSecs=9999999999",
                "invalidParameter",
                "leaseSecs",
                "Invalid integer value: '9999999999'.",
            ),
            (
                "numTasks=1001&leaseSecs=1",
                "invalidParameter",
                "numTasks",
                "Invalid value '1001'. Values must be within the range: [1, 1000]",
            ),
            (
                "numTasks=1&leaseSecs=604801",
                "invalidParameter",
                "leaseSecs",
                "Invalid value '604801'. Values must be within the range: [0, 604800]",
            ),
            (
                "numTasks=1&leaseSecs=1&groupByTag=maybe",
                "invalidParameter",
                "groupByTag",
                "Invalid boolean value: 'maybe'.",
            ),
        ],
    )
    def test_bad_parameters(
        self, call: Call, query: str, reason: str, location: str, message: str
    ) -> None:
        """A parameter that is missing or wrong is named."""
        response = call("POST", f"pull/tasks/lease?{query}")

        assert refusal(response) == (400, reason, message)
        assert response.json is not None
        detail = response.json["error"]["errors"][0]
        assert (detail["locationType"], detail["location"]) == ("parameter", location)

    def test_payloads_of_one_lease_are_bounded(self, call: Call) -> None:
        """One lease carries at most 1 MB of payload, and the rest stays."""
        for name in ("a", "b", "c"):
            call("POST", "pull/tasks", json={"payloadBase64": "QUFB" * 150_000, "id": name})

        leased = [
            [item["id"] for item in answer(call("POST", path)).get("items", [])]
            for path in ["pull/tasks/lease?numTasks=9&leaseSecs=9"] * 3
        ]

        assert leased == [["a", "b"], ["c"], []]


class TestGetAndList:
    def test_a_list_has_no_payloads(self, call: Call) -> None:
        """Leased or not, every task is listed, by eta, under its short queue name."""
        for name in ("a", "b"):
            call("POST", "pull/tasks", json={"payloadBase64": "aGk=", "id": name})
        call("POST", "pull/tasks/lease?numTasks=1&leaseSecs=60")

        listed = answer(call("GET", "pull/tasks"))

        assert listed["kind"] == "taskqueues#tasks"
        assert [item["id"] for item in listed["items"]] == ["b", "a"]
        assert all("payloadBase64" not in item for item in listed["items"])
        assert {item["queueName"] for item in listed["items"]} == {"pull"}

    def test_an_empty_list(self, call: Call) -> None:
        """Where there is nothing, items is absent."""
        assert answer(call("GET", "pull/tasks")) == {"kind": "taskqueues#tasks"}

    def test_a_hundred_at_most(self, call: Call, emulator: Emulator) -> None:
        """There is no paging: the first hundred are given."""
        for _ in range(101):
            emulator.queue("pull").add(b"")

        assert len(answer(call("GET", "pull/tasks"))["items"]) == 100

    def test_one_task(self, call: Call) -> None:
        """A task is given with its payload, and not leased by that."""
        call("POST", "pull/tasks", json={"payloadBase64": "aGk=", "id": "one"})

        task = answer(call("GET", "pull/tasks/one"))

        assert (task["payloadBase64"], task["retry_count"]) == ("aGk=", 0)

    def test_a_missing_task(self, call: Call) -> None:
        """Unknown and deleted tasks are not found."""
        call("POST", "pull/tasks", json={"payloadBase64": "", "id": "one"})
        call("DELETE", "pull/tasks/one")

        assert refusal(call("GET", "pull/tasks/one"))[:2] == (404, "notFound")
        assert refusal(call("GET", "pull/tasks/two"))[:2] == (404, "notFound")

    def test_a_lapsed_lease_shows_its_end(self, call: Call, clock: ManualClock) -> None:
        """The lease's end stays visible after it has passed."""
        call("POST", "pull/tasks", json={"payloadBase64": "", "id": "one"})
        call("POST", "pull/tasks/lease?numTasks=1&leaseSecs=60")
        clock.advance(100)

        task = answer(call("GET", "pull/tasks/one"))

        assert task["leaseTimestamp"] == str(NOW_USEC + 60_000_000)


class TestChangeLease:
    @pytest.fixture
    def held(self, call: Call) -> dict[str, Any]:
        """Give a task that is leased for a minute."""
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

    def test_update_needs_no_queue_name(self, call: Call, held: dict[str, Any]) -> None:
        """id and leaseTimestamp are enough."""
        body = {"id": "one", "leaseTimestamp": held["leaseTimestamp"]}

        answer(call("POST", "pull/tasks/one?newLeaseSeconds=120", json=body))

    def test_the_body_of_an_update_names_the_task(self, call: Call, held: dict[str, Any]) -> None:
        """The id in the body counts, whatever the path says."""
        task = answer(call("POST", "pull/tasks/whatever?newLeaseSeconds=120", json=held))

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
    def test_update_refused(
        self, call: Call, held: dict[str, Any], change: dict[str, Any], message: str
    ) -> None:
        """An update must say which lease it means, and that must be the current one."""
        response = call("POST", "pull/tasks/one?newLeaseSeconds=120", json={**held, **change})

        assert refusal(response)[::2] == (400, message)
        unchanged = answer(call("GET", "pull/tasks/one"))
        assert unchanged["leaseTimestamp"] == held["leaseTimestamp"]

    @pytest.mark.parametrize("body", [b"", b"  "])
    def test_update_without_a_body(self, call: Call, held: dict[str, Any], body: bytes) -> None:
        """An update without a task is refused."""
        response = call("POST", f"pull/tasks/{held['id']}?newLeaseSeconds=120", data=body)

        assert refusal(response) == (400, "required", "The request body must contain a task.")

    def test_update_of_a_lapsed_lease(
        self, call: Call, held: dict[str, Any], clock: ManualClock
    ) -> None:
        """A lease that has ended cannot be changed."""
        clock.advance(60)

        response = call("POST", "pull/tasks/one?newLeaseSeconds=120", json=held)

        assert refusal(response) == (400, "invalid", "The task lease has expired.")

    def test_update_of_what_is_not_there(self, call: Call, held: dict[str, Any]) -> None:
        """An unknown task is not found; a deleted one is told apart."""
        unknown = refusal(
            call("POST", "pull/tasks/x?newLeaseSeconds=1", json={**held, "id": "unknown"})
        )
        call("DELETE", "pull/tasks/one")
        deleted = refusal(call("POST", "pull/tasks/one?newLeaseSeconds=1", json=held))

        assert unknown[:2] == (404, "notFound")
        assert deleted == (400, "invalid", "task 'one' of queue 'pull' was deleted")

    @pytest.mark.parametrize("name", ["pull", "projects/app/taskqueues/pull"])
    def test_patch_needs_the_queue_name_alone(
        self, call: Call, held: dict[str, Any], name: str
    ) -> None:
        """A patch without a leaseTimestamp changes the current lease."""
        path = f"pull/tasks/{held['id']}?newLeaseSeconds=30"
        task = answer(call("PATCH", path, json={"queueName": name}))

        assert task["leaseTimestamp"] == str(NOW_USEC + 30_000_000)

    def test_patch_to_nothing_gives_back(self, call: Call, held: dict[str, Any]) -> None:
        """0 seconds end the lease at once."""
        path = f"pull/tasks/{held['id']}?newLeaseSeconds=0"
        answer(call("PATCH", path, json={"queueName": "pull"}))

        again = answer(call("POST", "pull/tasks/lease?numTasks=1&leaseSecs=60"))

        assert again["items"][0]["retry_count"] == 2

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({}, "queueName is invalid."),
            ({"queueName": "other"}, "queueName cannot be updated."),
            ({"queueName": "pull", "id": "two"}, "Task ID cannot be updated."),
            ({"queueName": "pull", "leaseTimestamp": "5"}, "The task lease has expired."),
        ],
    )
    def test_patch_refused(
        self, call: Call, held: dict[str, Any], body: dict[str, Any], message: str
    ) -> None:
        """A patch changes nothing but the lease, and only the one it names."""
        path = f"pull/tasks/{held['id']}?newLeaseSeconds=30"

        assert refusal(call("PATCH", path, json=body))[::2] == (400, message)

    @pytest.mark.parametrize("verb", ["POST", "PATCH"])
    def test_the_new_length_is_needed(self, call: Call, held: dict[str, Any], verb: str) -> None:
        """Both want newLeaseSeconds, up to a week."""
        missing = refusal(call(verb, "pull/tasks/one", json=held))
        too_long = refusal(call(verb, "pull/tasks/one?newLeaseSeconds=604801", json=held))

        assert missing == (400, "required", "Required parameter: newLeaseSeconds")
        assert too_long[1] == "invalidParameter"


class TestDelete:
    def test_a_task(self, call: Call) -> None:
        """Success is 204 and nothing."""
        call("POST", "pull/tasks", json={"payloadBase64": "", "id": "one"})

        response = call("DELETE", "pull/tasks/one")

        assert (response.status_code, response.data) == (204, b"")
        assert answer(call("GET", "pull/tasks")) == {"kind": "taskqueues#tasks"}

    def test_a_missing_task(self, call: Call) -> None:
        """Unknown and deleted tasks have an invalid name, as clients expect it."""
        call("POST", "pull/tasks", json={"payloadBase64": "", "id": "one"})
        call("DELETE", "pull/tasks/one")
        expected = (400, "invalid", "The task name is invalid.")

        assert refusal(call("DELETE", "pull/tasks/one")) == expected
        assert refusal(call("DELETE", "pull/tasks/never")) == expected


class TestQueue:
    def test_without_statistics(self, call: Call) -> None:
        """Only with getStats are there numbers."""
        plain = {"kind": "taskqueues#taskqueue", "id": "projects/s~app/taskqueues/pull"}

        assert answer(call("GET", "pull")) == plain
        assert answer(call("GET", "pull?getStats=false")) == plain

    def test_with_statistics(self, call: Call, clock: ManualClock) -> None:
        """Leased tasks count, and the oldest task is in seconds."""
        for _ in range(3):
            call("POST", "pull/tasks", json={"payloadBase64": ""})
        call("POST", "pull/tasks/lease?numTasks=2&leaseSecs=600")
        clock.advance(timedelta(minutes=2))

        assert answer(call("GET", "pull?getStats=true"))["stats"] == {
            "totalTasks": 3,
            "oldestTask": str(NOW_USEC // 1_000_000),
            "leasedLastMinute": "0",
            "leasedLastHour": "2",
        }

    def test_statistics_of_an_empty_queue(self, call: Call) -> None:
        """An empty queue has no oldest task."""
        assert answer(call("GET", "pull?getStats=true"))["stats"] == {
            "totalTasks": 0,
            "leasedLastMinute": "0",
            "leasedLastHour": "0",
        }

    def test_limit_and_acl(self, call: Call) -> None:
        """What queue.yaml says of leases and people is shown."""
        queue = answer(call("GET", "limited"))

        assert queue["maxLeases"] == 2
        assert queue["acl"] == {
            "consumerEmails": ["worker@example.com", "both@example.com"],
            "producerEmails": ["writer@example.com", "both@example.com"],
        }

    @pytest.mark.parametrize(
        ("verb", "path"),
        [("GET", ""), ("GET", "/tasks"), ("GET", "/tasks/x"), ("DELETE", "/tasks/x")],
    )
    def test_unknown_and_push_queues(self, call: Call, verb: str, path: str) -> None:
        """A queue that is not there is not found; a push queue is refused."""
        unknown = refusal(call(verb, f"nowhere{path}"))
        push = refusal(call(verb, f"push{path}"))

        assert unknown == (404, "notFound", "Queue not found.")
        assert push[0] == 400
        assert "is a push queue" in push[2]


class TestProjects:
    @pytest.mark.parametrize(
        ("project", "shown"),
        [
            ("app", "s~app"),
            ("s~app", "s~app"),
            ("e~app", "e~app"),
            ("b%7Eother", "b~other"),
            ("ab~c", "s~ab~c"),
            ("~c", "s~~c"),
            ("S~c", "s~S~c"),
        ],
    )
    def test_every_project_is_the_one_app(
        self, client: FlaskClient, project: str, shown: str
    ) -> None:
        """Any id is taken, with and without a prefix, and answers carry the one that was sent."""
        queue = client.get(f"/taskqueue/v1beta2/projects/{project}/taskqueues/pull")

        assert answer(queue)["id"] == f"projects/{shown}/taskqueues/pull"

    def test_one_project(self) -> None:
        """An emulator of one project knows no other."""
        client = create_app(Emulator(CONFIG, project="s~mine")).test_client()
        root = "/taskqueue/v1beta2/projects"

        assert client.get(f"{root}/e~mine/taskqueues/pull").status_code == 200
        assert refusal(client.get(f"{root}/other/taskqueues/pull")) == (
            404,
            "notFound",
            "Queue not found.",
        )


class TestVersion1:
    ROOT = "/taskqueue/v1beta1/projects/app/taskqueues/pull"

    def test_its_tasks_have_fewer_fields(self, client: FlaskClient, emulator: Emulator) -> None:
        """v1beta1 knows neither tags nor counts, and leases without regard to tags."""
        emulator.queue("pull").add(b"hi", name="one", tag="red")
        path = f"{self.ROOT}/tasks/lease?numTasks=1&leaseSecs=60&groupByTag=true&tag=blue"

        (task,) = answer(client.post(path))["items"]

        assert task == {
            "kind": "taskqueues#task",
            "id": "one",
            "queueName": "projects/s~app/taskqueues/pull",
            "enqueueTimestamp": str(NOW_USEC),
            "leaseTimestamp": str(NOW_USEC + 60_000_000),
            "payloadBase64": "aGk=",
        }

    @pytest.mark.parametrize(
        ("verb", "path"), [("POST", "/tasks"), ("POST", "/tasks/one"), ("PATCH", "/tasks/one")]
    )
    def test_it_changes_nothing(self, client: FlaskClient, verb: str, path: str) -> None:
        """v1beta1 has no insert, update and patch."""
        response = client.open(f"{self.ROOT}{path}", method=verb, json={"payloadBase64": ""})

        assert refusal(response) == (405, "httpMethodNotAllowed", "Method Not Allowed")


class TestRate:
    def test_an_emptied_answer_says_why(self) -> None:
        """The eleventh lease in a second gives nothing, and a header with the reason."""
        emulator = Emulator(CONFIG, clock=ManualClock(), limits=Limits(leases_per_second=10))
        emulator.queue("pull").add(b"")
        client = create_app(emulator).test_client()
        path = "/taskqueue/v1beta2/projects/app/taskqueues/pull/tasks/lease?numTasks=1&leaseSecs=0"

        responses = [client.post(path) for _ in range(11)]

        assert [response.status_code for response in responses] == [200] * 11
        assert ["items" in answer(response) for response in responses] == [True] * 10 + [False]
        assert [response.headers.get("X-Pullqueue-Empty") for response in responses] == [
            *[None] * 10,
            "lease-rate",
        ]
