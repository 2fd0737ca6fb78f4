"""Bundled services of several projects: calls of an app are answered from the project of its id."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from control_client import ControlClient
from forking import forked
from programs import completed
from services_client import Client, RefusedError, memcache

from pullqueue import Emulator, SystemClock
from pullqueue.server.lifecycle import Server
from pullqueue.services.hosting import Services
from pullqueue.stores import open_store

FILE = "queue:\n- {name: pull, mode: pull}\n"


@contextmanager
def serving(data: Path | None = None, **options: Any) -> Iterator[Server]:
    store = open_store("memory" if data is None else f"sqlite:///{data}/tasks.db")
    if data is not None:
        data.mkdir(exist_ok=True)
    with ExitStack() as stack:
        emulator = Emulator.from_text(FILE, project="shop", store=store)
        stack.enter_context(closing(emulator))
        services = Services(clock=SystemClock(), data=data, project="shop")
        stack.enter_context(closing(services))
        yield stack.enter_context(Server(emulator, services=services, **options))


def client_of(server: Server, project: str, partition: str = "dev") -> Client:
    """Return the client of an app of a project, in Python."""
    app = f"{partition}~{project}"
    return Client(server.url, app=app, ticket=f"pullqueue:{app} app.py (pid 1)")


def remember(client: Client, value: bytes) -> None:
    request = memcache.MemcacheSetRequest()
    request.item.add(key=b"k", value=value)
    client.call("memcache", "Set", request, memcache.MemcacheSetResponse())


def remembered(client: Client) -> list[bytes]:
    request = memcache.MemcacheGetRequest(key=[b"k"])
    found = client.call("memcache", "Get", request, memcache.MemcacheGetResponse())
    return [item.value for item in found.item]


def queued(control: ControlClient, project: str) -> int:
    return int(control.get(f"/queues/pull?project={project}").body["queue"]["tasks"])


def test_the_apps_of_two_projects_share_nothing() -> None:
    """Neither entities, nor what memcache has, nor tasks, those of transactions too."""
    with serving() as server:
        control = ControlClient(server)
        for project in ("one", "two"):
            control.post("/projects", {"name": project, "queue_yaml": FILE})
        names = ("shop", "one", "two")
        clients = {name: client_of(server, name) for name in names}
        for number, client in enumerate(clients.values()):
            client.put("a", number)
            remember(client, b"%d" % number)
            for _ in range(number):
                transaction = client.begin()
                client.put("b", 1, transaction)
                client.add(transaction)
                client.commit(transaction)

        assert [client.get("a") for client in clients.values()] == [0, 1, 2]
        assert [client.count() for client in clients.values()] == [1, 2, 2]
        assert [remembered(client) for client in clients.values()] == [[b"0"], [b"1"], [b"2"]]
        assert [queued(control, name) for name in names] == [0, 1, 2]
        assert client_of(server, "one", "s").get("a") is None  # another partition
        logged = [control.get(f"/requests?project={name}").body["requests"] for name in names]
        assert [any("BulkAdd" in each["method"] for each in some) for some in logged] == [
            False,
            True,
            True,
        ]
        control.post("/reset?project=one", {"services": True})
        assert [client.get("a") for client in clients.values()] == [0, None, 2]


def test_the_calls_of_an_app_that_names_no_project_are_the_servers_own() -> None:
    """Those of other languages, and of an id that is not a project of the server."""
    with serving() as server:
        control = ControlClient(server)
        control.post("/projects", {"name": "one", "queue_yaml": FILE})
        for ticket in ("any", "pullqueue", "pullqueue app.py", "pullqueue:dev~none app.py", ""):
            Client(server.url, app="dev~shop", ticket=ticket).put(ticket, 1)
        own = client_of(server, "shop")

        assert own.count() == 5
        assert client_of(server, "one").count() == 0


@pytest.mark.parametrize("name", ["one", "one-" * 20 + "one"])
def test_the_app_of_a_project_that_has_ended_is_refused(name: str) -> None:
    """As other failures of a call, with an exception of the SDK that has the whole reason."""
    with serving() as server:
        control = ControlClient(server)
        control.post("/projects", {"name": name, "queue_yaml": FILE})
        control.call("DELETE", f"/projects/{name}", None)

        with pytest.raises(RefusedError, match=f'project "{name}" has ended: ') as excinfo:
            client_of(server, name).put("a", 1)
        assert excinfo.value.rpc_code == 0
        assert client_of(server, "shop").count() == 0


def test_a_call_begins_a_project_where_that_is_permitted() -> None:
    with serving(begins_projects=True) as server:
        client_of(server, "new").put("a", 7)

        names = [each["name"] for each in ControlClient(server).get("/projects").body["projects"]]
        assert names == ["shop", "new"]
        assert client_of(server, "shop").get("a") is None


def test_data_of_projects_are_stored_apart(tmp_path: Path) -> None:
    """A project without any, as of Cloud Tasks alone, has no files: there may be hundreds."""
    with serving(tmp_path / "data") as server:
        control = ControlClient(server)
        control.post("/projects", {"name": "without", "queue_yaml": FILE})
        assert control.get("/queues?project=without").status == 200
        for project in ("one", "x:two"):
            control.post("/projects", {"name": project, "queue_yaml": FILE})
            client_of(server, project).put("a", 1)
        control.post("/projects", {"name": "test", "queue_yaml": FILE, "clock": "manual"})
        client_of(server, "test").put("a", 1)
    projects = tmp_path / "data" / "projects"
    assert sorted(each.name for each in projects.iterdir()) == ["one", "x%3Atwo"]
    with serving(tmp_path / "data") as server:
        control = ControlClient(server)
        assert client_of(server, "one").get("a") == 1
        control.call("DELETE", "/projects/one", None)
        control.call("DELETE", "/projects/x:two", None)
        assert client_of(server, "without").get("a") is None
        control.call("DELETE", "/projects/without", None)
        assert list(projects.iterdir()) == []
        control.post("/projects", {"name": "one", "queue_yaml": FILE})
        assert client_of(server, "one").get("a") is None


def test_a_project_whose_data_cannot_be_opened_can_be_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its requests say why they are refused; what cannot be deleted, here a file, is logged."""
    with serving(tmp_path / "data") as server:
        for project in ("one", "two"):
            ControlClient(server).post("/projects", {"name": project, "queue_yaml": FILE})
            client_of(server, project).put("a", 1)
    folder, file = (tmp_path / "data" / "projects" / name for name in ("one", "two"))
    (folder / "datastore.db").write_bytes(b"no database" * 100)
    file.rename(tmp_path / "two")
    file.touch()
    with serving(tmp_path / "data") as server:
        control = ControlClient(server)
        assert control.get("/queues?project=one").message == (
            f'"{folder}/datastore.db" cannot be read (file is not a database): use another --data '
            "folder, or delete the file to begin with an empty datastore"
        )
        assert control.get("/queues?project=two").message == (
            f'folder "{file}" cannot be made (file exists): correct that, or use another --data '
            "folder"
        )
        for project in ("one", "two"):
            assert control.call("DELETE", f"/projects/{project}", None).status == 200
            assert control.call("DELETE", f"/projects/{project}", None).status == 404
        [warning] = caplog.messages
        assert (
            warning == f'folder "{file}" of a deleted project is left: not a directory; delete it'
        )
        control.post("/projects", {"name": "one", "queue_yaml": FILE})
        assert client_of(server, "one").get("a") is None


