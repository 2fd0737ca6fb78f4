"""Projects of a server with a store: kept apart, and there again after a restart."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cloudtasks_api import GrpcApi, refused
from control_client import ControlClient
from push_app import PushApp, push_app, until
from stores import own_schema, postgres_url

from pullqueue import Emulator, TransientError
from pullqueue.engine.memory.store import MemoryStore
from pullqueue.engine.store import StoredProject
from pullqueue.push.addresses import PushAddresses
from pullqueue.runtime.config_file import ConfigFile
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store
from pullqueue.stores.postgres_pool import Connection, connect, parsed

OWN = "queue:\n- {name: pull, mode: pull}\n"
FILE = "queue:\n- {name: pull, mode: pull}\n- {name: push, rate: 500/s}\n"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/tasks.db"
    url = own_schema("projects")
    empty(url)
    return url


def empty(url: str) -> None:
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {parsed(url).schema} CASCADE".encode())


def kept(url: str) -> int:
    """Return how many projects the store has rows of, beside the own one."""
    tables = ["tasks", "exhausted", "events", "leased", "retentions", "queues"]
    with contextlib.ExitStack() as closed:
        connection: sqlite3.Connection | Connection
        if url.startswith("postgres"):
            connection = closed.enter_context(connect(parsed(url)))
            tables += ["totals", "lease_calls", "dispatchers"]
        else:
            connection = closed.enter_context(closing(sqlite3.connect(url[len("sqlite:///") :])))
        found = " UNION ".join(f"SELECT queue FROM {table}" for table in tables)  # noqa: S608 - ours
        keys = [key for (key,) in connection.execute(found).fetchall()]
    return len({key.partition("/")[0] for key in keys if "/" in key})


@contextmanager
def serving(url: str, app: PushApp | None = None, **options: Any) -> Iterator[ControlClient]:
    """Serve an emulator with a store, whose own project is `shop`."""
    push_to = None if app is None else PushAddresses([app.url])
    project = options.pop("project", "shop")
    emulator = Emulator.from_text(OWN, store=open_store(url), project=project)
    with closing(emulator), Server(emulator, push_to=push_to, **options) as server:
        yield ControlClient(server)


def add(control: ControlClient, project: str, name: str) -> int:
    path = f"/taskqueue/v1beta2/projects/{project}/taskqueues/pull/tasks"
    body = {"payloadBase64": "aA==", "id": name}
    return control.send("POST", path, body).status


def names(control: ControlClient, project: str, queue: str = "pull") -> list[str]:
    tasks = control.get(f"/queues/{queue}/tasks?project={project}").body["tasks"]
    return sorted(each["name"] for each in tasks)


def test_projects_are_there_again_after_a_restart(url: str) -> None:
    with serving(url, begins_projects=True) as control:
        control.post("/projects", {"name": "one", "queue_yaml": FILE})
        control.send("GET", "/taskqueue/v1beta2/projects/two/taskqueues/x")  # begins it
        parent = "projects/two/locations/us-central1"
        made = {"name": f"{parent}/queues/pull", "pullTarget": {}}
        control.send("POST", f"/v2beta2/{parent}/queues", made)
        for project in ("shop", "one", "two"):
            assert add(control, project, "same") == 200
        add(control, "one", "more")
        control.post("/queues/pull/pause?project=one")
        assert kept(url) == 2
    with serving(url) as control:
        projects = {
            each["name"]: each["queues"] for each in control.get("/projects").body["projects"]
        }
        assert projects == {"shop": 1, "one": 2, "two": 1}
        found = [names(control, project) for project in ("shop", "one", "two")]
        assert found == [["same"], ["more", "same"], ["same"]]
        assert control.get("/queues/pull?project=one").body["queue"]["state"] == "paused"
        assert control.get("/queues/pull?project=two").body["queue"]["state"] == "running"
        assert control.get("/clock?project=two").body["manual"] is False
        control.post("/reset?project=one")
        assert [names(control, project) for project in ("shop", "one")] == [["same"], []]
        control.post("/reset")
        assert [names(control, project) for project in ("shop", "two")] == [[], ["same"]]


def test_a_project_that_is_deleted_leaves_nothing_in_the_store(url: str) -> None:
    with serving(url) as control:
        for _ in range(2):
            assert control.post("/projects", {"name": "one", "queue_yaml": FILE}).status == 200
            assert names(control, "one") == []
            add(control, "one", "same")
            assert kept(url) == 1
            control.call("DELETE", "/projects/one", None)
            assert kept(url) == 0
        assert control.get("/queues?project=one").status == 404
    with serving(url) as control:
        assert [each["name"] for each in control.get("/projects").body["projects"]] == ["shop"]


def test_a_project_with_a_manual_clock_is_in_memory(url: str) -> None:
    manual = {"clock": "manual", "queue_yaml": FILE}
    with serving(url) as control:
        control.post("/projects", {"name": "test", **manual})
        add(control, "test", "one")
        assert (kept(url), names(control, "test")) == (0, ["one"])
        control.post("/projects", {"name": "one", "queue_yaml": FILE})
        add(control, "one", "same")
        control.post("/reset?project=one", {"clock": "manual"})
        assert (kept(url), names(control, "one")) == (0, [])
        control.post("/reset?project=one", {"clock": "machine"})
        add(control, "one", "same")
        assert kept(url) == 1
        assert control.get("/queues/push?project=one").status == 200
    with serving(url) as control:
        found = [each["name"] for each in control.get("/projects").body["projects"]]
        assert found == ["shop", "one"]


def test_push_tasks_of_a_project_are_sent_after_a_restart(url: str) -> None:
    with push_app() as app:
        with serving(url) as control:
            control.post("/projects", {"name": "one", "queue_yaml": FILE})
            control.post("/queues/push/tasks?project=one", {"tasks": [{"request": {"url": "/x"}}]})
        with serving(url, app):
            until(lambda: app.paths() == ["/x"])


def test_the_attempts_of_a_deleted_project_leave_no_trace(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with push_app() as app, serving(url, app) as control:
        control.post("/projects", {"name": "one", "queue_yaml": FILE})
        control.post("/queues/push/tasks?project=one", {"tasks": [{"request": {"url": "/slow"}}]})
        until(lambda: app.running["/slow"])
        assert control.call("DELETE", "/projects/one", None).status == 200
        control.post("/projects", {"name": "one", "queue_yaml": FILE})
        app.released.set()
        until(lambda: not app.running["/slow"])

        assert control.get("/requests?project=one&interface=push").body["requests"] == []
        assert names(control, "one", "push") == []
    assert [each.message for each in caplog.records] == []


def test_a_project_of_the_servers_own_name_is_left_alone(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(url) as control:
        control.post("/projects", {"name": "one", "queue_yaml": FILE})
        add(control, "one", "same")
    with serving(url, project="one") as control:
        assert names(control, "one") == []
        assert "tasks of another project" in caplog.text
    with serving(url) as control:
        assert names(control, "one") == ["same"]


def test_a_stored_name_that_leads_out_of_the_folder_is_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with serving(url) as control:
        control.post("/projects", {"name": "one"})
    with closing(sqlite3.connect(tmp_path / "tasks.db")) as connection, connection:
        connection.execute("UPDATE projects SET name = '../../one'")
    with serving(url) as control:
        assert [each["name"] for each in control.get("/projects").body["projects"]] == ["shop"]


def test_servers_of_one_database_have_the_same_projects() -> None:
    """One that has ended is refused until it is made again; a call just after that finds it."""
    url = own_schema("projects")
    empty(url)
    with serving(url, project=None) as first, serving(url, project=None) as second:
        first.post("/projects", {"name": "one", "queue_yaml": FILE})
        assert add(second, "one", "a") == 200
        add(first, "one", "b")
        assert names(first, "one") == names(second, "one") == ["a", "b"]
        assert second.post("/projects", {"name": "one"}).status == 409
        second.call("DELETE", "/projects/one", None)
        until(lambda: add(first, "one", "late") == 404)
        assert first.get("/queues?project=one").status == 404
        second.post("/projects", {"name": "one", "queue_yaml": FILE})
        until(lambda: add(first, "one", "c") == 200)
        assert (names(first, "one"), names(first, "my-app")) == (["c"], [])
    empty(url)


def test_a_call_that_cannot_look_for_its_project_can_be_tried_again() -> None:
    """By each interface, with the reason."""

    class Store(MemoryStore):
        is_shared = True
        responds = True

        def read_projects(self) -> dict[str, StoredProject]:
            if not self.responds:
                raise TransientError("the database does not respond; try again")
            return super().read_projects()

    emulator = Emulator.from_text(OWN, store=Store)
    with closing(emulator), Server(emulator) as server:
        control, call = ControlClient(server), GrpcApi(server)
        Store.responds = False
        path = "/taskqueue/v1beta2/projects/new/taskqueues/pull"
        assert control.get("/queues?project=new").status == 503
        assert control.send("GET", path, None).status == 503
        with refused("UNAVAILABLE", "does not respond"):
            call("ListQueues", parent="projects/other/locations/us-central1")


def test_many_projects_of_a_database_share_its_connections() -> None:
    url = f"{own_schema('projects')}&connections=2"
    empty(url)
    with serving(url) as control:
        for number in range(5):
            control.post("/projects", {"name": f"p{number}", "queue_yaml": FILE})
            add(control, f"p{number}", f"task{number}")
        found = [names(control, f"p{number}") for number in range(5)]
        assert found == [[f"task{number}"] for number in range(5)]
    empty(url)


class TestFiles:
    @pytest.fixture
    def file(self, tmp_path: Path) -> ConfigFile:
        path = tmp_path / "billing.yaml"
        path.write_text(FILE)
        return ConfigFile(path)

    def test_a_project_has_the_queues_of_its_file(self, file: ConfigFile) -> None:
        """From the start, whether calls may begin others or not; a reload applies the file."""
        with serving("memory", project_files={"billing": file}) as control:
            assert add(control, "billing", "one") == 200
            assert (names(control, "billing"), names(control, "shop")) == (["one"], [])
            file.path.write_text("queue:\n- {name: new, mode: pull}\n")
            changes = control.post("/reload?project=billing").body
            assert (changes["added"], changes["removed"]) == (["new"], ["pull", "push"])
            control.post("/reset?project=billing", {"clock": "manual"})
            assert control.get("/queues/new?project=billing").status == 200
            assert control.post("/reload").status == 400  # the own project has no file

    def test_a_file_replaces_what_was_stored(self, url: str, file: ConfigFile) -> None:
        """And the tasks remain; without the file, those of a queue that has none are kept."""
        with serving(url, project_files={"billing": file}) as control:
            add(control, "billing", "one")
        file.path.write_text(FILE + "- {name: new, mode: pull}\n")
        with serving(url, project_files={"billing": file}) as control:
            assert names(control, "billing") == ["one"]
            assert control.get("/queues/new?project=billing").status == 200
        with serving(url) as control:
            assert control.get("/queues/pull?project=billing").status == 404
        with serving(url, project_files={"billing": file}) as control:
            assert names(control, "billing") == ["one"]
