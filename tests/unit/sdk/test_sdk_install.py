"""Putting an emulator in the place of the service, and what is there afterwards."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from forking import forked
from programs import completed
from sdk_calls import module_testutil, ndb, pull, testbed

from pullqueue import Emulator
from pullqueue.sdk import SdkInUseError, install
from pullqueue.sdk.imports import (
    apiproxy_stub_map,
    app_identity,
    cloudtask,
    context,
    full_app_id,
    request_environment,
    taskqueue,
    taskqueue_stub,
)
from pullqueue.sdk.stub import EmulatorStub
from pullqueue.tasks import TaskState


def registered() -> Any:
    return apiproxy_stub_map.apiproxy._CopyStubMap().get("taskqueue")


IDS = ("APPLICATION_ID", "GAE_APPLICATION", "GOOGLE_CLOUD_PROJECT")


def ids() -> list[str | None]:
    return [os.environ.get(name) for name in IDS]


@pytest.fixture
def without_ids(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without an application id; returns what changes it."""
    for name in IDS:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("given", "project", "app_id"),
    [
        ({}, None, "testbed-test"),
        ({}, "shop", "shop"),
        ({"GOOGLE_CLOUD_PROJECT": "mine"}, None, "mine"),
        ({"GOOGLE_CLOUD_PROJECT": "mine"}, "shop", "shop"),
        ({"GAE_APPLICATION": "s~mine", "GOOGLE_CLOUD_PROJECT": "other"}, "shop", "s~mine"),
        ({"APPLICATION_ID": "first", "GAE_APPLICATION": "s~mine"}, None, "first"),
    ],
)
def test_all_variables_agree_on_the_app(
    without_ids: pytest.MonkeyPatch, given: dict[str, str], project: str | None, app_id: str
) -> None:
    for name, value in given.items():
        without_ids.setenv(name, value)
    before, seen = ids(), []
    expected = [app_id, app_id, app_id.rpartition("~")[2]]
    request = request_environment.RequestEnvironment()
    with install(Emulator.from_text("queue: []", project=project)):
        assert ids() == expected
        assert full_app_id.get() == app_id
        request.Init(errors=None, environ={"OTHER": "kept"})
        seen = [request.environ[name] for name in IDS]
        assert request.environ["OTHER"] == "kept"

    assert seen == expected
    assert ids() == before


def test_ndb_gets_an_application_id(
    emulator: Emulator, bed: Any, without_ids: pytest.MonkeyPatch
) -> None:
    with install(emulator):
        bed.init_datastore_v3_stub()
        bed.init_memcache_stub()
        key = ndb.transaction(ndb.Model().put)
        assert (key.app(), key.get().key) == ("testbed-test", key)
        for name in IDS[:2]:
            with without_ids.context() as changed:
                changed.setenv(name, "mine")
                assert ndb.Key("Vote", 1).app() == "mine"
        without_ids.setenv("GAE_APPLICATION", "kept")
    assert (os.environ["GAE_APPLICATION"], os.environ.get("APPLICATION_ID")) == ("kept", None)
    without_ids.delenv("GAE_APPLICATION")
    assert full_app_id.get() == ""


class TestRestore:
    def test_the_stub_that_was_there_is_put_back(self, emulator: Emulator) -> None:
        """That of the same emulator, too; the default one that `wrap_wsgi_app` sets is gone."""
        with install(emulator) as outer:
            with install(emulator) as inner:
                assert registered() is inner
            assert registered() is outer
            apiproxy_stub_map.apiproxy.SetDefaultStub(object())

        assert apiproxy_stub_map.apiproxy.GetStub("memcache") is None

    def test_another_emulator_inside_is_refused(self, emulator: Emulator) -> None:
        with install(Emulator.from_text("queue:")) as outer:
            with (
                pytest.raises(SdkInUseError, match=r"^App Engine's SDK uses Emulator\(file='queue"),
                install(emulator),
            ):
                pass
            assert registered() is outer
        with install(emulator) as alone:
            assert registered() is alone

    def test_the_sdk_is_restored_after_an_error(self, emulator: Emulator) -> None:
        parts = [taskqueue.taskqueue, app_identity, taskqueue_stub.TaskQueueServiceStub, cloudtask]
        before = [dict(vars(part)) for part in parts if part is not None]

        with pytest.raises(RuntimeError), install(emulator):
            raise RuntimeError

        assert registered() is None
        assert [dict(vars(part)) for part in parts if part is not None] == before


