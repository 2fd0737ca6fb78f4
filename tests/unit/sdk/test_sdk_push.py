"""Push queues beside pull queues, and what suites ask of the stub."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from sdk_calls import pull
from store_rules import WrongClock
from stores import own_schema

from pullqueue import Emulator, ManualClock
from pullqueue.sdk import install
from pullqueue.sdk.imports import messages, taskqueue
from pullqueue.stores import open_store


def test_any_queue_may_be_valid(emulator: Emulator, bed: Any) -> None:
    queue = taskqueue.Queue("unknown")
    with install(emulator):
        bed.init_taskqueue_stub(_all_queues_valid=True)
        queue.add(taskqueue.Task(url="/a"))

        assert queue.fetch_statistics().tasks == 1
        with pytest.raises(taskqueue.InvalidQueueModeError):
            queue.add(pull())


class TestInspection:
    def test_tasks_of_both_kinds_are_found_by_queue_name_and_url(self, stub: Any) -> None:
        taskqueue.Queue("pull").add([pull(b"a", name="a", tag="t"), pull(b"b", name="b")])
        taskqueue.Queue("push").add(taskqueue.Task(url="/a", name="a"))

        everything = stub.get_filtered_tasks()
        (tagged,) = stub.get_filtered_tasks(name="a", queue_names=["pull"])

        assert sorted((t.name, t.method) for t in everything) == [
            ("a", "POST"),
            ("a", "PULL"),
            ("b", "PULL"),
        ]
        assert (tagged.payload, tagged.tag, tagged.method) == (b"a", "t", "PULL")
        assert [task.url for task in stub.get_filtered_tasks(url="/a")] == ["/a"]
        assert stub.get_filtered_tasks(queue_names="nowhere") == []
        with pytest.raises(KeyError):  # as of Google's stub
            stub.GetTasks("nowhere")

    def test_the_dict_of_a_pull_task_has_what_that_of_google_has(
        self, stub: Any, clock: ManualClock
    ) -> None:
        taskqueue.Queue("pull").add([pull(b"a", name="a", tag="t"), pull(countdown=90)])
        taskqueue.Queue("pull").lease_tasks(30, 1)
        clock.advance(40)

        first, second = stub.GetTasks("pull")

        assert (first["name"], first["queue_name"], first["method"]) == ("a", "pull", "PULL")
        assert (first["tag"], base64.b64decode(first["body"])) == ("t", b"a")
        assert (first["eta"], first["eta_delta"]) == ("2026/01/01 00:00:30", "0:00:10 ago")
        assert dict(first["headers"])["X-AppEngine-TaskRetryCount"] == "1"
        assert second["eta_delta"] == "0:00:50 from now"

    def test_queues_of_both_kinds_are_listed_by_name(self, clock: ManualClock) -> None:
        text = (
            "queue:\n- {name: push, rate: 1/m, retry_parameters: {task_age_limit: 60s}}\n"
            "- {name: pull, mode: pull, retry_parameters: {task_retry_limit: 3},\n"
            "   acl: [{user_email: u@example.com}, {writer_email: w@example.com}]}\n"
        )
        with install(Emulator.from_text(text, clock=clock)) as stub:
            taskqueue.Queue("pull").add(pull())
            clock.advance(5)
            default, shown, push = stub.GetQueues()

        assert (default["name"], default["mode"], push["mode"]) == ("default", "push", "push")
        assert (push["max_rate"], push["retry_parameters"]) == ("1/m", {"age_limit_sec": 60})
        assert (shown["mode"], shown["tasks_in_queue"]) == ("pull", 1)
        assert shown["retry_parameters"] == {"retry_limit": 3}
        assert (shown["oldest_task"], shown["eta_delta"]) == ("2026/01/01 00:00:00", "0:00:05 ago")
        assert shown["acl"] == messages.TaskQueueAcl(
            user_email=[b"u@example.com"], writer_email=[b"w@example.com"]
        )

    def test_what_the_stub_deletes_leaves_no_tombstone(self, stub: Any) -> None:
        queue, both = taskqueue.Queue("pull"), [pull(name="a"), pull(name="b")]
        queue.add(both)
        stub.DeleteTask("pull", "a")
        assert pull(name="a").add("pull").was_enqueued

        queue.delete_tasks_by_name("a")
        stub.FlushQueue("pull")
        assert queue.fetch_statistics().tasks == 0
        assert all(pull(name=name).add("pull").was_enqueued for name in "ab")

        taskqueue.add(name="a", url="/a")
        stub.Clear()
        assert stub.get_filtered_tasks() == []
        assert taskqueue.add(name="a", url="/a").was_enqueued
        assert pull(name="a").add("pull").was_enqueued


def test_time_is_that_of_the_store() -> None:
    """Where servers share a database, etas are compared with its time, not with the machine's."""
    text, store = "queue: [{name: pull, mode: pull}]", open_store(own_schema("sdk_time"))
    emulator = Emulator.from_text(text, clock=WrongClock(-86_400), store=store)
    emulator.reset()
    emulator.queue("pull").add(name="one")
    emulator.queue("pull").lease_tasks(3600, 1)

    with install(emulator) as stub:
        (task,) = stub.GetTasks("pull")
        (queue,) = [shown for shown in stub.GetQueues() if shown["name"] == "pull"]

    assert task["eta_delta"].startswith(("0:59:", "1:00:00"))
    assert queue["eta_delta"].endswith(" from now")
    emulator.close()
