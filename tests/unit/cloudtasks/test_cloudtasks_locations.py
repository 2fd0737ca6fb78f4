"""Locations of Cloud Tasks: each has queues of its own, as each project has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from cloudtasks_api import LOCATION, Call, GrpcApi, HttpClient, RestApi, refused
from control_client import ControlClient
from push_app import PushApp, push_app
from stores import STORES, store_url

from pullqueue import Emulator, Limits, ManualClock
from pullqueue.cloudtasks.versions import V2, V2BETA2, V2BETA3, Version
from pullqueue.config.model import QueueMode, QueueSettings
from pullqueue.server.lifecycle import Server
from pullqueue.stores import open_store

OTHER = LOCATION.replace("us-central1", "europe-west1")
THIRD = LOCATION.replace("us-central1", "asia-east1")
FILE = "queue:\n- {name: listed, rate: 5/s}\n"

in_all_versions = pytest.mark.parametrize("version", [V2, V2BETA2, V2BETA3], ids=lambda v: v.name)
in_v2 = pytest.mark.parametrize("version", [V2], ids=["v2"])


@pytest.fixture
def emulator(clock: ManualClock, limits: Limits) -> Emulator:
    """Return an emulator without a location."""
    return Emulator.from_text(FILE, clock=clock, limits=limits)


@pytest.fixture
def control(server: Server) -> ControlClient:
    return ControlClient(server)


@pytest.fixture
def app() -> Iterator[PushApp]:
    """An app that gets push tasks."""
    with push_app() as app:
        yield app


@pytest.fixture(params=["rest", "grpc"])
def api(request: pytest.FixtureRequest, server: Server, version: Version) -> Iterator[Call]:
    """Yield what calls methods, over each transport."""
    if request.param == "rest":
        yield RestApi(HttpClient(server.url), version=version)
    else:
        grpc = GrpcApi(server, version=version)
        yield grpc
        grpc.channel.close()


def create(api: Call, location: str, version: Version = V2, queue: str = "q") -> dict[str, Any]:
    new: dict[str, Any] = {"name": f"{location}/queues/{queue}"}
    if version is V2BETA2:
        new["appEngineHttpTarget"] = {}
    return api("CreateQueue", parent=location, queue=new)


def add(api: Call, queue: str, task: str = "") -> dict[str, Any]:
    """Add a task with a name or without."""
    new: dict[str, Any] = {"name": f"{queue}/tasks/{task}"} if task else {}
    return api("CreateTask", parent=queue, task=new | {"appEngineHttpRequest": {}})


def ids(page: dict[str, Any]) -> list[str]:
    """Return the names of the queues of a page."""
    return [queue["name"] for queue in page.get("queues", [])]


@in_all_versions
def test_two_locations_have_two_queues_of_a_name(
    api: Call, version: Version, emulator: Emulator
) -> None:
    """Each with tasks, settings, pause and end of its own."""
    for location in (LOCATION, OTHER):
        create(api, location, version)
        with refused("ALREADY_EXISTS"):
            create(api, location, version)
    name, other = (f"{location}/queues/q" for location in (LOCATION, OTHER))
    assert add(api, other, "one")["name"] == f"{other}/tasks/one"

    assert "tasks" not in api("ListTasks", parent=name)
    assert api("GetTask", name=f"{other}/tasks/one")["name"] == f"{other}/tasks/one"
    with refused("NOT_FOUND"):
        api("GetTask", name=f"{name}/tasks/one")
    assert add(api, name, "one")["name"] == f"{name}/tasks/one"
    assert api("PauseQueue", name=name)["state"] == "PAUSED"
    assert api("GetQueue", name=other)["state"] == "RUNNING"
    assert api("GetQueue", name=other)["name"] == other
    api("PurgeQueue", name=other)
    assert len(api("ListTasks", parent=name)["tasks"]) == 1
    api("DeleteQueue", name=name)
    assert ids(api("ListQueues", parent=OTHER)) == [f"{OTHER}/queues/listed", other]
    assert ids(api("ListQueues", parent=OTHER, filter="name:q")) == [other]
    assert not ids(api("ListQueues", parent=OTHER, filter="name:europe"))
    with refused("NOT_FOUND"):
        api("GetQueue", name=f"{THIRD}/queues/q")
    assert [queue.name for queue in emulator.queues][-1] == "q@europe-west1"


@in_v2
def test_the_queues_of_a_location_are_listed_in_pages(api: Call, version: Version) -> None:
    """In the order of their ids, whichever location has others."""
    for location in (OTHER, LOCATION):
        for queue in "cab":
            create(api, location, queue=f"{queue}-{location[-5]}")
    create(api, OTHER, queue="z")
    found: list[str] = []
    token = ""
    while page := api("ListQueues", parent=OTHER, pageSize=2, pageToken=token):
        found += ids(page)
        token = page.get("nextPageToken", "")
        if not token:
            break

    wanted = ["a-w", "b-w", "c-w", "listed", "z"]
    assert found == [f"{OTHER}/queues/{name.replace('-w', f'-{OTHER[-5]}')}" for name in wanted]


@in_v2
def test_the_queues_of_queue_yaml_are_in_each_location(api: Call, emulator: Emulator) -> None:
    """Where the server has no location: nothing says in which one they are."""
    for location in (LOCATION, OTHER):
        queue = f"{location}/queues/listed"
        assert add(api, queue)["name"].startswith(f"{queue}/tasks/")
        assert ids(api("ListQueues", parent=location)) == [queue]
        with refused("ALREADY_EXISTS"):
            create(api, location, queue="listed")

    assert emulator.queue("listed").fetch_statistics().tasks == 2


@in_v2
def test_default_is_in_each_location_until_one_creates_its_own(
    api: Call, emulator: Emulator
) -> None:
    add(api, f"{THIRD}/queues/default")
    assert emulator.queue("default").fetch_statistics().tasks == 1

    for location in (LOCATION, OTHER):
        create(api, location, queue="default")
        with refused("ALREADY_EXISTS"):
            create(api, location, queue="default")
    add(api, f"{OTHER}/queues/default")

    assert emulator.queue("default@europe-west1").fetch_statistics().tasks == 1
    assert emulator.queue("default").fetch_statistics().tasks == 1


@in_v2
def test_a_queue_of_a_location_is_updated_or_created(api: Call, emulator: Emulator) -> None:
    """UpdateQueue creates what is missing there, and changes no other location."""
    limits = {"maxDispatchesPerSecond": 3}
    for location in (LOCATION, OTHER):
        api("UpdateQueue", queue={"name": f"{location}/queues/q"})
    api("UpdateQueue", queue={"name": f"{OTHER}/queues/q", "rateLimits": limits})

    rates = [str(emulator.queue(name).settings.effective_rate) for name in ("q", "q@europe-west1")]
    assert rates[0] != rates[1]


@pytest.mark.parametrize("location", ["us-central1", "europe-west1"])
def test_a_server_of_one_location_has_plain_names_and_refuses_others(
    clock: ManualClock, location: str
) -> None:
    emulator = Emulator.from_text(FILE, clock=clock, location=location)
    parent = f"projects/app/locations/{location}"
    with Server(emulator) as server:
        api = RestApi(HttpClient(server.url), version=V2)
        create(api, parent)
        with refused("INVALID_ARGUMENT"):
            create(api, THIRD)

    assert {queue.name for queue in emulator.queues} == {"default", "listed", "q"}


@in_v2
def test_the_control_routes_name_the_location_after_the_queue(
    api: Call, control: ControlClient
) -> None:
    """Tasks, requests, faults, snapshots."""
    create(api, OTHER)
    create(api, LOCATION)
    add(api, f"{OTHER}/queues/q")
    assert control.get("/queues/q@europe-west1").body["queue"]["tasks"] == 1
    assert control.get("/queues/q").body["queue"]["tasks"] == 0
    logged = control.get("/requests?queue=q@europe-west1").body["requests"]
    assert [each["method"].rpartition(".")[2] for each in logged] == ["create", "create"]
    control.post("/faults", {"kind": "fail", "call": "add", "queues": ["q@europe-west1"]})
    with refused("UNAVAILABLE"):
        add(api, f"{OTHER}/queues/q")
    add(api, f"{LOCATION}/queues/q")
    control.call("DELETE", "/faults")
    snapshot = control.get("/snapshot").body
    control.post("/reset")
    assert control.get("/queues/q@europe-west1").status == 404
    assert control.call("PUT", "/snapshot", snapshot).status == 200
    assert len(api("ListTasks", parent=f"{OTHER}/queues/q")["tasks"]) == 1


@in_v2
def test_a_request_for_a_queue_that_is_missing_is_logged_with_its_location(
    api: Call, control: ControlClient
) -> None:
    for location in (OTHER, LOCATION):
        with refused("NOT_FOUND"):
            add(api, f"{location}/queues/q")

    logged = [each["queue"] for each in control.get("/requests").body["requests"]]
    assert sorted(logged) == ["q", "q@europe-west1"]


@in_v2
def test_a_handler_gets_the_id_of_the_queue(app: PushApp, api: Call, server: Server) -> None:
    """In the header and in the default path, as production sends them."""
    create(api, OTHER)
    server.push_to(app.url)
    control = ControlClient(server)
    control.post("/clock", {"advance": 1, "deliver": True})
    add(api, f"{OTHER}/queues/q")
    api("CreateTask", parent=f"{OTHER}/queues/q", task={"httpRequest": {"url": f"{app.url}/h"}})
    control.post("/run", {"until": "due"})

    got = sorted((each.path, each.method) for each in app.received)
    assert got == [("/", "POST"), ("/h", "POST")]
    names = [
        value for each in app.received for key, value in each.headers.items() if "QueueN" in key
    ]
    assert names == ["q", "q"]


@in_v2
def test_a_deployment_disables_the_created_queues_of_its_location_only(
    api: Call, emulator: Emulator
) -> None:
    create(api, OTHER)
    create(api, LOCATION)

    emulator.reconfigure(emulator.config, disable_created=True)

    states = [api("GetQueue", name=f"{place}/queues/q")["state"] for place in (LOCATION, OTHER)]
    assert states == ["DISABLED", "RUNNING"]


@pytest.mark.parametrize("kind", STORES)
def test_stores_keep_the_queues_of_locations_apart(clock: ManualClock, kind: str) -> None:
    """Also after a restart."""
    with store_url(kind) as url:
        with closing(Emulator.from_text(FILE, clock=clock, store=open_store(url))) as emulator:
            emulator.reset()
            for name in ("q", "q@europe-west1"):
                queue = emulator.create_queue(QueueSettings(name=name, mode=QueueMode.PULL))
                queue.add(b"", name="one")
            found = {queue.name: queue.fetch_statistics().tasks for queue in emulator.queues}
            wanted = {"default": 0, "listed": 0, "q": 1, "q@europe-west1": 1}
            assert found == wanted
            assert set(emulator.export()) >= {"q", "q@europe-west1"}
        if kind == "memory":
            return
        with closing(Emulator.from_text(FILE, clock=clock, store=open_store(url))) as emulator:
            found = {queue.name: queue.fetch_statistics().tasks for queue in emulator.queues}
            assert found == wanted
            emulator.delete_queue("q")
            assert emulator.queue("q@europe-west1").fetch_statistics().tasks == 1
            emulator.reset()
