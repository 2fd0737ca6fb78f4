"""Cloud Tasks v2beta2: the methods on queues and locations."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from urllib.request import urlopen

import pytest
from cloudtasks_api import LOCATION, PULL, ApiRefused, Call, refused

from pullqueue import Emulator, ManualClock
from pullqueue.config.model import QueueConfig
from pullqueue.server.lifecycle import Server

LIMITED = f"{LOCATION}/queues/limited"
MADE = f"{LOCATION}/queues/made"
PUSH: dict[str, Any] = {"appEngineHttpTarget": {}}
TIME = "2026-01-01T00:00:00Z"
TEXT = b"queue:\n- name: new\n  mode: pull\n"
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


class TestGetQueue:
    def test_a_pull_queue(self, call: Call) -> None:
        """Everything but its statistics."""
        assert call("GetQueue", name=PULL) == PULL_QUEUE

    def test_a_push_queue(self, call: Call) -> None:
        """It shows what applies to it: what queue.yaml sets, and the defaults."""
        queue = call("GetQueue", name=f"{LOCATION}/queues/push")

        assert "pullTarget" not in queue
        host = "v1.worker.app.appspot.com"
        assert queue["appEngineHttpTarget"] == {
            "appEngineRoutingOverride": {"service": "worker", "version": "v1", "host": host}
        }
        assert queue["rateLimits"] == {
            "maxTasksDispatchedPerSecond": 5.0,
            "maxBurstSize": 10,
            "maxConcurrentTasks": 3,
        }
        assert queue["retryConfig"] == {
            "unlimitedAttempts": True,
            "minBackoff": "0.500s",
            "maxBackoff": "3600s",
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
        push = call("GetQueue", name=f"{LOCATION}/queues/push", readMask="stats")
        assert push["stats"] == {"effectiveExecutionRate": 5.0}

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
        with refused("NOT_FOUND", 'did you mean "pull"'):
            call("GetQueue", name=f"{LOCATION}/queues/pul")


class TestListQueues:
    def test_all_queues(self, call: Call) -> None:
        """In the order of their names, without statistics."""
        page = call("ListQueues", parent=LOCATION)

        assert ids(page) == ["default", "limited", "pull", "push"]
        assert page["queues"][2] == PULL_QUEUE

    def test_pages(self, call: Call) -> None:
        """A token leads to the next page; that of another list does not."""
        first = call("ListQueues", parent=LOCATION, pageSize=3)
        last = call("ListQueues", parent=LOCATION, pageSize=3, pageToken=first["nextPageToken"])

        assert (ids(first), ids(last)) == (["default", "limited", "pull"], ["push"])
        assert "nextPageToken" not in last
        with refused("INVALID_ARGUMENT", "page_token is"):
            call("ListQueues", parent=LOCATION, pageToken="MSAx")

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

    def test_statistics_of_all(self, call: Call) -> None:
        """The mask is applied to each queue."""
        page = call("ListQueues", parent=LOCATION, readMask="stats")

        assert [set(queue) for queue in page["queues"]] == [{"name", "stats"}] * 4


class TestCreateQueue:
    @pytest.mark.parametrize(
        ("fields", "shown"),
        [
            ({}, {"taskTtl": "2678400s", "tombstoneTtl": "3600s"}),
            ({"retryConfig": {"maxAttempts": 3}}, {"retryConfig": {"maxAttempts": 3}}),
            ({"taskTtl": "60.9s", "tombstoneTtl": "0s"}, {"taskTtl": "60s", "tombstoneTtl": "0s"}),
            ({"taskTtl": "315576000000s"}, {"taskTtl": "315576000000.999999999s"}),
            ({"rateLimits": {"maxConcurrentTasks": 7}, "state": "PAUSED", "purgeTime": TIME}, {}),
        ],
    )
    def test_a_pull_queue(self, call: Call, fields: dict[str, Any], shown: dict[str, Any]) -> None:
        """Tasks live 31 days, names an hour by default; what only Cloud Tasks sets is ignored."""
        queue = {"name": MADE, "pullTarget": {}, **fields}
        defaults = {"taskTtl": "2678400s", "tombstoneTtl": "3600s"}

        created = call("CreateQueue", parent=LOCATION, queue=queue)

        assert created == {**PULL_QUEUE, "name": MADE, **defaults, **shown}
        assert call("GetQueue", name=MADE) == created
        assert "made" in ids(call("ListQueues", parent=LOCATION))

    def test_a_push_queue(self, call: Call, emulator: Emulator) -> None:
        """Its settings are those of queue.yaml."""
        limits = {"maxTasksDispatchedPerSecond": 2.5, "maxBurstSize": 4, "maxConcurrentTasks": 6}
        retry = {"maxAttempts": 5, "maxRetryDuration": "60s", "minBackoff": "1s", "maxDoublings": 2}
        retry["maxBackoff"] = "120s"
        target = {"appEngineRoutingOverride": {"service": "worker"}}
        queue = {
            "name": MADE,
            "appEngineHttpTarget": target,
            "rateLimits": limits,
            "retryConfig": retry,
        }

        created = call("CreateQueue", parent=LOCATION, queue=queue)

        shown = created["appEngineHttpTarget"]["appEngineRoutingOverride"]
        assert shown == {"service": "worker", "host": "worker.app.appspot.com"}
        assert (created["rateLimits"], created["retryConfig"]) == (limits, retry)
        settings = emulator.queue("made").settings
        assert settings.target == "worker"
        # Of a push queue queue.yaml counts the retries, and Cloud Tasks the attempts.
        assert settings.retry_parameters is not None
        assert settings.retry_parameters.task_retry_limit == 4

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"name": ""}, 'queue.name is ""'),
            ({"retryConfig": {"maxAttempts": 0}}, "max_attempts is 0"),
            ({"retryConfig": {"maxAttempts": -1}}, "max_attempts is -1"),
            ({"taskTtl": "0s"}, "task_ttl is 0 seconds"),
            ({"tombstoneTtl": "777601s"}, "use 0 to 777600"),
            ({"tombstoneTtl": "-1s"}, "tombstone_ttl is -1 seconds"),
            ({"httpTarget": {}}, "no pull_target or app_engine_http_target"),
            ({"pullTarget": None}, "no pull_target or app_engine_http_target"),
            (PUSH | {"rateLimits": {"maxBurstSize": 501}}, "501: use 0 to 500"),
            (PUSH | {"rateLimits": {"maxTasksDispatchedPerSecond": "NaN"}}, "is nan: use 0 to 500"),
        ],
    )
    def test_what_is_not_valid(self, call: Call, fields: dict[str, Any], text: str) -> None:
        """Nothing is created."""
        target: dict[str, Any] = {} if {"httpTarget", *PUSH} & set(fields) else {"pullTarget": {}}

        with refused("INVALID_ARGUMENT", text):
            call("CreateQueue", parent=LOCATION, queue={"name": MADE, **target, **fields})
        assert "made" not in ids(call("ListQueues", parent=LOCATION))

    def test_a_name_in_use(self, call: Call) -> None:
        """The message says what to do."""
        with refused("ALREADY_EXISTS", "exists: choose another name"):
            call("CreateQueue", parent=LOCATION, queue={"name": PULL, "pullTarget": {}})


class TestUpdateQueue:
    @pytest.mark.parametrize("mask", [None, "retryConfig", "retryConfig.maxAttempts", "*"])
    def test_some_fields_or_all(self, call: Call, emulator: Emulator, mask: str | None) -> None:
        """The retry limit of queue.yaml is replaced until it is reloaded."""
        fields = {} if mask is None else {"updateMask": mask}
        queue = {"name": LIMITED, "retryConfig": {"maxAttempts": 5}, "state": "DISABLED"}

        updated = call("UpdateQueue", queue=queue, **fields)

        assert updated["retryConfig"] == {"maxAttempts": 5}
        assert (updated["state"], "pullTarget" in updated) == ("RUNNING", True)
        assert emulator.queue("limited").retention.leases == 5
        emulator.reconfigure(emulator.config)
        assert call("GetQueue", name=LIMITED)["retryConfig"] == {"maxAttempts": 2}

    @pytest.mark.parametrize("name", ["pull", "limited", "push"])
    def test_a_mask_of_one_field_changes_no_other(self, call: Call, name: str) -> None:
        """Not the lifetime of the tasks, nor a pause of half a second."""
        before = call("GetQueue", name=f"{LOCATION}/queues/{name}")
        queue = {"name": before["name"], "tombstoneTtl": "60s", "retryConfig": {"maxAttempts": 9}}

        updated = call("UpdateQueue", queue=queue, updateMask="tombstoneTtl")

        assert updated == {**before, "tombstoneTtl": "60s"}

    def test_what_was_returned_can_be_sent_back(self, call: Call, emulator: Emulator) -> None:
        """Get, then update: nothing changes."""
        for name in ("pull", "limited", "push"):
            queue = call("GetQueue", name=f"{LOCATION}/queues/{name}")

            assert call("UpdateQueue", queue=queue) == queue

    def test_a_queue_that_is_not_there(self, call: Call) -> None:
        """It is created."""
        created = call("UpdateQueue", queue={"name": MADE, "pullTarget": {}})

        assert call("GetQueue", name=MADE) == created

    def test_a_mask_that_is_not_valid(self, call: Call) -> None:
        """The message lists the fields."""
        with refused("INVALID_ARGUMENT", "update_mask"):
            call("UpdateQueue", queue={"name": PULL}, updateMask="color")

    def test_a_push_queue_with_a_mask(self, call: Call) -> None:
        """One limit changes, the others stay."""
        queue = {"name": f"{LOCATION}/queues/push", "rateLimits": {"maxBurstSize": 20}}

        limits = call("UpdateQueue", queue=queue, updateMask="rateLimits.maxBurstSize")[
            "rateLimits"
        ]

        assert list(limits.values()) == [5.0, 20, 3]


class TestDeleteQueue:
    def test_its_name_is_reserved(self, call: Call) -> None:
        """The queue is not found, and none can be created with its name."""
        queue = {"name": MADE, "pullTarget": {}}
        call("CreateQueue", parent=LOCATION, queue=queue)

        assert call("DeleteQueue", name=MADE) == {}
        for method in ("GetQueue", "DeleteQueue"):
            with refused("NOT_FOUND", 'queue "made"'):
                call(method, name=MADE)
        with refused("ALREADY_EXISTS", "was deleted not long ago"):
            call("CreateQueue", parent=LOCATION, queue=queue)
        with refused("ALREADY_EXISTS", "was deleted not long ago"):
            call("UpdateQueue", queue=queue)


class TestPause:
    @pytest.mark.parametrize("name", ["pull", "push"])
    def test_pause_and_resume(self, call: Call, name: str) -> None:
        """The queue is returned."""
        queue = f"{LOCATION}/queues/{name}"

        assert call("PauseQueue", name=queue)["state"] == "PAUSED"
        assert ids(call("ListQueues", parent=LOCATION, filter="state=PAUSED")) == [name]
        assert call("ResumeQueue", name=queue)["state"] == "RUNNING"

    def test_nothing_is_leased(self, call: Call) -> None:
        """The refusal is that of a state, which another call changes."""
        call("PauseQueue", name=PULL)
        with refused("FAILED_PRECONDITION", 'queue "pull" is paused'):
            call("LeaseTasks", parent=PULL, leaseDuration="60s")

    def test_a_queue_that_left_queue_yaml(self, call: Call, emulator: Emulator) -> None:
        """It is disabled until it is resumed."""
        emulator.reconfigure(QueueConfig())

        assert call("GetQueue", name=PULL)["state"] == "DISABLED"
        with refused("FAILED_PRECONDITION", "is disabled, since it is no longer in"):
            call("LeaseTasks", parent=PULL, leaseDuration="60s")
        assert call("ResumeQueue", name=PULL)["state"] == "RUNNING"


class TestUpload:
    def test_a_queue_yaml(self, call: Call) -> None:
        """It is applied as a deployment: what it does not list is disabled."""
        call("CreateQueue", parent=LOCATION, queue={"name": MADE, "pullTarget": {}})
        body = {"data": b64encode(TEXT).decode()}

        assert call("UploadQueueYaml", appId="app", httpBody=body) == {}
        listed = call("ListQueues", parent=LOCATION)["queues"]
        assert {one["name"].rpartition("/")[2]: one["state"] for one in listed} == {
            "default": "RUNNING",
            "limited": "DISABLED",
            "made": "RUNNING",
            "new": "RUNNING",
            "pull": "DISABLED",
            "push": "DISABLED",
        }

    def test_one_with_errors(self, call: Call) -> None:
        """Nothing changes, and the linter's message is the answer's."""
        body = {"data": b64encode(b"queue:\n- name: new\n  mode: sideways\n").decode()}

        with refused("INVALID_ARGUMENT", "queue.yaml:3:.*sideways"):
            call("UploadQueueYaml", appId="app", httpBody=body)
        assert "new" not in ids(call("ListQueues", parent=LOCATION))

    def test_an_empty_application(self, call: Call) -> None:
        """It is required."""
        with refused("INVALID_ARGUMENT", "app_id is missing"):
            call("UploadQueueYaml", appId="", httpBody={})

    @pytest.mark.parametrize("path", ["api/queue/update", "v2beta2/api/queue/update"])
    def test_the_file_itself_over_http(self, server: Server, emulator: Emulator, path: str) -> None:
        """As `curl --data-binary @queue.yaml` sends it, also to the URL without a version."""
        with urlopen(f"{server.url}/{path}?appId=app", TEXT) as response:  # noqa: S310
            assert response.read() == b"{}\n"
        assert next(queue.name for queue in emulator.queues) == "new"


class TestOtherMethods:
    def test_purge(self, call: Call, emulator: Emulator) -> None:
        """All tasks go, and the queue is returned."""
        emulator.queue("pull").add()

        assert call("PurgeQueue", name=PULL)["purgeTime"] == TIME
        assert emulator.queue("pull").list_tasks() == []
        assert call("PurgeQueue", name=f"{LOCATION}/queues/push")["state"] == "RUNNING"

    def test_locations(self, call: Call) -> None:
        """One is listed, any can be used."""
        (listed,) = call("ListLocations", name="projects/app")["locations"]

        assert listed["name"] == LOCATION
        assert call("GetLocation", name="projects/app/locations/x")["locationId"] == "x"
        name = "projects/app/locations/x/queues/pull"
        assert call("GetQueue", name=name)["name"] == name


class TestProject:
    @pytest.fixture
    def emulator(self, clock: ManualClock) -> Emulator:
        """Return an emulator of one project."""
        return Emulator.from_text("queue:\n- name: pull\n  mode: pull\n", project="s~app")

    def test_another_project(self, call: Call) -> None:
        """It is not found."""
        assert call("GetQueue", name=PULL)["name"] == PULL
        with refused("NOT_FOUND", 'project "other" is not served here'):
            call("ListQueues", parent="projects/other/locations/us-central1")


@pytest.mark.parametrize("fields", [{}, {"updateMask": "httpTarget"}])
def test_an_http_target(call: Call, fields: dict[str, Any]) -> None:
    """It is refused, not ignored, also on a pull queue."""
    queue = {"name": PULL, "httpTarget": {"uriOverride": {"host": "x"}}}
    with refused("INVALID_ARGUMENT", "http_target is not supported: set url"):
        call("UpdateQueue", queue=queue, **fields)
