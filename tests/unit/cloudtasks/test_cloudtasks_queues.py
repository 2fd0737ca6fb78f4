"""Cloud Tasks: the methods on queues and locations, of v2beta2 where no other version is named."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest
from cloudtasks_api import (
    LOCATION,
    MADE,
    PULL,
    PUSH,
    Call,
    GrpcApi,
    RestApi,
    app_engine,
    find_method,
    ids,
    refused,
)
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator, ManualClock
from pullqueue.cloudtasks import texts
from pullqueue.cloudtasks.messages import message_class
from pullqueue.cloudtasks.versions import V2, V2BETA2, V2BETA3, Version
from pullqueue.push.addresses import PushAddresses
from pullqueue.push.request import PushResponse
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import create_app

LIMITED = f"{LOCATION}/queues/limited"
TARGET: dict[str, Any] = {"appEngineHttpTarget": {}}
NOW = "2026-01-01T00:00:00Z"
PULL_QUEUE = {
    "name": PULL,
    "pullTarget": {},
    "rateLimits": {"maxTasksDispatchedPerSecond": 500.0, "maxConcurrentTasks": -1},
    "retryConfig": {"unlimitedAttempts": True},
    "state": "RUNNING",
    "taskTtl": "315576000000.999999999s",
    "tombstoneTtl": "604800s",
}
RATES = {"maxDispatchesPerSecond": 500.0, "maxBurstSize": 100, "maxConcurrentDispatches": 1000}
RETRY = {"maxAttempts": 100, "minBackoff": "0.100s", "maxBackoff": "3600s", "maxDoublings": 16}
V2_QUEUE = {"name": MADE, "rateLimits": RATES, "retryConfig": RETRY, "state": "RUNNING"}
"""What production shows of a queue of v2 that was created without any settings."""
RATE_FIELDS = ("maxDispatchesPerSecond", "maxConcurrentDispatches")

in_v2 = pytest.mark.parametrize("version", [V2], ids=["v2"])


def create(call: Call, **fields: Any) -> dict[str, Any]:
    return call("CreateQueue", parent=LOCATION, queue={"name": MADE, **fields})


class TestGetQueue:
    def test_a_pull_queue_is_shown_without_its_statistics(self, call: Call) -> None:
        assert call("GetQueue", name=PULL) == PULL_QUEUE

    @pytest.mark.parametrize(
        ("version", "rates", "attempts", "holder"),
        [
            (
                V2BETA2,
                ("maxTasksDispatchedPerSecond", "maxConcurrentTasks"),
                {"unlimitedAttempts": True},
                "appEngineHttpTarget",
            ),
            (V2BETA3, RATE_FIELDS, {"maxAttempts": -1}, "appEngineHttpQueue"),
            (V2, RATE_FIELDS, {"maxAttempts": -1}, ""),
        ],
        ids=["v2beta2", "v2beta3", "v2"],
    )
    def test_a_push_queue_is_shown_with_its_defaults(
        self, call: Call, rates: tuple[str, str], attempts: dict[str, Any], holder: str
    ) -> None:
        host = "v1.worker.app.uc.r.appspot.com"
        override = {"service": "worker", "version": "v1", "host": host}
        routing: dict[str, Any] = {"appEngineRoutingOverride": override}
        expected = {
            "name": PUSH,
            "rateLimits": {rates[0]: 5.0, "maxBurstSize": 10, rates[1]: 3},
            "retryConfig": attempts
            | {"minBackoff": "0.500s", "maxBackoff": "3600s", "maxDoublings": 4},
            "state": "RUNNING",
            **({holder: routing} if holder else routing),
        }
        queue = call("GetQueue", name=PUSH)

        assert {field: queue[field] for field in expected} == expected
        assert set(queue) - set(expected) <= {"taskTtl", "tombstoneTtl", "type"}

    def test_statistics_are_shown_if_the_mask_names_them(
        self, call: Call, emulator: Emulator, clock: ManualClock
    ) -> None:
        emulator.queue("pull").add(name="one")
        emulator.queue("pull").add(name="two", eta=clock.now())
        emulator.queue("pull").lease_tasks(60, 1)

        stats = {
            "tasksCount": "2",
            "oldestEstimatedArrivalTime": NOW,
            "executedLastMinuteCount": "1",
        }
        assert call("GetQueue", name=PULL, readMask="stats") == {"name": PULL, "stats": stats}
        push = call("GetQueue", name=PUSH, readMask="stats")
        assert push["stats"] == {"effectiveExecutionRate": 5.0}

    def test_a_server_that_delivers_shows_the_rate_that_it_enforces(
        self, emulator: Emulator
    ) -> None:
        state = ServerState(emulator, push_to=PushAddresses())
        assert state.delivery is not None
        running = state.delivery.dispatcher.start(emulator.queue("push").add())
        assert running is not None
        state.delivery.dispatcher.finish(running, PushResponse(503))
        call = RestApi(Client(create_app(emulator, state=state)))

        push = call("GetQueue", name=PUSH, readMask="stats.effectiveExecutionRate")

        assert push["stats"] == {"effectiveExecutionRate": 2.5}

    @pytest.mark.parametrize("version", [V2BETA3], ids=["v2beta3"])
    @pytest.mark.parametrize("name", ["pull", "push"])
    def test_queues_of_both_modes_are_shown_in_v2beta3(
        self, call: Call, emulator: Emulator, name: str
    ) -> None:
        emulator.queue(name).add(b"work")
        path = f"{LOCATION}/queues/{name}"
        queue = call("GetQueue", name=path)

        assert call("GetQueue", name=path, readMask="stats")["stats"]["tasksCount"] == "1"
        assert (queue["type"], queue["state"]) == (name.upper(), "RUNNING")

    @pytest.mark.parametrize(
        ("mask", "fields"),
        [
            ("retryConfig,state", {"name", "retryConfig", "state"}),
            ("stats.tasksCount", {"name", "stats"}),
            ("rateLimits.maxConcurrentTasks", {"name", "rateLimits"}),
        ],
    )
    def test_only_the_fields_of_the_mask_are_returned_and_the_name(
        self, call: Call, mask: str, fields: set[str]
    ) -> None:
        assert set(call("GetQueue", name=PULL, readMask=mask)) == fields

    def test_a_mask_can_be_in_camel_case(self, grpc_api: GrpcApi) -> None:
        """JSON has it so; in protocol buffers it is accepted as well."""
        method = find_method(V2BETA2, "GetQueue")
        request = message_class("v2beta2", method.request)(name=PULL)
        request.read_mask.paths.append("retryConfig")

        data = grpc_api.send(method, request.SerializeToString())

        assert message_class("v2beta2", "Queue").FromString(data).HasField("retry_config")

    @each_row(
        ("name", "text"),
        [
            ("projects/app/queues/pull", texts.QUEUE_NAME),
            ("projects/a b/locations/europe-west1/queues/pull", texts.QUEUE_NAME),
            ("projects/app/locations/europe-west1/queue/pull", texts.QUEUE_NAME),
            (f"{LOCATION}/queues/a_b", texts.QUEUE_ID.format(id="a_b")),
            (f"{LOCATION}/queues/{'a' * 101}", texts.QUEUE_ID.format(id="a" * 101)),
            (f"{LOCATION}/queues/{'_' * 201}", texts.QUEUE_ID.format(id="_" * 200)),
            (f"{PULL}/queues/a", texts.QUEUE_ID.format(id="pull/queues/a")),
            (f"{PULL}/tasks/a.b", texts.TASK_ID.format(id="a.b")),
            (f"{PULL}/tasks/{'.' * 201}", texts.TASK_ID.format(id="." * 200)),
            (f"{PULL}/tasks/a/tasks/b", texts.TASK_ID.format(id="a/tasks/b")),
            (f"{LOCATION}/tasks/a", texts.TASK_NAME),
            ("projects/app/location/us-central1", ""),
        ],
    )
    def test_a_malformed_name_is_refused(self, grpc_api: GrpcApi, name: str, text: str) -> None:
        """With the text of production, where it is known, and with the form."""
        form, allowed = "projects/PROJECT/locations/LOCATION", "letters, digits and hyphens"
        method, field = ("GetQueue", "name") if text else ("ListQueues", "parent")
        if text:
            form += "/queues/QUEUE"
        if "/tasks/" in name:
            method, form = "GetTask", f"{form}/tasks/TASK"
            allowed += " (TASK: underscores as well, 500 characters at most)"
        advice = f'{field} is "{name:.200}": use {form} with {allowed}'

        with refused("INVALID_ARGUMENT") as caught:
            grpc_api(method, **{field: name})

        found = (caught.value.message, caught.value.advice)
        assert found == ((text, advice) if text else (advice, ""))
        links = [
            each["links"][0]["description"] for each in caught.value.details if "links" in each
        ]
        is_task, is_queue = text.startswith("Task ID"), text == texts.QUEUE_NAME
        known = {"Definition of task ID": is_task, "Definition of queue name": is_queue}
        assert links == [link for link, is_shown in known.items() if is_shown]

    @each_row(
        ("method", "field"),
        [
            *(("CreateQueue", "parent"), ("ListQueues", "parent"), ("ListTasks", "parent")),
            *(("GetQueue", "name"), ("DeleteQueue", "name"), ("PurgeQueue", "name")),
            *(("GetTask", "name"), ("DeleteTask", "name"), ("CreateTask", "parent")),
        ],
    )
    def test_a_name_without_projects_is_taken_for_a_project(
        self, grpc_api: GrpcApi, method: str, field: str
    ) -> None:
        """Which the caller cannot use, as production answers."""
        denied, name = r"Permission denied on resource project 87ec33c5-38\.", "87ec33c5-38/x/y"
        text = rf'{denied} \({field} is "{name}": use projects/PROJECT'
        with refused("PERMISSION_DENIED", text) as caught:
            grpc_api(method, **{field: name})
        assert caught.value.details[0] == {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "CONSUMER_INVALID",
            "domain": "googleapis.com",
            "metadata": {
                "consumer": "projects/87ec33c5-38",
                "containerInfo": "87ec33c5-38",
                "service": "cloudtasks.googleapis.com",
            },
        }

    @in_v2
    def test_v2_lists_no_pull_queues_and_can_purge_them(self, call: Call) -> None:
        assert ids(call("ListQueues", parent=LOCATION, filter="state: RUNNING")) == ["push"]
        assert call("PurgeQueue", name=PULL)["state"] == "RUNNING"


class TestListQueues:
    def test_pages_are_in_the_order_of_names(self, call: Call) -> None:
        first = call("ListQueues", parent=LOCATION, pageSize=2)
        last = call("ListQueues", parent=LOCATION, pageSize=2, pageToken=first["nextPageToken"])

        assert (ids(first), ids(last)) == (["limited", "pull"], ["push"])
        assert first["queues"][1] == PULL_QUEUE
        assert "nextPageToken" not in last
        assert "nextPageToken" not in call("ListQueues", parent=LOCATION, pageSize=3)

    @each_row(
        ("text", "found"),
        [
            ("name:pu", ["pull", "push"]),
            ("name:X", []),
            ('name: "limited"', ["limited"]),
            ("state=RUNNING", ["limited", "pull", "push"]),
            ("state:PAUSED", []),
            ("pull_target:*", ["limited", "pull"]),
            ("app_engine_http_target: *", ["push"]),
        ],
    )
    def test_the_filters_of_googles_page_select_queues(
        self, call: Call, text: str, found: list[str]
    ) -> None:
        assert ids(call("ListQueues", parent=LOCATION, filter=text)) == found

    def test_the_mask_applies_to_each_queue(self, call: Call) -> None:
        page = call("ListQueues", parent=LOCATION, readMask="stats")

        assert [set(queue) for queue in page["queues"]] == [{"name", "stats"}] * 3


class TestCreateQueue:
    @pytest.mark.parametrize(
        ("fields", "shown"),
        [
            ({}, {}),
            ({"retryConfig": {"maxAttempts": 1}}, {"retryConfig": {"maxAttempts": 1}}),
            ({"taskTtl": "60.9s", "tombstoneTtl": "0s"}, {"taskTtl": "60s", "tombstoneTtl": "0s"}),
            ({"taskTtl": "315576000000s"}, {"taskTtl": "315576000000.999999999s"}),
            ({"rateLimits": {"maxConcurrentTasks": 7}, "state": "PAUSED", "purgeTime": NOW}, {}),
        ],
    )
    def test_a_created_pull_queue_has_the_lifetimes_of_cloud_tasks(
        self, call: Call, fields: dict[str, Any], shown: dict[str, Any]
    ) -> None:
        """Tasks live 31 days, names an hour by default; what only Cloud Tasks sets is ignored."""
        created = create(call, pullTarget={}, **fields)

        defaults = {"name": MADE, "taskTtl": "2678400s", "tombstoneTtl": "3600s"}
        assert created == PULL_QUEUE | defaults | shown
        assert call("GetQueue", name=MADE) == created

    def test_a_created_push_queue_has_the_settings_of_queue_yaml(
        self, call: Call, emulator: Emulator
    ) -> None:
        limits = {"maxTasksDispatchedPerSecond": 2.5, "maxBurstSize": 4, "maxConcurrentTasks": 6}
        retry = {"maxAttempts": 1, "maxRetryDuration": "60s", "minBackoff": "1s", "maxDoublings": 2}
        retry["maxBackoff"] = "120s"
        routing = {"appEngineRoutingOverride": {"service": "worker"}}

        created = create(call, appEngineHttpTarget=routing, rateLimits=limits, retryConfig=retry)

        assert (created["rateLimits"], created["retryConfig"]) == (limits, retry)
        shown = created["appEngineHttpTarget"]["appEngineRoutingOverride"]
        assert shown == {"service": "worker", "host": "worker.app.uc.r.appspot.com"}
        settings = emulator.queue("made").settings
        assert settings.target == "worker"
        # Of a push queue queue.yaml counts the retries, and Cloud Tasks the attempts.
        assert settings.retry_parameters is not None
        assert settings.retry_parameters.task_retry_limit == 0
        assert call("UpdateQueue", queue={"name": MADE})["retryConfig"]["maxAttempts"] == 100

    @in_v2
    @pytest.mark.parametrize(
        ("location", "routing", "host"),
        [
            ("us-central1", {}, "app.uc.r"),
            ("us-central1", {"service": "worker"}, "worker.app.uc.r"),
            ("us-central1", {"service": "worker", "version": "v1"}, "v1.worker.app.uc.r"),
            (
                "us-central1",
                {"service": "worker", "version": "v1", "instance": "0"},
                "0.v1.worker.app.uc.r",
            ),
            ("us-central1", {"version": "v2", "host": "ignored"}, "v2.default.app.uc.r"),
            ("me-west1", {"service": "worker"}, "worker.app"),
        ],
    )
    def test_a_routing_has_the_host_that_it_leads_to(
        self, call: Call, location: str, routing: dict[str, str], host: str
    ) -> None:
        """Its tasks have the same. The host names no region that App Engine does not have."""
        parent = f"projects/app/locations/{location}"
        queue = {"name": f"{parent}/queues/made", "appEngineRoutingOverride": routing}

        created = call("CreateQueue", parent=parent, queue=queue)
        task = call("CreateTask", parent=queue["name"], task=app_engine())

        service = {"service": "default"} if routing else {}
        whole = service | routing | {"host": f"{host}.appspot.com"}
        assert created.get("appEngineRoutingOverride") == (whole if routing else None)
        assert task["appEngineHttpRequest"]["appEngineRouting"] == whole

    @in_v2
    @pytest.mark.parametrize(
        ("fields", "shown"),
        [
            ({}, {}),
            ({"state": "PAUSED", "purgeTime": NOW}, {}),
            ({"rateLimits": {"maxBurstSize": -1}}, {}),
            ({"httpTarget": {}}, {}),
            (
                {"retryConfig": {"minBackoff": "3600s"}},
                {"retryConfig": RETRY | {"minBackoff": "3600s"}},
            ),
            *(
                (
                    {"rateLimits": {"maxDispatchesPerSecond": rate}},
                    {"rateLimits": RATES | {"maxDispatchesPerSecond": rate, "maxBurstSize": burst}},
                )
                for rate, burst in ((0.5, 10), (100.0, 20))
            ),
            (
                {"retryConfig": {"maxAttempts": -1, "maxRetryDuration": "60s"}},
                {"retryConfig": RETRY | {"maxAttempts": -1, "maxRetryDuration": "60s"}},
            ),
            *(
                ({"stackdriverLoggingConfig": config}, {"stackdriverLoggingConfig": config})
                for config in ({"samplingRatio": 0.5}, {})
            ),
        ],
    )
    def test_a_queue_of_v2_has_the_defaults_of_production(
        self, call: Call, emulator: Emulator, fields: dict[str, Any], shown: dict[str, Any]
    ) -> None:
        """Of which the names of tasks are reserved for a day."""
        created = create(call, **fields)

        settings = emulator.queue("made").settings
        assert (settings.tombstone_seconds, settings.acl) == (86_400, None)
        assert created == V2_QUEUE | shown
        assert call("GetQueue", name=MADE) == created
        assert call("UpdateQueue", queue=created) == created

    def test_a_duration_that_json_cannot_have_is_refused(self, grpc_api: GrpcApi) -> None:
        method = find_method(V2, "CreateQueue")
        request = message_class("v2", method.request)(parent=LOCATION, queue={"name": MADE})
        request.queue.retry_config.max_retry_duration.seconds = 315_576_000_001

        text = "queue.retry_config.max_retry_duration is 315576000001 seconds: use 0 to 31557600000"
        with refused("INVALID_ARGUMENT", f"{text}0$"):
            grpc_api.send(method, request.SerializeToString())

    @pytest.mark.parametrize("version", [V2BETA3], ids=["v2beta3"])
    def test_type_pull_creates_a_pull_queue_in_v2beta3(
        self, call: Call, emulator: Emulator
    ) -> None:
        """gcloud's `beta tasks queues create --type=pull` and `create-pull-task` send this."""
        created = create(call, type="PULL", retryConfig={"maxAttempts": 1})
        message = {"payload": b64encode(b"work").decode(), "tag": "red"}
        task = call("CreateTask", parent=MADE, task={"pullMessage": message}, responseView="FULL")

        assert (created["type"], created["retryConfig"]) == ("PULL", {"maxAttempts": 1})
        assert call("GetQueue", name=MADE) == created
        assert call("UpdateQueue", queue=created) == created
        assert "made" in ids(call("ListQueues", parent=LOCATION))
        assert emulator.queue("made").retention.leases == 1
        assert task["pullMessage"] == message
        [leased] = emulator.queue("made").lease_tasks(60, 1)
        assert leased.payload == b"work"
        assert call("GetTask", name=task["name"])["dispatchCount"] == 1

    @pytest.mark.parametrize("version", [V2BETA3], ids=["v2beta3"])
    @pytest.mark.parametrize(("before", "after"), [("PULL", "PUSH"), ("PUSH", "PULL")])
    def test_the_type_of_a_queue_cannot_be_changed(
        self, call: Call, before: str, after: str
    ) -> None:
        created = create(call, type=before)

        assert created["retryConfig"]["maxAttempts"] == (-1 if before == "PULL" else 100)
        assert call("UpdateQueue", queue=created) == created
        for kind in (after, 77):
            rest = f"a {before.lower()} queue: leave it out, or create another queue$"
            with refused("INVALID_ARGUMENT", f"queue.type is {kind}, and the queue is {rest}"):
                call("UpdateQueue", queue={"name": MADE, "type": kind}, updateMask="type")
        assert call("UpdateQueue", queue={"name": MADE})["type"] == before

    @in_v2
    def test_the_default_queue_can_be_created_once(self, call: Call, emulator: Emulator) -> None:
        queue = {"name": f"{LOCATION}/queues/default", "retryConfig": {"maxAttempts": 3}}
        assert "default" not in ids(call("ListQueues", parent=LOCATION))

        created = call("CreateQueue", parent=LOCATION, queue=queue)

        assert created == V2_QUEUE | {
            "name": queue["name"],
            "retryConfig": RETRY | {"maxAttempts": 3},
        }
        assert "default" in ids(call("ListQueues", parent=LOCATION))
        with refused("ALREADY_EXISTS", "Queue already exists"):
            call("CreateQueue", parent=LOCATION, queue=queue)
        emulator.reconfigure(emulator.config)
        emulator.queue("default").add()
        assert "default" in ids(call("ListQueues", parent=LOCATION))

    @pytest.mark.parametrize("version", [V2BETA2, V2], ids=["v2beta2", "v2"])
    def test_a_name_in_use_or_of_a_deleted_queue_is_refused(
        self, call: Call, version: Version
    ) -> None:
        """Messages begin as in production, which apps compare."""
        recently = "The queue cannot be created because a queue with this name existed too recently"
        code = "ALREADY_EXISTS" if version is V2BETA2 else "FAILED_PRECONDITION"
        queue = {"name": MADE} | (TARGET if version is V2BETA2 else {})
        create(call, **queue)
        with refused("ALREADY_EXISTS", r'Queue already exists \(queue "made" exists: choose'):
            create(call, **queue)

        assert call("DeleteQueue", name=MADE) == {}
        with refused(code, rf'{recently}\. \(queue "made" was deleted not long ago'):
            create(call, **queue)
        with refused(code, recently):
            call("UpdateQueue", queue=queue)
        for method in ("GetQueue", "PauseQueue", "ResumeQueue", "PurgeQueue"):
            with refused("NOT_FOUND", r'Queue does not exist\. If you just.*\. \(queue "made"'):
                call(method, name=MADE)
        with refused("NOT_FOUND", r'Requested entity was not found\. \(queue "made"'):
            call("DeleteQueue", name=MADE)


