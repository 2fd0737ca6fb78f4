"""Adding tasks through the SDK's client."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pullqueue import Emulator, Limits, ManualClock
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.sdk.imports import apiproxy_errors, apiproxy_stub_map, messages, taskqueue

pytestmark = pytest.mark.usefixtures("stub")

DAY = 86_400
OK, SKIPPED = 0, 17


def pull(payload: Any = b"", **options: Any) -> Any:
    """Make a pull task."""
    return taskqueue.Task(payload=payload, method="PULL", **options)


def bulk_add(*adds: dict[str, Any]) -> list[int]:
    """Send a BulkAdd past the client's checks and return the results."""
    request = messages.TaskQueueBulkAddRequest()
    for fields in adds:
        defaults = {"queue_name": b"pull", "task_name": b"", "eta_usec": 0, "mode": 1}
        request.add_request.add(**(defaults | fields))
    response = messages.TaskQueueBulkAddResponse()
    apiproxy_stub_map.MakeSyncCall("taskqueue", "BulkAdd", request, response)
    return [result.result for result in response.taskresult]


def test_every_task_of_a_batch_is_named() -> None:
    """A batch of 100 unnamed tasks comes back with 100 names, each of a task in the queue."""
    queue = taskqueue.Queue("pull")

    added = queue.add([pull() for _ in range(100)])

    names = [task.name for task in added]
    assert len(set(names)) == 100
    assert all(re.fullmatch("[0-9a-f]{16}", name) for name in names)
    assert [task.name for task in queue.lease_tasks(60, 1000)] == names
    assert all(task.was_enqueued and task.queue_name == "pull" for task in added)


def test_generated_names_keep_clear_of_chosen_ones(emulator: Emulator) -> None:
    """A name that would be generated next, but is in use, is skipped."""
    emulator.names = iter(["mine", "next"]).__next__
    queue = taskqueue.Queue("pull")
    queue.add(pull(name="mine"))

    assert queue.add(pull()).name == "next"


def test_payloads_come_back_as_bytes() -> None:
    """Text, bytes and parameters come back as bytes, tags as text."""
    queue = taskqueue.Queue("pull")
    queue.add(
        [pull("ü", tag="é"), pull(b"\x00\xff"), taskqueue.Task(params={"a": "b c"}, method="PULL")]
    )

    first, second, third = queue.lease_tasks(60, 3)

    assert (first.payload, first.tag) == ("ü".encode(), "é")
    assert second.payload == b"\x00\xff"
    assert third.payload == b"a=b+c"


def test_the_convenience_functions() -> None:
    """`taskqueue.add` and `Task.add` reach the queue they name."""
    taskqueue.add(queue_name="pull", payload=b"one", method="PULL")
    pull(b"two").add("other")

    assert taskqueue.Queue("pull").fetch_statistics().tasks == 1
    assert taskqueue.Queue("other").fetch_statistics().tasks == 1


def test_nothing_is_added_of_nothing() -> None:
    """Empty batches, waited for or not, are not errors."""
    queue = taskqueue.Queue("pull")

    assert queue.add([]) == []
    assert queue.add_async([]).get_result() == []


def test_a_name_in_use() -> None:
    """A taken name is refused while the rest of the batch is added."""
    queue = taskqueue.Queue("pull")
    queue.add(pull(b"old", name="same"))
    batch = [pull(name="a"), pull(b"new", name="same"), pull()]

    with pytest.raises(taskqueue.TaskAlreadyExistsError):
        queue.add(batch)

    assert [task.was_enqueued for task in batch] == [True, False, True]
    assert batch[2].name is not None
    assert [task.payload for task in queue.lease_tasks(60, 9)] == [b"old", b"", b""]


def test_existing_and_deleted_names_differ() -> None:
    """The first refused name of a batch decides which error it is, as in Google's stub."""
    queue = taskqueue.Queue("pull")
    queue.add([pull(name="here"), pull(name="gone")])
    queue.delete_tasks_by_name("gone")

    assert bulk_add({"task_name": b"here"}, {"task_name": b"gone"}, {"task_name": b"new"}) == [
        messages.TaskQueueServiceError.TASK_ALREADY_EXISTS,
        messages.TaskQueueServiceError.TOMBSTONED_TASK,
        OK,
    ]
    with pytest.raises(taskqueue.TombstonedTaskError):
        queue.add(pull(name="gone"))


def test_tombstones_last_seven_days(clock: ManualClock) -> None:
    """A deleted name is taken for 7 days and free from then on."""
    queue = taskqueue.Queue("pull")
    queue.add(pull(name="once"))
    queue.delete_tasks_by_name("once")
    clock.advance(7 * DAY - 1)

    with pytest.raises(taskqueue.TombstonedTaskError):
        queue.add(pull(name="once"))
    clock.advance(1)
    assert queue.add(pull(name="once")).was_enqueued


def test_purged_and_exhausted_names_stay_taken(clock: ManualClock) -> None:
    """Purging and exhaustion leave tombstones as well."""
    purged, once = taskqueue.Queue("pull"), taskqueue.Queue("once")
    purged.add(pull(name="a"))
    purged.purge()
    once.add(pull(name="a"))
    once.lease_tasks(60, 1)
    clock.advance(60)

    for queue in (purged, once):
        with pytest.raises(taskqueue.TombstonedTaskError):
            queue.add(pull(name="a"))


