"""Cloud Tasks v2beta2: the methods on queues and locations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cloudtasks_api import LOCATION, PULL, ApiRefused

from pullqueue import Emulator, ManualClock

Call = Callable[..., dict[str, Any]]

PULL_QUEUE = {
    "name": PULL,
    "pullTarget": {},
    "rateLimits": {"maxTasksDispatchedPerSecond": 500.0, "maxConcurrentTasks": -1},
    "retryConfig": {"unlimitedAttempts": True},
    "state": "RUNNING",
    "taskTtl": "315576000000.999999999s",
    "tombstoneTtl": "604800s",
}


def ids(page: dict[str, Any]) -> list[str]:
    """Return the ids of the queues of a page."""
    return [queue["name"].rpartition("/")[2] for queue in page.get("queues", [])]


def refused(code: str, text: str = "") -> Any:
    """Expect a call to be refused."""
    return pytest.raises(ApiRefused, match=f"{code}: .*{text}")


class TestGetQueue:
    def test_a_pull_queue(self, call: Call) -> None:
        """Everything but its statistics."""
        assert call("GetQueue", name=PULL) == PULL_QUEUE

    def test_a_retry_limit(self, call: Call) -> None:
        """`task_retry_limit` is the number of attempts."""
        queue = call("GetQueue", name=f"{LOCATION}/queues/limited")

        assert queue["retryConfig"] == {"maxAttempts": 2}

    def test_a_push_queue(self, call: Call) -> None:
        """It shows what queue.yaml says of it."""
        queue = call("GetQueue", name=f"{LOCATION}/queues/push")

        assert "pullTarget" not in queue
        assert queue["appEngineHttpTarget"] == {
            "appEngineRoutingOverride": {"service": "worker", "version": "v1"}
        }
        assert queue["rateLimits"] == {
            "maxTasksDispatchedPerSecond": 5.0,
            "maxBurstSize": 10,
            "maxConcurrentTasks": 3,
        }
        assert queue["retryConfig"] == {
            "unlimitedAttempts": True,
            "minBackoff": "0.500s",
            "maxDoublings": 4,
        }

    def test_the_statistics(self, call: Call, emulator: Emulator, clock: ManualClock) -> None:
        """They come where the mask names them."""
        emulator.queue("pull").add_many([])
        emulator.queue("pull").add(name="one")
        emulator.queue("pull").add(name="two", eta=clock.now())
        emulator.queue("pull").lease_tasks(60, 1)

        queue = call("GetQueue", name=PULL, readMask="stats")

        assert queue == {
            "name": PULL,
            "stats": {
                "tasksCount": "2",
                "oldestEstimatedArrivalTime": "2026-01-01T00:00:00Z",
                "executedLastMinuteCount": "1",
            },
        }
        assert call("GetQueue", name=f"{LOCATION}/queues/push", readMask="stats")["stats"] == {}

    @pytest.mark.parametrize(
        ("mask", "fields"),
        [
            ("state", {"state"}),
            ("retryConfig,state", {"retryConfig", "state"}),
            ("stats.tasksCount", {"stats"}),
            ("rateLimits.maxConcurrentTasks", {"rateLimits"}),
        ],
    )
    def test_a_mask(self, call: Call, mask: str, fields: set[str]) -> None:
        """Only the fields that it names, and the name."""
        queue = call("GetQueue", name=PULL, readMask=mask)

        assert set(queue) - {"name"} <= fields
        assert queue["name"] == PULL

    def test_any_location(self, call: Call) -> None:
        """It is echoed."""
        name = "projects/app/locations/europe-west1/queues/pull"

        assert call("GetQueue", name=name)["name"] == name

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "pull",
            "projects/app/queues/pull",
            "projects/app/locations/x/queues/a_b",
            f"projects/app/locations/x/queues/{'a' * 101}",
            "projects/a b/locations/x/queues/pull",
            "projects/app/locations/x/queue/pull",
        ],
    )
    def test_a_malformed_name(self, call: Call, name: str) -> None:
        """It is refused, or over REST leads nowhere."""
        with pytest.raises(ApiRefused, match=r"INVALID_ARGUMENT: name is|NOT_FOUND: no method"):
            call("GetQueue", name=name)

    def test_an_unknown_queue(self, call: Call) -> None:
        """The message names those there are."""
        with refused("NOT_FOUND", "did you mean 'pull'"):
            call("GetQueue", name=f"{LOCATION}/queues/pul")


class TestListQueues:
    def test_all_queues(self, call: Call) -> None:
        """In the order of their names, without statistics."""
        page = call("ListQueues", parent=LOCATION)

        assert ids(page) == ["default", "limited", "pull", "push"]
        assert page["queues"][2] == PULL_QUEUE

    def test_pages(self, call: Call) -> None:
        """A token leads to the next page."""
        first = call("ListQueues", parent=LOCATION, pageSize=3)
        last = call("ListQueues", parent=LOCATION, pageSize=3, pageToken=first["nextPageToken"])

        assert (ids(first), ids(last)) == (["default", "limited", "pull"], ["push"])
        assert "nextPageToken" not in last

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("name:pu", ["pull", "push"]),
            ('name: "limited"', ["limited"]),
            ("state=RUNNING", ["default", "limited", "pull", "push"]),
            ("state=DISABLED", []),
            ("state:PAUSED", []),
            ("pull_target:*", ["limited", "pull"]),
            ("app_engine_http_target: *", ["default", "push"]),
        ],
    )
    def test_filters(self, call: Call, text: str, found: list[str]) -> None:
        """Of the filters of Google's page, these work."""
        assert ids(call("ListQueues", parent=LOCATION, filter=text)) == found

    @pytest.mark.parametrize("text", ["x", "state=STOPPED", "state!=RUNNING", "pull_target:x"])
    def test_other_filters(self, call: Call, text: str) -> None:
        """The message says which there are."""
        with refused("INVALID_ARGUMENT", "use name:TEXT"):
            call("ListQueues", parent=LOCATION, filter=text)

    def test_what_is_not_valid(self, call: Call) -> None:
        """A negative size, a token that no answer had."""
        with refused("INVALID_ARGUMENT", "page_size is -1"):
            call("ListQueues", parent=LOCATION, pageSize=-1)
        with refused("INVALID_ARGUMENT", "page_token is"):
            call("ListQueues", parent=LOCATION, pageToken="x")

    def test_statistics_of_all(self, call: Call) -> None:
        """The mask is applied to each queue."""
        page = call("ListQueues", parent=LOCATION, readMask="stats")

        assert [set(queue) for queue in page["queues"]] == [{"name", "stats"}] * 4


class TestOtherMethods:
    def test_purge(self, call: Call, emulator: Emulator) -> None:
        """All tasks go, and the queue is returned."""
        emulator.queue("pull").add()

        assert call("PurgeQueue", name=PULL)["name"] == PULL
        assert emulator.queue("pull").list_tasks() == []
        assert call("PurgeQueue", name=f"{LOCATION}/queues/push")["state"] == "RUNNING"

    def test_locations(self, call: Call) -> None:
        """One is listed, any is known."""
        (listed,) = call("ListLocations", name="projects/app")["locations"]

        assert listed["name"] == LOCATION
        assert call("GetLocation", name="projects/app/locations/x")["locationId"] == "x"


class TestProject:
    @pytest.fixture
    def emulator(self, clock: ManualClock) -> Emulator:
        """Return an emulator of one project."""
        return Emulator.from_text("queue:\n- name: pull\n  mode: pull\n", project="s~app")

    def test_another_project(self, call: Call) -> None:
        """It is not found."""
        assert call("GetQueue", name=PULL)["name"] == PULL
        with refused("NOT_FOUND", "project 'other' is not served here"):
            call("ListQueues", parent="projects/other/locations/us-central1")
