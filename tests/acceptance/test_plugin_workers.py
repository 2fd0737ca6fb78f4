"""Workers under test: drained, crashed at every call, through each interface."""

from __future__ import annotations

from collections.abc import Callable

import pytest

QUEUE_YAML = """\
queue:
- name: pull-queue
  mode: pull
"""

WORKERS = '''
import base64
import time
import pytest
import requests
from pullqueue.testing import CrashTestError, assert_added, assert_empty, crash_test, drain

PATH = "/taskqueue/v1beta2/projects/s~app/taskqueues/pull-queue/tasks"


class Python:
    """The queue of the emulator itself."""

    def __init__(self, emulator):
        self.queue = emulator.queue("pull-queue")

    def lease(self):
        return [(t, t.payload.decode()) for t in self.queue.lease_tasks(60, 1)]

    def delete(self, task):
        self.queue.delete_tasks(task)


class Sdk:
    """The SDK's client."""

    def lease(self):
        from google.appengine.api import taskqueue
        queue = taskqueue.Queue("pull-queue")
        return [(t, t.payload.decode()) for t in queue.lease_tasks(60, 1)]

    def delete(self, task):
        from google.appengine.api import taskqueue
        taskqueue.Queue("pull-queue").delete_tasks(task)


class Rest:
    """The REST API, through a server or in process."""

    def __init__(self, root):
        self.url = root + PATH
        self.session = requests.Session()

    def lease(self):
        answer = self.session.post(self.url + "/lease?leaseSecs=60&numTasks=1")
        answer.raise_for_status()
        return [(item["id"], base64.urlsafe_b64decode(item["payloadBase64"]).decode())
                for item in answer.json().get("items", ())]

    def delete(self, task):
        self.session.delete(self.url + "/" + task).raise_for_status()


class CloudTasks:
    """Google's client for Cloud Tasks, over gRPC."""

    def __init__(self, address):
        import grpc
        from google.cloud import tasks_v2beta2
        from google.cloud.tasks_v2beta2.services.cloud_tasks import transports
        self.channel = grpc.insecure_channel(address)
        transport = transports.CloudTasksGrpcTransport(channel=self.channel)
        self.client = tasks_v2beta2.CloudTasksClient(transport=transport)
        self.queue = "projects/app/locations/us-central1/queues/pull-queue"

    def lease(self):
        request = {"parent": self.queue, "lease_duration": {"seconds": 60}, "response_view": 2}
        leased = self.client.lease_tasks(request=request).tasks
        return [(task, task.pull_message.payload.decode()) for task in leased]

    def delete(self, task):
        self.client.acknowledge_task(name=task.name, schedule_time=task.schedule_time)


@pytest.fixture(params=["python", "sdk", "server", "responses", "grpc"])
def api(request, pullqueue_emulator):
    if request.param == "python":
        yield Python(pullqueue_emulator)
    elif request.param == "sdk":
        request.getfixturevalue("pullqueue_sdk")
        yield Sdk()
    elif request.param == "server":
        yield Rest(request.getfixturevalue("pullqueue_server").url)
    elif request.param == "responses":
        request.getfixturevalue("pullqueue_responses")
        yield Rest("https://www.googleapis.com")
    else:
        api = CloudTasks(request.getfixturevalue("pullqueue_server").grpc_address)
        yield api
        api.channel.close()


@pytest.fixture
def queue(pullqueue_emulator):
    return pullqueue_emulator.queue("pull-queue")
'''

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Run tests of workers beside a queue.yaml, in a process of its own."""

    def run(source: str, *args: str) -> pytest.RunResult:
        pytester.path.joinpath("queue.yaml").write_text(QUEUE_YAML)
        pytester.path.joinpath("test_it.py").write_text(WORKERS + source)
        return pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider", *args)

    return run


def test_drain_through_each_interface(run: Run) -> None:
    """Endless workers are stopped, and sleeps move the clock, whatever the interface."""
    result = run("""