def test_a_batch_with_an_invalid_task_adds_nothing() -> None:
    """An invalid task gets its code, the others SKIPPED, whatever their names."""
    taskqueue.Queue("pull").add(pull(name="here"))

    results = bulk_add({"task_name": b"here"}, {"tag": b"\xff"}, {}, {"eta_usec": -1})

    assert results == [
        SKIPPED,
        messages.TaskQueueServiceError.INVALID_TAG,
        SKIPPED,
        messages.TaskQueueServiceError.INVALID_ETA,
    ]
    assert taskqueue.Queue("pull").fetch_statistics().tasks == 1


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"tag": b"\xff"}, 27, r'tag is "\xff": use text in UTF-8'),
        ({"tag": b"x" * 501}, 27, "tag has 501 characters"),
        ({"task_name": b"a b"}, 5, 'task name is "a b"'),
        ({"task_name": b"\xff"}, 5, r'task name is "\xff"'),
        ({"eta_usec": -1}, 12, "eta is -1 microseconds"),
        ({"eta_usec": 2**62}, 12, "use microseconds since 1970, in the years 1 to 9999"),
        ({"eta_usec": 2_000_000_000_000_000}, 12, "30 days"),
        ({"body": b"x" * 2**20 + b"x"}, 4, "payload has 1048577 bytes"),
        ({"queue_name": b"nowhere"}, 1, 'queue "nowhere" is not in'),
        ({"queue_name": b"push"}, 21, 'queue "push" is a push queue'),
        ({"mode": 0}, 21, 'queue "pull" is a pull queue: add its tasks with method="PULL"'),
    ],
)
def test_an_invalid_task_is_refused_with_a_sentence(
    fields: dict[str, Any], code: int, text: str
) -> None:
    """What gets past the client's own checks is refused with its code and a sentence."""
    with pytest.raises(apiproxy_errors.ApplicationError) as refused:
        bulk_add(fields)

    assert refused.value.application_error == code
    assert text in refused.value.error_detail
    assert taskqueue.Queue("pull").fetch_statistics().tasks == 0


def test_a_bad_tag_poisons_no_queue() -> None:
    """After a tag that is not UTF-8 was refused, the queue works as before."""
    queue = taskqueue.Queue("pull")
    queue.add(pull(b"good"))
    with pytest.raises(apiproxy_errors.ApplicationError):
        bulk_add({"tag": b"\xff"})

    assert [task.payload for task in queue.lease_tasks(60, 10)] == [b"good"]


def test_push_and_pull_tasks_go_to_their_own_queues() -> None:
    """A task of the wrong kind is refused with the SDK's error for it."""
    with pytest.raises(taskqueue.InvalidQueueModeError):
        taskqueue.Queue("push").add(pull())
    with pytest.raises(taskqueue.InvalidQueueModeError):
        taskqueue.Queue("pull").add(taskqueue.Task(url="/work"))


def test_an_unknown_queue_is_named() -> None:
    """The error tells which queue is missing and which one may have been meant."""
    with pytest.raises(taskqueue.UnknownQueueError, match=r'"pul" is not in .* "pull"'):
        taskqueue.Queue("pul").add(pull())


@pytest.mark.parametrize(
    "emulator",
    [
        Emulator(
            QueueConfig(
                queues=(QueueSettings(name="pull", mode=QueueMode.PULL),),
                total_storage_limit_bytes=100,
            )
        )
    ],
)
def test_over_the_storage_limit() -> None:
    """An add over total_storage_limit raises App Engine's quota error and stores nothing."""
    queue = taskqueue.Queue("pull")
    with pytest.raises(apiproxy_errors.OverQuotaError, match="total_storage_limit of 100"):
        queue.add([pull(b"x" * 60), pull(b"x" * 60)])

    assert queue.fetch_statistics().tasks == 0


@pytest.mark.parametrize(
    "emulator",
    [
        Emulator(
            QueueConfig(queues=(QueueSettings(name="pull", mode=QueueMode.PULL),)),
            limits=Limits(task_bytes=10, tasks_per_add=2),
        )
    ],
)
def test_overridden_limits_hold() -> None:
    """Limits given to the emulator bound what the client may add."""
    queue = taskqueue.Queue("pull")

    with pytest.raises(taskqueue.TaskTooLargeError, match="maximum is 10"):
        queue.add(pull(b"x" * 11))
    with pytest.raises(taskqueue.TooManyTasksError, match="3 tasks in one batch"):
        queue.add([pull() for _ in range(3)])


def test_namespaces_part_no_queue() -> None:
    """A task added in one namespace is leased in another."""
    from google.appengine.api import namespace_manager  # noqa: PLC0415 - where it is needed

    namespace_manager.set_namespace("north")
    taskqueue.Queue("pull").add(pull(b"work"))
    namespace_manager.set_namespace("south")
    tasks = taskqueue.Queue("pull").lease_tasks(60, 1)
    namespace_manager.set_namespace("")

    assert [task.payload for task in tasks] == [b"work"]
