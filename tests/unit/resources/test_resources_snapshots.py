"""Control routes that save and load what the queues hold."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from functools import reduce
from operator import getitem
from typing import Any

import pytest
from control_client import ControlClient

from pullqueue import (
    AttemptRecord,
    Emulator,
    HttpRequest,
    Limits,
    ManualClock,
    QueueNameInUseError,
    RetryParameters,
    Task,
)
from pullqueue.clock import LAST_USEC, USEC_PER_SECOND
from pullqueue.config.model import QueueMode, QueueSettings, Rate
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.resources.snapshots import SavedTask
from pullqueue.server.lifecycle import Server

TASK = {"name": "a", "payload": "", "tag": None, "eta_usec": 0, "sequence": 1, "retry_count": 0}
LATE = LAST_USEC // USEC_PER_SECOND
ONE_TASK = {
    "tasks": [{**TASK, "enqueued_usec": 0}],
    "exhausted": [],
    "tombstones": {},
    "leased": [],
}


def test_a_snapshot_saves_every_field_of_a_task() -> None:
    """All but the queue, under whose name it is saved, and its size, which is computed."""
    assert {*SavedTask.__struct_fields__} == {*Task._fields} - {"queue_name", "stored_bytes"}


def test_a_snapshot_restores_all_after_a_reset(control: ControlClient, clock: ManualClock) -> None:
    """Tasks, leases, names, exhausted tasks."""
    control.post("/queues/pull/tasks", {"tasks": [{"name": "held"}, {"name": "gone"}]})
    control.post("/queues/pull/lease", {"lease_seconds": 100})
    control.post("/queues/pull/change", {"action": "delete", "tasks": ["gone"]})
    before = control.get("/queues").body
    saved = control.get("/snapshot").body
    control.post("/reset")
    clock.advance(50)

    loaded = control.call("PUT", "/snapshot?shift=true", saved)

    assert loaded.body == {"tasks": 1, "exhausted": 0, "warning": None}
    assert control.get("/queues").body["queues"][0]["leased"] == 1
    assert control.get("/queues/pull/tasks/held").body["task"]["lease_seconds_left"] == 100
    control.call("PUT", "/snapshot", saved)
    assert control.get("/queues/pull/tasks/held").body["task"]["lease_seconds_left"] == 50
    refused = control.post("/queues/pull/tasks", {"tasks": [{"name": "gone"}]}).body["refused"]
    assert refused == {"gone": "tombstoned"}
    assert before["queues"][0]["leased_last_hour"] == 1


def test_a_bad_snapshot_is_refused_whole(control: ControlClient) -> None:
    """What is there stays."""
    control.post("/queues/pull/tasks", {"tasks": [{"name": "stays"}]})
    saved = control.get("/snapshot").body
    two_of_one = {"queues": {"pull": ONE_TASK, "limited": ONE_TASK}}
    late = {"taken_usec": 0, "queues": {"pull": {**ONE_TASK, "leased": [[LATE, 1]]}}}

    for query, change, message in (
        ("", {"format": "x/9"}, "format is not valid: Invalid enum value 'x/9'"),
        ("", {"queue": []}, "the body is not valid: Object contains unknown field `queue`"),
        ("", {"queues": {"other": {}}}, "queues[...] is not valid: Object missing"),
        ("", {"queues": {"other": {"what": 1}}}, "queues[...] is not valid: Object contains"),
        ("", {"queues": None}, "queues is not valid: Expected `object`, got `null`"),
        ("", {"queues": {"other": ONE_TASK}}, 'queue "other" is not in'),
        ("", two_of_one, 'queues["limited"].tasks is not valid: "a" has sequence 1, as '),
        ("?shift=true", {"taken_usec": -1}, "taken_usec is not valid: Expected `int` >= 0"),
        ("?shift=true", late, 'queues["pull"].leased[0] is not valid: date value out of range'),
    ):
        reply = control.call("PUT", f"/snapshot{query}", {**saved, **change})

        assert reply.status in (400, 404), change
        assert reply.message.startswith(message), change
        assert control.get("/queues/pull/tasks/stays").status == 200, change


def retrying(emulator: Emulator) -> Task:
    """Return a push task whose first attempt has failed."""
    queue = emulator.queue("push")
    request = HttpRequest("/mail", "PUT", (("X-Mine", "7"),), retry=RetryParameters())
    started = start_attempt(
        queue,
        queue.add(b"body", name="sent", request=request),
        lease_seconds=60,
        attempts=AttemptRecord(first_usec=queue.now_usec()),
    )
    failed = started.attempts._replace(finished=1, responses=1, status=503)
    return finish_attempt(
        queue,
        started,
        attempts=failed,
        backoff_seconds=9,
    )


WRONG: dict[str, list[dict[str, Any]]] = {
    "task": [
        *({"name": name} for name in (5, "b", "not a name", "n" * 501)),
        *({"eta_usec": usec} for usec in ("soon", True, 2**62, -1)),
        *({"sequence": number} for number in (2**70, 0, 2)),
        *({"payload": payload} for payload in ("?", "eHh4" * 2**19)),
        *({"tag": tag} for tag in (1, "t" * 501)),
        *({"retry_count": count} for count in (-1, 2**31)),
        {"enqueued_usec": -1},
    ],
    "queue": [
        *({"tombstones": names} for names in ({"not a name": 0}, {"gone": 2**62}, {"gone": -1})),
        *({"leased": [[usec, count]]} for usec, count in ((2**62, 1), (0, -1), (-1, 1))),
        {"exhausted": [{}]},
    ],
    "record": [
        {"settings": {"mode": "sideways"}},
        *(
            {"settings": {"name": "a", **setting}}
            for setting in (
                {"mode": 5},
                {"rate": {"count": 5, "unit": "x"}},
                {"rate": {"count": 501}},
                {"bucket_size": 2**63},
                {"max_concurrent_requests": -1},
                {"target": "a b"},
                {"task_lifetime_seconds": 2**62},
                {"retry_parameters": {"max_doublings": 2**31}},
                {"http_target": {"scheme": "ftp"}},
                {"http_target": {"host": "a b"}},
                {"http_target": {"port": -1}},
                {"http_target": {"port": 2**16}},
                {"http_target": {"query": "a b"}},
                {"http_target": {"method": "SEND"}},
                {"http_target": {"headers": [["a b", ""]]}},
                {"http_target": {"token": ["token", "a@example.com", ""]}},
            )
        ),
        *({"deleted_usec": usec} for usec in (-1, "yesterday")),
        *({"purged_usec": 2**62}, {"paused": None}),
    ],
    "push task": [
        *({"attempts": counts} for counts in ([2, 1, 1], [1, 1, 2], [-1], [1, 1, 1, -1])),
        *({"attempts": [1, 1, 1, *more]} for more in ([2**62], [None, None, None, None, 1000])),
        *({"request": []}, {"request": {}}, {"request": ["mail"]}, {"request": ["/mail", "PUSH"]}),
        {"request": ["/mail", "POST", [["a:b", ""]]]},
        {"request": ["https://a.b", "POST", [], None, None, 600.0, ["token", "a@b.example", ""]]},
    ],
}
"""Fields that a part of a snapshot cannot have."""


def test_a_snapshot_with_a_wrong_part_is_refused(
    control: ControlClient, emulator: Emulator
) -> None:
    """A field that is something else, a task that is twice, or a request or attempts that no push
    task can have, refuse the snapshot.
    """
    control.post("/queues/pull/tasks", {"tasks": [{"name": "a"}, {"name": "b"}]})
    retrying(emulator)
    good = control.get("/snapshot").body
    for part, fields in [(part, fields) for part, each in WRONG.items() for fields in each]:
        saved = deepcopy(good)
        queue = saved["queues"]["pull"]
        queue["record"] = queue.get("record") or {}
        parts = {
            "task": queue["tasks"][0],
            "queue": queue,
            "record": queue["record"],
            "push task": saved["queues"]["push"]["tasks"][0],
        }
        parts[part].update(fields)

        reply = control.call("PUT", "/snapshot", saved)

        assert reply.status == 400, (part, fields)
        name = "push" if part == "push task" else "pull"
        assert reply.message.startswith((f'queues["{name}"].', "queues[...].")), (part, fields)
        assert control.get("/queues/pull").body["queue"]["tasks"] == 2, (part, fields)
        assert control.get("/queues/pull").body["queue"]["state"] == "running", (part, fields)


def numbers_in(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            yield from numbers_in(part, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


@pytest.mark.parametrize("number", [2**63, 2**63 - 1, -(2**63), -1, 1e308])
def test_a_number_out_of_range_is_refused_or_does_no_harm(
    control: ControlClient, emulator: Emulator, number: float
) -> None:
    retry = RetryParameters(
        task_retry_limit=5,
        task_age_limit_seconds=7,
        min_backoff_seconds=1.0,
        max_backoff_seconds=9.0,
        max_doublings=3,
    )
    settings = QueueSettings(
        name="made", rate=Rate(count=5.0), bucket_size=7, retry_parameters=retry
    )
    emulator.create_queue(settings).add()
    retrying(emulator)
    emulator.queue("pull").lease_tasks(60, 1)
    saved = control.get("/snapshot").body

    for path in numbers_in(saved["queues"]):
        snapshot = deepcopy(saved)
        part = reduce(getitem, path[:-1], snapshot["queues"])
        part[path[-1]] = number
        reply = control.send("PUT", "/_emulator/snapshot", snapshot)
        assert reply.status in (200, 400), path
        if reply.status == 400:
            assert control.send("GET", "/_emulator/snapshot").body == saved, path
        else:
            assert control.get("/queues").status == 200, path
            assert (
                control.send("GET", "/v2/projects/p/locations/us-central1/queues").status == 200
            ), path
            control.call("PUT", "/snapshot", saved)


def test_push_tasks_are_restored_with_requests_and_attempts(
    control: ControlClient, emulator: Emulator, clock: ManualClock
) -> None:
    """The times of these are moved as well."""
    before = retrying(emulator)
    saved = control.get("/snapshot").body
    control.post("/reset")
    clock.advance(50)

    assert control.call("PUT", "/snapshot?shift=true", saved).status == 200

    after = emulator.queue("push").get_task("sent")
    assert (after.request, after.retry_count) == (before.request, 1)
    assert after.attempts == AttemptRecord(1, 1, first_usec=clock.now_usec(), status=503)
    assert after.stored_bytes == before.stored_bytes
    assert emulator.queue("push").fetch_statistics().retrying == 1


def test_a_running_task_is_due_when_it_is_restored(
    control: ControlClient, emulator: Emulator
) -> None:
    """Nobody waits for the response."""
    queue = emulator.queue("push")
    started = start_attempt(queue, queue.add(name="a"), lease_seconds=60, attempts=AttemptRecord())
    saved = control.get("/snapshot").body

    assert control.call("PUT", "/snapshot", saved).status == 200
    assert queue.list_tasks() == [started._replace(eta_usec=queue.now_usec())]


def test_a_later_snapshot_is_loaded_with_a_warning(
    control: ControlClient, emulator: Emulator
) -> None:
    later = Emulator(emulator.config, clock=ManualClock(emulator.clock.now() + timedelta(days=1)))
    later.queue("pull").add(name="one")
    saved = ControlClient(Server(later)).get("/snapshot").body

    loaded = control.call("PUT", "/snapshot", saved).body
    waiting = control.get("/queues/pull/tasks/one").body["task"]["state"]
    shifted = control.call("PUT", "/snapshot?shift=true", saved).body

    assert loaded["warning"].startswith(
        "the snapshot was taken at 2026-01-02T00:00:00+00:00, and the server's clock is at "
        "2026-01-01T00:00:00+00:00: "
    )
    assert (waiting, shifted) == ("scheduled", {"tasks": 1, "exhausted": 0, "warning": None})
    assert control.get("/queues/pull/tasks/one").body["task"]["state"] == "available"


def test_snapshots_keep_pauses_and_queues_made_at_run_time(
    control: ControlClient, emulator: Emulator
) -> None:
    """And deleted queues."""
    made = QueueSettings(name="made", mode=QueueMode.PULL, tombstone_seconds=60)
    emulator.create_queue(made).add(b"work", name="one")
    emulator.create_queue(QueueSettings(name="deleted", mode=QueueMode.PULL))
    emulator.delete_queue("deleted")
    emulator.queue("pull").pause()
    before = control.get("/queues").body
    saved = control.get("/snapshot").body
    control.post("/reset")
    after_reset = control.get("/queues").body

    loaded = control.call("PUT", "/snapshot", saved)

    assert loaded.body == {"tasks": 1, "exhausted": 0, "warning": None}
    assert control.get("/queues").body == before
    assert [(one["name"], one["state"], one["is_runtime"]) for one in before["queues"]] == [
        ("pull", "paused", False),
        ("limited", "running", False),
        ("push", "running", False),
        ("made", "running", True),
    ]
    assert [one["name"] for one in after_reset["queues"]] == ["pull", "limited", "push"]
    assert emulator.queue("made").settings.tombstone_seconds == 60
    with pytest.raises(QueueNameInUseError, match="was deleted not long ago"):
        emulator.create_queue(QueueSettings(name="deleted", mode=QueueMode.PULL))


def test_a_history_without_its_beginning_says_that_events_are_missing(clock: ManualClock) -> None:
    """But not because of a snapshot that was loaded before."""
    text = "queue: [{name: pull, mode: pull}]"
    emulator = Emulator.from_text(text, clock=clock, limits=Limits(events_kept=1))
    control = ControlClient(Server(emulator))
    control.call("PUT", "/snapshot", control.get("/snapshot").body)
    clock.advance(1)
    emulator.queue("pull").add(name="a")
    emulator.queue("pull").lease_tasks(60, 1)
    missing = control.get("/queues/pull/tasks/a/history").body["missing"]

    assert missing == "only the latest events of a queue are recorded"


def test_a_second_that_is_twice_counts_twice(control: ControlClient) -> None:
    saved = control.get("/snapshot").body
    second = saved["taken_usec"] // USEC_PER_SECOND
    queue = {"tasks": [], "exhausted": [], "tombstones": {}, "leased": [[second, 2], [second, 3]]}

    control.call("PUT", "/snapshot", {**saved, "queues": {"pull": queue}})

    assert control.get("/queues/pull").body["queue"]["leased_last_minute"] == 5
