"""Cloud Tasks v2: the methods on queues, where they differ from v2beta2."""

from __future__ import annotations

from typing import Any

import pytest
from cloudtasks_api import LOCATION, PULL, Call, refused

from pullqueue import Emulator
from pullqueue.cloudtasks.versions import V2, V2BETA3, Version

PUSH = f"{LOCATION}/queues/push"
MADE = f"{LOCATION}/queues/made"
RATES = {
    "maxDispatchesPerSecond": 500.0,
    "maxBurstSize": 100,
    "maxConcurrentDispatches": 1000,
}
RETRY = {"maxAttempts": 100, "minBackoff": "0.100s", "maxBackoff": "3600s", "maxDoublings": 16}
DEFAULTS = {"name": MADE, "rateLimits": RATES, "retryConfig": RETRY, "state": "RUNNING"}
"""What production shows of a queue that was created without any settings."""


@pytest.fixture
def version() -> Version:
    """Return the version that is tested here."""
    return V2


def create(call: Call, **fields: Any) -> dict[str, Any]:
    """Create a queue."""
    return call("CreateQueue", parent=LOCATION, queue={"name": MADE, **fields})


def test_a_queue_of_queue_yaml(call: Call) -> None:
    """Both notations mean the same: retries become attempts, bucket_size the burst."""
    assert call("GetQueue", name=PUSH) == {
        "name": PUSH,
        "appEngineRoutingOverride": {
            "service": "worker",
            "version": "v1",
            "host": "v1.worker.app.appspot.com",
        },
        "rateLimits": {
            "maxDispatchesPerSecond": 5.0,
            "maxBurstSize": 10,
            "maxConcurrentDispatches": 3,
        },
        "retryConfig": {
            "maxAttempts": -1,
            "minBackoff": "0.500s",
            "maxBackoff": "3600s",
            "maxDoublings": 4,
        },
        "state": "RUNNING",
    }


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, {}),
        ({"state": "PAUSED", "purgeTime": "2026-01-01T00:00:00Z"}, {}),
        ({"rateLimits": {"maxBurstSize": -1}}, {}),
        ({"httpTarget": {}}, {}),
        (
            {"rateLimits": {"maxDispatchesPerSecond": 0.5, "maxConcurrentDispatches": 7}},
            {
                "rateLimits": {
                    "maxDispatchesPerSecond": 0.5,
                    "maxBurstSize": 10,
                    "maxConcurrentDispatches": 7,
                }
            },
        ),
        (
            {"retryConfig": {"maxAttempts": -1, "maxRetryDuration": "60s", "minBackoff": "1s"}},
            {
                "retryConfig": RETRY
                | {"maxAttempts": -1, "maxRetryDuration": "60s", "minBackoff": "1s"}
            },
        ),
        (
            {"appEngineRoutingOverride": {"version": "v2", "host": "ignored"}},
            {
                "appEngineRoutingOverride": {
                    "service": "default",
                    "version": "v2",
                    "host": "v2.default.app.appspot.com",
                }
            },
        ),
        (
            {"stackdriverLoggingConfig": {"samplingRatio": 0.5}},
            {"stackdriverLoggingConfig": {"samplingRatio": 0.5}},
        ),
    ],
)
def test_a_new_queue(call: Call, fields: dict[str, Any], shown: dict[str, Any]) -> None:
    """It has the defaults of production; what is output only is ignored."""
    created = create(call, **fields)

    assert created == DEFAULTS | shown
    assert call("GetQueue", name=MADE) == created
    assert call("UpdateQueue", queue=created) == created


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": f"{LOCATION}x/queues/made"}, "must begin with"),
        ({"name": f"{LOCATION}/queues/a_b"}, "letters, digits and hyphens"),
        (
            {"rateLimits": {"maxDispatchesPerSecond": 501}},
            "per_second is 501.0: use 0 to 500",
        ),
        ({"rateLimits": {"maxDispatchesPerSecond": -1}}, "use 0 to 500"),
        ({"rateLimits": {"maxConcurrentDispatches": 5001}}, "use 0 to 5000"),
        ({"retryConfig": {"maxAttempts": -2}}, "max_attempts is -2: use -1 to"),
        ({"retryConfig": {"maxDoublings": -1}}, "max_doublings is -1"),
        ({"retryConfig": {"minBackoff": "-1s"}}, "min_backoff is -1 seconds"),
        ({"retryConfig": {"minBackoff": "4000s"}}, "the minimum must not exceed the maximum"),
        ({"stackdriverLoggingConfig": {"samplingRatio": 1.5}}, "sampling_ratio is 1.5: use 0 to 1"),
        ({"httpTarget": {"uriOverride": {"host": "x"}}}, "http_target is not supported: set url"),
    ],
)
def test_a_queue_that_is_not_valid(call: Call, fields: dict[str, Any], text: str) -> None:
    """It is refused, and nothing is created."""
    with refused("INVALID_ARGUMENT", text):
        create(call, **fields)
    with refused("NOT_FOUND"):
        call("GetQueue", name=MADE)