class TestEnvironment:
    def test_no_environment_is_needed(
        self, stub: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        for name in list(os.environ):
            if name.startswith(("GAE_", "APPLICATION", "GOOGLE_", "SERVER_", "DEFAULT_VERSION")):
                monkeypatch.delenv(name)
        caplog.set_level(logging.WARNING)

        taskqueue.Queue("pull").add(pull())

        assert caplog.records == []

    @pytest.mark.parametrize("in_variables", [False, True])
    def test_tasks_have_a_host_inside_the_block(
        self, emulator: Emulator, monkeypatch: pytest.MonkeyPatch, *, in_variables: bool
    ) -> None:
        monkeypatch.setattr(context, "READ_FROM_OS_ENVIRON", not in_variables)
        monkeypatch.delenv("HTTP_HOST", raising=False)
        with install(emulator), ThreadPoolExecutor() as threads:
            for task in (pull(), threads.submit(pull).result()):
                assert task.headers["Host"] == "localhost"

        assert "Host" not in pull().headers

    def test_the_modules_of_the_client_are_modules(
        self, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        checks = module_testutil.ModuleInterfaceTest()
        monkeypatch.setattr(checks, "MODULE", taskqueue.taskqueue, raising=False)
        with install(emulator):
            checks.testAllExported()
            checks.testAllExist()


WRAPPED = """
import os, sys, threading
from itertools import product
from google.appengine.api import taskqueue, wrap_wsgi_app
from google.appengine.runtime import context, middlewares
from pullqueue import Emulator
from pullqueue.sdk import install

def app(environ, start_response):
    task = taskqueue.Queue("pull").add(taskqueue.Task(payload=b"", method="PULL"))
    print(task.headers["Host"], end=" ")
    return []

emulator = Emulator.from_text("queue:\\n- name: pull\\n  mode: pull\\n")
for legacy, context.READ_FROM_OS_ENVIRON in product([True, False], [True, False]):
    if os.fork():
        os.wait()
        continue
    with install(emulator):
        wrapped = wrap_wsgi_app(app, use_legacy_context_mode=legacy)
        environ = {"PATH_INFO": "/", "HTTP_HOST": "app.example.com", "REQUEST_METHOD": "GET"}
        thread = threading.Thread(target=wrapped, args=(environ, None))
        thread.start()
        thread.join()
        print(taskqueue.Queue("pull").fetch_statistics().tasks, "HTTP_HOST" in os.environ)
    sys.stdout.flush()
    os._exit(0)  # without the time that the end of an interpreter takes
"""


@pytest.mark.slow
def test_a_wrapped_app_uses_the_queues_in_each_mode_of_context() -> None:
    """The wrapper changes the whole process: modules, environment, threads. So each mode has a
    process of its own.
    """
    done = completed([forked("python-program"), "-W", "ignore", "-c", WRAPPED])

    in_request, outside = "app.example.com 1 False", "localhost 1 False"
    assert done.stdout.splitlines() == [in_request, in_request, outside, in_request], done.stderr
    assert done.stderr == ""


class TestTestbed:
    def test_a_stub_made_before_has_the_queues_of_the_emulator_inside(
        self, emulator: Emulator, bed: Any
    ) -> None:
        bed.init_taskqueue_stub()
        google = registered()
        taskqueue.add(url="/before")
        with install(emulator) as stub:
            added = taskqueue.Queue("pull").add(pull())
            shown = bed.get_stub("taskqueue").get_filtered_tasks()

            assert stub is bed.get_stub("taskqueue") is google
            assert isinstance(stub, EmulatorStub)
            assert added.name == "task2"
            assert [(task.url or task.payload) for task in shown] == ["/before", b"work"]
            assert len(emulator.queue("default").list_tasks(state=TaskState.AVAILABLE)) == 1

        assert registered() is google
        assert type(google) is taskqueue_stub.TaskQueueServiceStub
        assert [queue["name"] for queue in google.GetQueues()] == ["default"]
        with pytest.raises(taskqueue.UnknownQueueError):
            taskqueue.Queue("pull").add(pull())

    @pytest.mark.parametrize("first", ["testbed", "install"])
    def test_a_stub_made_by_the_suite_is_of_the_same_emulator(
        self, emulator: Emulator, first: str
    ) -> None:
        """Whichever came first; a testbed that is activated inside leaves the emulator."""
        bed = testbed.Testbed()
        if first == "testbed":
            bed.activate()
        with install(emulator) as installed:
            if first == "install":
                bed.activate()
                assert registered() is installed
            emulator.queue("pull").add(b"before")
            bed.init_taskqueue_stub()

            stub = bed.get_stub("taskqueue")
            taskqueue.Queue("pull").add(pull())

            assert isinstance(stub, EmulatorStub)
            assert [t.payload for t in emulator.queue("pull").list_tasks()] == [b"before", b"work"]
            if first == "install":
                bed.deactivate()
                assert registered() is installed
        if first == "testbed":
            bed.deactivate()
        assert registered() is None

    def test_the_queue_yaml_of_a_stub_made_before_replaces_the_configuration(
        self, emulator: Emulator, bed: Any, tmp_path: Path
    ) -> None:
        (tmp_path / "queue.yaml").write_text("queue:\n- name: mine\n  mode: pull\n")
        bed.init_taskqueue_stub(root_path=str(tmp_path))
        with install(emulator):
            taskqueue.Queue("mine").add(pull())

            assert emulator.queue("mine").fetch_statistics().tasks == 1

    def test_each_stub_begins_empty(self, emulator: Emulator, bed: Any) -> None:
        with install(emulator):
            for _ in range(2):
                bed.init_taskqueue_stub()
                added = taskqueue.Queue("pull").add([pull(), pull()])

                assert [task.name for task in added] == ["task1", "task2"]
                assert taskqueue.Queue("pull").fetch_statistics().tasks == 2

        assert len(emulator.queue("pull").add().name) == 16
