"""pullqueue.api.handlers and pullqueue.api.resources: what the other methods of the API answer."""

from __future__ import annotations

from datetime import timedelta

import pytest
from rest_app import CONFIG, NOW_USEC, Call, answer, refusal
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator, Limits, ManualClock
from pullqueue.server.app import create_app


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

    def test_list_returns_the_first_hundred_tasks(self, call: Call, emulator: Emulator) -> None:
        for _ in range(101):
            emulator.queue("pull").add(b"")

        assert len(answer(call("GET", "pull/tasks"))["items"]) == 100

    def test_unknown_and_deleted_tasks_are_not_found(self, call: Call) -> None:
        call("POST", "pull/tasks", json={"payloadBase64": "", "id": "one"})
        call("DELETE", "pull/tasks/one")

        for name in ("one", "two"):
            assert refusal(call("GET", f"pull/tasks/{name}"))[:2] == (404, "notFound")

    def test_a_lapsed_lease_shows_its_end(self, call: Call, clock: ManualClock) -> None:
        """The lease's end stays visible after it has passed."""
        call("POST", "pull/tasks", json={"payloadBase64": "", "id": "one"})
        call("POST", "pull/tasks/lease?numTasks=1&leaseSecs=60")
        clock.advance(100)

        task = answer(call("GET", "pull/tasks/one"))

        assert task["leaseTimestamp"] == str(NOW_USEC + 60_000_000)


class TestQueue:
    def test_a_queue_has_statistics_only_with_get_stats(self, call: Call) -> None:
        plain = {"kind": "taskqueues#taskqueue", "id": "projects/s~app/taskqueues/pull"}

        assert answer(call("GET", "pull")) == answer(call("GET", "pull?getStats=false")) == plain

    def test_statistics_count_leased_tasks_and_show_the_oldest(
        self, call: Call, clock: ManualClock
    ) -> None:
        empty = answer(call("GET", "pull?getStats=true"))["stats"]
        for _ in range(3):
            call("POST", "pull/tasks", json={"payloadBase64": ""})
        call("POST", "pull/tasks/lease?numTasks=2&leaseSecs=600")
        clock.advance(timedelta(minutes=2))

        assert empty == {"totalTasks": 0, "leasedLastMinute": "0", "leasedLastHour": "0"}
        assert answer(call("GET", "pull?getStats=true"))["stats"] == {
            "totalTasks": 3,
            "oldestTask": str(NOW_USEC // 1_000_000),
            "leasedLastMinute": "0",
            "leasedLastHour": "2",
        }

    def test_a_queue_shows_its_retry_limit_and_acl(self, call: Call) -> None:
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
    def test_an_unknown_queue_is_not_found_and_a_push_queue_refused(
        self, call: Call, verb: str, path: str
    ) -> None:
        unknown = refusal(call(verb, f"nowhere{path}"))
        push = refusal(call(verb, f"push{path}"))

        assert unknown == (404, "notFound", "Queue not found.")
        assert push[0] == 400
        assert "is a push queue" in push[2]


class TestProjects:
    @each_row(
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
    def test_every_project_is_the_one_app(self, client: Client, project: str, shown: str) -> None:
        """Any id is taken, with and without a prefix, and answers carry the one that was sent."""
        queue = client.get(f"/taskqueue/v1beta2/projects/{project}/taskqueues/pull")

        assert answer(queue)["id"] == f"projects/{shown}/taskqueues/pull"

    def test_an_emulator_of_one_project_knows_no_other(self) -> None:
        client = Client(create_app(Emulator(CONFIG, project="s~mine")))
        root = "/taskqueue/v1beta2/projects"

        assert client.get(f"{root}/e~mine/taskqueues/pull").status_code == 200
        unknown = refusal(client.get(f"{root}/other/taskqueues/pull"))
        assert unknown == (404, "notFound", "Queue not found.")


class TestVersion1:
    ROOT = "/taskqueue/v1beta1/projects/app/taskqueues/pull"

    def test_its_tasks_have_fewer_fields(self, client: Client, emulator: Emulator) -> None:
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
    def test_v1beta1_has_no_insert_update_and_patch(
        self, client: Client, verb: str, path: str
    ) -> None:
        response = client.open(f"{self.ROOT}{path}", method=verb, json={"payloadBase64": ""})

        assert refusal(response) == (405, "httpMethodNotAllowed", "Method Not Allowed")


class TestRate:
    def test_an_emptied_answer_says_why(self) -> None:
        """A lease above the rate returns nothing, and a header with the reason."""
        emulator = Emulator(CONFIG, clock=ManualClock(), limits=Limits(leases_per_second=1))
        emulator.queue("pull").add(b"")
        client = Client(create_app(emulator))
        path = "/taskqueue/v1beta2/projects/app/taskqueues/pull/tasks/lease?numTasks=1&leaseSecs=0"

        leased, emptied = client.post(path), client.post(path)

        assert "items" in answer(leased)
        assert "items" not in answer(emptied)
        assert leased.headers.get("X-Pullqueue-Empty") is None
        assert emptied.headers.get("X-Pullqueue-Empty") == "lease-rate"