@pytest.mark.slow
def test_an_app_in_python_is_known_by_its_id() -> None:
    """As App Engine's runtime and `pullqueue exec` set it; each in a process of its own."""
    program = (
        "import os\n"
        "import pullqueue.sdk\n"
        "from google.appengine.api import taskqueue\n"
        "for variable in ('GAE_APPLICATION', 'APPLICATION_ID'):\n"
        "    if os.fork():\n"
        "        os.wait()\n"
        "        continue\n"
        "    os.environ[variable] = 's~one'\n"
        "    pullqueue.sdk.connect()\n"
        "    taskqueue.Queue('pull').add(taskqueue.Task(payload=b'x', method='PULL'))\n"
        "    os._exit(0)\n"
    )
    with serving() as server:
        control = ControlClient(server)
        control.post("/projects", {"name": "one", "queue_yaml": FILE})
        environment = {k: v for k, v in os.environ.items() if k[:4] != "GAE_"}
        environment["PULLQUEUE_EMULATOR_HOST"] = server.url[7:]
        done = completed([forked("python-program"), "-W", "ignore", "-c", program], env=environment)

        assert (done.stderr, queued(control, "one"), queued(control, "shop")) == ("", 2, 0)
        logged = control.get("/requests?project=one").body["requests"]
        assert logged[0]["method"] == "taskqueue.BulkAdd"