def test_endless(api, queue, pullqueue_emulator, pullqueue_clock):
    start = pullqueue_clock.now()
    for _ in range(3):
        queue.add("work")
    done = []

    def work():
        while True:
            for task, payload in api.lease():
                done.append(payload)
                time.sleep(1)
                api.delete(task)
    drain(pullqueue_emulator, work)
    assert done == ["work"] * 3
    assert_empty(queue)
    assert_added(queue, payload="work", count=3)
    assert (pullqueue_clock.now() - start).total_seconds() >= 3

def test_returning(api, queue, pullqueue_emulator, pullqueue_clock):
    queue.add("work")
    drain(pullqueue_emulator, lambda: [api.delete(task) for task, _ in api.lease()])
    assert_empty(queue)
    """)

    result.assert_outcomes(passed=10)


def test_crashes_through_each_interface(run: Run) -> None:
    """A worker that deletes first is caught by the same crashes, whatever the interface."""
    result = run("""
def test_good(api, queue, pullqueue_emulator, pullqueue_clock):
    saved = set()

    def setup():
        saved.clear()
        queue.add("1")
        queue.add("2")

    def work():
        for task, payload in api.lease():
            saved.add(payload)
            api.delete(task)

    def check():
        assert saved == {"1", "2"}

    assert crash_test(pullqueue_emulator, work, setup=setup, check=check) == 12

def test_bad(api, queue, pullqueue_emulator, pullqueue_clock):
    saved = set()

    def setup():
        saved.clear()
        queue.add("1")

    def work():
        for task, payload in api.lease():
            api.delete(task)
            saved.add(payload)

    def check():
        assert saved == {"1"}, saved

    with pytest.raises(CrashTestError) as caught:
        crash_test(pullqueue_emulator, work, setup=setup, check=check)
    found = [(failure.crash.name, failure.call_number) for failure in caught.value.failures]
    assert found == [("AFTER", 2), ("ANSWER_LOST", 2)]

def test_server_lives_on(api, queue, pullqueue_emulator, pullqueue_clock):
    queue.add("1")
    assert [payload for _, payload in api.lease()] == ["1"]
    """)

    result.assert_outcomes(passed=15)


def test_a_failed_crash_test_reads_well(run: Run) -> None:
    """The report names the call and shows what had happened, and not the tool's own frames."""
    result = run("""
def test_bad(queue, pullqueue_emulator, pullqueue_clock):
    saved = set()

    def work():
        tasks = queue.lease_tasks(60, 1)
        queue.delete_tasks(tasks)
        saved.update(task.payload for task in tasks)

    def check():
        assert saved == {b"1"}

    def setup():
        saved.clear()
        queue.add("1", name="one")

    crash_test(pullqueue_emulator, work, setup=setup, check=check)
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*def check():",
            '*assert saved == {b"1"}',
            "*crash_test: the worker does not survive 2 of 6 crashes",
            '*killed after call 2, delete_tasks([[]"one"]) on queue "pull-queue":',
            '*    2. delete_tasks([[]"one"]) on queue "pull-queue"',
            '*"one" leased until 2026-*',
            '*"one" deleted',
            '*answer lost of call 2, delete_tasks([[]"one"]) on queue "pull-queue":',
        ]
    )
    result.stdout.no_fnmatch_line("*intercepted(*")


def test_assertions_point_at_the_test(run: Run) -> None:
    """A failed assertion shows the test's line and the message, and no line of the helper."""
    result = run("""
def test_fails(queue):
    queue.add("a", tag="x")
    assert_added(queue, tag="y")
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '>*assert_added(queue, tag="y")',
            'E*expected at least one task with tag="y" added to queue "pull-queue", but found 0',
            "E*nearest misses:",
            'E*tag is "x": "*" tag "x" payload b\'a\'',
        ]
    )
    result.stdout.no_fnmatch_line("*raise AssertionError*")