def test_a_queue_name_in_use(call: Call) -> None:
    """The code for a queue that exists differs from that for one that was deleted."""
    create(call)
    with refused("ALREADY_EXISTS"):
        create(call)
    call("DeleteQueue", name=MADE)
    with refused("FAILED_PRECONDITION", "was deleted not long ago"):
        create(call)
    for method in ("GetQueue", "PauseQueue", "ResumeQueue", "PurgeQueue", "DeleteQueue"):
        with refused("NOT_FOUND"):
            call(method, name=MADE)


def test_an_update(call: Call) -> None:
    """With a mask it changes these fields, without one all; the state stays."""
    create(call, stackdriverLoggingConfig={"samplingRatio": 1})
    call("PauseQueue", name=MADE)
    queue = {"name": MADE, "rateLimits": {"maxDispatchesPerSecond": 1}, "state": "RUNNING"}

    masked = call("UpdateQueue", queue=queue, updateMask="rateLimits.maxDispatchesPerSecond")
    every = call("UpdateQueue", queue={"name": MADE})

    assert (masked["state"], masked["stackdriverLoggingConfig"]) == ("PAUSED", {"samplingRatio": 1})
    assert masked["rateLimits"] == RATES | {"maxDispatchesPerSecond": 1.0, "maxBurstSize": 10}
    assert every == DEFAULTS | {"state": "PAUSED"}
    assert call("ResumeQueue", name=MADE)["state"] == "RUNNING"


def test_names_of_tasks_are_free_after_a_day(call: Call, emulator: Emulator) -> None:
    """In a queue of v2beta2 it is an hour."""
    create(call)
    assert emulator.queue("made").settings.tombstone_seconds == 86_400


def test_pull_queues(call: Call) -> None:
    """They are not listed, and using one says where they are; but they can be purged."""
    queues = call("ListQueues", parent=LOCATION, filter="state: RUNNING")["queues"]

    assert [queue["name"].rpartition("/")[2] for queue in queues] == ["default", "push"]
    for method in ("GetQueue", "PauseQueue", "DeleteQueue"):
        with refused("FAILED_PRECONDITION", '"pull" is a pull queue: .* use v2beta2'):
            call(method, name=PULL)
    assert call("PurgeQueue", name=PULL)["state"] == "RUNNING"


@pytest.mark.parametrize("version", [V2BETA3], ids=["v2beta3"])
@pytest.mark.parametrize(("name", "kind", "rate"), [("pull", "PULL", None), ("push", "PUSH", 5)])
def test_statistics(
    call: Call, emulator: Emulator, name: str, kind: str, rate: float | None
) -> None:
    """v2 has none; GetQueue of v2beta3 shows them, of queues of both kinds."""
    emulator.queue(name).add(b"work")
    path = f"{LOCATION}/queues/{name}"
    stats = call("GetQueue", name=path, readMask="stats")["stats"]
    queue = call("GetQueue", name=path)

    assert (stats["tasksCount"], stats.get("effectiveExecutionRate")) == ("1", rate)
    assert (queue["type"], queue["state"]) == (kind, "RUNNING")