class TestUpdateQueue:
    @pytest.mark.parametrize("mask", [None, "retryConfig", "retryConfig.maxAttempts", "*"])
    def test_an_update_replaces_a_setting_of_queue_yaml_until_it_is_reloaded(
        self, call: Call, emulator: Emulator, mask: str | None
    ) -> None:
        fields = {} if mask is None else {"updateMask": mask}
        queue = {"name": LIMITED, "retryConfig": {"maxAttempts": 5}, "state": "DISABLED"}

        updated = call("UpdateQueue", queue=queue, **fields)

        assert updated["retryConfig"] == {"maxAttempts": 5}
        assert (updated["state"], "pullTarget" in updated) == ("RUNNING", True)
        assert emulator.queue("limited").retention.leases == 5
        emulator.reconfigure(emulator.config)
        assert call("GetQueue", name=LIMITED)["retryConfig"] == {"maxAttempts": 2}

    @pytest.mark.parametrize("name", ["pull", "limited", "push"])
    def test_a_mask_of_one_field_changes_no_other(
        self, call: Call, emulator: Emulator, name: str
    ) -> None:
        before = call("GetQueue", name=f"{LOCATION}/queues/{name}")
        queue = {"name": before["name"], "tombstoneTtl": "60s", "retryConfig": {"maxAttempts": 9}}

        settings = emulator.queue(name).settings

        updated = call("UpdateQueue", queue=queue, updateMask="tombstoneTtl")

        assert updated == {**before, "tombstoneTtl": "60s"}
        assert emulator.queue(name).settings == replace(settings, tombstone_seconds=60)
        assert call("UpdateQueue", queue=updated) == updated

    @in_v2
    def test_in_v2_the_burst_follows_the_rate_and_the_state_stays(self, call: Call) -> None:
        """Without a mask all fields change."""
        create(call, stackdriverLoggingConfig={"samplingRatio": 1})
        call("PauseQueue", name=MADE)
        queue = {"name": MADE, "rateLimits": {"maxDispatchesPerSecond": 1}, "state": "RUNNING"}

        masked = call("UpdateQueue", queue=queue, updateMask="rateLimits.maxDispatchesPerSecond")
        every = call("UpdateQueue", queue={"name": MADE})

        assert masked["stackdriverLoggingConfig"] == {"samplingRatio": 1}
        assert masked["rateLimits"] == RATES | {"maxDispatchesPerSecond": 1.0, "maxBurstSize": 10}
        assert every == V2_QUEUE | {"state": "PAUSED"}

    def test_a_mask_changes_one_limit_of_a_push_queue(self, call: Call) -> None:
        queue = {"name": PUSH, "rateLimits": {"maxBurstSize": 20}}

        updated = call("UpdateQueue", queue=queue, updateMask="rateLimits.maxBurstSize")

        assert list(updated["rateLimits"].values()) == [5.0, 20, 3]
